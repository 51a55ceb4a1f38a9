"""Rigid-body dynamics of a tree of joints on a fixed or a floating base, written once for any kind of scalar.

Every quantity of joint i is expressed in the frame of joint i, and of a floating base in the base frame. Coordinates q
are those of `RobotModel`: with a floating base its position, its orientation as a unit quaternion (x, y, z, w), and the
joints' positions. Its velocity and acceleration are the linear ones of the base frame's origin, in the world's sense
but in the axes of the base frame, and the angular ones in these axes. The classical acceleration makes the dynamics
independent of the linear velocity, as Galilei's principle demands. Symbols: R and r, the pose of a joint's frame in its
parent's (x_parent = R x + r); omega, alpha, the angular velocity and acceleration; a, the acceleration of the frame's
origin, gravity subtracted; m, h, I, the mass, its first moment m c and its inertia about the frame's origin. Source
of the algorithms: Featherstone, Rigid Body Dynamics Algorithms, 2008: recursive Newton-Euler (table 5.1), composite
rigid body (table 6.2), L^T D L factorisation with branch-induced sparsity (tables 6.3 and 6.5); written here with
3-vectors, in which the constants of the robot fold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from realitygrad_ros.physics import trace
from realitygrad_ros.physics.vectors import (
    IDENTITY,
    Matrix,
    Vector,
    apply,
    cross,
    dot,
    plain,
    product,
    rotation_matrix,
    scale,
    skew,
    total,
    transposed,
)
from realitygrad_ros.robot.model import BASE, Body, Frame, Joint, JointKind, RobotModel


def _axis_rotation(axis: Vector, angle: Any) -> Matrix:
    """Rodrigues' formula, R = 1 + sin(angle) K + (1 - cos(angle)) K^2 with K the skew matrix of a unit axis.

    Written as axis axis^T + cos(angle) (1 - axis axis^T) + sin(angle) K, in which the entries of an axis along a
    coordinate are exactly 0, 1, a sine or a cosine.
    """
    sine, cosine, K = trace.sin(angle), trace.cos(angle), skew(axis)
    return [
        [axis[i] * axis[j] + ((i == j) - axis[i] * axis[j]) * cosine + K[i][j] * sine for j in range(3)]
        for i in range(3)
    ]


def joint_pose(joint: Joint, q: Any) -> tuple[Matrix, Vector]:
    """Rotation R and translation r of a joint's frame in its parent's, at joint position q [rad or m]."""
    rotation, translation = plain(joint.placement.rotation), plain(joint.placement.translation)
    axis = plain(joint.axis)
    if joint.kind is JointKind.PRISMATIC:
        return rotation, total(translation, scale(apply(rotation, axis), q))
    return product(rotation, _axis_rotation(axis, q)), translation


def base_rotation(model: RobotModel, q: Sequence[Any]) -> Matrix:
    """Rotation of the base frame in the world."""
    return IDENTITY if model.base is None else rotation_matrix(list(q[3:7]))


def joint_poses(model: RobotModel, q: Sequence[Any]) -> list[tuple[Matrix, Vector]]:
    """`joint_pose` of every joint."""
    first = model.coordinate_count - model.joint_count
    return [joint_pose(joint, q[first + i]) for i, joint in enumerate(model.joints)]


def frame_pose(model: RobotModel, frame: Frame, q: Sequence[Any]) -> tuple[Matrix, Vector]:
    """Rotation and translation [m] of a frame in the base frame at coordinates q."""
    rotation, translation = plain(frame.placement.rotation), plain(frame.placement.translation)
    index, first = frame.joint, model.coordinate_count - model.joint_count
    while index != BASE:
        R, r = joint_pose(model.joints[index], q[first + index])
        translation = total(apply(R, translation), r)
        rotation = product(R, rotation)
        index = model.joints[index].parent
    return rotation, translation


@dataclass(frozen=True)
class _Inertia:
    """Mass m, first moment h and inertia I about the origin of the frame in which they are expressed."""

    m: float
    h: Vector
    I: Matrix  # noqa: E741  (the symbol of the source)

    def force(self, a: Vector, alpha: Vector) -> tuple[Vector, Vector]:
        """Force m a + alpha x h and moment I alpha + h x a about the origin, at rest."""
        return total(scale(a, self.m), cross(alpha, self.h)), total(apply(self.I, alpha), cross(self.h, a))

    def in_parent(self, R: Matrix, r: Vector) -> "_Inertia":
        """The same body in the parent's frame, by the parallel-axis theorem."""
        h = apply(R, self.h)
        S_r, S_h = skew(r), skew(h)
        rotated = product(product(R, self.I), transposed(R))
        steiner = product(S_r, [[2.0 * S_h[i][j] + self.m * S_r[i][j] for j in range(3)] for i in range(3)])
        full = [[rotated[i][j] - (steiner[i][j] + steiner[j][i]) * 0.5 for j in range(3)] for i in range(3)]
        symmetric = [[full[min(i, j)][max(i, j)] for j in range(3)] for i in range(3)]
        return _Inertia(self.m, total(h, scale(r, self.m)), symmetric)

    def __add__(self, other: "_Inertia") -> "_Inertia":
        joined = [[self.I[i][j] + other.I[i][j] for j in range(3)] for i in range(3)]
        return _Inertia(self.m + other.m, total(self.h, other.h), joined)


