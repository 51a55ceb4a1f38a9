"""One time step and its derivatives, as traced mathematics.

The step is Moreau's midpoint scheme (Schwarke et al., arXiv 2404.02887, appendix A), h its length:

    q_M, u = half a step on from q with qd        (`floating_base.midpoint`)
    qdd    : R(q_M, u, qdd, q*, parameters) = 0
    u_E    = u + h qdd
    q_E, qd_E = half a step on from q_M with u_E  (`floating_base.endpoint`)

    R = H(q_M) qdd + C(q_M, u) + armature qdd + tau_loss - tau - J^T f - push, the torques that depend on joint
        velocities taken at u + h qdd

With a fixed base u = qd, q_M = q + h/2 qd and q_E = q_M + h/2 qd_E. Forces f of a soft contact are taken at (q_M, u).

R is linear in qdd with the matrix A = H + diag(armature + h velocity_stiffness), which has the sparsity of H. The
derivatives follow by the implicit function theorem: with qdd held, A dqdd = -dR. No derivative goes through the
factorisation, and the step's own factor serves both directions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from realitygrad_ros.physics import floating_base, rigid_body
from realitygrad_ros.physics.actuator import loss_torque, servo_torque, velocity_stiffness
from realitygrad_ros.physics.contact import ContactPoint, contact_points, soft_force
from realitygrad_ros.physics.rigid_body import TreeFactor
from realitygrad_ros.physics.trace import Number, Scalar, Trace, gradient, tangent
from realitygrad_ros.physics.vectors import apply, dot, transposed
from realitygrad_ros.robot.contact import ContactSphere
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES


def _scalar(number: Number) -> Scalar:
    assert isinstance(number, Scalar)
    return number


@dataclass(frozen=True)
class World:
    """What a step is traced for, beside the robot's own numbers."""

    gravity: tuple[float, ...]
    """In the world's axes [m/s^2]."""
    friction_velocity: float
    """Width of the smooth Coulomb friction of joints [rad/s]."""
    spheres: tuple[ContactSphere, ...] = ()
    """What may touch the ground."""


class EndState(NamedTuple):
    """What a step computes, [coordinate] and [dof]; or the rates or adjoints of these."""

    position: list[Number]
    velocity: list[Number]


