"""The hidden truth of a twin: `config/twin/<robot>.yaml`."""

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
    """The same seed gives the same noise."""


@dataclass(frozen=True, eq=False)
class TwinConfiguration:
    """What the twin's joints and tool really are, and what identification has to find out."""

    truth: SimulationParameters
    friction_velocity: float
    """At this velocity Coulomb friction has its full value [rad/s]."""
    payload: Payload
    noise: EncoderNoise


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
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise RealityGradError(f"no twin configuration '{path}'; write one to give robot '{robot}' a twin") from error
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise RealityGradError(f"twin configuration '{path}' is not YAML: {reason}") from error
    try:
        return _parse(content, path)
    except KeyError as error:
        raise RealityGradError(f"twin configuration '{path}' lacks the entry {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise RealityGradError(f"twin configuration '{path}' has a wrong value: {error}") from error


def _parse(content: dict[str, Any], path: Path) -> TwinConfiguration:
    joints: dict[str, dict[str, float]] = content["joints"]
    for joint, row in joints.items():
        missing = [name for name in PARAMETER_NAMES if name not in row]
        if missing:
            raise RealityGradError(f"twin configuration '{path}': joint '{joint}' lacks '{missing[0]}'")

    def not_negative(section: str, entry: str) -> float:
        value = float(content[section][entry])
        if not (np.isfinite(value) and value >= 0.0):
            raise RealityGradError(
                f"twin configuration '{path}': {section}.{entry} is {value}; it must be finite and not negative"
            )
        return value

    friction_velocity = float(content["friction_velocity"])
    if not (np.isfinite(friction_velocity) and friction_velocity > 0.0):
        raise RealityGradError(
            f"twin configuration '{path}': friction_velocity is {friction_velocity}; it must be finite and positive"
        )
    offset = np.array(content["payload"]["offset"], dtype=float)
    if offset.shape != (3,) or not np.isfinite(offset).all():
        raise RealityGradError(f"twin configuration '{path}': payload.offset must be three finite numbers [m]")
    return TwinConfiguration(
        truth=SimulationParameters(
            tuple(joints),
            **{name: np.array([float(row[name]) for row in joints.values()]) for name in PARAMETER_NAMES},
        ),
        friction_velocity=friction_velocity,
        payload=Payload(str(content["payload"]["link"]), not_negative("payload", "mass"), offset),
        noise=EncoderNoise(
            not_negative("noise", "position"), not_negative("noise", "velocity"), int(not_negative("noise", "seed"))
        ),
    )
