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
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in (share_directory() / "config").glob("*.yaml")))
        raise RealityGradError(f"no configuration '{path}'; known robots: {known}") from error
    except yaml.YAMLError as error:
        raise RealityGradError(f"configuration '{path}' is not YAML: {' '.join(str(error).split())}") from error
    try:
        configuration = _parse(content, path)
        _check(configuration)
    except RealityGradError as error:
        raise RealityGradError(f"configuration '{path}': {error}") from error
    except KeyError as error:
        raise RealityGradError(f"configuration '{path}' lacks the entry {error}") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise RealityGradError(f"configuration '{path}' has a wrong value: {error}") from error
    return configuration


def _parse(content: dict[str, Any], path: Path) -> RobotConfiguration:
    if not isinstance(content, dict) or not isinstance(content["joints"], dict):
        raise RealityGradError("it is no mapping with one row a joint under 'joints'")
    joints: dict[str, dict[str, float]] = content["joints"]
    names = tuple(joints)

    def column(entry: str) -> Float[np.ndarray, "joint"]:
        missing = [name for name in names if entry not in joints[name]]
        if missing:
            raise RealityGradError(f"joint '{missing[0]}' lacks '{entry}'")
        return np.array([float(joints[name][entry]) for name in names])

    urdf = Path(content["urdf"])
    reach = content["reach"]
    bounds = {name: (float(content["bounds"][name][0]), float(content["bounds"][name][1])) for name in PARAMETER_NAMES}
    return RobotConfiguration(
        name=str(content["name"]),
        urdf=urdf if urdf.is_absolute() else (path.parent / urdf).resolve(),
        end_effector=str(content["end_effector"]),
        joint_names=names,
        home=column("home"),
        nominal=SimulationParameters(names, **{name: column(name) for name in PARAMETER_NAMES}),
        bounds=bounds,
        friction_velocity=float(content["friction_velocity"]),
        gravity=_vector(content["gravity"], "gravity"),
        policy_rate=float(content["rates"]["policy"]),
        joint_state_rate=float(content["rates"]["joint_states"]),
        reach=ReachConfiguration(
            target_lower=_vector(reach["target_lower"], "reach.target_lower"),
            target_upper=_vector(reach["target_upper"], "reach.target_upper"),
            duration=float(reach["duration"]),
            hold=float(reach["hold"]),
        ),
    )


def _vector(value: Any, entry: str) -> Float[np.ndarray, "3"]:
    vector = np.array(value, dtype=float)
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise RealityGradError(f"{entry} is {value}, not three numbers")
    return vector


def _check(configuration: RobotConfiguration) -> None:
    """Refuse values that no robot can have, by name."""
    reach = configuration.reach
    if not configuration.joint_names:
        raise RealityGradError("it has no joints")
    positive = {
        "friction_velocity": configuration.friction_velocity,
        "rates.policy": configuration.policy_rate,
        "rates.joint_states": configuration.joint_state_rate,
        "reach.duration": reach.duration,
    }
    for entry, value in positive.items():
        if not (np.isfinite(value) and value > 0.0):
            raise RealityGradError(f"{entry} is {value:g}; it must be finite and positive")
    if not 0.0 <= reach.hold < reach.duration:
        raise RealityGradError(
            f"reach.hold is {reach.hold:g} s; it must be in [0, {reach.duration:g}), within the motion"
        )
    if (reach.target_lower > reach.target_upper).any():
        raise RealityGradError(f"reach.target_lower {reach.target_lower} is above target_upper {reach.target_upper}")
    if not np.isfinite(configuration.home).all():
        raise RealityGradError("the home of a joint is not finite")
    for name, (lower, upper) in configuration.bounds.items():
        if not (0.0 <= lower <= upper < np.inf):
            raise RealityGradError(f"bounds.{name} is [{lower:g}, {upper:g}]; they must be finite, ordered, and >= 0")
        values = getattr(configuration.nominal, name)
        outside = (values < lower) | (values > upper)
        if outside.any():
            joint = configuration.joint_names[int(np.argmax(outside))]
            raise RealityGradError(
                f"{name} {values[outside][0]:g} of joint '{joint}' is outside its bounds [{lower:g}, {upper:g}]"
            )
