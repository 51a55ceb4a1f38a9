"""Contact with the ground z = 0, written once for any kind of scalar: Schwarke et al., arXiv 2404.02887, appendix A.

Contacts are points that the robot declares; each touches the ground with the lowest point of a sphere. Contact i has
the height d_i above the ground, the Jacobian J_i of its point's velocity by the robot's, and an impulse p_i, all in the
axes of the world with the normal n = z last. Per step:

    c   = J u_free + beta d n                 velocity that the contacts would have without impulses; d < 0
    G   = J A^-1 J^T                          Delassus matrix, symmetric
    p_i = -G_ii^-1 c_i                        at first
    s_i = G_ii p_i + sum_(j != i) G_ij sigma_j p_j + c_i
    p_i <- prox(p_i - r_i s_i)                N sweeps, in order
    P_i = sigma_i p_i                         the impulses that act

The weight sigma_i is 1 for d_i <= `TOUCHING` and else 0 in a hard contact, and 1 / (1 + exp(kappa d_i)) in a smoothed
one. Three things are ours:

- The rate beta, with which a penetration decays. A sigmoid lets through a part of the weight, and a robot at rest would
  sink without end. It rests where e^(kappa d) g h = beta |d| instead.
- Hard contact begins a tenth of a millimetre above the ground, and beta pulls a foot down from there. N sweeps leave a
  rest of velocity, which would lift feet off now and then, and a robot would creep about on its own.
- The step size `spectral`, with the normal impulse first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from realitygrad_ros.physics.rigid_body import TreeFactor, base_rotation, joint_poses, solve_lower, solve_upper
from realitygrad_ros.physics.trace import (
    LARGE,
    Scalar,
    Trace,
    clamp,
    inside,
    inverse_root_beyond,
    maximum,
    positive_part,
    sqrt,
    tanh,
)
from realitygrad_ros.physics.vectors import (
    IDENTITY,
    Matrix,
    Vector,
    apply,
    cross,
    difference,
    dot,
    plain,
    product,
    scale,
    total,
)
from realitygrad_ros.robot.contact import ContactSphere
from realitygrad_ros.robot.model import BASE, JointKind, RobotModel

TINY = 1e-10
"""Keeps the length of a tangential impulse [N s] or slip [m/s] from having no derivative at zero."""

STABLE_STEP = 1.9
"""Bound of r_i lambda_max(G_ii); a sweep of one contact alone diverges from 2 on."""

TOUCHING = 1e-4
"""Height up to which a hard contact acts [m]."""


@dataclass(frozen=True)
class ContactPoint:
    """One contact in one configuration of the robot."""

    height: Any
    """d [m]"""
    jacobian: dict[int, Vector]
    """Columns of J, in the world's axes, by degree of freedom; every other column is zero."""

    def velocity(self, u: Sequence[Any]) -> Vector:
        """J u [m/s]."""
        return total([0.0, 0.0, 0.0], *(scale(column, u[dof]) for dof, column in self.jacobian.items()))


def contact_points(model: RobotModel, q: Sequence[Any], spheres: Sequence[ContactSphere]) -> list[ContactPoint]:
    """Where the spheres' lowest points are at coordinates q, and how they move."""
    frames = _joint_frames(model, q)
    R_W = base_rotation(model, q)
    return [_contact_point(model, q, sphere, frames, R_W) for sphere in spheres]


def _joint_frames(model: RobotModel, q: Sequence[Any]) -> list[tuple[Matrix, Vector]]:
    """Rotation and origin of every joint's frame in the base frame."""
    frames: list[tuple[Matrix, Vector]] = []
    for joint, (R, r) in zip(model.joints, joint_poses(model, q), strict=True):
        R_parent, r_parent = frames[joint.parent] if joint.parent != BASE else (IDENTITY, [0.0, 0.0, 0.0])
        frames.append((product(R_parent, R), total(apply(R_parent, r), r_parent)))
    return frames


