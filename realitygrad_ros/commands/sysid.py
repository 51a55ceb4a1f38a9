"""Identify a robot's simulation parameters from recorded motions, and say which of them the data fix.

A bag holds joint states and position commands; docs/sysid.md says how to record one. Units: damping and kd in
N m s/rad, armature in kg m^2, kp in N m/rad, friction in N m, times in s; the residual has no unit.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json
from realitygrad_ros.errors import RealityGradError

if TYPE_CHECKING:
    from realitygrad_ros.identification.fit import FitResult
    from realitygrad_ros.identification.recording import UniformRecording
    from realitygrad_ros.robot.configuration import RobotConfiguration
    from realitygrad_ros.robot.parameters import SimulationParameters

CALIBRATION = "calibration.yaml"

_COLUMNS = ("parameter", "joint", "prior", "fitted", "std. error", "verdict")
_ALIGNMENT = "<<>>><"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "bags",
        nargs="+",
        type=Path,
        metavar="BAG",
        help="a bag's folder, or an .mcap or .db3 file; several are fitted together",
    )
    parser.add_argument("--robot", default="ur5", help="name of a robot in config/, or path of its YAML file (ur5)")
    parser.add_argument(
        "--namespace", metavar="NAME", help="of the robot's topics in the bags (whichever one has them)"
    )
    parser.add_argument(
        "--prior",
        type=Path,
        metavar="FILE",
        help="a calibration to start from, and whose values stay where the data say nothing (the robot's nominal ones)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="FOLDER", help=f"where to write {CALIBRATION} (the present folder)"
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit, print the table, and write calibration and figures."""
    from realitygrad_ros.files import check_writable
    from realitygrad_ros.robot.load import load_clamped_robot

    configuration, model = load_clamped_robot(arguments.robot)
    prior = configuration.nominal
    if arguments.prior is not None:
        prior = _prior(arguments.prior, configuration)
    recordings = [_read(bag, configuration, arguments.namespace) for bag in arguments.bags]
    check_writable(arguments.out)
    # Imported late: it brings torch and Warp, and a bag that cannot be read shall be told of at once.
    from realitygrad_ros.identification.fit import fit

    with progress_bar() as show:
        result = fit(configuration, model, recordings, prior, progress=show)
    print(_as_text(result))
    path = _write(result, arguments.out, arguments.bags)
    print(f"\ncalibration: {path}")
    write_json(arguments.json, figures(result, arguments.bags))
    return 0


def _prior(path: Path, configuration: "RobotConfiguration") -> "SimulationParameters":
    from realitygrad_ros.robot.parameters import SimulationParameters

    try:
        return SimulationParameters.read(path).reordered(configuration.joint_names)
    except RealityGradError as error:
        raise RealityGradError(f"--prior {path}: {error}") from error


def _read(bag: Path, configuration: "RobotConfiguration", namespace: str | None) -> "UniformRecording":
    from realitygrad_ros.identification.base_at_rest import refuse_moving_base
    from realitygrad_ros.identification.recording import read_recording

    refuse_moving_base(bag, namespace)
    recording = read_recording(bag, configuration.joint_names, namespace=namespace)
    for warning in recording.warnings:
        print(f"warning: '{bag}': {warning}", file=sys.stderr)
    return recording.resample(1.0 / configuration.joint_state_rate)


def figures(result: "FitResult", bags: Sequence[Path]) -> dict[str, Any]:
    """The result in SI units, ready for JSON; `standard_error` is None where a parameter was held."""
    parameters: dict[str, dict[str, Any]] = {}
    for verdict in result.verdicts:
        parameters.setdefault(verdict.name, {})[verdict.joint] = {
            "prior": verdict.prior,
            "fitted": verdict.fitted,
            "standard_error": verdict.standard_error,
            "identified": verdict.identified,
            "reason": verdict.reason,
        }
    return {
        "bags": [str(bag) for bag in bags],
        "residual_before": result.residual_before,
        "residual_after": result.residual_after,
        "history": list(result.history),
        "windows": result.windows,
        "saturated": result.saturated,
        "seconds": result.seconds,
        "parameters": parameters,
    }


def _as_text(result: "FitResult") -> str:
    from realitygrad_ros.robot.parameters import PARAMETER_UNITS

    rows = [_COLUMNS]
    for verdict in result.verdicts:
        error = "" if verdict.standard_error is None else f"{verdict.standard_error:.3g}"
        rows.append(
            (
                f"{verdict.name} [{PARAMETER_UNITS[verdict.name]}]",
                verdict.joint,
                f"{verdict.prior:.4g}",
                f"{verdict.fitted:.4g}",
                error,
                "identified" if verdict.identified else "held",
            )
        )
    lines = [
        table(rows, _ALIGNMENT),
        "",
        *(f"{verdict.name}: {verdict.reason}" for verdict in result.verdicts if verdict.reason),
        "",
    ]
    lines.append(
        f"residual {result.residual_before:.4f} -> {result.residual_after:.4f} in {result.seconds:.1f} s, "
        f"from {result.windows} windows; {result.saturated:.1%} of the samples at an effort limit"
    )
    return "\n".join(lines)


def _write(result: "FitResult", folder: Path, bags: Sequence[Path]) -> Path:
    comment = f"residual {result.residual_before:.4g}, then {result.residual_after:.4g}; from the bags"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        result.parameters.write(folder / CALIBRATION, "\n".join([comment, *map(str, bags)]))
    except OSError as error:
        raise RealityGradError(f"'{folder / CALIBRATION}' cannot be written: {error.strerror}") from error
    return folder / CALIBRATION
