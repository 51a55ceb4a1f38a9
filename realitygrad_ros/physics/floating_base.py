"""How a base moves within a time step, written once for any kind of scalar.

A step goes half of its length h to the midpoint M with the velocity that it starts with, and from there with the one
that it ends with. On the way the base turns by the unit quaternion along (a, 1), a = h omega / 4, which is Cayley's
map: rational, and exact to second order. Linear velocities are carried in the axes of the base at M, in which the
dynamics are solved: a force-free base keeps its velocity in the world exactly.
"""

from collections.abc import Sequence
from typing import Any

from realitygrad_ros.physics.trace import sqrt
from realitygrad_ros.physics.vectors import (
    Quaternion,
    Vector,
    apply,
    cross,
    difference,
    dot,
    normalized,
    quaternion_product,
    rotation_matrix,
    scale,
    total,
)
from realitygrad_ros.robot.model import RobotModel


def _seen_after_turn(v: Vector, a: Vector) -> Vector:
    """A vector in the axes that have turned by (a, 1): v - 2 / (1 + a.a) a x (v - a x v)."""
    return difference(v, scale(cross(a, difference(v, cross(a, v))), 2.0 / (1.0 + dot(a, a))))


def _turned(r: Quaternion, a: Vector) -> Quaternion:
    """The product of r and (a, 1), not normalised."""
    return quaternion_product(r, [*a, 1.0])


def midpoint(model: RobotModel, q: Sequence[Any], qd: Sequence[Any], h: Any) -> tuple[list[Any], list[Any]]:
    """Coordinates q_M half a step on, and the velocity u, with which the step starts, in the axes there."""
    half, n = 0.5 * h, model.joint_count
    q_M = [q_i + half * qd_i for q_i, qd_i in zip(q[len(q) - n :], qd[len(qd) - n :], strict=True)]
    if model.base is None:
        return q_M, list(qd)
    position, r, v, omega = list(q[0:3]), list(q[3:7]), list(qd[0:3]), list(qd[3:6])
    a = scale(omega, 0.25 * h)
    r_M = normalized(_turned(r, a))
    v_M = _seen_after_turn(v, a)
    position_M = total(position, scale(apply(rotation_matrix(r_M), v_M), half))
    return [*position_M, *r_M, *q_M], [*v_M, *qd[3:]]


def endpoint(model: RobotModel, q_M: Sequence[Any], u_E: Sequence[Any], h: Any) -> tuple[list[Any], list[Any]]:
    """Coordinates q_E at the end of a step, and the velocity qd_E there; u_E is that in the axes at the midpoint."""
    half, n = 0.5 * h, model.joint_count
    q_E = [q_i + half * u_i for q_i, u_i in zip(q_M[len(q_M) - n :], u_E[len(u_E) - n :], strict=True)]
    if model.base is None:
        return q_E, list(u_E)
    position_M, r_M, v_M, omega = list(q_M[0:3]), list(q_M[3:7]), list(u_E[0:3]), list(u_E[3:6])
    a = scale(omega, 0.25 * h)
    position_E = total(position_M, scale(apply(rotation_matrix(r_M), v_M), half))
    r_E = scale(_turned(r_M, a), 1.0 / sqrt(1.0 + dot(a, a)))
    return [*position_E, *r_E, *q_E], [*_seen_after_turn(v_M, a), *u_E[3:]]