def _contact_point(
    model: RobotModel,
    q: Sequence[Any],
    sphere: ContactSphere,
    frames: Sequence[tuple[Matrix, Vector]],
    R_W: Matrix,
) -> ContactPoint:
    link = model.frame(sphere.link)
    center = plain(link.placement.rotation @ sphere.center + link.placement.translation)
    if link.joint != BASE:
        R, r = frames[link.joint]
        center = total(apply(R, center), r)
    point = difference(center, scale(R_W[2], sphere.radius))
    height = dot(R_W[2], center) - sphere.radius
    jacobian: dict[int, Vector] = {}
    if model.base is not None:
        height = height + q[2]
        jacobian = {k: [R_W[i][k] for i in range(3)] for k in range(3)}
        jacobian |= {3 + k: apply(R_W, cross(IDENTITY[k], point)) for k in range(3)}
    index = link.joint
    while index != BASE:
        joint, (R, r) = model.joints[index], frames[index]
        axis = apply(R, plain(joint.axis))
        column = axis if joint.kind is JointKind.PRISMATIC else cross(axis, difference(point, r))
        jacobian[model.base_freedom + index] = apply(R_W, column)
        index = joint.parent
    return ContactPoint(height, jacobian)


def hard_weight(height: Any) -> Any:
    """sigma = 1 for d <= `TOUCHING`, else 0."""
    return 1.0 - inside(height, TOUCHING, LARGE)


def smooth_weight(height: Any, kappa: Any) -> Any:
    """sigma = 1 / (1 + exp(kappa d)), written such that nothing overflows."""
    return 0.5 - 0.5 * tanh(0.5 * kappa * height)


@dataclass(frozen=True)
class Delassus:
    """G = J A^-1 J^T by solves along the tree.

    With A = L^T D L and Y = L^-T J^T, G = Y^T D^-1 Y, which is symmetric by construction. A column of Y has entries for
    the degrees of freedom that move its contact, and no others.
    """

    G: dict[tuple[int, int], Any]
    """[3 contact, 3 contact], the lower triangle: (k, m) for m <= k."""
    Y: list[dict[int, Any]]
    """[3 contact, dof]"""

    @staticmethod
    def of(model: RobotModel, factor: TreeFactor, points: Sequence[ContactPoint]) -> "Delassus":
        """Of contacts, for A = L^T D L."""
        rows = [{dof: column[axis] for dof, column in point.jacobian.items()} for point in points for axis in range(3)]
        Y = [solve_upper(model, factor, row) for row in rows]
        scaled = [{dof: factor.inverse_D[dof] * value for dof, value in column.items()} for column in Y]
        G = {
            (k, m): sum((Y[m][dof] * value for dof, value in scaled[k].items() if dof in Y[m]), start=0.0)
            for k in range(len(Y))
            for m in range(k + 1)
        }
        return Delassus(G, Y)

    def response(self, model: RobotModel, factor: TreeFactor, impulse: Sequence[Any]) -> list[Any]:
        """A^-1 J^T P, the change of velocity [dof] by impulses P [3 contact]."""
        sums: list[Any] = [0.0] * model.velocity_count
        for column, p in zip(self.Y, impulse, strict=True):
            for dof, value in column.items():
                sums[dof] = sums[dof] + value * p
        return solve_lower(model, factor, [d * x for d, x in zip(factor.inverse_D, sums, strict=True)])


def entry(G: Mapping[tuple[int, int], Any], k: int, m: int) -> Any:
    """G_km of a matrix of which the lower triangle is known."""
    return G[k, m] if m <= k else G[m, k]


def block(G: Mapping[tuple[int, int], Any], i: int, j: int) -> Matrix:
    """The 3 x 3 block G_ij of contacts i and j."""
    return [[entry(G, 3 * i + a, 3 * j + b) for b in range(3)] for a in range(3)]


