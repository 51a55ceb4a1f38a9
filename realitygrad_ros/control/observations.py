"""What a policy may observe, as named terms of what a robot's computer knows; numpy alone.

`control.tasks.legged` has the terms of walking robots for the simulator. Quantities of the base are in the base frame
(REP 103: x forward, y left, z up).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

GAIT_FREQUENCY = 2.0
"""Steps per second of each foot in `gait_phase` [Hz]."""

REACH_TERMS = ("joint_position", "joint_velocity", "target_position")
"""What a reaching policy observes."""

_JOINT_TERMS = ("joint_position", "joint_velocity", "previous_action")

_AXES = ("x", "y", "z")

_COMPONENTS = {
    "target_position": _AXES,
    "linear_velocity": _AXES,
    "angular_velocity": _AXES,
    "gravity_direction": _AXES,
    "velocity_command": ("x", "y", "yaw"),
    "gait_phase": ("sin", "cos"),
}

OBSERVATION_TERMS = (*_JOINT_TERMS, *_COMPONENTS)
"""Of the joints: q [rad], qd [rad/s], the action before in units of the action's scale. The end effector's target [m].
Of the base: velocity [m/s], angular velocity [rad/s], the direction of gravity. The velocity wanted: forward, left
[m/s], turning left [rad/s]. The phase of the gait."""

WALKING_TERMS = tuple(term for term in OBSERVATION_TERMS if term != "target_position")
"""What a walking policy may observe."""


def components(term: str, joint_names: Sequence[str]) -> tuple[str, ...]:
    """The names of a term's numbers, in their order."""
    return tuple(joint_names) if term in _JOINT_TERMS else _COMPONENTS[term]


def gravity_direction(quat_xyzw: Float[np.ndarray, "4"]) -> Float[np.ndarray, "3"]:
    """The direction of gravity in the frame of an orientation: the third row of its rotation, negated."""
    x, y, z, w = quat_xyzw
    return np.array([2.0 * (y * w - x * z), -2.0 * (y * z + x * w), 2.0 * (x * x + y * y) - 1.0])


def gait_phase(time: float) -> Float[np.ndarray, "2"]:
    """Sine and cosine of the first foot's phase, by the time since the policy was engaged [s]."""
    phase = 2.0 * np.pi * GAIT_FREQUENCY * time
    return np.array([np.sin(phase), np.cos(phase)])
