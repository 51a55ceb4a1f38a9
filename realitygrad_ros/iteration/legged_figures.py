"""The plots of the report on a robot on legs; see `figures`, whose colours and style they share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from realitygrad_ros.control.observations import GAIT_FREQUENCY
from realitygrad_ros.control.tasks.legged import BASE_COORDINATES
from realitygrad_ros.iteration.figures import (
    MUTED,
    draw_bars,
    draw_real_and_simulated,
    finish_columns,
    first_and_last,
    model_name,
    short_name,
    subplots,
)
from realitygrad_ros.iteration.legged_comparison import WalkComparison

Comparisons = Mapping[int, WalkComparison]

CYCLES = 3
"""Steps of each foot in the plots that show single steps."""


def velocity_tracking(comparisons: Comparisons) -> Figure:
    """Velocity wanted, measured and simulated over the whole walk, first and last iteration side by side."""
    chosen = first_and_last(comparisons)
    figure, axes = subplots(3, len(chosen), 5.6, sharex=True, sharey="row", squeeze=False)
    names = ("forward [m/s]", "left [m/s]", "turning left [rad/s]")
    for column, (k, colour) in enumerate(chosen):
        c = comparisons[k]
        for row, (component, name) in enumerate(zip((0, 1, 5), names, strict=True)):
            panel = axes[row, column]
            panel.plot(c.time, c.wanted[:, row], color=MUTED, lw=1.0, drawstyle="steps-post", label="wanted")
            draw_real_and_simulated(
                panel,
                c.time,
                over_a_cycle(c.time, c.measured_velocity[:, component]),
                over_a_cycle(c.time, c.simulated_velocity[:, component]),
                colour,
                model_name(k),
            )
            panel.set_ylabel(name)
    finish_columns(axes, "time [s]")
    return figure


def foot_heights(comparisons: Comparisons) -> Figure:
    """Height of each foot over a few steps, on the robot and in the simulator."""
    return _steps(comparisons, lambda c: (100.0 * c.measured_feet, 100.0 * c.simulated_feet), _feet_labels(comparisons))


def joint_trajectories(comparisons: Comparisons) -> Figure:
    """Position of each joint over a few steps, on the robot and in the simulator."""
    joints = slice(BASE_COORDINATES, None)
    names = comparisons[min(comparisons)].joint_names
    labels = [f"{short_name(name)}\n[rad]" for name in names]
    return _steps(comparisons, lambda c: (c.measured_position[:, joints], c.simulated_position[:, joints]), labels)


def residual_and_tracking(residuals: Sequence[float], errors_mps: Sequence[float]) -> Figure:
    """Residual of the identification and error of the velocity, by iteration."""
    figure, (left, right) = subplots(1, 2, 2.7)
    draw_bars(left, residuals, "residual of the hanging robot, RMS [-]")
    draw_bars(right, errors_mps, "distance from the velocity wanted [m/s]")
    return figure


def over_a_cycle(time: Float[np.ndarray, "sample"], values: Float[np.ndarray, "sample"]) -> Float[np.ndarray, "sample"]:
    """The mean over one cycle of the gait about each sample: what remains is the way, not the gait."""
    width = max(1, round(1.0 / (GAIT_FREQUENCY * float(np.median(np.diff(time))))))
    padded = np.pad(values, (width // 2, width - 1 - width // 2), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, width).mean(1)


def steps_shown(c: WalkComparison) -> slice:
    """A few steps of the gait: the last ones of the settled stretch of the fastest walk forward."""
    settled = c.settled()
    pace = np.where(settled, c.wanted[:, 0], -np.inf)
    end = int(np.flatnonzero(pace == pace.max())[-1]) + 1
    duration = CYCLES / GAIT_FREQUENCY
    return slice(int(np.searchsorted(c.time, c.time[end - 1] - duration)), end)


def _steps(comparisons: Comparisons, signals: Any, labels: Sequence[str]) -> Figure:
    chosen = first_and_last(comparisons)
    figure, axes = subplots(
        len(labels), len(chosen), 1.05 * len(labels) + 0.4, sharex=True, sharey="row", squeeze=False
    )
    for column, (k, colour) in enumerate(chosen):
        c = comparisons[k]
        shown = steps_shown(c)
        measured, simulated = signals(c)
        time = c.time[shown] - c.time[shown.start]
        for row, label in enumerate(labels):
            panel: Axes = axes[row, column]
            draw_real_and_simulated(panel, time, measured[shown, row], simulated[shown, row], colour, model_name(k))
            panel.set_ylabel(label)
    finish_columns(axes, "time [s]")
    return figure


def _feet_labels(comparisons: Comparisons) -> list[str]:
    return [
        f"{name.removesuffix('_FOOT').replace('_', ' ')}\n[cm]" for name in comparisons[min(comparisons)].foot_names
    ]