def paper_step_sizes(G: Mapping[tuple[int, int], Any], mu: Sequence[Any]) -> list[Any]:
    """r_i = 1 / (1 + sum_j det G_ij), but no larger than is stable.

    The rule adds a determinant, in kg^-3, to a number. The bound matters for light robots and negative sums alone.
    """
    count = len(mu)
    sums = [sum((_determinant(block(G, i, j)) for j in range(count)), start=1.0) for i in range(count)]
    bounds = [_spectral_bound(block(G, i, i)) * (1.0 / STABLE_STEP) for i in range(count)]
    return [1.0 / maximum(*pair) for pair in zip(sums, bounds, strict=True) for _ in ("tangential", "normal")]


def spectral_step_sizes(G: Mapping[tuple[int, int], Any], mu: Sequence[Any]) -> list[Any]:
    """The largest steps that cannot overshoot: 1 / lambda_max of the tangential part of G_ii, and a normal one.

    That is 1 / (G_nn + mu |G_tn|): of a foot that slips, the friction mu p_n joins in with the normal velocity. With
    1 / G_nn the sweeps would swing up there, and gradients through them grow without bound.
    """
    r: list[Any] = []
    for i, mu_i in enumerate(mu):
        M = block(G, i, i)
        mean, half = 0.5 * (M[0][0] + M[1][1]), 0.5 * (M[0][0] - M[1][1])
        largest = mean + sqrt(half * half + M[0][1] * M[0][1] + TINY * TINY)
        coupling = sqrt(M[2][0] * M[2][0] + M[2][1] * M[2][1] + TINY * TINY)
        r += [1.0 / largest, 1.0 / (M[2][2] + mu_i * coupling)]
    return r


STEP_SIZE_RULES = {"paper": paper_step_sizes, "spectral": spectral_step_sizes}
"""Each of `STEP_SIZES`: from G and friction coefficients, each contact's step sizes, tangential and normal."""

NORMAL_FIRST = {"paper": False, "spectral": True}
"""Whether a rule's tangential step knows of the normal one before it: of each of `STEP_SIZES`."""


def _determinant(M: Matrix) -> Any:
    return dot(M[0], cross(M[1], M[2]))


def _spectral_bound(M: Matrix) -> Any:
    """The Schatten 8-norm of a symmetric M, (lambda_1^8 + lambda_2^8 + lambda_3^8)^(1/8).

    It is lambda_max or up to 15 % more, and has a derivative where eigenvalues meet, which lambda_max has not. M is
    scaled by its trace first, so that no eighth power overflows.
    """
    trace = M[0][0] + M[1][1] + M[2][2] + TINY
    N = [[M[min(i, j)][max(i, j)] * (1.0 / trace) for j in range(3)] for i in range(3)]
    for _ in range(2):
        N = [[dot(N[min(i, j)], N[max(i, j)]) for j in range(3)] for i in range(3)]
    squares = [N[i][j] * N[i][j] for i in range(3) for j in range(3)]
    return trace * sqrt(sqrt(sqrt(sum(squares[1:], start=squares[0]))))


def first_impulses(G: Mapping[tuple[int, int], Any], c: Sequence[Any], count: int) -> list[Any]:
    """p_i = -G_ii^-1 c_i, all three components of each contact [3 contact].

    A leg at a singular posture has a singular G_ii, so a millionth of its trace is added to its diagonal.
    """
    p: list[Any] = []
    for i in range(count):
        M = block(G, i, i)
        guard = (M[0][0] + M[1][1] + M[2][2]) * 1e-6 + TINY
        M = [[M[a][b] + (guard if a == b else 0.0) for b in range(3)] for a in range(3)]
        adjugate = [cross(M[1], M[2]), cross(M[2], M[0]), cross(M[0], M[1])]
        factor = -1.0 / dot(M[0], adjugate[0])
        p += scale(apply(adjugate, list(c[3 * i : 3 * i + 3])), factor)
    return p


