"""The pictures of `realitygrad bench learning`, one function a picture; each returns a PNG."""

import io
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from realitygrad_ros.benchmarks.learning_curves import LearningCurve
from realitygrad_ros.benchmarks.tracking import MIDDLE, Tracking
from realitygrad_ros.iteration.figures import MUTED, REAL, STYLE
from realitygrad_ros.iteration.legged_figures import over_a_cycle

if TYPE_CHECKING:
    from realitygrad_ros.benchmarks.endurance import EnduranceWalk  # it brings ROS

BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
"""The colour-blind can tell them apart (Okabe and Ito)."""

ALGORITHMS = {"shac": ("SHAC, by gradients of the simulator", BLUE), "ppo": ("PPO", VERMILION)}
CONTACTS = {"smooth": BLUE, "hard": VERMILION, "soft": GREEN}
PLACES = {"own": "own contact", "hard": "hard contact", "twin": "twin, in MuJoCo"}
TRACKED = {"simulator": ("simulator", BLUE, "o"), "twin": ("twin, zero-shot", VERMILION, "s")}

WANTED_RATIO = 10.0
"""How many times as many samples PPO needs by the paper: over an order of magnitude."""

WANTED_ERROR = 0.1
"""Of the velocity [m/s]."""

COMPONENTS = ("forward\n[m/s]", "left\n[m/s]", "turning left\n[rad/s]")

ROW_SECONDS, DRAWN_SAMPLES = 120.0, 4
"""Of a long walk: about how much time a row shows, and that one sample of so many is drawn."""


def draw_curves(curves: Mapping[str, Sequence[LearningCurve]], equal: float) -> bytes:
    """Reward against samples and against seconds, and the ratio of samples at every reward that both reach.

    Args:
        curves: of each algorithm, one a seed.
        equal: the reward at which samples are compared.
    """
    with matplotlib.rc_context(STYLE):
        figure, (by_samples, by_seconds, ratio) = _panels(1, 3, 10.6, 3.7)
        for name, (label, colour) in ALGORITHMS.items():
            for seed, curve in enumerate(curves[name]):
                line: dict[str, Any] = {"color": colour, "alpha": 0.8, "label": label if seed == 0 else None}
                by_samples.plot(curve.samples, curve.reward, **line)
                by_seconds.plot(curve.seconds, curve.reward, **line)
        for panel in (by_samples, by_seconds):
            panel.axhline(equal, color=MUTED, lw=0.9, ls=":", label="equal reward")
        by_samples.set(xscale="log", xlabel="samples: control steps of all worlds [-]", ylabel="reward a step [-]")
        by_seconds.set(xlabel="time of learning [s]", ylabel="reward a step [-]", xlim=(0.0, None))
        for shac, ppo in zip(curves["shac"], curves["ppo"], strict=True):
            rewards = np.linspace(max(shac.reward[0], ppo.reward[0]), min(shac.reward.max(), ppo.reward.max()), 100)
            ratio.plot(rewards, [_ratio(ppo.samples_to(r), shac.samples_to(r)) for r in rewards], color=REAL, alpha=0.8)
        ratio.axhline(1.0, color=MUTED, lw=0.9)
        ratio.axhline(WANTED_RATIO, color=MUTED, lw=0.9, ls="--")
        ratio.set(xlabel="reward a step [-]", ylabel="samples of PPO / samples of SHAC [-]", yscale="log")
        titles = (
            "what it costs in samples",
            "what it costs in time",
            f"dashed: {WANTED_RATIO:g} times as many samples",
        )
        _finish(figure, (by_samples, by_seconds, ratio), titles, by_samples)
        return _png(figure)


def _ratio(above: float | None, below: float | None) -> float:
    return np.nan if above is None or below is None else above / below


def draw_transfer(returns: Mapping[str, Mapping[str, Sequence[float]]], medians: Mapping[str, Any]) -> bytes:
    """Mean return where a policy was trained, in hard contact and on the twin, by the contact of the training.

    Args:
        returns: one a seed, by contact and place.
        medians: over the seeds.
    """
    with matplotlib.rc_context(STYLE):
        figure, (panel,) = _panels(1, 1, 7.0, 3.8)
        width = 0.8 / len(returns)
        for i, (contact, by_place) in enumerate(returns.items()):
            x = np.arange(len(PLACES)) + (i - 0.5 * (len(returns) - 1)) * width
            heights = [medians[contact][place] for place in PLACES]
            panel.bar(x, heights, 0.9 * width, color=CONTACTS[contact], label=f"trained in {contact} contact")
            for at, place in zip(x, PLACES, strict=True):
                values = by_place[place]
                panel.plot(np.full(len(values), at), values, "o", mfc="white", mec=REAL, ms=4)
        panel.set_xticks(range(len(PLACES)), PLACES.values())
        panel.grid(axis="x", visible=False)
        panel.axhline(0.0, color=MUTED, lw=0.8)
        panel.set_ylabel("mean return of an episode [-]")
        _finish(figure, (panel,), ("bars: median of the seeds, circles: the seeds",), panel)
        return _png(figure)