def _own_inertia(body: Body, added_mass: Any = 0.0) -> _Inertia:
    """Of a body, and of a point mass at its centre of mass [kg]."""
    c = np.asarray(body.center_of_mass, dtype=float)
    spread = (c @ c) * np.eye(3) - np.outer(c, c)
    I = body.inertia + body.mass * spread  # noqa: E741
    about_origin, unit = plain(0.5 * (I + I.T)), plain(spread)
    return _Inertia(
        float(body.mass) + added_mass,
        [float(body.mass * x) + added_mass * float(x) for x in c],
        [[about_origin[i][j] + added_mass * unit[i][j] for j in range(3)] for i in range(3)],
    )


def inverse_dynamics(
    model: RobotModel,
    q: Sequence[Any],
    qd: Sequence[Any],
    qdd: Sequence[Any],
    gravity: Sequence[float],
    added_base_mass: Any = 0.0,
) -> list[Any]:
    """Forces that give accelerations qdd: H(q) qdd + C(q, qd). Recursive Newton-Euler, table 5.1.

    Args:
        model: the robot.
        q: coordinates; rad or m.
        qd, qdd: velocities and accelerations, [dof], in seconds.
        gravity: in the world, which a fixed base's frame is [m/s^2].
        added_base_mass: point mass at a floating base's centre of mass [kg].

    Returns:
        Forces, [dof] in N m or N: with a floating base first the force on it and the moment about its frame's origin.
    """
    poses, first = joint_poses(model, q), model.base_freedom
    up = apply(transposed(base_rotation(model, q)), [-float(g) for g in gravity])
    zero: Vector = [0.0, 0.0, 0.0]
    at_base = _Motion(zero, zero, up)
    if model.base is not None:
        at_base = _Motion(list(qd[3:6]), list(qdd[3:6]), total(up, list(qdd[0:3])))
    motion: list[_Motion] = []
    for i, joint in enumerate(model.joints):
        before = motion[joint.parent] if joint.parent != BASE else at_base
        motion.append(_moved_on(joint, poses[i], before, qd[first + i], qdd[first + i]))
    wrench = [_body_wrench(_own_inertia(joint.body), moved) for joint, moved in zip(model.joints, motion, strict=True)]
    at_root = (zero, zero)
    if model.base is not None:
        at_root = _body_wrench(_own_inertia(model.base, added_base_mass), at_base)
    forces: list[Any] = [None] * model.joint_count
    for i in reversed(range(model.joint_count)):
        joint, (f, n) = model.joints[i], wrench[i]
        forces[i] = dot(plain(joint.axis), f if joint.kind is JointKind.PRISMATIC else n)
        f, n = _wrench_in_parent(*poses[i], f, n)
        if joint.parent != BASE:
            wrench[joint.parent] = (total(wrench[joint.parent][0], f), total(wrench[joint.parent][1], n))
        else:
            at_root = (total(at_root[0], f), total(at_root[1], n))
    return forces if model.base is None else [*at_root[0], *at_root[1], *forces]