def prox(p: Vector, mu: Any) -> Vector:
    """Into the friction cone: zero for p_n = 0, else the tangential part shortened to mu p_n where it is longer.

    p_n is not negative.
    """
    longest = mu * p[2]
    # The inverse of the tangential part's length outside of the cone, zero inside.
    inverse = inverse_root_beyond(p[0] * p[0] + p[1] * p[1] + TINY * TINY, longest * longest)
    shortened = longest * inverse + (1.0 - inside(inverse, 0.0, LARGE))
    return [p[0] * shortened, p[1] * shortened, p[2]]


@dataclass(frozen=True)
class Sweep:
    """One projected Gauss-Seidel sweep, traced apart: every quantity is a variable of `trace`."""

    trace: Trace
    G: dict[tuple[int, int], Scalar]
    c: list[Scalar]
    r: list[Scalar]
    """[2 contact]"""
    sigma: list[Scalar]
    mu: list[Scalar]
    p: list[Scalar]
    swept: list[Any]
    """[3 contact], the impulses after the sweep."""

    @staticmethod
    def of(count: int, step_size: str) -> "Sweep":
        """For a number of contacts; the variables are `G_k_m`, `c_k`, `r_k`, `sigma_i`, `mu_i` and `p_k`."""
        trace = Trace("y")
        G = {(k, m): trace.variable(f"G_{k}_{m}") for k in range(3 * count) for m in range(k + 1)}
        c, p = trace.variables("c", 3 * count), trace.variables("p", 3 * count)
        r, sigma, mu = trace.variables("r", 2 * count), trace.variables("sigma", count), trace.variables("mu", count)
        swept = sweep(G, c, r, sigma, mu, p, normal_first=NORMAL_FIRST[step_size])
        return Sweep(trace, G, c, r, sigma, mu, p, swept)


def sweep(
    G: Mapping[tuple[int, int], Any],
    c: Sequence[Any],
    r: Sequence[Any],
    sigma: Sequence[Any],
    mu: Sequence[Any],
    p: Sequence[Any],
    *,
    normal_first: bool,
) -> list[Any]:
    """One sweep over all contacts in order, each with the impulses of those before it that are new already.

    With `normal_first` each contact's slip is that after its own new normal impulse.
    """
    count, p = len(sigma), list(p)
    weighted = [p[k] * sigma[k // 3] for k in range(3 * count)]
    for i in range(count):
        own = range(3 * i, 3 * i + 3)
        # The newest impulses are added last, so that the other sums need not wait for them.
        order = [*range(i + 1, count), i, *range(i)]
        s = [c[k] for k in own]
        for j in order:
            acting = p if j == i else weighted
            products = apply(block(G, i, j), list(acting[3 * j : 3 * j + 3]))
            s = total(s, products)
        x, y, z = (p[k] for k in own)
        normal = positive_part(z - r[2 * i + 1] * s[2])
        if normal_first:
            s = total(s, scale(block(G, i, i)[2], normal - z))
        p[own.start : own.stop] = prox([x - r[2 * i] * s[0], y - r[2 * i] * s[1], normal], mu[i])
        weighted[own.start : own.stop] = [p[k] * sigma[i] for k in own]
    return p


def soft_force(height: Any, velocity: Vector, mu: Any, stiffness: Any, damping: Any, tangential: Any) -> Vector:
    """Force of the ground by penalty [N]: none above it.

    f_n = -k d - k_d min(v_n, 0), and f_t against the slip v_t, k_t |v_t| but at most mu f_n.
    """
    below = 1.0 - inside(height, 0.0, LARGE)
    normal = (-stiffness * height + damping * positive_part(-velocity[2])) * below
    slip = sqrt(velocity[0] * velocity[0] + velocity[1] * velocity[1] + TINY * TINY)
    shortened = tangential * clamp(mu * normal / (tangential * slip + TINY), 0.0, 1.0) * below
    return [-velocity[0] * shortened, -velocity[1] * shortened, normal]
