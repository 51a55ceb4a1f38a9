"""The plots of the report, one function a plot; each returns a matplotlib figure.

To be called and saved within `matplotlib.rc_context(STYLE)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from realitygrad_ros.iteration.comparison import Comparison
from realitygrad_ros.robot.parameters import PARAMETER_UNITS

REAL, BEFORE, AFTER, MUTED = "#22303c", "#d1603d", "#1b7f9e", "#8a97a3"
"""The robot itself; the default model; the newest model; what is only context."""

DISSIPATION = "kd + damping"

STAGE_COLOURS = {
    "excite": "#c9b458",
    "identify": "#1b7f9e",
    "optimise": "#7fb069",
    "train": "#e6aa48",
    "rollout": "#22303c",
    "measure": "#a58fb8",
}

ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "ncols": 3}
"""Places a legend above its panel."""

POINTS = 250
"""Most points a curve is drawn with."""

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": "#b9c2ca",
    "axes.labelcolor": "#4a5965",
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e7ebee",
    "text.color": REAL,
    "xtick.color": "#4a5965",
    "ytick.color": "#4a5965",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "realitygrad",
}


def task_space_error(gaps_mm: Sequence[float], comparisons: Mapping[int, Comparison]) -> Figure:
    """Gap by iteration, and its course over a motion for the first and the last iteration."""
    figure, (bars, course) = subplots(1, 2, 3.0, width_ratios=(1, 2))
    draw_bars(bars, gaps_mm, "mean gap [mm]")
    for k, colour in first_and_last(comparisons):
        comparison = comparisons[k]
        distance = 1e3 * comparison.distance()
        step = stride(comparison.time)
        course.fill_between(
            comparison.time[::step], distance.min(0)[::step], distance.max(0)[::step], color=colour, alpha=0.15, lw=0
        )
        course.plot(comparison.time[::step], distance.mean(0)[::step], color=colour, label=model_name(k))
    course.set(xlabel="time since a new target [s]", ylabel="gap [mm]", xlim=(0, None), ylim=(0, None))
    course.set_title("mean over the held-out targets, band from least to largest")
    course.legend()
    return figure


def joint_trajectories(comparisons: Mapping[int, Comparison], segment: int) -> Figure:
    """Real and simulated position of every joint over one held-out motion, first and last iteration side by side."""
    chosen = first_and_last(comparisons)
    names = comparisons[chosen[0][0]].joint_names
    figure, axes = subplots(len(names), len(chosen), 1.25 * len(names) + 0.4, sharex=True, sharey="row", squeeze=False)
    for column, (k, colour) in enumerate(chosen):
        comparison = comparisons[k]
        for joint, name in enumerate(names):
            draw_real_and_simulated(
                axes[joint, column],
                comparison.time,
                comparison.measured_position[segment, :, joint],
                comparison.simulated_position[segment, :, joint],
                colour,
                model_name(k),
            )
            axes[joint, column].set_ylabel(f"{name.removesuffix('_joint').replace('_', ' ')}\n[rad]")
    finish_columns(axes)
    return figure


def end_effector_trajectories(comparisons: Mapping[int, Comparison], segment: int) -> Figure:
    """Real and simulated position of the end effector over one held-out motion, with the target."""
    chosen = first_and_last(comparisons)
    figure, axes = subplots(3, len(chosen), 4.6, sharex=True, sharey="row", squeeze=False)
    for column, (k, colour) in enumerate(chosen):
        comparison = comparisons[k]
        for axis, name in enumerate("xyz"):
            panel = axes[axis, column]
            panel.axhline(comparison.target[segment, axis], color=MUTED, lw=1.0, ls=":", label="target")
            draw_real_and_simulated(
                panel,
                comparison.time,
                comparison.measured_end_effector[segment, :, axis],
                comparison.simulated_end_effector[segment, :, axis],
                colour,
                model_name(k),
            )
            panel.set_ylabel(f"{name} [m]")
    finish_columns(axes)
    return figure


def end_effector_paths(comparisons: Mapping[int, Comparison]) -> Figure:
    """Paths of the end effector through all held-out targets, seen from the front and from above."""
    chosen = first_and_last(comparisons)
    names = ("measured_end_effector", "simulated_end_effector", "target")
    everything = np.concatenate([getattr(comparisons[k], name).reshape(-1, 3) for k, _ in chosen for name in names])
    lower, upper = everything.min(0) - 0.03, everything.max(0) + 0.03
    heights = (upper - lower)[[2, 0]]
    height = 1.2 + 4.2 * heights.sum() / (upper - lower)[1]
    figure, axes = subplots(2, len(chosen), height, squeeze=False, height_ratios=heights)
    for column, (k, colour) in enumerate(chosen):
        comparison = comparisons[k]
        step = stride(comparison.time)
        for panel, (across, up) in zip(axes[:, column], ((1, 2), (1, 0)), strict=True):
            for segment in range(len(comparison.target)):
                real = comparison.measured_end_effector[segment, ::step]
                simulated = comparison.simulated_end_effector[segment, ::step]
                labels = ("real", model_name(k)) if segment == 0 else (None, None)
                panel.plot(real[:, across], real[:, up], color=REAL, label=labels[0])
                panel.plot(simulated[:, across], simulated[:, up], color=colour, ls="--", label=labels[1])
            targets = comparison.target
            panel.plot(targets[:, across], targets[:, up], "o", mfc="none", mec=MUTED, ms=7, label="target")
            panel.set(xlim=(lower[across], upper[across]), ylim=(lower[up], upper[up]), aspect="equal")
        axes[0, column].legend(**ABOVE)
        axes[1, column].set_xlabel("y [m]")
    axes[0, 0].set_ylabel("z [m], from the front")
    axes[1, 0].set_ylabel("x [m], from above")
    return figure


def parameters(
    nominal: Mapping[str, Mapping[str, float]],
    fitted: Mapping[str, Mapping[str, float]],
    truth: Mapping[str, Mapping[str, float]] | None,
) -> Figure:
    """Every parameter of every joint: nominal, fitted and, where a twin stands in for the robot, the truth.

    The sum kd + damping has a panel of its own: while the velocity target is zero, the data fix only the sum.
    """
    figure, axes = subplots(2, 3, 5.4)
    shown = ["damping", "kd", DISSIPATION, "kp", "armature", "friction"]
    for panel, name in zip(axes.flat, shown, strict=True):
        joints = list(nominal["kd"])
        place = np.arange(len(joints))
        if truth is not None:
            panel.plot(place, _values(truth, name), "_", color=REAL, ms=16, mew=2.5, label="truth")
        panel.plot(place, _values(nominal, name), "o", mfc="none", mec=BEFORE, ms=6, label="nominal")
        panel.plot(place, _values(fitted, name), "o", color=AFTER, ms=5, label="fitted")
        panel.set_title(f"{name} [{PARAMETER_UNITS['kd' if name == DISSIPATION else name]}]")
        panel.set_xticks(place, [short_name(joint) for joint in joints], rotation=35, ha="right")
        panel.set_xlim(-0.5, len(joints) - 0.5)
        panel.grid(axis="x", visible=False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def _values(parameters: Mapping[str, Mapping[str, float]], name: str) -> list[float]:
    if name == DISSIPATION:
        return [sum(pair) for pair in zip(_values(parameters, "kd"), _values(parameters, "damping"), strict=True)]
    return list(parameters[name].values())


def residual_and_target_error(residuals: Sequence[float], target_errors_mm: Sequence[float]) -> Figure:
    """Residual of the identification and error at the targets, by iteration."""
    figure, (left, right) = subplots(1, 2, 2.7)
    draw_bars(left, residuals, "residual, RMS [-]")
    draw_bars(right, target_errors_mm, "mean distance to the target at rest [mm]")
    return figure


def time_by_stage(seconds: Sequence[Mapping[str, float]]) -> Figure:
    """Where the time of each iteration went."""
    figure, panel = subplots(1, 1, 0.9 + 0.5 * len(seconds))
    for k, row in enumerate(seconds):
        left = 0.0
        # The stages of one kind of robot are not all those of another.
        stages = {stage: row[stage] for stage in STAGE_COLOURS if stage in row}
        stages["rest"] = max(0.0, row["total"] - sum(stages.values()))
        for stage, value in stages.items():
            colour = STAGE_COLOURS.get(stage, "#d5dbe0")
            panel.barh(k, value, left=left, color=colour, height=0.6, label=stage if k == 0 else None)
            left += value
        panel.text(left, k, f"  {row['total']:.1f} s", va="center")
    panel.set_yticks(range(len(seconds)), [f"iteration {k}" for k in range(len(seconds))])
    panel.invert_yaxis()
    panel.grid(axis="y", visible=False)
    panel.set_xlabel("[s]")
    panel.margins(x=0.08)
    panel.legend(**ABOVE | {"ncols": 6})
    return figure


def subplots(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure as wide as the page and `height` inches high, with its panels."""
    # Figure() instead of pyplot: no window system is asked for, and nothing is kept alive.
    figure = Figure(figsize=(9.6, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def first_and_last(comparisons: Mapping[int, Any]) -> list[tuple[int, str]]:
    """Number and colour of the first and the last iteration of those given."""
    first, last = min(comparisons), max(comparisons)
    return [(first, BEFORE)] if first == last else [(first, BEFORE), (last, AFTER)]


def model_name(k: int) -> str:
    """Of the simulator of iteration k."""
    return "default model" if k == 0 else f"model after {k} identification{'s' if k > 1 else ''}"


def draw_real_and_simulated(panel: Axes, time: Any, real: Any, simulated: Any, colour: str, name: str) -> None:
    """Two curves over the same time."""
    step = stride(time)
    panel.plot(time[::step], real[::step], color=REAL, label="real")
    panel.plot(time[::step], simulated[::step], color=colour, ls="--", label=name)


def finish_columns(axes: Any, time: str = "time since the new target [s]") -> None:
    """Labels only where they are needed; `time` is that of the common axis."""
    for panel in axes[:, 1:].flat:
        panel.set_ylabel("")
    for panel in axes[0]:
        panel.legend(**ABOVE)
    for panel in axes[-1]:
        panel.set_xlabel(time)


def draw_bars(panel: Axes, values: Sequence[float], label: str) -> None:
    """One bar an iteration."""
    colours = [BEFORE] + [AFTER] * (len(values) - 1)
    bars = panel.bar(range(len(values)), values, color=colours, width=0.6)
    panel.bar_label(bars, [f"{value:.3g}" for value in values], padding=2)
    panel.set_xticks(range(len(values)), [f"{k}" for k in range(len(values))])
    panel.set(xlabel="iteration", title=label)
    panel.margins(y=0.15)
    panel.grid(axis="x", visible=False)


def stride(time: np.ndarray) -> int:
    """Every how many samples a curve is drawn."""
    return max(1, len(time) // POINTS)


def short_name(joint: str) -> str:
    """Of a joint."""
    return joint.removesuffix("_joint").replace("_", " ")
