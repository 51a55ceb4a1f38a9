"""Changes and means of states: sums, but for the orientation of a floating base, which stays a unit quaternion."""

import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.vectors import normalized, quaternion_product
from realitygrad_ros.robot.model import RobotModel

ORIENTATION = slice(3, 7)
"""Where the quaternion of a floating base stands among the coordinates."""


def changed(model: RobotModel, position: Float[Tensor, "... coordinate"], change: Float[Tensor, "... dof"]) -> Tensor:
    """Coordinates after a change that has one number for each degree of freedom; differentiable by both.

    The base moves by the first three along the world's axes [m], and turns by the next three, a rotation vector in the
    base frame [rad], to first order: q_E = q (change / 2, 1), normalised, turns by 2 arctan(|change| / 2).
    """
    if model.base is None:
        return position + change
    half = 0.5 * change[..., 3:6]
    turn = [*half.unbind(-1), torch.ones_like(half[..., 0])]
    orientation = normalized(quaternion_product(list(position[..., ORIENTATION].unbind(-1)), turn))
    moved, joints = position[..., :3] + change[..., :3], position[..., 7:] + change[..., 6:]
    return torch.cat([moved, torch.stack(orientation, -1), joints], -1)


def mean_state(model: RobotModel, states: State, dimension: int) -> State:
    """The mean of states along a dimension.

    Quaternions are first given the sign by which they are nearest to the first, for r and -r are one orientation, and
    their mean is normalised.
    """
    position, velocity = states.position.mean(dimension), states.velocity.mean(dimension)
    if model.base is None:
        return State(position, velocity)
    quaternions = states.position[..., ORIENTATION]
    alike = (quaternions * quaternions.narrow(dimension, 0, 1)).sum(-1, keepdim=True) >= 0.0
    mean = torch.where(alike, quaternions, -quaternions).mean(dimension)
    orientation = mean / mean.norm(dim=-1, keepdim=True)
    return State(torch.cat([position[..., :3], orientation, position[..., 7:]], -1), velocity)