class Step:
    """The traced step of one robot, with a soft contact if the world has spheres.

    Attributes:
        h, q, qd, held, parameters, settings: the variables of the step, named `h`, `q_0`, `qd_0`, `target_0`,
            `damping_0` and so on, to which the code around the step gives values. `held` are the inputs that stay the
            same for several steps, `settings` numbers that all worlds share.
        q_M, u: the coordinates at the midpoint, and the velocity at the start in the axes there.
    """

    contact_settings: tuple[str, ...] = ("stiffness", "normal_damping", "tangential_damping")
    """Names of the contact's numbers, in the order in which `soft_force` takes them."""

    def __init__(self, model: RobotModel, world: World) -> None:
        self.model = model
        self.world = world
        self.trace = trace = Trace()
        self.h = trace.variable("h")
        self.q = trace.variables("q", model.coordinate_count)
        self.qd = trace.variables("qd", model.velocity_count)
        self.held = {name: trace.variables(name, width) for name, width in held_widths(model).items()}
        widths = parameter_widths(model, len(world.spheres))
        self.parameters = {name: trace.variables(name, width) for name, width in widths.items()}
        names = self.contact_settings if world.spheres else ()
        self.settings = {name: trace.variable(name) for name in names}
        q_M, u = floating_base.midpoint(model, self.q, self.qd, self.h)
        self.q_M, self.u = [_scalar(x) for x in q_M], [_scalar(x) for x in u]

    def inputs(self) -> dict[str, list[Scalar]]:
        """What a step may be differentiated by."""
        return {"q": self.q, "qd": self.qd, **self.held, **self.parameters}

    @property
    def joint_velocity(self) -> list[Scalar]:
        """Velocities of the joints."""
        return self.u[self.model.base_freedom :]

    @property
    def joint_position(self) -> list[Scalar]:
        """Coordinates of the joints at the midpoint."""
        return self.q_M[self.model.coordinate_count - self.model.joint_count :]

    def factor(self) -> TreeFactor:
        """A = L^T D L."""
        A = rigid_body.mass_matrix(self.model, self.q_M, self._added_base_mass())
        first = self.model.base_freedom
        for i, added in enumerate(self._added_inertia()):
            A[first + i, first + i] = A[first + i, first + i] + added
        return rigid_body.factorize(self.model, A)

    def stored_factor(self) -> TreeFactor:
        """A factor that was computed before, as variables `L_i_j` and `inverse_D_i`."""
        L = {(i, j): self.trace.variable(f"L_{i}_{j}") for i, j in rigid_body.factor_pattern(self.model)}
        return TreeFactor(L, list(self.trace.variables("inverse_D", self.model.velocity_count)))

    def _added_base_mass(self) -> Number:
        return self.parameters["added_base_mass"][0] if self.model.base is not None else 0.0

    def _added_inertia(self) -> list[Number]:
        """armature + h velocity_stiffness, [joint]."""
        p, q, qd = self.parameters, self.joint_position, self.joint_velocity
        added = []
        for i, joint in enumerate(self.model.joints):
            kp, kd, damping, friction = (p[name][i] for name in ("kp", "kd", "damping", "friction"))
            state = (self.held["target"][i], q[i], qd[i])
            limits = (joint.effort_limit, self.world.friction_velocity)
            stiffness = velocity_stiffness(kp, kd, damping, friction, *state, *limits)
            added.append(p["armature"][i] + self.h * stiffness)
        return added

    def residual(self, qdd: Sequence[Number]) -> list[Number]:
        """R(q_M, u, qdd, q*, parameters) [N m or N], [dof]."""
        p, first, base_mass = self.parameters, self.model.base_freedom, self._added_base_mass()
        R = rigid_body.inverse_dynamics(self.model, self.q_M, self.u, qdd, self.world.gravity, base_mass)
        added = self._added_inertia()
        for i, joint in enumerate(self.model.joints):
            q, qd, target = self.joint_position[i], self.joint_velocity[i], self.held["target"][i]
            tau = servo_torque(p["kp"][i], p["kd"][i], target, 0.0, q, qd, joint.effort_limit)
            loss = loss_torque(p["damping"][i], p["friction"][i], qd, self.world.friction_velocity)
            R[first + i] = R[first + i] + added[i] * qdd[first + i] + loss - tau
        if self.model.base is not None:
            to_base = transposed(rigid_body.base_rotation(self.model, self.q_M))
            for k, force in enumerate(apply(to_base, list(self.held["push"]))):
                R[k] = R[k] - force
        return self._less_contact(R)

    def _less_contact(self, R: list[Number]) -> list[Number]:
        """R - J^T f."""
        forces = self.soft_forces()
        for point, force in zip(self.points(), forces, strict=True):
            for dof, column in point.jacobian.items():
                R[dof] = R[dof] - dot(column, force)
        return R

    def points(self) -> list[ContactPoint]:
        """The contacts at the midpoint."""
        return contact_points(self.model, self.q_M, self.world.spheres)

    def soft_forces(self) -> list[list[Number]]:
        """f of each contact [N]."""
        gains = self.settings.values()
        return [
            soft_force(point.height, point.velocity(self.u), mu, *gains)
            for point, mu in zip(self.points(), self.parameters.get("friction_coefficient", ()), strict=True)
        ]

    def acceleration(self, factor: TreeFactor) -> list[Number]:
        """qdd."""
        rest: list[Number] = [0.0] * self.model.velocity_count
        return rigid_body.solve(self.model, factor, [-R_i for R_i in self.residual(rest)])

    def end_velocity(self, qdd: Sequence[Number]) -> list[Number]:
        """u_E = u + h qdd."""
        return [u + self.h * qdd_i for u, qdd_i in zip(self.u, qdd, strict=True)]

    def end_state(self, u_E: Sequence[Number]) -> EndState:
        """(q_E, qd_E)."""
        return EndState(*floating_base.endpoint(self.model, self.q_M, u_E, self.h))

    def adjoint(
        self, factor: TreeFactor, qdd: Sequence[Scalar], q_bar: Sequence[Scalar], qd_bar: Sequence[Scalar]
    ) -> dict[str, list[Number]]:
        """Vector-Jacobian product of the step.

        Args:
            factor: the factor that the step computed, stored.
            qdd: the acceleration that the step computed, stored.
            q_bar: adjoints of q_E.
            qd_bar: adjoints of qd_E.

        Returns:
            Adjoints of each of `inputs`, by name.
        """
        u_E = [_scalar(u_i) for u_i in self.end_velocity(qdd)]
        end = self.end_state(u_E)
        ends = list(zip([*end.position, *end.velocity], [*q_bar, *qd_bar], strict=True))
        bars = gradient(ends, [*self.q_M, *u_E])
        m = len(self.q_M)
        q_M_bar, u_E_bar = bars[:m], bars[m:]
        R_bar = [-bar for bar in rigid_body.solve(self.model, factor, [self.h * bar for bar in u_E_bar])]
        midpoint = [*zip(self.q_M, q_M_bar, strict=True), *zip(self.u, u_E_bar, strict=True)]
        return self.by_input([*zip(self.residual(qdd), R_bar, strict=True), *midpoint])

    def by_input(self, outputs: Sequence[tuple[Number, Number]]) -> dict[str, list[Number]]:
        """The derivatives of sum(adjoint * output) by each of `inputs`, of pairs (output, adjoint)."""
        blocks = self.inputs()
        flat = iter(gradient(outputs, [node for block in blocks.values() for node in block]))
        return {name: [next(flat) for _ in block] for name, block in blocks.items()}

    def tangent(
        self,
        factor: TreeFactor,
        qdd: Sequence[Scalar],
        q_dot: Sequence[Scalar],
        qd_dot: Sequence[Scalar],
        parameter_dot: Mapping[str, Sequence[Scalar]],
    ) -> EndState:
        """Jacobian-vector product of the step: rates of (q_E, qd_E) for rates of q, qd and the parameters.

        The factor and qdd are those that the step computed, stored.
        """
        starts: dict[Scalar, Number] = dict(zip([*self.q, *self.qd], [*q_dot, *qd_dot], strict=True))
        rates = tangent([*self.q_M, *self.u], starts)
        m = len(self.q_M)
        q_M_dot, u_dot = rates[:m], rates[m:]
        directions: dict[Scalar, Number] = dict(zip([*self.q_M, *self.u], rates, strict=True))
        for name, nodes in self.parameters.items():
            directions |= dict(zip(nodes, parameter_dot[name], strict=True))
        R_dot = tangent(self.residual(qdd), directions)
        qdd_dot = rigid_body.solve(self.model, factor, [-rate for rate in R_dot])
        u_E = [_scalar(u_i) for u_i in self.end_velocity(qdd)]
        u_E_dot = [u + self.h * rate for u, rate in zip(u_dot, qdd_dot, strict=True)]
        end = self.end_state(u_E)
        ends = tangent([*end.position, *end.velocity], dict(zip([*self.q_M, *u_E], [*q_M_dot, *u_E_dot], strict=True)))
        return EndState(ends[: len(self.q)], ends[len(self.q) :])


def held_widths(model: RobotModel) -> dict[str, int]:
    """Length of each input that stays the same for several steps: position targets, and a push on a floating base.

    The push is a force on the base frame's origin, in the world's axes [N].
    """
    return {"target": model.joint_count} | ({"push": 3} if model.base is not None else {})


def parameter_widths(model: RobotModel, contacts: int) -> dict[str, int]:
    """Length of each parameter of a world: those of the joints; added mass of the base [kg]; friction coefficients."""
    widths = dict.fromkeys(PARAMETER_NAMES, model.joint_count)
    widths |= {"added_base_mass": 1} if model.base is not None else {}
    return widths | ({"friction_coefficient": contacts} if contacts else {})
