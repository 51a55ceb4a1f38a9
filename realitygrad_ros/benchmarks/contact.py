"""What each mode of contact makes of the landing of a foot: the objective, its gradient, and a picture of both."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from realitygrad_ros.benchmarks.contact_figure import draw
from realitygrad_ros.benchmarks.landing import (
    GOAL,
    HEIGHTS,
    SPEEDS,
    Landing,
    foot_contact,
    rigid_landing,
    simulated_landing,
)
from realitygrad_ros.files import write_whole
from realitygrad_ros.physics.stochastic import GRADIENT_MODES
from realitygrad_ros.progress import Progress

PICTURE, CURVES = "contact.png", "contact.json"


def run(folder: Path, progress: Progress) -> dict[str, Any]:
    """Let the foot land in every mode, and write `contact.png` and `contact.json` with the curves in SI units.

    Args:
        folder: where to write; it is made if it is not there.
        progress: told of each mode.

    Returns:
        For each mode, against the rigid foot in continuous time: `place_error_mm`, root mean square; `gradient_error`,
        root mean square relative to the true gradient's; `gradient_cosine`, over all speeds and heights; `right_way`,
        the share of landings whose gradient has the true sign; `roughness`, the total variation of the objective's
        slope relative to the true one's.
    """
    contact = foot_contact()
    rigid = rigid_landing(contact.friction_coefficient)
    landings: dict[str, Landing] = {}
    for mode in GRADIENT_MODES:
        landings[mode] = simulated_landing(mode, contact)
        progress("landing", len(landings) / len(GRADIENT_MODES), {})
    figures = {mode: _figures(landing, rigid) for mode, landing in landings.items()}
    curves = {mode: _curves(landing) for mode, landing in {"rigid": rigid, **landings}.items()}
    content = {"height": HEIGHTS.tolist(), "speed": SPEEDS.tolist(), "goal": GOAL, "curves": curves, "figures": figures}
    cosines = {mode: values["gradient_cosine"] for mode, values in figures.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CURVES, json.dumps(content, allow_nan=False).encode() + b"\n")
    write_whole(folder / PICTURE, draw(rigid, landings, cosines))
    return figures


def _figures(landing: Landing, rigid: Landing) -> dict[str, float]:
    g, true = landing.gradient, rigid.gradient
    lengths = float(np.linalg.norm(g) * np.linalg.norm(true))
    return {
        "place_error_mm": 1e3 * _rms(landing.place - rigid.place),
        "gradient_error": _rms(g - true) / _rms(true),
        "gradient_cosine": float((g * true).sum()) / lengths if lengths > 0.0 else 0.0,
        "right_way": float((g * true > 0.0).mean()),
        "roughness": _roughness(landing) / _roughness(rigid),
    }


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


def _roughness(landing: Landing) -> float:
    return float(np.abs(np.diff(landing.objective, 2)).sum())


def _curves(landing: Landing) -> dict[str, Any]:
    return {name: getattr(landing, name).tolist() for name in ("place", "objective", "gradient")}