@dataclass(frozen=True)
class _Motion:
    """How a frame moves, in its own axes."""

    omega: Vector
    """Angular velocity [rad/s]."""
    alpha: Vector
    """Angular acceleration [rad/s^2]."""
    a: Vector
    """Acceleration of the origin, gravity subtracted [m/s^2]."""

    @cached_property
    def B(self) -> Matrix:
        """skew(alpha) + skew(omega)^2: a point fixed to the frame at x accelerates by a + B x."""
        alpha, square = skew(self.alpha), dot(self.omega, self.omega)
        omega = self.omega
        return [[alpha[i][j] + omega[i] * omega[j] - (square if i == j else 0.0) for j in range(3)] for i in range(3)]


def _moved_on(joint: Joint, pose: tuple[Matrix, Vector], before: _Motion, qd: Any, qdd: Any) -> _Motion:
    """The motion of a joint's frame from that of its parent's."""
    R, r = pose
    R_T, axis = transposed(R), plain(joint.axis)
    a = apply(R_T, total(before.a, apply(before.B, r)))
    omega, alpha = apply(R_T, before.omega), apply(R_T, before.alpha)
    rate = scale(axis, qd)
    if joint.kind is JointKind.PRISMATIC:
        return _Motion(omega, alpha, total(a, scale(axis, qdd), scale(cross(omega, rate), 2.0)))
    return _Motion(total(omega, rate), total(alpha, scale(axis, qdd), cross(omega, rate)), a)


def _body_wrench(body: _Inertia, motion: _Motion) -> tuple[Vector, Vector]:
    """Force and moment about the frame's origin that move a body so.

    With the second moments J = tr(I)/2 1 - I of its mass, the moment by rotation is the sum of x x B x over the mass,
    the vector of the antisymmetric part of B J.
    """
    B, half_trace = motion.B, (body.I[0][0] + body.I[1][1] + body.I[2][2]) * 0.5
    J = [[(half_trace if i == j else 0.0) - body.I[i][j] for j in range(3)] for i in range(3)]
    turning = [dot(B[k], J[j]) - dot(B[j], J[k]) for j, k in ((1, 2), (2, 0), (0, 1))]
    return total(scale(motion.a, body.m), apply(B, body.h)), total(turning, cross(body.h, motion.a))


def _wrench_in_parent(R: Matrix, r: Vector, f: Vector, n: Vector) -> tuple[Vector, Vector]:
    force = apply(R, f)
    return force, total(apply(R, n), cross(r, force))


def ancestors(model: RobotModel, index: int) -> list[int]:
    """Degrees of freedom between one and the ground, nearest first, itself left out.

    Those of a floating base stand one on the other, the angular on the linear ones, and the joints on all six.
    """
    first, chain = model.base_freedom, []
    while index >= first and (parent := model.joints[index - first].parent) != BASE:
        index = first + parent
        chain.append(index)
    return chain + list(reversed(range(min(index, first))))


def mass_matrix(model: RobotModel, q: Sequence[Any], added_base_mass: Any = 0.0) -> dict[tuple[int, int], Any]:
    """H(q) by the composite-rigid-body algorithm, table 6.2; arguments as for `inverse_dynamics`.

    Returns:
        `{(i, j): H_ij}` over degrees of freedom for j = i and for every ancestor j of i, in kg m^2, kg m or kg; every
        other element below the diagonal is zero, and H is symmetric.
    """
    poses, first = joint_poses(model, q), model.base_freedom
    composite = [_own_inertia(joint.body) for joint in model.joints]
    base = None if model.base is None else _own_inertia(model.base, added_base_mass)
    for i in reversed(range(model.joint_count)):
        parent, moved = model.joints[i].parent, composite[i].in_parent(*poses[i])
        if parent != BASE:
            composite[parent] = composite[parent] + moved
        elif base is not None:
            base = base + moved
    H = {} if base is None else _base_block(base)
    for i, joint in enumerate(model.joints):
        axis, zero = plain(joint.axis), [0.0, 0.0, 0.0]
        prismatic = joint.kind is JointKind.PRISMATIC
        f, n = composite[i].force(axis if prismatic else zero, zero if prismatic else axis)
        H[first + i, first + i] = dot(axis, f if prismatic else n)
        child = i
        while (parent := model.joints[child].parent) != BASE:
            f, n = _wrench_in_parent(*poses[child], f, n)
            other = model.joints[parent]
            H[first + i, first + parent] = dot(plain(other.axis), f if other.kind is JointKind.PRISMATIC else n)
            child = parent
        if base is not None:
            f, n = _wrench_in_parent(*poses[child], f, n)
            H |= {(first + i, j): value for j, value in enumerate([*f, *n])}
    return H


