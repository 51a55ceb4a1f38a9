"""The one commented YAML file a robot has: `config/<robot>.yaml`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters


@dataclass(frozen=True, eq=False)
class ReachConfiguration:
    """The reaching task: targets for the end effector, in the base frame [m]."""

    target_lower: Float[np.ndarray, "3"]
    target_upper: Float[np.ndarray, "3"]
    duration: float
    """Length of one motion: reach, stop and hold [s]."""
    hold: float
    """The last part of a motion, in which the end effector rests at its target [s]."""


@dataclass(frozen=True, eq=False)
class RobotConfiguration:
    """What `config/<robot>.yaml` says. Per-joint arrays are in the order of `joint_names`."""

    name: str
    urdf: Path
    end_effector: str
    """The link whose origin reaches for targets."""
    joint_names: tuple[str, ...]
    """The controlled joints, in the order of the command topic."""
    home: Float[np.ndarray, "joint"]
    """A pose to start from [rad]."""
    nominal: SimulationParameters
    """What the engineer believes before identification."""
    bounds: dict[str, tuple[float, float]]
    """Lower and upper bound of each parameter."""
    friction_velocity: float
    """Width of the smooth Coulomb friction [rad/s]: at this velocity it has 76 % of its full value."""
    gravity: Float[np.ndarray, "3"]
    """In the base frame [m/s^2]."""
    policy_rate: float
    """Commands per second [Hz]."""
    joint_state_rate: float
    """Joint states per second, as the driver publishes them [Hz]."""
    reach: ReachConfiguration


def load_configuration(robot: str) -> RobotConfiguration:
    """Load the configuration of a robot by its name in `config/`, or by the path of a YAML file.

    Raises:
        RealityGradError: there is no such file, or an entry is missing or wrong; the message names it.
    """
    path = Path(robot) if robot.endswith((".yaml", ".yml")) else share_directory() / "config" / f"{robot}.yaml"
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in (share_directory() / "config").glob("*.yaml")))
        raise RealityGradError(f"no configuration '{path}'; known robots: {known}") from error
    except yaml.YAMLError as error:
        raise RealityGradError(f"configuration '{path}' is not YAML: {error}") from error
    try:
        return _parse(content, path)
    except KeyError as error:
        raise RealityGradError(f"configuration '{path}' lacks the entry {error}") from error
    except (TypeError, ValueError) as error:
        raise RealityGradError(f"configuration '{path}' has a wrong value: {error}") from error


def _parse(content: dict[str, Any], path: Path) -> RobotConfiguration:
    joints: dict[str, dict[str, float]] = content["joints"]
    names = tuple(joints)

    def column(entry: str) -> Float[np.ndarray, "joint"]:
        missing = [name for name in names if entry not in joints[name]]
        if missing:
            raise RealityGradError(f"configuration '{path}': joint '{missing[0]}' lacks '{entry}'")
        return np.array([float(joints[name][entry]) for name in names])

    urdf = Path(content["urdf"])
    reach = content["reach"]
    return RobotConfiguration(
        name=str(content["name"]),
        urdf=urdf if urdf.is_absolute() else (path.parent / urdf).resolve(),
        end_effector=str(content["end_effector"]),
        joint_names=names,
        home=column("home"),
        nominal=SimulationParameters(names, **{name: column(name) for name in PARAMETER_NAMES}),
        bounds={
            name: (float(content["bounds"][name][0]), float(content["bounds"][name][1])) for name in PARAMETER_NAMES
        },
        friction_velocity=float(content["friction_velocity"]),
        gravity=np.array(content["gravity"], dtype=float),
        policy_rate=float(content["rates"]["policy"]),
        joint_state_rate=float(content["rates"]["joint_states"]),
        reach=ReachConfiguration(
            target_lower=np.array(reach["target_lower"], dtype=float),
            target_upper=np.array(reach["target_upper"], dtype=float),
            duration=float(reach["duration"]),
            hold=float(reach["hold"]),
        ),
    )
