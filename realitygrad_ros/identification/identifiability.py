"""Which parameters a recording fixes, and which it leaves open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from realitygrad_ros.identification.coordinates import Variable
from realitygrad_ros.identification.windows import Windows
from realitygrad_ros.physics.rigid_body import inverse_dynamics, mass_matrix
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.inertia import Piece, merge
from realitygrad_ros.robot.model import BASE, RobotModel, Transform

LARGEST_ERROR = 1.0
"""A parameter whose standard error exceeds this multiple of its natural scale is held at its prior, unless"""

SIGNIFICANT = 2.0
"""it differs from its prior by this many standard errors."""

TOOL_SHARE = 0.02
"""Mass of a tool of which the URDF may not know, as a share of the moving mass."""

TOOL_OFFSET = 0.05
"""How far such a tool's centre of mass is from the end effector's origin, along each axis [m]."""

LARGEST_DOUBT = 0.5
"""A joint's kp is held where such a tool would change it by more than this share."""

SINGULAR = 1e-12
"""Eigenvalues of the information below this share of the largest count as zero."""


def link_inertia(model: RobotModel, windows: Windows) -> Float[np.ndarray, "joint"]:
    """Mean diagonal of the mass matrix over the recorded positions, without armature [kg m^2 or kg]."""
    q = windows.smoothed.position[::10].reshape(-1, model.joint_count)
    H = mass_matrix(model, list(q.T))
    return np.array([np.mean(H[i, i]) for i in range(model.joint_count)])


def tool_doubt(configuration: RobotConfiguration, model: RobotModel, windows: Windows) -> Float[np.ndarray, "joint"]:
    """Torque of an unknown tool as a share of the torque that moves and carries the links (root mean squares).

    The gains, armature, damping and friction of a joint that are all multiplied by one factor move it as before, but
    for the weight and inertia of the links: only these weigh the gains. So if the URDF does not know of a tool, or of
    a cable, the factor that is found is wrong by the tool's share in the torque. Here the tool has `TOOL_SHARE` of
    the moving mass, and its centre lies `TOOL_OFFSET` off the end effector's origin along each axis. A robot that
    does not reach for anything has none.
    """
    of_links, of_tool = _torques(configuration, model, windows), np.zeros((model.joint_count, 1))
    reach = configuration.reach_section
    tool = None if reach is None else _with_tool(model, reach.end_effector)
    if tool is not None:
        of_tool = _torques(configuration, tool, windows) - of_links
    known, unknown = (np.sqrt(np.mean(torque**2, axis=1)) for torque in (of_links, of_tool))
    return unknown / np.maximum(known, np.finfo(float).tiny)


def _torques(
    configuration: RobotConfiguration, model: RobotModel, windows: Windows
) -> Float[np.ndarray, "joint sample"]:
    q, qd, qdd = (list(signal[:-1].reshape(-1, model.joint_count).T) for signal in windows.smoothed)
    torques = inverse_dynamics(model, q, qd, qdd, configuration.gravity.tolist())
    return np.stack([np.broadcast_to(torque, q[0].shape) for torque in torques])


def _with_tool(model: RobotModel, end_effector: str) -> RobotModel | None:
    """The robot with the unknown tool; None where the end effector does not move."""
    frame = model.frame(end_effector)
    if frame.joint == BASE:
        return None
    joint = model.joints[frame.joint]
    center = Transform(np.eye(3), frame.placement.rotation @ np.full(3, TOOL_OFFSET) + frame.placement.translation)
    mass = TOOL_SHARE * sum(other.body.mass for other in model.joints)
    body = joint.body
    own = Piece(body.links[0], Transform(np.eye(3), body.center_of_mass), body.mass, body.inertia)
    loaded = replace(joint, body=merge([own, Piece("tool", center, mass, np.zeros((3, 3)))]))
    return replace(model, joints=(*model.joints[: frame.joint], loaded, *model.joints[frame.joint + 1 :]))


def unexplained(residual: Float[np.ndarray, "signal sample joint"]) -> Float[np.ndarray, "signal joint"]:
    """Root mean square of what a fit leaves, by signal and joint: rho."""
    return np.sqrt(np.mean(residual**2, axis=1))


def information(
    J: Float[np.ndarray, "signal sample joint variable"], rho: Float[np.ndarray, "signal joint"], windows: int
) -> Float[np.ndarray, "variable variable"]:
    r"""Fisher information of a fit, W / N \sum_k J_k^T J_k / \rho_k^2, over the N residuals k of W windows.

    What a model cannot explain is much the same from one sample to the next, so a window counts as one observation,
    however many samples it has.
    """
    whitened = (J / np.maximum(rho, np.finfo(float).tiny)[:, None, :, None]).reshape(-1, J.shape[-1])
    return whitened.T @ whitened * (windows / len(whitened))


def standard_errors(information: Float[np.ndarray, "variable variable"]) -> Float[np.ndarray, "variable"]:
    """Standard error of each variable when all are fitted: roots of the diagonal of the inverse.

    Infinite for variables that take part in a direction which changes nothing.
    """
    eigenvalues, directions = np.linalg.eigh(information)
    with np.errstate(divide="ignore"):
        inverse = np.where(eigenvalues > SINGULAR * eigenvalues[-1], 1.0 / eigenvalues, np.inf)
    seen = directions**2 > SINGULAR
    variance = np.sum(np.where(seen, directions**2 * np.where(seen, inverse, 0.0), 0.0), axis=1)
    return np.sqrt(variance)


def open_variables(
    variables: Sequence[Variable],
    information: Float[np.ndarray, "variable variable"],
    deviation: Float[np.ndarray, "variable"],
) -> Mapping[Variable, float]:
    """Variables that the data leave open and that are to be held at their prior, with their standard errors.

    Open is what has a standard error above `LARGEST_ERROR` and differs from its prior by less than `SIGNIFICANT` of
    these errors. Variables are taken one after the other, the least certain first; where a joint's kp is open too, it
    goes first: gains, armature and friction of a joint may be open by a common factor alone, and the gain is what is
    set in a drive.

    Args:
        variables: what was fitted.
        information: of `information`.
        deviation: fitted value less prior of each variable.
    """
    kept = list(range(len(variables)))
    held: dict[Variable, float] = {}
    while kept:
        errors = standard_errors(information[np.ix_(kept, kept)])
        is_open = (errors > LARGEST_ERROR) & (np.abs(deviation[kept]) < SIGNIFICANT * errors)
        if not is_open.any():
            break
        worst = int(np.argmax(np.where(is_open, errors, 0.0)))
        gain = Variable("kp", variables[kept[worst]].joint)
        for place, index in enumerate(kept):
            if variables[index] == gain and is_open[place]:
                worst = place
        held[variables[kept[worst]]] = float(errors[worst])
        del kept[worst]
    return held
