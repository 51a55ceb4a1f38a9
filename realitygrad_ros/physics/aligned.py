"""The same robot with other joint frames, in which more constants are zero or one and cost nothing."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from realitygrad_ros.robot.model import BASE, Body, Frame, RobotModel, Transform

_SNAP = 1e-12
"""What is this close to a whole number becomes it."""


def aligned(model: RobotModel) -> RobotModel:
    """The robot with every joint's frame turned such that at position zero it is parallel to the base frame.

    Coordinates, velocities and forces stay what they are: a joint turns about the same line by the same angle. Joint
    placements become pure translations; axes that lie along the base's stay exactly so down the whole tree.
    """
    turns: list[Float[np.ndarray, "3 3"]] = []
    """Rotation of each joint's frame at position zero in the base frame."""
    for joint in model.joints:
        before = np.eye(3) if joint.parent == BASE else turns[joint.parent]
        turns.append(before @ joint.placement.rotation)

    def turn(index: int) -> Float[np.ndarray, "3 3"]:
        return np.eye(3) if index == BASE else turns[index]

    joints = tuple(
        replace(
            joint,
            placement=Transform(np.eye(3), _snapped(turn(joint.parent) @ joint.placement.translation)),
            axis=_snapped(turn(index) @ joint.axis),
            body=_turned(joint.body, turn(index)),
        )
        for index, joint in enumerate(model.joints)
    )
    frames = {
        name: Frame(
            name,
            frame.joint,
            Transform(
                _snapped(turn(frame.joint) @ frame.placement.rotation),
                _snapped(turn(frame.joint) @ frame.placement.translation),
            ),
        )
        for name, frame in model.frames.items()
    }
    return replace(model, joints=joints, frames=frames)


def _turned(body: Body, turn: Float[np.ndarray, "3 3"]) -> Body:
    inertia = turn @ body.inertia @ turn.T
    inertia[np.abs(inertia) < _SNAP * np.abs(inertia).max()] = 0.0
    return replace(body, center_of_mass=_snapped(turn @ body.center_of_mass), inertia=inertia)


def _snapped(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    nearest = np.round(values)
    return np.where(np.abs(values - nearest) < _SNAP, nearest, values) + 0.0
