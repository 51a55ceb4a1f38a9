"""What tasks of walking robots are made of: observations and rewards as named pure terms.

Every term takes tensors with any leading dimensions and is differentiable. Quantities of the base are in the base frame
(REP 103: x forward, y left, z up) unless said. The terms of the velocity task follow Schwarke et al., arXiv 2404.02887,
appendix A.3, as a public re-implementation transcribes them (second-hand); their weights are in `tasks.walking`.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics.kinematics import ContactHeights
from realitygrad_ros.physics.simulator import Simulator, State

BASE_COORDINATES, BASE_FREEDOM = 7, 6
"""How many coordinates and velocities are the base's."""

ORIENTATION = slice(3, 7)
"""Of the base, among the coordinates."""

GAIT_FREQUENCY = 2.0
"""Steps per second of each foot [Hz]; second-hand."""

STEP_HEIGHT = 0.1
"""Of a foot in the middle of its swing [m]; second-hand."""


class Situation(NamedTuple):
    """What a policy decides upon."""

    state: State
    previous_action: Float[Tensor, "*batch joint"]
    command: Float[Tensor, "*batch 3"]
    """Velocity wanted: forward, left [m/s], and turning left [rad/s]."""
    time: Float[Tensor, "*batch"]
    """Since the episode began [s]."""


class Motion(NamedTuple):
    """One control step: from a situation by an action to a state."""

    before: Situation
    action: Float[Tensor, "*batch joint"]
    after: State


class LeggedRobot(NamedTuple):
    """What the terms know of the robot."""

    simulator: Simulator
    heights: ContactHeights
    """Of the feet."""
    home: Float[Tensor, "joint"]
    home_height: float
    """Of the base when it stands [m]."""
    action_scale: float
    """Change of a joint's position target by an action of one [rad]."""
    period: float
    """Between two actions [s]."""
    substeps: int
    """Physics steps between two actions."""
    lower: Float[Tensor, "joint"]
    """Limits of the position targets [rad]."""
    upper: Float[Tensor, "joint"]
    gains: Mapping[str, Float[Tensor, "joint"]]
    """`kp` and `kd` of the servos."""


def down(state: State) -> Float[Tensor, "*batch 3"]:
    """The direction of gravity: the third row of the base's rotation, negated."""
    x, y, z, w = state.position[..., ORIENTATION].unbind(-1)
    return torch.stack([2.0 * (y * w - x * z), -2.0 * (y * z + x * w), 2.0 * (x * x + y * y) - 1.0], -1)


def joints(state: State) -> State:
    """Positions and velocities of the joints."""
    return State(state.position[..., BASE_COORDINATES:], state.velocity[..., BASE_FREEDOM:])


def gait_phase(time: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Phase of the first foot [rad]."""
    return 2.0 * math.pi * GAIT_FREQUENCY * time


def foot_height_reference(time: Float[Tensor, "*batch"], feet: int) -> Float[Tensor, "*batch foot"]:
    """Height that each foot should have: max(0, z sin(phase)), feet of one diagonal together [m].

    Feet stand in the order left, right, from the front to the back, as is usual in descriptions of robots on legs.
    """
    offset = torch.tensor([math.pi * ((foot + foot // 2) % 2) for foot in range(feet)], dtype=time.dtype)
    return (STEP_HEIGHT * (gait_phase(time)[..., None] + offset).sin()).clamp(min=0.0)


OBSERVATIONS: Mapping[str, Callable[[LeggedRobot, Situation], Tensor]] = {
    "linear_velocity": lambda robot, s: s.state.velocity[..., 0:3],
    "angular_velocity": lambda robot, s: s.state.velocity[..., 3:6],
    "gravity_direction": lambda robot, s: down(s.state),
    "velocity_command": lambda robot, s: s.command,
    "joint_position": lambda robot, s: joints(s.state).position,
    "joint_velocity": lambda robot, s: joints(s.state).velocity,
    "previous_action": lambda robot, s: s.previous_action,
    "gait_phase": lambda robot, s: torch.stack([gait_phase(s.time).sin(), gait_phase(s.time).cos()], -1),
}
"""What a policy may observe, each [..., width]; `control.bundle` has the same terms for the robot."""


def _bump(square: Tensor, width: float) -> Tensor:
    """One at zero, less elsewhere: exp(-square / width)."""
    return (-square / width).exp()


def _square(x: Tensor) -> Tensor:
    return x.square().sum(-1)


def _foot_height(robot: LeggedRobot, m: Motion) -> Tensor:
    height = robot.heights(m.after.position)
    wanted = foot_height_reference(m.before.time + robot.period, height.shape[-1])
    return (wanted / STEP_HEIGHT * _bump((height - wanted).square(), 0.05)).sum(-1)


def _torque(robot: LeggedRobot, m: Motion) -> Tensor:
    """Of the servos when the action begins [N m]."""
    target = robot.home + robot.action_scale * m.action
    return robot.simulator.torque(m.before.state, target, robot.gains)


def _joint_acceleration(robot: LeggedRobot, m: Motion) -> Tensor:
    return (joints(m.after).velocity - joints(m.before.state).velocity) / robot.period


REWARDS: Mapping[str, Callable[[LeggedRobot, Motion], Tensor]] = {
    "linear_velocity": lambda robot, m: _bump(_square(m.after.velocity[..., 0:2] - m.before.command[..., 0:2]), 0.25),
    "turning": lambda robot, m: _bump((m.after.velocity[..., 5] - m.before.command[..., 2]).square(), 0.25),
    "foot_height": _foot_height,
    "vertical_velocity": lambda robot, m: -m.after.velocity[..., 2].square(),
    "rolling": lambda robot, m: -_square(m.after.velocity[..., 3:5]),
    "base_height": lambda robot, m: _bump((m.after.position[..., 2] - robot.home_height).square(), 0.1),
    "upright": lambda robot, m: -_square(down(m.after)[..., 0:2]),
    "action": lambda robot, m: -m.action.abs().sum(-1),
    "action_rate": lambda robot, m: -_square(m.action - m.before.previous_action),
    "joint_acceleration": lambda robot, m: -_square(_joint_acceleration(robot, m)),
    "torque": lambda robot, m: -_square(_torque(robot, m)),
}
"""Terms of a reward, each [...]; the larger, the better."""
