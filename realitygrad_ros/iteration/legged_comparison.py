"""The robot's walk against the simulated one by the same policy, and the figures of both."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from realitygrad_ros.control.tasks.legged import BASE_COORDINATES
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole

SETTLING = 1.0
"""How long a robot may take to reach a velocity that is newly wanted [s]; this time does not count."""


@dataclass(frozen=True, eq=False)
class WalkComparison:
    """One walk, on the robot and in the simulator; see `WalkRecording` for what each array holds.

    The simulated walk starts, whenever the policy was engaged, in the measured state. It is not a number after it has
    fallen, and where the policy was not engaged on the robot.
    """

    joint_names: tuple[str, ...]
    foot_names: tuple[str, ...]
    time: Float[np.ndarray, "sample"]
    """[s]"""
    wanted: Float[np.ndarray, "sample 3"]
    engagement: Int[np.ndarray, "sample"]
    """Which time the policy was engaged, from 0 on; -1 where it was not."""
    measured_position: Float[np.ndarray, "sample coordinate"]
    measured_velocity: Float[np.ndarray, "sample dof"]
    measured_feet: Float[np.ndarray, "sample foot"]
    """Height above the ground [m], from the odometry and the joints."""
    simulated_position: Float[np.ndarray, "sample coordinate"]
    simulated_velocity: Float[np.ndarray, "sample dof"]
    simulated_feet: Float[np.ndarray, "sample foot"]

    def settled(self) -> Bool[np.ndarray, "sample"]:
        """Where the policy is engaged, and neither that nor the velocity wanted is newer than `SETTLING`."""
        changed = np.any(np.diff(self.wanted, axis=0) != 0.0, axis=1) | (np.diff(self.engagement) != 0)
        news = np.maximum.accumulate(np.where(np.concatenate([[True], changed]), self.time, -np.inf))
        return (self.engagement >= 0) & (self.time - news >= SETTLING - 1e-9)

    def horizontal_error(self, simulated: bool = False) -> Float[np.ndarray, "sample"]:
        """Distance of the horizontal velocity from the one wanted [m/s]."""
        velocity = self.simulated_velocity if simulated else self.measured_velocity
        return np.linalg.norm(velocity[:, :2] - self.wanted[:, :2], axis=1)

    def turning_error(self, simulated: bool = False) -> Float[np.ndarray, "sample"]:
        """How far the yaw rate is off the one wanted [rad/s]."""
        velocity = self.simulated_velocity if simulated else self.measured_velocity
        return np.abs(velocity[:, 5] - self.wanted[:, 2])

    def figures(self) -> dict[str, float | None]:
        """Means after the settling; None where there is none to take, such as of a simulated walk that fell at once.

        `tracking_error_mps` and `turning_error_radps` of the robot, `predicted_...` of the simulated walk; and root
        mean squares of the difference between the two: `velocity_gap_mps` of the horizontal velocity, `joint_gap_rad`
        and `foot_gap_m` of a joint and a foot.
        """
        settled = self.settled()
        joints = slice(BASE_COORDINATES, None)
        apart = np.linalg.norm((self.measured_velocity - self.simulated_velocity)[:, :2], axis=1)
        return {
            "tracking_error_mps": _mean(self.horizontal_error()[settled]),
            "turning_error_radps": _mean(self.turning_error()[settled]),
            "predicted_tracking_error_mps": _mean(self.horizontal_error(simulated=True)[settled]),
            "predicted_turning_error_radps": _mean(self.turning_error(simulated=True)[settled]),
            "velocity_gap_mps": _rms(apart[settled]),
            "joint_gap_rad": _rms((self.measured_position - self.simulated_position)[settled, joints]),
            "foot_gap_m": _rms((self.measured_feet - self.simulated_feet)[settled]),
        }

    def stretches(self) -> list[slice]:
        """The samples of each stretch of one wanted velocity."""
        changed = np.flatnonzero(np.any(np.diff(self.wanted, axis=0) != 0.0, axis=1)) + 1
        return [slice(a, b) for a, b in zip([0, *changed], [*changed, len(self.time)], strict=True)]

    def write(self, path: Path) -> None:
        """Write a safetensors file, whole or not at all."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        names = {name: json.dumps(getattr(self, name)) for name in _NAMES}
        write_whole(path, save(arrays, names))

    @staticmethod
    def read(path: Path) -> "WalkComparison":
        """Read what `write` wrote.

        Raises:
            RealityGradError: the file is missing or damaged.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                names = {name: tuple(json.loads(file.metadata()[name])) for name in _NAMES}
                return WalkComparison(**names, **{name: file.get_tensor(name) for name in _ARRAYS})
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RealityGradError(
                f"'{path}' cannot be read ({error}); delete it and metrics.json beside it, and run the iteration again"
            ) from error


def _mean(values: np.ndarray) -> float | None:
    """Of those that are numbers."""
    there = values[np.isfinite(values)]
    return float(there.mean()) if there.size else None


def _rms(values: np.ndarray) -> float | None:
    square = _mean(values**2)
    return None if square is None else square**0.5


_NAMES = ("joint_names", "foot_names")
_ARRAYS = tuple(name for name in WalkComparison.__dataclass_fields__ if name not in _NAMES)
