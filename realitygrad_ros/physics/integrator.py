"""One time step and its derivatives, as traced mathematics.

The step is Moreau's midpoint scheme (Schwarke et al., arXiv 2404.02887, appendix A), h its length:

    q_M  = q + h/2 qd
    qdd  : R(q_M, qd, qdd, q*, parameters) = 0
    qd_E = qd + h qdd
    q_E  = q + h/2 (qd + qd_E)

    R = H(q_M) qdd + C(q_M, qd) + armature qdd + tau_loss - tau, the velocity-dependent torques taken at qd + h qdd

R is linear in qdd with the matrix A = H + diag(armature + h velocity_stiffness), which has the sparsity of H. The
derivatives follow by the implicit function theorem: with qdd held, A dqdd = -dR. No derivative goes through the
factorisation, and the step's own factor serves both directions.
"""

from collections.abc import Sequence
from typing import NamedTuple

from realitygrad_ros.physics import rigid_body
from realitygrad_ros.physics.actuator import loss_torque, servo_torque, velocity_stiffness
from realitygrad_ros.physics.rigid_body import TreeFactor
from realitygrad_ros.physics.trace import Number, Scalar, Trace, gradient, tangent
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES


def _scalar(number: Number) -> Scalar:
    assert isinstance(number, Scalar)
    return number


class EndState(NamedTuple):
    """What a step computes, each a list over joints; or the rates or adjoints of these."""

    position: list[Number]
    velocity: list[Number]


class Step:
    """The traced step of one robot. Every list is over joints.

    Attributes:
        h, q, qd, target, parameters: the variables of the step, named `h`, `q_0`, `qd_0`, `target_0`, `damping_0` and
            so on, to which the code around the step gives values.
        q_M: the midpoint.
    """

    def __init__(self, model: RobotModel, gravity: Sequence[float], friction_velocity: float) -> None:
        self.model = model
        self.gravity = [float(g) for g in gravity]
        self.friction_velocity = friction_velocity
        self.trace = trace = Trace()
        n = model.joint_count
        self.h = trace.variable("h")
        self.q = trace.variables("q", n)
        self.qd = trace.variables("qd", n)
        self.target = trace.variables("target", n)
        self.parameters = {name: trace.variables(name, n) for name in PARAMETER_NAMES}
        half = self.h * 0.5
        self.q_M = [_scalar(q + half * qd) for q, qd in zip(self.q, self.qd, strict=True)]

    def factor(self) -> TreeFactor:
        """A = L^T D L."""
        A = rigid_body.mass_matrix(self.model, self.q_M)
        for i, added in enumerate(self._added_inertia()):
            A[i, i] = A[i, i] + added
        return rigid_body.factorize(self.model, A)

    def stored_factor(self) -> TreeFactor:
        """A factor that was computed before, as variables `L_i_j` and `inverse_D_i`."""
        L = {(i, j): self.trace.variable(f"L_{i}_{j}") for i, j in rigid_body.factor_pattern(self.model)}
        return TreeFactor(L, list(self.trace.variables("inverse_D", self.model.joint_count)))

    def _added_inertia(self) -> list[Number]:
        """armature + h velocity_stiffness."""
        p = self.parameters
        added = []
        for i, joint in enumerate(self.model.joints):
            kp, kd, damping, friction = (p[name][i] for name in ("kp", "kd", "damping", "friction"))
            state = (self.target[i], self.q_M[i], self.qd[i])
            stiffness = velocity_stiffness(
                kp, kd, damping, friction, *state, joint.effort_limit, self.friction_velocity
            )
            added.append(p["armature"][i] + self.h * stiffness)
        return added

    def residual(self, qdd: Sequence[Number]) -> list[Number]:
        """R(q_M, qd, qdd, q*, parameters) [N m]."""
        p = self.parameters
        R = rigid_body.inverse_dynamics(self.model, self.q_M, self.qd, qdd, self.gravity)
        added = self._added_inertia()
        for i, joint in enumerate(self.model.joints):
            q, qd = self.q_M[i], self.qd[i]
            tau = servo_torque(p["kp"][i], p["kd"][i], self.target[i], 0.0, q, qd, joint.effort_limit)
            loss = loss_torque(p["damping"][i], p["friction"][i], qd, self.friction_velocity)
            R[i] = R[i] + added[i] * qdd[i] + loss - tau
        return R

    def acceleration(self, factor: TreeFactor) -> list[Number]:
        """qdd."""
        return rigid_body.solve(self.model, factor, [-R_i for R_i in self.residual([0.0] * self.model.joint_count)])

    def end_state(self, qdd: Sequence[Number]) -> EndState:
        """(q_E, qd_E)."""
        qd_E = [qd + self.h * qdd_i for qd, qdd_i in zip(self.qd, qdd, strict=True)]
        q_E = [q + self.h * 0.5 * (qd + qd_e) for q, qd, qd_e in zip(self.q, self.qd, qd_E, strict=True)]
        return EndState(q_E, qd_E)

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
            Adjoints of `q`, `qd`, `target` and each parameter, by name.
        """
        h, half = self.h, self.h * 0.5
        qdd_bar = [h * (v + half * p) for p, v in zip(q_bar, qd_bar, strict=True)]
        R_bar = [-bar for bar in rigid_body.solve(self.model, factor, qdd_bar)]
        blocks: dict[str, list[Scalar]] = {"q_M": self.q_M, "qd": self.qd, "target": self.target, **self.parameters}
        inputs = [node for block in blocks.values() for node in block]
        flat = iter(gradient(list(zip(self.residual(qdd), R_bar, strict=True)), inputs))
        bar = {name: [next(flat) for _ in block] for name, block in blocks.items()}
        bar_M, bar_qd = bar.pop("q_M"), bar.pop("qd")
        return {
            "q": [p + m for p, m in zip(q_bar, bar_M, strict=True)],
            "qd": [v + h * p + half * m + d for p, v, m, d in zip(q_bar, qd_bar, bar_M, bar_qd, strict=True)],
            **bar,
        }

    def tangent(
        self,
        factor: TreeFactor,
        qdd: Sequence[Scalar],
        q_dot: Sequence[Scalar],
        qd_dot: Sequence[Scalar],
        parameter_dot: dict[str, list[Scalar]],
    ) -> EndState:
        """Jacobian-vector product of the step: rates of (q_E, qd_E) for rates of q, qd and the parameters.

        The factor and qdd are those that the step computed, stored.
        """
        h, half = self.h, self.h * 0.5
        directions: dict[Scalar, Number] = dict(zip(self.qd, qd_dot, strict=True))
        directions |= {m: p + half * v for m, p, v in zip(self.q_M, q_dot, qd_dot, strict=True)}
        for name, nodes in self.parameters.items():
            directions |= dict(zip(nodes, parameter_dot[name], strict=True))
        R_dot = tangent(self.residual(qdd), directions)
        qdd_dot = rigid_body.solve(self.model, factor, [-rate for rate in R_dot])
        qd_E_dot = [v + h * rate for v, rate in zip(qd_dot, qdd_dot, strict=True)]
        q_E_dot = [p + half * (v + v_E) for p, v, v_E in zip(q_dot, qd_dot, qd_E_dot, strict=True)]
        return EndState(q_E_dot, qd_E_dot)
