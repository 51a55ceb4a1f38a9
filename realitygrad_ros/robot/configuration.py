"""The one commented YAML file a robot has: `config/<robot>.yaml`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.contact import STEP_SIZES, ContactConfiguration, ContactSphere, SoftContact
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.yaml_file import Entry, read_yaml

MOST_SWEEPS = 1000
"""More Gauss-Seidel sweeps than anybody needs."""

_WHOLE = 1e-5
"""Relative slack of a ratio that must be whole: time steps are printed rounded."""


@dataclass(frozen=True, eq=False)
class ReachConfiguration:
    """The reaching task: targets for the end effector, in the base frame [m]."""

    end_effector: str
    """The link whose origin reaches for targets."""
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
    floating: bool
    """Whether the base floats; else it is fixed to the world."""
    joint_names: tuple[str, ...]
    """The controlled joints, in the order of the command topic."""
    home: Float[np.ndarray, "joint"]
    """A pose to start from [rad]."""
    home_height: float | None
    """Height of a floating base's origin above the ground when the robot stands in its home pose, upright [m]. None:
    the base is fixed."""
    nominal: SimulationParameters
    """What the engineer believes before identification."""
    bounds: dict[str, tuple[float, float]]
    """Lower and upper bound of each parameter."""
    friction_velocity: float
    """Width of the smooth Coulomb friction [rad/s]: at this velocity it has 76 % of its full value."""
    gravity: Float[np.ndarray, "3"]
    """In the frame of a fixed base, or in the world of a floating one [m/s^2]."""
    policy_rate: float
    """Commands per second [Hz]."""
    joint_state_rate: float
    """Joint states per second, as the driver publishes them [Hz]."""
    contact: ContactConfiguration | None
    """Where the robot may touch the ground. None: it never does."""
    reach_section: ReachConfiguration | None
    """The section `reach`, which a robot need not have; who needs the task asks for `reach`."""

    @property
    def reach(self) -> ReachConfiguration:
        """The reaching task.

        Raises:
            RealityGradError: the robot has none.
        """
        if self.reach_section is None:
            raise RealityGradError(
                f"robot '{self.name}' has no 'reach' section in its configuration; this needs a robot that reaches for "
                "targets, such as ur5"
            )
        return self.reach_section


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
    joints = content["joints"]
    names = joints.keys()

    def column(entry: str) -> Float[np.ndarray, "joint"]:
        return np.array([joints[name][entry].number() for name in names])

    urdf = Path(content["urdf"].text())
    base, contact, reach = (content.optional(entry) for entry in ("base", "contact", "reach"))
    floating = base is not None and base.one_of(("fixed", "floating")) == "floating"
    return RobotConfiguration(
        name=content["name"].text(),
        urdf=urdf if urdf.is_absolute() else (path.parent / urdf).resolve(),
        floating=floating,
        joint_names=names,
        home=column("home"),
        home_height=_home_height(content, floating),
        nominal=SimulationParameters(names, **{name: column(name) for name in PARAMETER_NAMES}),
        bounds={name: _bounds(content["bounds"][name]) for name in PARAMETER_NAMES},
        friction_velocity=content["friction_velocity"].positive(),
        gravity=content["gravity"].numbers(3),
        policy_rate=content["rates"]["policy"].positive(),
        joint_state_rate=content["rates"]["joint_states"].positive(),
        contact=None if contact is None else _contact(contact),
        reach_section=None if reach is None else _reach(reach),
    )


def _home_height(content: Entry, floating: bool) -> float | None:
    if floating:
        return content["home_height"].positive()
    if content.optional("home_height") is not None:
        raise RealityGradError("home_height is the height of a floating base, and the base is fixed; drop one of them")
    return None


def _bounds(entry: Entry) -> tuple[float, float]:
    lower, upper = entry.numbers(2)
    return float(lower), float(upper)


def _contact(entry: Entry) -> ContactConfiguration:
    spheres, soft = entry["spheres"], entry["soft"]
    links = spheres.keys()
    return ContactConfiguration(
        spheres=tuple(
            ContactSphere(link, spheres[link]["center"].numbers(3), spheres[link]["radius"].positive())
            for link in links
        ),
        time_step=entry["time_step"].positive(),
        friction_coefficient=entry["friction_coefficient"].not_negative(),
        kappa=entry["kappa"].positive(),
        recovery_rate=entry["recovery_rate"].not_negative(),
        sweeps=entry["sweeps"].count(MOST_SWEEPS),
        step_size=entry["step_size"].one_of(STEP_SIZES),
        soft=SoftContact(
            stiffness=soft["stiffness"].positive(),
            damping=soft["damping"].not_negative(),
            tangential_damping=soft["tangential_damping"].not_negative(),
        ),
    )


def _reach(entry: Entry) -> ReachConfiguration:
    return ReachConfiguration(
        end_effector=entry["end_effector"].text(),
        target_lower=entry["target_lower"].numbers(3),
        target_upper=entry["target_upper"].numbers(3),
        duration=entry["duration"].positive(),
        hold=entry["hold"].number(),
    )


def _check(configuration: RobotConfiguration) -> None:
    """Refuse values that no robot can have, by name."""
    if not configuration.joint_names:
        raise RealityGradError("it has no joints")
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
    if configuration.reach_section is not None:
        _check_reach(configuration.reach_section, configuration.floating)
    if configuration.contact is not None:
        _check_contact(configuration.contact, configuration.policy_rate)


def _check_reach(reach: ReachConfiguration, floating: bool) -> None:
    if floating:
        raise RealityGradError("reach has targets in the frame of a fixed base, but the base is floating; drop reach")
    if not 0.0 <= reach.hold < reach.duration:
        raise RealityGradError(
            f"reach.hold is {reach.hold:g} s; it must be in [0, {reach.duration:g}), within the motion"
        )
    if (reach.target_lower > reach.target_upper).any():
        raise RealityGradError(
            f"reach.target_lower {reach.target_lower.tolist()} is above target_upper {reach.target_upper.tolist()}"
        )


def _check_contact(contact: ContactConfiguration, policy_rate: float) -> None:
    if not contact.spheres:
        raise RealityGradError("contact.spheres is empty; name at least one link, or drop contact")
    steps = 1.0 / (policy_rate * contact.time_step)
    if round(steps) < 1 or abs(steps - round(steps)) > _WHOLE * steps:
        raise RealityGradError(
            f"contact.time_step is {contact.time_step:g} s, and a command lasts {1.0 / policy_rate:g} s "
            f"(rates.policy): that is {steps:.6g} steps, and must be a whole number of them"
        )
    if contact.recovery_rate * contact.time_step > 1.0:
        raise RealityGradError(
            f"contact.recovery_rate is {contact.recovery_rate:g} 1/s; it must not exceed 1 / time_step, "
            f"{1.0 / contact.time_step:g} 1/s, which mends a penetration within one step"
        )
