"""The picture of `realitygrad bench contact`."""

import io
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from realitygrad_ros.benchmarks.landing import GOAL, HEIGHTS, SPEEDS, Landing
from realitygrad_ros.iteration.figures import MUTED, REAL, STYLE

COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Of the speeds; the colour-blind can tell them apart (Okabe and Ito)."""

TRUTH: dict[str, Any] = {"color": REAL, "lw": 1.0, "ls": (0, (4, 2)), "zorder": 3}

COLUMNS = {
    "hard": ("hard contact", "the foot lands in one step or the next"),
    "soft": ("soft contact", "springs and dampers"),
    "stochastic": ("stochastic smoothing", "mean of perturbed hard landings"),
    "smooth": ("analytic smoothing", "impulses weighted by height"),
}
"""Each mode's title and what it is, from left to right."""

GRADIENT_RANGE = 1.4
"""Of the lower panels, relative to the largest true gradient; how far curves go beyond is said above."""

SCENE = (
    "A foot falls with a horizontal speed, and friction stops it where it lands or a little further on.\n"
    f"The objective is the squared distance of that place to a goal at {1e2 * GOAL:g} cm."
)


def draw(rigid: Landing, landings: Mapping[str, Landing], cosines: Mapping[str, float]) -> bytes:
    """A PNG: for each mode a column, with the objective above and its gradient below, over the height.

    Args:
        rigid: the truth, drawn into every panel.
        landings: by mode.
        cosines: of each mode's gradient with the true one.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.6, 5.8), layout="constrained", dpi=120)
        figure.suptitle(SCENE, x=0.008, ha="left", fontsize=9.5)
        axes = figure.subplots(2, len(COLUMNS), sharex=True, sharey="row")
        for (mode, (title, meaning)), (above, below) in zip(COLUMNS.items(), axes.T, strict=True):
            above.set_title(title, fontweight="bold", pad=18)
            above.text(0.0, 1.03, meaning, transform=above.transAxes, color=STYLE["axes.labelcolor"], fontsize=8.5)
            _lines(above, 1e4 * landings[mode].objective, 1e4 * rigid.objective)
            _lines(below, 1e2 * landings[mode].gradient, 1e2 * rigid.gradient)
            most = 1e2 * abs(landings[mode].gradient).max()
            limit = GRADIENT_RANGE * 1e2 * abs(rigid.gradient).max()
            note = f"cosine with truth {cosines[mode]:.2f}" + (f", peaks reach {most:.0f}" if most > limit else "")
            below.set_title(note.replace("-", "\N{MINUS SIGN}"), fontsize=8.5, color=STYLE["axes.labelcolor"])
            below.set(xlabel="initial height [cm]", ylim=(-limit, limit), xlim=(0.0, 15.0), xticks=(0, 5, 10, 15))
            below.axhline(0.0, color=MUTED, lw=0.8, zorder=1)
        axes[0, 0].set(ylabel="objective [cm²]", ylim=(-2.0, None))
        axes[1, 0].set_ylabel("gradient by the height [cm²/cm]")
        handles = axes[0, 0].get_lines()[: len(SPEEDS) + 1]
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))
        content = io.BytesIO()
        figure.savefig(content, format="png")
    return content.getvalue()


def _lines(panel: Axes, simulated: Any, true: Any) -> None:
    for speed, colour, values in zip(SPEEDS, COLOURS, simulated, strict=True):
        panel.plot(1e2 * HEIGHTS, values, color=colour, label=f"simulated, {speed:.1f} m/s")
    for values in true:
        panel.plot(1e2 * HEIGHTS, values, label="truth: a rigid foot in continuous time", **TRUTH)
