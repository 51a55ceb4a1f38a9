"""The hidden truth of a twin: `config/twin/<robot>.yaml`."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.yaml_file import Entry, read_yaml


@dataclass(frozen=True, eq=False)
class Payload:
    """A point mass that the URDF knows nothing of."""

    link: str
    """The link that carries it."""
    mass: float
    """[kg]"""
    offset: Float[np.ndarray, "3"]
    """In the link's frame [m]."""


@dataclass(frozen=True)
class EncoderNoise:
    """Gaussian noise of the measured joint states, standard deviations."""

    position: float
    """[rad]"""
    velocity: float
    """[rad/s]"""
    seed: int
    """The same seed gives the same noise, that of the base among it."""


@dataclass(frozen=True)
class BaseNoise:
    """Gaussian noise of the IMU and the state estimator of a floating base, standard deviations along each axis."""

    orientation: float
    """[rad]"""
    angular_velocity: float
    """[rad/s]"""
    linear_acceleration: float
    """[m/s^2]"""
    position: float
    """[m]"""
    linear_velocity: float
    """[m/s]"""


@dataclass(frozen=True, eq=False)
class TwinConfiguration:
    """What the twin's joints and tool really are, and what identification has to find out."""

    truth: SimulationParameters
    friction_velocity: float
    """At this velocity Coulomb friction has its full value [rad/s]."""
    payload: Payload
    noise: EncoderNoise
    base_noise: BaseNoise | None = None
    """None: the robot's base is fixed."""
    foot_friction_coefficient: float | None = None
    """Of every contact sphere. None: the robot touches nothing."""


def load_twin_configuration(robot: str) -> TwinConfiguration:
    """Load the hidden truth of a robot, named as for `load_configuration`.

    The truth of the robot `config/x.yaml` lies in `config/twin/x.yaml`, so a robot given by the path of its own
    YAML file has it in the folder `twin` beside that file.

    Raises:
        RealityGradError: there is no such file, or an entry is missing or wrong; the message names it.
    """
    if robot.endswith((".yaml", ".yml")):
        path = Path(robot).parent / "twin" / Path(robot).name
    else:
        path = share_directory() / "config" / "twin" / f"{robot}.yaml"
    if not path.exists():
        raise RealityGradError(f"no twin configuration '{path}'; write one to give robot '{robot}' a twin")
    return _parse(read_yaml(path, "twin configuration"))


def _parse(content: Entry) -> TwinConfiguration:
    joints, payload, noise = content["joints"], content["payload"], content["noise"]
    base, foot = noise.optional("base"), content.optional("foot_friction_coefficient")
    names = joints.keys()
    columns = {name: np.array([joints[joint][name].not_negative() for joint in names]) for name in PARAMETER_NAMES}
    return TwinConfiguration(
        truth=SimulationParameters(names, **columns),
        friction_velocity=content["friction_velocity"].positive(),
        payload=Payload(payload["link"].text(), payload["mass"].not_negative(), payload["offset"].numbers(3)),
        noise=EncoderNoise(
            noise["position"].not_negative(), noise["velocity"].not_negative(), int(noise["seed"].not_negative())
        ),
        base_noise=None if base is None else _base_noise(base),
        foot_friction_coefficient=None if foot is None else foot.not_negative(),
    )


def _base_noise(entry: Entry) -> BaseNoise:
    return BaseNoise(**{field.name: entry[field.name].not_negative() for field in fields(BaseNoise)})
