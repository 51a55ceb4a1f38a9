"""`report.html` of a robot on legs: what a run has shown, on one page that needs no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.iteration import figures, legged_figures
from realitygrad_ros.iteration.legged_comparison import SETTLING, WalkComparison
from realitygrad_ros.iteration.page import change_tile, page, parameter_section, section, svg, table, tile, time_section
from realitygrad_ros.iteration.run_folder import RunFolder

SECONDS = ("excite", "identify", "train", "rollout", "total")
"""The columns of the table of times."""

HEAD = (
    "iteration",
    "velocity error [m/s]",
    "predicted [m/s]",
    "turning error [rad/s]",
    "falls",
    "joint gap [rad]",
    "residual",
)
"""Of `iteration_rows`, before the seconds."""


def is_of_legs(run: RunFolder) -> bool:
    """Whether the run is one of a robot on legs.

    Raises:
        RealityGradError: its metrics are damaged.
    """
    return run.finished() > 0 and "tracking_error_mps" in run.metrics(0)


def summarise(run: RunFolder) -> list[dict[str, Any]]:
    """The metrics of every finished iteration, with the `residual` of its parameters on the data of the newest one.

    Raises:
        RealityGradError: no iteration is finished, or a file is damaged.
    """
    metrics = [run.metrics(k) for k in range(run.finished())]
    if not metrics:
        raise RealityGradError(f"run '{run.path}' has no finished iteration; run the demo again")
    residuals = metrics[-1]["residuals"] or [None]  # iteration 0 alone has identified nothing
    return [row | {"residual": residual} for row, residual in zip(metrics, residuals, strict=True)]


def write_report(run: RunFolder) -> Path:
    """Write `report.html` into a run folder from the files of its finished iterations, and return its path.

    Raises:
        RealityGradError: no iteration is finished, or a file is damaged.
    """
    metrics = summarise(run)
    comparisons = {k: WalkComparison.read(run.output(k, "measure")) for k in {0, len(metrics) - 1}}
    path = run.path / "report.html"
    with matplotlib.rc_context(figures.STYLE):
        content = _page(metrics, comparisons, run.path)
    try:
        write_whole(path, content.encode())
    except OSError as error:
        raise RealityGradError(f"'{path}' cannot be written: {error.strerror}") from error
    return path


def _page(metrics: Sequence[dict[str, Any]], comparisons: dict[int, WalkComparison], path: Path) -> str:
    first, last = metrics[0], metrics[-1]
    sections = [
        section(
            "Velocity",
            "Commanded, measured on the robot, and foretold by the simulator, which runs the same policy at the same "
            "commands from the same start. Means over one cycle of the gait.",
            svg(legged_figures.velocity_tracking(comparisons)),
        ),
        section(
            "Iterations",
            f"The errors are means over all moments later than {SETTLING:g} s after a new command: the distance of the "
            "horizontal velocity from the one commanded, on the robot and predicted, and that of the yaw rate. The "
            "joint gap is the root mean square of the difference between the robot's joints and the simulated ones.",
            table(
                [*HEAD, *(f"{name} [s]" for name in SECONDS)],
                iteration_rows(metrics, SECONDS),
            ),
        ),
        section("Stretches", "Mean velocities of each stretch, after the settling.", _stretch_table(last, comparisons)),
        *_step_sections(comparisons),
    ]
    if last["k"] > 0:
        sections += [
            parameter_section(first, last),
            section(
                "Residual and task",
                "The residual of every model is taken on the same recordings of the hanging robot, all those that the "
                "newest identification used.",
                svg(
                    legged_figures.residual_and_tracking(
                        [row["residual"] for row in metrics],
                        [_or_nan(row["tracking_error_mps"]) for row in metrics],
                    )
                ),
            ),
        ]
    return page(last, path.name, _tiles(metrics), [*sections, time_section(metrics)])


def _tiles(metrics: Sequence[dict[str, Any]]) -> list[str]:
    first, last = metrics[0], metrics[-1]
    changes = [
        ("velocity error on the robot", "tracking_error_mps", "m/s"),
        ("joints, simulator against robot", "joint_gap_rad", "rad"),
        ("residual of the hanging robot", "residual", ""),
    ]
    return [
        *(
            change_tile(label, first[name], last[name], unit)
            for label, name, unit in changes
            if first[name] is not None and last[name] is not None
        ),
        tile(" → ".join(str(row["falls"]) for row in (first, last)), "falls"),
        tile(f"{last['seconds']['total']:.0f} s", "the last iteration"),
    ]


def iteration_rows(metrics: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> list[list[str]]:
    """A row an iteration: the columns of `HEAD`, then seconds by stage."""

    def told(value: float | None, digits: int = 3) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    return [
        [
            str(row["k"]),
            told(row["tracking_error_mps"]),
            told(row["predicted_tracking_error_mps"]),
            told(row["turning_error_radps"]),
            str(row["falls"]),
            told(row["joint_gap_rad"]),
            told(row["residual"], 4),
        ]
        + [f"{row['seconds'][stage]:.1f}" for stage in stages]
        for row in metrics
    ]


def _stretch_table(last: Mapping[str, Any], comparisons: Mapping[int, WalkComparison]) -> str:
    names = [name for name, _, _ in last["schedule"]]
    head = ["stretch", "wanted: forward, left [m/s], turning [rad/s]"]
    rows: list[list[str]] = []
    for k in sorted(comparisons):
        c, label = comparisons[k], f"iteration {k}"
        head += [f"{label}, robot", f"{label}, simulator"]
        settled = c.settled()
        for number, samples in enumerate(c.stretches()):
            if number == len(rows):
                wanted = c.wanted[samples][0]
                rows.append([names[number] if number < len(names) else "", _triple(wanted)])
            chosen = np.flatnonzero(settled[samples]) + samples.start
            rows[number] += [_mean(velocity[chosen]) for velocity in (c.measured_velocity, c.simulated_velocity)]
    return table(head, [row + [""] * (len(head) - len(row)) for row in rows], words=(0,))


def _mean(velocity: np.ndarray) -> str:
    there = velocity[np.isfinite(velocity).all(1)]
    return _triple(there[:, [0, 1, 5]].mean(0)) if len(there) else ""


def _triple(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f}".replace("-0.00", "0.00") for value in values)


def _step_sections(comparisons: dict[int, WalkComparison]) -> list[str]:
    text = f"{legged_figures.CYCLES} steps of each foot at the fastest walk forward"
    return [
        section("Feet", f"Heights above the ground over {text}.", svg(legged_figures.foot_heights(comparisons))),
        section("Joints", f"Positions over {text}.", svg(legged_figures.joint_trajectories(comparisons))),
    ]


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
