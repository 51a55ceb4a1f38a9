"""Real against simulated motion under the same commands, and the figures of the reality gap."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole


@dataclass(frozen=True, eq=False)
class Comparison:
    """The evaluation segments of one rollout: what the robot did, and what the simulator says it should have done.

    Segments are targets that no training and no identification has seen. Both motions start in the same measured
    state and follow the same recorded commands. Positions of the end effector are in the base frame [m].
    """

    joint_names: tuple[str, ...]
    time: Float[np.ndarray, "sample"]
    """From the start of each segment [s]."""
    target: Float[np.ndarray, "segment 3"]
    measured_position: Float[np.ndarray, "segment sample joint"]
    """[rad]"""
    simulated_position: Float[np.ndarray, "segment sample joint"]
    """[rad]"""
    measured_end_effector: Float[np.ndarray, "segment sample 3"]
    simulated_end_effector: Float[np.ndarray, "segment sample 3"]

    def distance(self) -> Float[np.ndarray, "segment sample"]:
        """Between the robot's and the simulator's end effector [m]: the reality gap, as the paper measures it."""
        return np.linalg.norm(self.measured_end_effector - self.simulated_end_effector, axis=-1)

    def gap_mean(self) -> float:
        """Mean of `distance` over all samples [m]."""
        return float(self.distance().mean())

    def gap_accumulated(self) -> float:
        """Sum of `distance` over all samples [m], the paper's figure; it grows with the sample rate."""
        return float(self.distance().sum())

    def target_error(self, hold: float) -> Float[np.ndarray, "segment"]:
        """Mean distance of the robot's end effector to its target in the last `hold` seconds of each segment [m]."""
        resting = self.time > self.time[-1] - hold
        return np.linalg.norm(self.measured_end_effector - self.target[:, None], axis=-1)[:, resting].mean(-1)

    def write(self, path: Path) -> None:
        """Write a safetensors file, whole or not at all."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        write_whole(path, save(arrays, {"joint_names": json.dumps(self.joint_names)}))

    @staticmethod
    def read(path: Path) -> "Comparison":
        """Read what `write` wrote.

        Raises:
            RealityGradError: the file is missing or damaged.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                names = tuple(json.loads(file.metadata()["joint_names"]))
                return Comparison(names, **{name: file.get_tensor(name) for name in _ARRAYS})
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RealityGradError(
                f"'{path}' cannot be read ({error}); delete it and metrics.json beside it, and run the iteration again"
            ) from error


_ARRAYS = (
    "time",
    "target",
    "measured_position",
    "simulated_position",
    "measured_end_effector",
    "simulated_end_effector",
)
