"""Rigid-body dynamics of a fixed-base tree of joints, written once for any kind of scalar.

Every quantity of joint i is expressed in the frame of joint i. Symbols: R and r, the pose of a joint's frame in its
parent's (x_parent = R x + r); omega, alpha, the angular velocity and acceleration; a, the acceleration of the frame's
origin, gravity subtracted; m, h, I, the mass, its first moment m c and its inertia about the frame's origin. Source
of the algorithms: Featherstone, Rigid Body Dynamics Algorithms, 2008: recursive Newton-Euler (table 5.1), composite
rigid body (table 6.2), L^T D L factorisation with branch-induced sparsity (tables 6.3 and 6.5); written here with
3-vectors, in which the constants of the robot fold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from realitygrad_ros.physics import trace
from realitygrad_ros.robot.model import BASE, Frame, Joint, JointKind, RobotModel

Vector = list[Any]
"""Three scalars."""
Matrix = list[list[Any]]
"""Three rows of three scalars."""


def _dot(a: Vector, b: Vector) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _sum(*vectors: Vector) -> Vector:
    total = vectors[0]
    for vector in vectors[1:]:
        total = [x + y for x, y in zip(total, vector, strict=True)]
    return total


def _scale(vector: Vector, factor: Any) -> Vector:
    return [x * factor for x in vector]


def _apply(matrix: Matrix, vector: Vector) -> Vector:
    return [_dot(row, vector) for row in matrix]


def _transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _product(a: Matrix, b: Matrix) -> Matrix:
    columns = _transposed(b)
    return [[_dot(row, column) for column in columns] for row in a]


def _skew(v: Vector) -> Matrix:
    return [[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]]


def _plain(array: np.ndarray) -> Any:
    """An array as nested lists of Python floats, which traced arithmetic folds."""
    return array.tolist()


def _axis_rotation(axis: Vector, angle: Any) -> Matrix:
    """Rodrigues' formula, R = 1 + sin(angle) K + (1 - cos(angle)) K^2 with K the skew matrix of a unit axis.

    Written as axis axis^T + cos(angle) (1 - axis axis^T) + sin(angle) K, in which the entries of an axis along a
    coordinate are exactly 0, 1, a sine or a cosine.
    """
    sine, cosine, skew = trace.sin(angle), trace.cos(angle), _skew(axis)
    return [
        [axis[i] * axis[j] + ((i == j) - axis[i] * axis[j]) * cosine + skew[i][j] * sine for j in range(3)]
        for i in range(3)
    ]


def joint_pose(joint: Joint, q: Any) -> tuple[Matrix, Vector]:
    """Rotation R and translation r of a joint's frame in its parent's, at joint position q [rad or m]."""
    rotation, translation = _plain(joint.placement.rotation), _plain(joint.placement.translation)
    axis = _plain(joint.axis)
    if joint.kind is JointKind.PRISMATIC:
        return rotation, _sum(translation, _scale(_apply(rotation, axis), q))
    return _product(rotation, _axis_rotation(axis, q)), translation


def joint_poses(model: RobotModel, q: Sequence[Any]) -> list[tuple[Matrix, Vector]]:
    """`joint_pose` of every joint."""
    return [joint_pose(joint, q[i]) for i, joint in enumerate(model.joints)]


def frame_pose(model: RobotModel, frame: Frame, q: Sequence[Any]) -> tuple[Matrix, Vector]:
    """Rotation and translation [m] of a frame in the base frame at joint positions q."""
    rotation, translation = _plain(frame.placement.rotation), _plain(frame.placement.translation)
    index = frame.joint
    while index != BASE:
        R, r = joint_pose(model.joints[index], q[index])
        translation = _sum(_apply(R, translation), r)
        rotation = _product(R, rotation)
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
        return _sum(_scale(a, self.m), _cross(alpha, self.h)), _sum(_apply(self.I, alpha), _cross(self.h, a))

    def in_parent(self, R: Matrix, r: Vector) -> "_Inertia":
        """The same body in the parent's frame, by the parallel-axis theorem."""
        h = _apply(R, self.h)
        S_r, S_h = _skew(r), _skew(h)
        rotated = _product(_product(R, self.I), _transposed(R))
        steiner = _product(S_r, [[2.0 * S_h[i][j] + self.m * S_r[i][j] for j in range(3)] for i in range(3)])
        full = [[rotated[i][j] - (steiner[i][j] + steiner[j][i]) * 0.5 for j in range(3)] for i in range(3)]
        symmetric = [[full[min(i, j)][max(i, j)] for j in range(3)] for i in range(3)]
        return _Inertia(self.m, _sum(h, _scale(r, self.m)), symmetric)

    def __add__(self, other: "_Inertia") -> "_Inertia":
        total = [[self.I[i][j] + other.I[i][j] for j in range(3)] for i in range(3)]
        return _Inertia(self.m + other.m, _sum(self.h, other.h), total)


def _own_inertia(joint: Joint) -> _Inertia:
    body = joint.body
    c = np.asarray(body.center_of_mass, dtype=float)
    about_origin = body.inertia + body.mass * ((c @ c) * np.eye(3) - np.outer(c, c))
    return _Inertia(float(body.mass), _plain(body.mass * c), _plain(0.5 * (about_origin + about_origin.T)))


