"""`report.html`: what a run has shown, on one page that needs no other file."""

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.iteration import figures
from realitygrad_ros.iteration.comparison import Comparison
from realitygrad_ros.iteration.run_folder import RunFolder
from realitygrad_ros.robot.parameters import PARAMETER_UNITS

STAGES = ("identify", "optimise", "train", "rollout", "total")
"""The columns of the table of times."""

STYLE = """
body { font: 15px/1.5 'Helvetica Neue', Helvetica, Arial, sans-serif; color: #22303c; background: #f6f7f8; margin: 0 }
main { max-width: 1000px; margin: 0 auto; padding: 24px 16px 64px }
header, section { background: #fff; border: 1px solid #e2e6e9; border-radius: 8px; padding: 20px 28px; margin: 16px 0 }
h1 { font-size: 24px; margin: 0 0 4px } h2 { font-size: 18px; margin: 0 0 4px } p { margin: 4px 0 12px; color: #4a5965 }
.tiles { display: flex; gap: 12px; flex-wrap: wrap; margin-top: 16px }
.tile { flex: 1 1 180px; background: #f6f7f8; border-radius: 6px; padding: 12px 16px }
.tile b { display: block; font-size: 22px; font-weight: 600 } .tile span { color: #4a5965; font-size: 13px }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums }
th { text-align: right; font-weight: 600; color: #4a5965; border-bottom: 1px solid #b9c2ca; padding: 4px 10px }
td { text-align: right; border-bottom: 1px solid #eef0f2; padding: 4px 10px }
th:first-child, td:first-child { white-space: nowrap }
th:first-child, td:first-child, td.words, th.words { text-align: left } svg { width: 100%; height: auto }
code { background: #f0f2f4; padding: 1px 4px; border-radius: 3px; word-break: break-all }
"""


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
        page = _page(metrics, comparisons, run.path)
    try:
        write_whole(path, page.encode())
    except OSError as error:
        raise RealityGradError(f"'{path}' cannot be written: {error.strerror}") from error
    return path


def _page(metrics: Sequence[dict[str, Any]], comparisons: dict[int, Comparison], path: Path) -> str:
    first, last = metrics[0], metrics[-1]
    robot = html.escape(last["robot"])
    sections = [
        _section(
            "Task-space error",
            "Distance between the real end effector and the simulated one under the same commands, over held-out "
            "targets. The model of an iteration has never seen the motion that it is judged by.",
            _svg(figures.task_space_error([1e3 * row["gap_mean_m"] for row in metrics], comparisons)),
        ),
        _section("Iterations", "", _iteration_table(metrics)),
        *_trajectory_sections(comparisons),
        _parameter_section(first, last),
        _section(
            "Residual and task",
            "The residual of every model is taken on the same recordings, all those that the newest identification "
            "used. The distance to the target is that of the real end effector in the hold phase of held-out motions.",
            _svg(
                figures.residual_and_target_error(
                    [row["residual"] for row in metrics], [1e3 * row["target_error_mean_m"] for row in metrics]
                )
            ),
        ),
        _section(
            "Time by stage",
            "Wall clock, until the figures stood; drawing this page comes on top. A stage that was done before an "
            "interruption counts with the time that it took then.",
            _svg(figures.time_by_stage([row["seconds"] for row in metrics])),
        ),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>RealityGrad: {robot}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>RealityGrad on {robot}</h1>"
        f"<p>{html.escape(last['finished'])}, seed {last['seed']}, run <code>{html.escape(path.name)}</code></p>"
        f"{_tiles(first, last)}</header>{''.join(sections)}</main></body></html>\n"
    )


def _tiles(first: dict[str, Any], last: dict[str, Any]) -> str:
    def tile(label: str, before: float, after: float, unit: str) -> str:
        change = f" ({100.0 * (after / before - 1.0):+.1f} %)".replace("-", "−") if before > 0.0 else ""
        return f"<div class='tile'><b>{before:.3g} → {after:.3g} {unit}</b><span>{label}{change}</span></div>"

    return (
        "<div class='tiles'>"
        + tile("reality gap", 1e3 * first["gap_mean_m"], 1e3 * last["gap_mean_m"], "mm")
        + tile("distance to the target", 1e3 * first["target_error_mean_m"], 1e3 * last["target_error_mean_m"], "mm")
        + tile("residual", first["residual"], last["residual"], "")
        + f"<div class='tile'><b>{last['seconds']['total']:.0f} s</b><span>the last iteration</span></div></div>"
    )


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
    return _table([*head, *(f"{stage} [s]" for stage in STAGES)], iteration_rows(metrics, STAGES))


def _trajectory_sections(comparisons: dict[int, Comparison]) -> list[str]:
    # The motion with the median gap: neither the best nor the worst speaks for the others.
    gap = comparisons[0].distance().mean(-1)
    segment = int(np.argsort(gap)[len(gap) // 2])
    return [
        _section(
            "Joint trajectories",
            f"Real and simulated positions over held-out motion {segment + 1} of {len(gap)} (the one with the median "
            "gap), same commands, same start.",
            _svg(figures.joint_trajectories(comparisons, segment)),
        ),
        _section(
            "End-effector trajectories",
            "The same motion in the base frame.",
            _svg(figures.end_effector_trajectories(comparisons, segment)),
        ),
        _section(
            "End-effector paths",
            "All held-out motions, as they follow one another.",
            _svg(figures.end_effector_paths(comparisons)),
        ),
    ]


def _parameter_section(first: dict[str, Any], last: dict[str, Any]) -> str:
    nominal, fitted, truth, verdicts = first["parameters"], last["parameters"], last["truth"], last["verdicts"]
    columns = ["nominal", "fitted"] + (["truth"] if truth else [])
    rows = []
    for name, unit in PARAMETER_UNITS.items():
        for i, joint in enumerate(nominal[name]):
            values = [source[name][joint] for source in ([nominal, fitted, truth] if truth else [nominal, fitted])]
            verdict = verdicts.get(name, {}).get(joint, "")
            rows.append([f"{name} [{unit}]" if i == 0 else "", joint, *(f"{value:.4g}" for value in values), verdict])
    note = "The truth is the twin's own configuration, which identification never reads. " if truth else ""
    return _section(
        "Parameters",
        note + "A parameter that the data cannot separate from others is held at its former value and says so.",
        _svg(figures.parameters(nominal, fitted, truth))
        + _table(["parameter", "joint", *columns, "verdict"], rows, words=(1, 2 + len(columns))),
    )


def _section(title: str, text: str, content: str) -> str:
    return f"<section><h2>{title}</h2><p>{text}</p>{content}</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = ()) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        marked = ((" class='words'" if i in words else "", html.escape(cell)) for i, cell in enumerate(cells))
        return "<tr>" + "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in marked) + "</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
