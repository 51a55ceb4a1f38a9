"""The time step with rigid contact, hard or smoothed, and its adjoint, as traced mathematics.

The impulses come from a loop of N equal sweeps (`contact.sweep`), which the kernel runs as a loop: its code is short,
and it reads the sweep's inputs from variables. What stands before the loop and what stands behind it are straight-line:

    before: q, qd, ...  -> u_free, A = L^T D L, Y, G, c, r, sigma, first impulses p
    sweeps: p -> p, N times
    behind: p, u_free, L, D, Y, sigma -> u_E = u_free + A^-1 J^T (sigma p) -> q_E, qd_E

The adjoint goes the same way back. Since G depends on A^-1, the derivative goes through the factorisation here.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from realitygrad_ros.physics.contact import (
    STEP_SIZE_RULES,
    Delassus,
    first_impulses,
    hard_weight,
    smooth_weight,
)
from realitygrad_ros.physics.integrator import EndState, Step, World
from realitygrad_ros.physics.rigid_body import TreeFactor
from realitygrad_ros.physics.trace import Number, Scalar, gradient, positive_part
from realitygrad_ros.robot.model import RobotModel


class RigidContactStep(Step):
    """The traced step of one robot that touches the ground, up to the sweeps and from them on."""

    def __init__(self, model: RobotModel, world: World, *, smooth: bool, step_size: str) -> None:
        self.smooth = smooth
        self.step_size = step_size
        self.contact_settings = ("recovery_rate", "kappa") if smooth else ("recovery_rate",)
        super().__init__(model, world)
        self.count = len(world.spheres)
        self.p = self.trace.variables("p", 3 * self.count)
        """The impulses of the last sweep, before their weights."""

    def _less_contact(self, R: list[Number]) -> list[Number]:
        return R  # contact acts by impulses

    @cached_property
    def tree_factor(self) -> TreeFactor:
        """A = L^T D L."""
        return self.factor()

    @cached_property
    def u_free(self) -> list[Number]:
        """u + h qdd without contact."""
        return self.end_velocity(self.acceleration(self.tree_factor))

    @cached_property
    def delassus(self) -> Delassus:
        """G and Y."""
        return Delassus.of(self.model, self.tree_factor, self.points())

    @cached_property
    def sigma(self) -> list[Number]:
        """Weights of the contacts."""
        heights = [point.height for point in self.points()]
        return [smooth_weight(d, self.settings["kappa"]) if self.smooth else hard_weight(d) for d in heights]

    def sweep_inputs(self) -> dict[str, Number]:
        """What the sweeps start from, by the names of `contact.Sweep`."""
        c: list[Number] = []
        for point in self.points():
            velocity = point.velocity(self.u_free)
            depth = positive_part(-point.height) if self.smooth else -point.height
            recovery = self.settings["recovery_rate"] * depth
            c += [velocity[0], velocity[1], velocity[2] - recovery]
        G = self.delassus.G
        columns = {
            "c": c,
            "r": STEP_SIZE_RULES[self.step_size](G, self.parameters["friction_coefficient"]),
            "sigma": self.sigma,
            "mu": self.parameters["friction_coefficient"],
            "p": first_impulses(G, c, self.count),
        }
        named = {f"{name}_{i}": value for name, values in columns.items() for i, value in enumerate(values)}
        return {f"G_{k}_{m}": value for (k, m), value in G.items()} | named

    def impulse(self) -> list[Number]:
        """The impulses that act, P_i = sigma_i p_i, [3 contact] [N s]."""
        return [p * self.sigma[k // 3] for k, p in enumerate(self.p)]

    def end(self) -> EndState:
        """(q_E, qd_E)."""
        change = self.delassus.response(self.model, self.tree_factor, self.impulse())
        return self.end_state([u + du for u, du in zip(self.u_free, change, strict=True)])

    def adjoint_behind(self, q_bar: Sequence[Number], qd_bar: Sequence[Number]) -> list[tuple[Scalar, Number]]:
        """Adjoints of what `end` is computed from, as pairs with it; those of `p` come last.

        The step's inputs are among it: where a sign moves, an expression may reach behind a node that it was made of.
        """
        factor, end = self.tree_factor, self.end()
        columns = [value for column in self.delassus.Y for value in column.values()]
        inputs = [node for nodes in self.inputs().values() for node in nodes]
        given = [*inputs, *self.q_M, *self.u_free, *factor.L.values(), *factor.inverse_D, *columns, *self.sigma]
        known = {node.index: node for node in given if isinstance(node, Scalar)}
        leaves = [*known.values(), *self.p]
        bars = gradient(list(zip([*end.position, *end.velocity], [*q_bar, *qd_bar], strict=True)), leaves)
        return list(zip(leaves, bars, strict=True))

    def adjoint_before(
        self, behind: Sequence[tuple[Scalar, Number]], sweep_bar: Mapping[str, Number]
    ) -> dict[str, list[Number]]:
        """Adjoints of each of `inputs`, by name.

        Args:
            behind: from `adjoint_behind`, without those of `p`.
            sweep_bar: adjoints of `sweep_inputs`, by name.
        """
        sweeps = [(value, sweep_bar[name]) for name, value in self.sweep_inputs().items()]
        return self.by_input([*behind, *sweeps])
