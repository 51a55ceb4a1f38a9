"""`report.html`: what a run has shown, on one page that needs no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.iteration import figures
from realitygrad_ros.iteration.comparison import Comparison
from realitygrad_ros.iteration.page import change_tile, page, parameter_section, section, svg, table, tile, time_section
from realitygrad_ros.iteration.run_folder import RunFolder

STAGES = ("identify", "optimise", "train", "rollout", "total")
"""The columns of the table of times."""


def summarise(run: RunFolder) -> list[dict[str, Any]]:
    """The metrics of every finished iteration; residuals are those of the newest one, which all are on the same data.

    Raises:
        RealityGradError: no iteration is finished, or a file is damaged.
    """
    metrics = [run.metrics(k) for k in range(run.finished())]
    if not metrics:
        raise RealityGradError(f"run '{run.path}' has no finished iteration; call run_iteration first")
    return [row | {"residual": residual} for row, residual in zip(metrics, metrics[-1]["residuals"], strict=True)]


def write_report(run: RunFolder) -> Path:
    """Write `report.html` into a run folder from the files of its finished iterations, and return its path.

    Raises:
        RealityGradError: no iteration is finished, or a file is damaged.
    """
    metrics = summarise(run)
    comparisons = {k: Comparison.read(run.output(k, "measure")) for k in {0, len(metrics) - 1}}
    path = run.path / "report.html"
    with matplotlib.rc_context(figures.STYLE):
        content = _page(metrics, comparisons, run.path)
    try:
        write_whole(path, content.encode())
    except OSError as error:
        raise RealityGradError(f"'{path}' cannot be written: {error.strerror}") from error
    return path


def _page(metrics: Sequence[dict[str, Any]], comparisons: dict[int, Comparison], path: Path) -> str:
    first, last = metrics[0], metrics[-1]
    sections = [
        section(
            "Task-space error",
            "Distance between the real end effector and the simulated one under the same commands, over held-out "
            "targets. The model of an iteration has never seen the motion that it is judged by.",
            svg(figures.task_space_error([1e3 * row["gap_mean_m"] for row in metrics], comparisons)),
        ),
        section("Iterations", "", _iteration_table(metrics)),
        *_trajectory_sections(comparisons),
        parameter_section(first, last),
        section(
            "Residual and task",
            "The residual of every model is taken on the same recordings, all those that the newest identification "
            "used. The distance to the target is that of the real end effector in the hold phase of held-out motions.",
            svg(
                figures.residual_and_target_error(
                    [row["residual"] for row in metrics], [1e3 * row["target_error_mean_m"] for row in metrics]
                )
            ),
        ),
        time_section(metrics),
    ]
    return page(last, path.name, _tiles(first, last), sections)


def _tiles(first: dict[str, Any], last: dict[str, Any]) -> list[str]:
    return [
        change_tile("reality gap", 1e3 * first["gap_mean_m"], 1e3 * last["gap_mean_m"], "mm"),
        change_tile(
            "distance to the target", 1e3 * first["target_error_mean_m"], 1e3 * last["target_error_mean_m"], "mm"
        ),
        change_tile("residual", first["residual"], last["residual"], ""),
        tile(f"{last['seconds']['total']:.0f} s", "the last iteration"),
    ]


def iteration_rows(metrics: Sequence[Mapping[str, Any]], stages: Sequence[str]) -> list[list[str]]:
    """A row an iteration: number, gap [mm], accumulated gap [m], target error [mm], residual, seconds by stage."""
    return [
        [str(row["k"]), f"{1e3 * row['gap_mean_m']:.2f}", f"{row['gap_accumulated_m']:.2f}"]
        + [f"{1e3 * row['target_error_mean_m']:.2f}", f"{row['residual']:.4g}"]
        + [f"{row['seconds'][stage]:.1f}" for stage in stages]
        for row in metrics
    ]


def _iteration_table(metrics: Sequence[dict[str, Any]]) -> str:
    head = ["iteration", "gap, mean [mm]", "gap, accumulated [m]", "target error [mm]", "residual"]
    return table([*head, *(f"{stage} [s]" for stage in STAGES)], iteration_rows(metrics, STAGES))


def _trajectory_sections(comparisons: dict[int, Comparison]) -> list[str]:
    # The motion with the median gap: neither the best nor the worst speaks for the others.
    gap = comparisons[0].distance().mean(-1)
    segment = int(np.argsort(gap)[len(gap) // 2])
    return [
        section(
            "Joint trajectories",
            f"Real and simulated positions over held-out motion {segment + 1} of {len(gap)} (the one with the median "
            "gap), same commands, same start.",
            svg(figures.joint_trajectories(comparisons, segment)),
        ),
        section(
            "End-effector trajectories",
            "The same motion in the base frame.",
            svg(figures.end_effector_trajectories(comparisons, segment)),
        ),
        section(
            "End-effector paths",
            "All held-out motions, as they follow one another.",
            svg(figures.end_effector_paths(comparisons)),
        ),
    ]