def _base_block(base: _Inertia) -> dict[tuple[int, int], Any]:
    """The lower triangle of a composite body's own 6 x 6 inertia: [m 1, -skew(h); skew(h), I]."""
    S_h = skew(base.h)
    full = [[base.m * float(i == j) for j in range(3)] + [0.0] * 3 for i in range(3)]
    full += [[*S_h[i], *base.I[i]] for i in range(3)]
    return {(i, j): full[i][j] for i in range(6) for j in range(i + 1)}


@dataclass(frozen=True)
class TreeFactor:
    """H = L^T D L with L unit lower triangular and as sparse as the tree."""

    L: dict[tuple[int, int], Any]
    """Elements below the diagonal: (i, j) for every ancestor j of i."""
    inverse_D: list[Any]
    """[dof]"""


def factor_pattern(model: RobotModel) -> list[tuple[int, int]]:
    """The elements (i, j) of L below the diagonal that are not zero, in the order in which `factorize` finds them."""
    return [(i, j) for i in reversed(range(model.velocity_count)) for j in ancestors(model, i)]


def factorize(model: RobotModel, H: dict[tuple[int, int], Any]) -> TreeFactor:
    """L^T D L of a matrix with the sparsity of `mass_matrix`, without fill-in: table 6.3."""
    H = dict(H)
    L: dict[tuple[int, int], Any] = {}
    inverse_D: list[Any] = [None] * model.velocity_count
    for k in reversed(range(model.velocity_count)):
        inverse_D[k] = 1.0 / H[k, k]
        chain = ancestors(model, k)
        for i in chain:
            L[k, i] = H[k, i] * inverse_D[k]
        for position, i in enumerate(chain):
            for j in chain[position:]:
                H[i, j] = H[i, j] - L[k, i] * H[k, j]
    return TreeFactor(L, inverse_D)


def solve(model: RobotModel, factor: TreeFactor, b: Sequence[Any]) -> list[Any]:
    """x with L^T D L x = b: table 6.5."""
    y = solve_upper(model, factor, dict(enumerate(b)))
    return solve_lower(model, factor, [y[i] * inverse for i, inverse in enumerate(factor.inverse_D)])


def solve_upper(model: RobotModel, factor: TreeFactor, b: Mapping[int, Any]) -> dict[int, Any]:
    """y with L^T y = b, by degree of freedom; what is zero may be left out of both."""
    y = dict(b)
    for i in reversed(range(model.velocity_count)):
        if i in y:
            for j in ancestors(model, i):
                y[j] = y.get(j, 0.0) - factor.L[i, j] * y[i]
    return y


def solve_lower(model: RobotModel, factor: TreeFactor, b: Sequence[Any]) -> list[Any]:
    """x with L x = b."""
    x = list(b)
    for i in range(model.velocity_count):
        for j in reversed(ancestors(model, i)):
            x[i] = x[i] - factor.L[i, j] * x[j]
    return x


def dense_mass_matrix(model: RobotModel, q: Sequence[float]) -> np.ndarray:
    """H(q) as a full symmetric array [dof, dof], for numbers."""
    dense = np.zeros((model.velocity_count, model.velocity_count))
    for (i, j), value in mass_matrix(model, q).items():
        dense[i, j] = dense[j, i] = value
    return dense
