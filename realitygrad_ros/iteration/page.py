"""The parts of a report: one page of HTML that needs no other file."""

import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from realitygrad_ros.iteration import figures
from realitygrad_ros.robot.parameters import PARAMETER_UNITS

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


def page(last: Mapping[str, Any], run_name: str, tiles: Sequence[str], sections: Sequence[str]) -> str:
    """The whole page.

    Args:
        last: metrics of the newest iteration.
        run_name: of the run's folder.
        tiles: of `tile`, at the top.
        sections: of `section`, in their order.
    """
    robot = html.escape(last["robot"])
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>RealityGrad: {robot}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>RealityGrad on {robot}</h1>"
        f"<p>{html.escape(last['finished'])}, seed {last['seed']}, run <code>{html.escape(run_name)}</code></p>"
        f"<div class='tiles'>{''.join(tiles)}</div></header>{''.join(sections)}</main></body></html>\n"
    )


def change_tile(label: str, before: float, after: float, unit: str) -> str:
    """A figure of the first and the last iteration."""
    change = f" ({100.0 * (after / before - 1.0):+.1f} %)".replace("-", "−") if before > 0.0 else ""
    return tile(f"{before:.3g} → {after:.3g} {unit}", f"{label}{change}")


def tile(figure: str, label: str) -> str:
    """One figure and what it is."""
    return f"<div class='tile'><b>{figure}</b><span>{label}</span></div>"


def section(title: str, text: str, content: str) -> str:
    """A title, a paragraph, and plots or tables."""
    return f"<section><h2>{title}</h2><p>{text}</p>{content}</section>"


def parameter_section(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """Nominal, fitted and, where a twin tells it, true parameters, with the verdicts on them."""
    nominal, fitted, truth, verdicts = first["parameters"], last["parameters"], last["truth"], last["verdicts"]
    columns = ["nominal", "fitted"] + (["truth"] if truth else [])
    rows = []
    for name, unit in PARAMETER_UNITS.items():
        for i, joint in enumerate(nominal[name]):
            values = [source[name][joint] for source in ([nominal, fitted, truth] if truth else [nominal, fitted])]
            verdict = verdicts.get(name, {}).get(joint, "")
            rows.append([f"{name} [{unit}]" if i == 0 else "", joint, *(f"{value:.4g}" for value in values), verdict])
    note = "The truth is the twin's own configuration, which identification never reads. " if truth else ""
    return section(
        "Parameters",
        note + "A parameter that the data cannot separate from others is held at its former value and says so.",
        svg(figures.parameters(nominal, fitted, truth))
        + table(["parameter", "joint", *columns, "verdict"], rows, words=(1, 2 + len(columns))),
    )


def time_section(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Where the time of each iteration went."""
    return section(
        "Time by stage",
        "Wall clock, until the figures stood; drawing this page comes on top. A stage that was done before an "
        "interruption counts with the time that it took then.",
        svg(figures.time_by_stage([row["seconds"] for row in metrics])),
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = ()) -> str:
    """A table; the columns of `words` hold words, and all but the first one else numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = ((" class='words'" if i in words else "", html.escape(cell)) for i, cell in enumerate(cells))
        return "<tr>" + "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in marked) + "</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def svg(figure: Figure) -> str:
    """A plot as an element of the page."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
