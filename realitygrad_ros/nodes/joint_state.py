"""From the numbers of a JointState message to position and velocity in our joint order."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.joint_map import JointMap

VELOCITY_TIME_CONSTANT = 0.005
"""Of the low-pass filter on estimated velocities [s]."""


class JointSample(NamedTuple):
    """Joints at one instant."""

    time: float
    """Of the message, or of its arrival where the message has no stamp [s]."""
    position: Float[np.ndarray, "joint"]
    velocity: Float[np.ndarray, "joint"]
    estimated: Bool[np.ndarray, "joint"]
    """Where the velocity is an estimate from positions."""


class JointStateReader:
    """Reads messages of one publisher, by joint name in every one of them.

    A velocity that a message lacks (an empty array, or NaN) is the difference of positions over time, through a
    low-pass filter of first order: v_k = v_{k-1} + h / (h + tau) ((q_k - q_{k-1}) / h - v_{k-1}), with h the time
    between the two messages.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._map = JointMap(joint_names)
        self._last: JointSample | None = None

    def read(
        self, names: Sequence[str], position: Sequence[float], velocity: Sequence[float], time: float
    ) -> JointSample | None:
        """Read one message; None while a velocity is missing and there is no earlier message to take it from.

        Args:
            names: the message's joints, in any order, others among them.
            position: one a name [rad].
            velocity: one a name, or empty [rad/s].
            time: of the message [s].

        Raises:
            RealityGradError: a joint is missing, an array has the wrong length, or a position is not finite.
        """
        q = self._take("position", names, position)
        if not np.isfinite(q).all():
            joint = self._map.names[int(np.argmin(np.isfinite(q)))]
            raise RealityGradError(f"joint_states: the position of joint '{joint}' is not finite")
        qd = self._take("velocity", names, velocity) if len(velocity) else np.full_like(q, np.nan)
        missing = ~np.isfinite(qd)
        last = self._last
        if missing.any() and last is not None:
            qd = np.where(missing, _filtered_difference(last, q, time), qd)
        # Without a velocity the sample still serves as the earlier one of the next.
        self._last = JointSample(time, q, np.where(np.isfinite(qd), qd, 0.0), missing)
        return self._last if np.isfinite(qd).all() else None

    def _take(self, field: str, names: Sequence[str], values: Sequence[float]) -> Float[np.ndarray, "joint"]:
        try:
            return self._map.take(names, values)
        except RealityGradError as error:
            raise RealityGradError(f"joint_states: {field}: {error}") from error


def _filtered_difference(last: JointSample, q: Float[np.ndarray, "joint"], time: float) -> Float[np.ndarray, "joint"]:
    h = time - last.time
    if h <= 0.0:
        return last.velocity
    return last.velocity + h / (h + VELOCITY_TIME_CONSTANT) * ((q - last.position) / h - last.velocity)
