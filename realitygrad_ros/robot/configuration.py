"""The one commented YAML file a robot has: `config/<robot>.yaml`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.yaml_file import Entry, read_yaml


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
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in (share_directory() / "config").glob("*.yaml")))
        raise RealityGradError(f"no configuration '{path}'; known robots: {known}")
    content = read_yaml(path, "configuration")
    try:
        configuration = _parse(content, path)
        _check(configuration)
    except RealityGradError as error:
        named = str(error).startswith(content.file)
        raise RealityGradError(f"{error}" if named else f"{content.file}: {error}") from error
    return configuration


def _parse(content: Entry, path: Path) -> RobotConfiguration:
    joints, reach = content["joints"], content["reach"]
    names = joints.keys()

    def column(entry: str) -> Float[np.ndarray, "joint"]:
        return np.array([joints[name][entry].number() for name in names])

    urdf = Path(content["urdf"].text())
    return RobotConfiguration(
        name=content["name"].text(),
        urdf=urdf if urdf.is_absolute() else (path.parent / urdf).resolve(),
        end_effector=content["end_effector"].text(),
        joint_names=names,
        home=column("home"),
        nominal=SimulationParameters(names, **{name: column(name) for name in PARAMETER_NAMES}),
        bounds={name: _bounds(content["bounds"][name]) for name in PARAMETER_NAMES},
        friction_velocity=content["friction_velocity"].number(),
        gravity=content["gravity"].numbers(3),
        policy_rate=content["rates"]["policy"].number(),
        joint_state_rate=content["rates"]["joint_states"].number(),
        reach=ReachConfiguration(
            target_lower=reach["target_lower"].numbers(3),
            target_upper=reach["target_upper"].numbers(3),
            duration=reach["duration"].number(),
            hold=reach["hold"].number(),
        ),
    )


def _bounds(entry: Entry) -> tuple[float, float]:
    lower, upper = entry.numbers(2)
    return float(lower), float(upper)


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
        raise RealityGradError(
            f"reach.target_lower {reach.target_lower.tolist()} is above target_upper {reach.target_upper.tolist()}"
        )
    if not np.isfinite(configuration.home).all():
        joint = configuration.joint_names[int(np.argmin(np.isfinite(configuration.home)))]
        raise RealityGradError(f"the home of joint '{joint}' is not finite")
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
