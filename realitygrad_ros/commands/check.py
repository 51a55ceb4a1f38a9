"""Check a robot's description: print joints, limits, masses, contacts, the condition of the mass matrix, every warning.

The base floats where the robot's configuration says so; that of a URDF alone counts as fixed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realitygrad_ros.commands.console import add_json_argument, table, write_json

if TYPE_CHECKING:
    from realitygrad_ros.robot.configuration import RobotConfiguration
    from realitygrad_ros.robot.model import RobotModel

CONDITION_LIMIT = 1e5
"""Solving with a matrix of this condition number loses five of the seven digits of single precision."""

_COLUMNS = ("joint", "kind", "parent", "lower", "upper", "velocity", "effort", "mass", "carried")
_UNITS = ("", "", "", "rad|m", "rad|m", "rad/s|m/s", "N m|N", "kg", "kg")
_ALIGNMENT = "<<<>>>>>>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a URDF or xacro file, the YAML file of a robot's configuration, or the name of a robot in config/",
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table, and write it as JSON where asked."""
    configuration, model = _load(arguments.file)
    figures = describe(model, configuration)
    print(_as_text(figures))
    write_json(arguments.json, figures)
    return 0


def _load(file: str) -> "tuple[RobotConfiguration | None, RobotModel]":
    from realitygrad_ros.robot.load import load_robot
    from realitygrad_ros.robot.urdf import load_urdf

    path = Path(file)
    is_configuration = path.suffix in (".yaml", ".yml") or (path.name == file and not path.suffix)
    return load_robot(file) if is_configuration else (None, load_urdf(path))


def describe(model: "RobotModel", configuration: "RobotConfiguration | None" = None) -> dict[str, Any]:
    """The figures of a robot in SI units, ready for JSON, with None for a limit that is not there.

    The mass matrix is taken without armature, at the configuration's home pose or, without a configuration, in the
    middle of the position limits, and at zero for a joint that has none. It holds the rows of a floating base, too.
    """
    from realitygrad_ros.physics.rigid_body import dense_mass_matrix

    pose = _middle(model) if configuration is None else configuration.home
    upright = [] if model.base is None else [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    inertia = dense_mass_matrix(model, [*upright, *pose.tolist()])
    condition = float(np.linalg.cond(inertia))
    warnings = list(model.warnings)
    if condition > CONDITION_LIMIT:
        moved = np.diag(inertia)[model.base_freedom :]
        lightest = model.joint_names[int(np.argmin(moved))]
        warnings.append(
            f"the mass matrix is badly conditioned, {condition:.1e} at the nominal pose: joint '{lightest}' moves "
            f"only {moved.min():.1e} kg m^2; check its inertia, and give it armature"
        )
    return {
        "robot": model.name,
        "base_link": model.base_link,
        "base_mass": None if model.base is None else model.base.mass,
        "home_height": None if configuration is None else configuration.home_height,
        "joints": [_joint_figures(model, index, mass) for index, mass in enumerate(_masses_carried(model))],
        "contacts": _contact_figures(configuration),
        "moving_mass": sum(body.mass for body in (model.base, *(joint.body for joint in model.joints)) if body),
        "nominal_pose": dict(zip(model.joint_names, pose.tolist(), strict=True)),
        "mass_matrix_condition": condition,
        "warnings": warnings,
    }


def _contact_figures(configuration: "RobotConfiguration | None") -> list[dict[str, Any]]:
    if configuration is None or configuration.contact is None:
        return []
    return [
        {"link": sphere.link, "center": sphere.center.tolist(), "radius": sphere.radius}
        for sphere in configuration.contact.spheres
    ]


def _middle(model: "RobotModel") -> np.ndarray:
    limits = np.stack([model.limit_array("lower"), model.limit_array("upper")])
    return np.where(np.isfinite(limits).all(axis=0), limits, 0.0).mean(axis=0)


def _joint_figures(model: "RobotModel", index: int, mass_carried: float) -> dict[str, Any]:
    joint = model.joints[index]
    limits = {name: getattr(joint, name) for name in ("lower", "upper", "velocity_limit", "effort_limit")}
    return {
        "name": joint.name,
        "kind": joint.kind.value,
        "parent": model.joints[joint.parent].name if joint.parent >= 0 else model.base_link,
        **{name: value if np.isfinite(value) else None for name, value in limits.items()},
        "mass": joint.body.mass,
        "mass_carried": mass_carried,
        "links": list(joint.body.links),
    }


def _masses_carried(model: "RobotModel") -> list[float]:
    """The mass of each joint's own body and of all that hangs on it [kg]."""
    masses = [joint.body.mass for joint in model.joints]
    # Parents come first, so from the tips on every joint has all that it carries when its parent takes it.
    for index in reversed(range(model.joint_count)):
        if model.joints[index].parent >= 0:
            masses[model.joints[index].parent] += masses[index]
    return masses


def _as_text(figures: dict[str, Any]) -> str:
    rows = [_COLUMNS, _UNITS, *(_row(joint) for joint in figures["joints"])]
    pose = ", ".join(f"{value:.4g}" for value in figures["nominal_pose"].values())
    lines = [
        f"robot {figures['robot']}, base link {figures['base_link']}, {len(figures['joints'])} joints",
        "",
        table(rows, _ALIGNMENT),
        "",
        f"base                          {_base_text(figures)}",
        f"contacts                      {', '.join(contact['link'] for contact in figures['contacts']) or 'none'}",
        f"total moving mass             {figures['moving_mass']:.4g} kg",
        f"condition of the mass matrix  {figures['mass_matrix_condition']:.3g} at ({pose})",
    ]
    lines += [f"warning: {warning}" for warning in figures["warnings"]] or ["no warnings"]
    return "\n".join(lines)


def _base_text(figures: dict[str, Any]) -> str:
    if figures["base_mass"] is None:
        return "fixed"
    height = figures["home_height"]
    stands = "" if height is None else f", {height:.4g} m above the ground at home"
    return f"floating, {figures['base_mass']:.4g} kg{stands}"


def _row(joint: dict[str, Any]) -> tuple[str, ...]:
    limits = [joint[name] for name in ("lower", "upper", "velocity_limit", "effort_limit")]
    return (
        joint["name"],
        joint["kind"],
        joint["parent"],
        *("-" if limit is None else f"{limit:.4g}" for limit in limits),
        f"{joint['mass']:.4g}",
        f"{joint['mass_carried']:.4g}",
    )
