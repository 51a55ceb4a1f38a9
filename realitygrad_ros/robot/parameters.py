"""The simulator's parameters that identification may change, by joint name, and their file.

The file is an ordinary ROS 2 parameter file, so that `--params-file` restores a calibration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.robot.yaml_file import read_yaml

PARAMETER_UNITS: Mapping[str, str] = {
    "damping": "N m s/rad",
    "armature": "kg m^2",
    "kp": "N m/rad",
    "kd": "N m s/rad",
    "friction": "N m",
}
"""Every parameter of a joint, in the order of `SimulationParameters.as_matrix`, with its unit.

For a prismatic joint read N for N m, m for rad, kg for kg m^2.
"""

PARAMETER_NAMES = tuple(PARAMETER_UNITS)


@dataclass(frozen=True, eq=False)
class SimulationParameters:
    """One value a joint of each of `PARAMETER_NAMES`; arrays have shape [joint] in the order of `joint_names`."""

    joint_names: tuple[str, ...]
    damping: Float[np.ndarray, "joint"]
    """Viscous friction of the joint."""
    armature: Float[np.ndarray, "joint"]
    """Inertia of rotor and gear, reflected to the joint."""
    kp: Float[np.ndarray, "joint"]
    """Position gain of the actuator."""
    kd: Float[np.ndarray, "joint"]
    """Velocity gain of the actuator."""
    friction: Float[np.ndarray, "joint"]
    """Coulomb friction."""

    def __post_init__(self) -> None:
        twice = [name for name in self.joint_names if self.joint_names.count(name) > 1]
        if twice:
            raise RealityGradError(f"parameters name joint '{twice[0]}' twice; give each joint once")
        for name in PARAMETER_NAMES:
            values = np.array(getattr(self, name), dtype=float)
            if values.shape != (len(self.joint_names),):
                raise RealityGradError(
                    f"parameter '{name}' has shape {values.shape}, but there are {len(self.joint_names)} joints"
                )
            wrong = ~np.isfinite(values) | (values < 0.0)
            if wrong.any():
                joint = self.joint_names[int(np.argmax(wrong))]
                raise RealityGradError(
                    f"parameter '{name}' of joint '{joint}' is {values[wrong][0]}; it must be finite and not negative"
                )
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @staticmethod
    def from_matrix(
        joint_names: tuple[str, ...], matrix: Float[np.ndarray, "parameter joint"]
    ) -> "SimulationParameters":
        """From rows in the order of `PARAMETER_NAMES`."""
        return SimulationParameters(joint_names, **dict(zip(PARAMETER_NAMES, matrix, strict=True)))

    def as_matrix(self) -> Float[np.ndarray, "parameter joint"]:
        """Rows in the order of `PARAMETER_NAMES`."""
        return np.stack([getattr(self, name) for name in PARAMETER_NAMES])

    def as_mapping(self) -> dict[str, dict[str, float]]:
        """`{parameter: {joint: value}}`."""
        return {
            name: {joint: float(value) for joint, value in zip(self.joint_names, getattr(self, name), strict=True)}
            for name in PARAMETER_NAMES
        }

    def reordered(self, joint_names: tuple[str, ...]) -> "SimulationParameters":
        """The same values in another order of joints.

        Raises:
            RealityGradError: the names are not the same set.
        """
        if set(joint_names) != set(self.joint_names):
            difference = sorted(set(joint_names) ^ set(self.joint_names))
            raise RealityGradError(f"parameters are for other joints; only one side has: {', '.join(difference)}")
        order = [self.joint_names.index(name) for name in joint_names]
        return SimulationParameters.from_matrix(joint_names, self.as_matrix()[:, order])

    def write(self, path: Path, comment: str = "") -> None:
        """Write a ROS 2 parameter file, whole or not at all; `comment` becomes its first lines."""
        body: dict[str, list[str] | list[float]] = {"joint_names": list(self.joint_names)}
        body |= {name: [float(value) for value in getattr(self, name)] for name in PARAMETER_NAMES}
        text = "".join(f"# {line}\n" for line in comment.splitlines())
        text += yaml.safe_dump({"/**": {"ros__parameters": {"calibration": body}}}, sort_keys=False)
        write_whole(path, text.encode())

    @staticmethod
    def read(path: Path) -> "SimulationParameters":
        """Read what `write` wrote.

        Raises:
            RealityGradError: the file is missing, is not YAML, or lacks a value; the message names it.
        """
        try:
            body = read_yaml(path, "calibration")["/**"]["ros__parameters"]["calibration"]
            names = body["joint_names"].texts()
            return SimulationParameters(names, **{name: body[name].numbers(len(names)) for name in PARAMETER_NAMES})
        except RealityGradError as error:
            raise RealityGradError(f"{error}; write calibration '{path}' anew by sysid") from error