def inverse_dynamics(
    model: RobotModel, q: Sequence[Any], qd: Sequence[Any], qdd: Sequence[Any], gravity: Sequence[float]
) -> list[Any]:
    """Joint forces that give accelerations qdd: H(q) qdd + C(q, qd). Recursive Newton-Euler, table 5.1.

    Args:
        model: the robot.
        q, qd, qdd: positions, velocities and accelerations, [joint] in rad or m and seconds.
        gravity: in the base frame [m/s^2].

    Returns:
        Forces, [joint] in N m or N.
    """
    poses = joint_poses(model, q)
    zero: Vector = [0.0, 0.0, 0.0]
    motion: list[tuple[Vector, Vector, Vector]] = []
    wrench: list[tuple[Vector, Vector]] = []
    for i, joint in enumerate(model.joints):
        R, r = poses[i]
        R_T, axis = _transposed(R), _plain(joint.axis)
        omega, alpha, a = motion[joint.parent] if joint.parent != BASE else (zero, zero, [-float(g) for g in gravity])
        a = _apply(R_T, _sum(a, _cross(alpha, r), _cross(omega, _cross(omega, r))))
        omega, alpha = _apply(R_T, omega), _apply(R_T, alpha)
        rate = _scale(axis, qd[i])
        if joint.kind is JointKind.PRISMATIC:
            a = _sum(a, _scale(axis, qdd[i]), _scale(_cross(omega, rate), 2.0))
        else:
            alpha = _sum(alpha, _scale(axis, qdd[i]), _cross(omega, rate))
            omega = _sum(omega, rate)
        motion.append((omega, alpha, a))
        body = _own_inertia(joint)
        f, n = body.force(a, alpha)
        f = _sum(f, _cross(omega, _cross(omega, body.h)))
        n = _sum(n, _cross(omega, _apply(body.I, omega)))
        wrench.append((f, n))
    forces: list[Any] = [None] * model.joint_count
    for i in reversed(range(model.joint_count)):
        joint, (f, n) = model.joints[i], wrench[i]
        forces[i] = _dot(_plain(joint.axis), f if joint.kind is JointKind.PRISMATIC else n)
        if joint.parent != BASE:
            f_parent, n_parent = _wrench_in_parent(*poses[i], f, n)
            wrench[joint.parent] = (_sum(wrench[joint.parent][0], f_parent), _sum(wrench[joint.parent][1], n_parent))
    return forces


def _wrench_in_parent(R: Matrix, r: Vector, f: Vector, n: Vector) -> tuple[Vector, Vector]:
    force = _apply(R, f)
    return force, _sum(_apply(R, n), _cross(r, force))


def ancestors(model: RobotModel, index: int) -> list[int]:
    """Indices of the joints between a joint and the base, nearest first, the joint itself left out."""
    chain = []
    while (index := model.joints[index].parent) != BASE:
        chain.append(index)
    return chain


def mass_matrix(model: RobotModel, q: Sequence[Any]) -> dict[tuple[int, int], Any]:
    """H(q) by the composite-rigid-body algorithm, table 6.2.

    Returns:
        `{(i, j): H_ij}` for j = i and for every ancestor j of i, in kg m^2, kg m or kg; every other element below
        the diagonal is zero, and H is symmetric.
    """
    poses = joint_poses(model, q)
    composite = [_own_inertia(joint) for joint in model.joints]
    for i in reversed(range(model.joint_count)):
        parent = model.joints[i].parent
        if parent != BASE:
            composite[parent] = composite[parent] + composite[i].in_parent(*poses[i])
    H: dict[tuple[int, int], Any] = {}
    for i, joint in enumerate(model.joints):
        axis, zero = _plain(joint.axis), [0.0, 0.0, 0.0]
        prismatic = joint.kind is JointKind.PRISMATIC
        f, n = composite[i].force(axis if prismatic else zero, zero if prismatic else axis)
        H[i, i] = _dot(axis, f if prismatic else n)
        child = i
        for j in ancestors(model, i):
            f, n = _wrench_in_parent(*poses[child], f, n)
            other = model.joints[j]
            H[i, j] = _dot(_plain(other.axis), f if other.kind is JointKind.PRISMATIC else n)
            child = j
    return H


@dataclass(frozen=True)
class TreeFactor:
    """H = L^T D L with L unit lower triangular and as sparse as the tree."""

    L: dict[tuple[int, int], Any]
    """Elements below the diagonal: (i, j) for every ancestor j of i."""
    inverse_D: list[Any]
    """[joint]"""


def factor_pattern(model: RobotModel) -> list[tuple[int, int]]:
    """The elements (i, j) of L below the diagonal that are not zero, in the order in which `factorize` finds them."""
    return [(i, j) for i in reversed(range(model.joint_count)) for j in ancestors(model, i)]


def factorize(model: RobotModel, H: dict[tuple[int, int], Any]) -> TreeFactor:
    """L^T D L of a matrix with the sparsity of `mass_matrix`, without fill-in: table 6.3."""
    H = dict(H)
    L: dict[tuple[int, int], Any] = {}
    inverse_D: list[Any] = [None] * model.joint_count
    for k in reversed(range(model.joint_count)):
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
    x = list(b)
    for i in reversed(range(model.joint_count)):
        for j in ancestors(model, i):
            x[j] = x[j] - factor.L[i, j] * x[i]
    x = [value * inverse for value, inverse in zip(x, factor.inverse_D, strict=True)]
    for i in range(model.joint_count):
        for j in reversed(ancestors(model, i)):
            x[i] = x[i] - factor.L[i, j] * x[j]
    return x


def dense_mass_matrix(model: RobotModel, q: Sequence[float]) -> np.ndarray:
    """H(q) as a full symmetric array [joint, joint], for numbers."""
    dense = np.zeros((model.joint_count, model.joint_count))
    for (i, j), value in mass_matrix(model, q).items():
        dense[i, j] = dense[j, i] = value
    return dense