def draw_gradient_norms(norms: Mapping[str, Sequence[Sequence[float]]]) -> bytes:
    """Norm of the actor's gradient in training, of every seed, by the contact of the training."""
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(1, len(norms), 10.6, 3.2, sharey=True)
        for panel, (contact, seeds) in zip(panels, norms.items(), strict=True):
            for seed in seeds:
                panel.plot(np.arange(1, len(seed) + 1), seed, color=CONTACTS[contact], alpha=0.55, lw=0.8)
            panel.set(yscale="log", xlabel="iteration [-]")
        panels[0].set_ylabel("norm of the actor's gradient [-]")
        _finish(figure, panels, [f"{contact} contact" for contact in norms], None)
        return _png(figure)


def draw_horizon(returns: Mapping[int, Sequence[float]]) -> bytes:
    """Mean return against the horizon of the training, with as many samples for each."""
    with matplotlib.rc_context(STYLE):
        figure, (panel,) = _panels(1, 1, 5.4, 3.4)
        horizons = list(returns)
        for horizon, values in returns.items():
            panel.plot([horizon] * len(values), values, "o", mfc="white", mec=BLUE, ms=4, zorder=3)
        panel.plot(horizons, [np.median(values) for values in returns.values()], color=BLUE, label="median")
        panel.plot([], [], "o", mfc="white", mec=BLUE, ms=4, label="seeds")
        panel.set_xscale("log", base=2)
        panel.set_xticks(horizons, [str(horizon) for horizon in horizons])
        panel.set(xlabel="horizon h [control steps]", ylabel="mean return of an episode [-]")
        _finish(figure, (panel,), ("as many samples for every horizon",), panel)
        return _png(figure)


def draw_tracking(found: Mapping[str, Tracking]) -> bytes:
    """Measured against wanted velocity, and the error, by place."""
    with matplotlib.rc_context(STYLE):
        figure, (velocity, error) = _panels(1, 2, 9.6, 4.0)
        target = next(iter(found.values())).target
        velocity.plot(target, target, color=MUTED, lw=0.9, label="as wanted")
        middle = np.array([-MIDDLE, MIDDLE])
        velocity.fill_between(middle, middle - WANTED_ERROR, middle + WANTED_ERROR, color="#e7ebee", lw=0)
        error.fill_between(middle, 0.0, WANTED_ERROR, color="#e7ebee", lw=0)
        for place, tracking in found.items():
            label, colour, marker = TRACKED[place]
            spread = [tracking.speed - tracking.lowest, tracking.highest - tracking.speed]
            shape: dict[str, Any] = {"color": colour, "marker": marker, "ms": 3.5}
            velocity.errorbar(tracking.target, tracking.speed, np.maximum(spread, 0.0), label=label, **shape)
            error.plot(tracking.target, tracking.error, **shape)
        velocity.set(xlabel="target forward [m/s]", ylabel="measured forward [m/s]", aspect="equal")
        error.set(xlabel="target forward [m/s]", ylabel="error in every instant [m/s]", ylim=(0.0, None))
        titles = ("mean velocity, from least to largest episode", f"grey: under {WANTED_ERROR:g} m/s in the middle")
        _finish(figure, (velocity, error), titles, velocity)
        return _png(figure)


def draw_endurance(walk: "EnduranceWalk") -> bytes:
    """Velocity wanted and measured over time, a few rows of it, with pushes, falls and interruptions."""
    rows = max(1, ceil(walk.end / ROW_SECONDS - 0.1))  # what just overflows a row makes it longer
    seconds = walk.end / rows
    wanted, measured = walk.wanted, np.stack([over_a_cycle(walk.time, v) for v in walk.measured.T], axis=1)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13.0, 3.6 * rows + 0.4), layout="constrained", dpi=120)
        for row, part in enumerate(figure.subfigures(rows, 1, squeeze=False)[:, 0]):
            start, end = row * seconds, (row + 1) * seconds
            shown = np.flatnonzero((walk.time >= start) & (walk.time < end))[::DRAWN_SAMPLES]
            panels = part.subplots(3, 1, sharex=True)
            for component, (panel, name) in enumerate(zip(panels, COMPONENTS, strict=True)):
                course = walk.time[shown]
                panel.plot(course, measured[shown, component], color=BLUE, lw=1.0, label="measured, mean over a step")
                panel.plot(course, wanted[shown, component], color=REAL, lw=1.0, ls=":", label="wanted")
                for label, colour, style, times in _marks(walk):
                    inside = [time for time in times if start <= time < end]
                    panel.vlines(
                        inside, 0.0, 1.0, color=colour, transform=panel.get_xaxis_transform(), **style, label=label
                    )
                panel.set(ylabel=name, xlim=(start, end), ylim=(-1.5, 1.5))
            panels[-1].set_xlabel("time [s]")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(handles))
        return _png(figure)


def _marks(walk: "EnduranceWalk") -> list[tuple[str, str, dict[str, Any], list[float]]]:
    """Label, colour, style and times of what is marked."""
    falls, interruptions = ([p.start for p in walk.pauses if p.stop.fallen is fallen] for fallen in (True, False))
    return [
        ("push", GREEN, {"lw": 0.8, "alpha": 0.7}, [event.time for event in walk.of_kind("push")]),
        (f"fall ({len(falls)})", VERMILION, {"lw": 2.0}, falls),
        (f"interruption ({len(interruptions)})", MUTED, {"lw": 2.0, "ls": "--"}, interruptions),
    ]


def _panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)[0]


def _finish(figure: Figure, panels: Sequence[Axes], titles: Sequence[str], named: Axes | None) -> None:
    """Titles, and below the panels the legend of one of them."""
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title)
    if named is not None:
        handles, labels = named.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(handles))


def _png(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()
