"""The face of the differentiable simulator: batched rollouts of one robot as a torch autograd function."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import warp as wp
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics import actuator, kernel_source
from realitygrad_ros.physics.aligned import aligned
from realitygrad_ros.physics.compile import SCALAR_TYPES, Launcher
from realitygrad_ros.physics.contact_step import RigidContactStep
from realitygrad_ros.physics.integrator import Step, World, held_widths, parameter_widths
from realitygrad_ros.robot.contact import CONTACT_MODES, STEP_SIZES, ContactConfiguration
from realitygrad_ros.robot.model import BASE, Body, RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

UNLIMITED_TORQUE = 1e9
"""Stands for an infinite limit where a tensor must hold it [N m]."""


class State(NamedTuple):
    """Coordinates and velocities of robots, in the order of `RobotModel`."""

    position: Tensor
    """[..., coordinate]: with a floating base its position in the world [m] and its orientation (x, y, z, w); then the
    joints' positions [rad or m]."""
    velocity: Tensor
    """[..., dof]: with a floating base its linear [m/s] and angular [rad/s] velocity, both in the base frame; then the
    joints' velocities [rad/s or m/s]."""


def parameter_tensors(parameters: SimulationParameters, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Parameters as tensors [1, joint] by name, which every world shares."""
    return {name: torch.tensor(getattr(parameters, name), dtype=dtype)[None] for name in PARAMETER_NAMES}


class Simulator:
    """Rolls out many worlds of one robot at once, with exact derivatives of the discrete time steps.

    A world is a robot with its own initial state, commands, pushes and parameters. Kernels are generated for the robot
    and compiled at first use; Warp keeps them on disk. Nothing depends on where in the horizontal plane a world is, so
    gradients do not grow with the distance from the origin.
    """

    def __init__(
        self,
        model: RobotModel,
        *,
        time_step: float,
        substeps: int = 1,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        friction_velocity: float = 0.05,
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        contact: ContactConfiguration | None = None,
        contact_mode: str = "smooth",
    ) -> None:
        """Prepare a simulator.

        Args:
            model: the robot.
            time_step: length h of a physics step [s].
            substeps: physics steps for each command; states are returned once a command.
            gravity: in the world, which a fixed base's frame is [m/s^2].
            friction_velocity: width of the smooth Coulomb friction of joints [rad/s].
            dtype: `torch.float32` for learning, `torch.float64` for identification and for checks of gradients.
            threads: CPU threads among which worlds are shared; default, one a core.
            contact: what touches the ground z = 0, and how; default, nothing does.
            contact_mode: one of `CONTACT_MODES`.

        Raises:
            ValueError: `time_step`, `substeps` or `friction_velocity` is not positive, the contact has no sphere, or
                the dtype, the contact mode or the step-size rule is another one.
            RealityGradError: a sphere's link is not the robot's, or a fixed base.
        """
        if time_step <= 0.0 or substeps < 1 or friction_velocity <= 0.0:
            raise ValueError("time_step, substeps and friction_velocity must be positive")
        if dtype not in SCALAR_TYPES:
            raise ValueError(f"dtype must be one of {list(SCALAR_TYPES)}, not {dtype}")
        _check_contact(model, contact, contact_mode)
        self.model = model
        self.time_step = time_step
        self.substeps = substeps
        self.gravity = tuple(float(g) for g in gravity)
        self.friction_velocity = friction_velocity
        self.dtype = dtype
        self.contact = contact
        self.contact_mode = contact_mode
        self._launcher = Launcher(threads)
        self._sources: dict[str, str] = {}
        step = self._step()
        self._stored_widths = kernel_source.stored_widths(step)
        self._settings = [time_step, *(_setting(contact, name) for name in step.settings)]
        self._sweeps = contact.sweeps if contact is not None and isinstance(step, RigidContactStep) else None
        contacts = 0 if contact is None else len(contact.spheres)
        self._parameter_widths = parameter_widths(model, contacts)

    def rollout(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Tensor],
        push: Float[Tensor, "time world 3"] | None = None,
    ) -> State:
        """Trajectories of all worlds; differentiable by every tensor that is given.

        Args:
            initial: [world, coordinate] and [world, dof].
            command: position targets q* [rad], each held for `substeps` steps; the velocity target is zero.
            parameters: [world or 1, joint] for each of `PARAMETER_NAMES`; for a floating base `added_base_mass`
                [world or 1, 1], a point mass at its centre of mass, else none [kg]; with contact
                `friction_coefficient` [world or 1, contact], else the configuration's.
            push: force on a floating base's origin, in the world's axes, held as the commands are; default, none [N].

        Returns:
            States [time + 1, world, ...], the initial one first.

        Raises:
            ValueError: a shape or a dtype does not fit, a parameter is missing or unknown, a number is not finite, an
                orientation has no length, or a base no mass.
            RealityGradError: a world, or a gradient when it is asked for, grew beyond all numbers; it names the world.
        """
        held, values = self._checked(initial, command, parameters, push)
        position, velocity = _Rollout.apply(self, initial.position, initial.velocity, held, values)
        return State(position, velocity)

    def contact_impulses(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Tensor],
        push: Float[Tensor, "time world 3"] | None = None,
    ) -> Float[Tensor, "step world contact 3"]:
        """Impulse of the ground on each sphere in every physics step of a `rollout`, in the world's axes [N s].

        Raises:
            ValueError: as for `rollout`, or the simulator has no contact.
        """
        if self.contact is None:
            raise ValueError("a simulator without contact has no contact impulses")
        held, values = self._checked(initial, command, parameters, push)
        buffers = _run(self, initial, held, values, store=True)
        return buffers["impulse"].unflatten(2, (-1, 3))

    def jacobian(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Tensor],
        wrt: Sequence[tuple[str, int]],
    ) -> tuple[State, State]:
        """Trajectories and their derivatives by parameters that all worlds share, by forward accumulation.

        Args:
            initial: as for `rollout`; held.
            command: as for `rollout`; held.
            parameters: as for `rollout`.
            wrt: pairs (parameter's name, index in its last dimension), p of them.

        Returns:
            States [time + 1, world, ...], and their derivatives [time + 1, world, ..., p].

        Raises:
            ValueError: as for `rollout`, or contact is rigid: use the gradient of `rollout` there.
        """
        if self._sweeps is not None:
            raise ValueError(f"there is no Jacobian of {self.contact_mode} contact; use the gradient of a rollout")
        held, values = self._checked(initial, command, parameters, None)
        time, worlds, _ = command.shape
        buffers = _run(self, initial, held, values, store=True)
        directions = torch.zeros(len(wrt), values.shape[1], dtype=self.dtype)
        for d, (name, index) in enumerate(wrt):
            directions[d, self._first_parameter(name) + index] = 1.0
        rates = [
            torch.zeros(time + 1, worlds, len(wrt), width, dtype=self.dtype)
            for width in (self.model.coordinate_count, self.model.velocity_count)
        ]
        arrays = [held, values, *buffers.values(), directions, *rates]
        self.launch("tangent", worlds * len(wrt), time, [len(wrt)], arrays)
        states = State(*(buffers[name][:: self.substeps] for name in ("position", "velocity")))
        return states, State(*(rate.transpose(2, 3) for rate in rates))

    def torque(self, state: State, command: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
        """The servos' torques after their limits [N m], [..., joint], at states and commands; differentiable."""
        limit = torch.tensor(self.model.limit_array("effort_limit"), dtype=self.dtype).clamp(max=UNLIMITED_TORQUE)
        kp, kd = parameters["kp"], parameters["kd"]
        n = self.model.joint_count
        q, qd = state.position[..., state.position.shape[-1] - n :], state.velocity[..., state.velocity.shape[-1] - n :]
        return actuator.servo_torque(kp, kd, command, 0.0, q, qd, limit)

    def launch(self, name: str, count: int, time: int, extra: Sequence[int], arrays: Sequence[Tensor]) -> None:
        """Run one of this robot's kernels for `time` commands: `rollout`, `adjoint` or `tangent` of `kernel_source`."""
        if name not in self._sources:
            self._sources[name] = getattr(kernel_source, f"{name}_source")(self._step(), SCALAR_TYPES[self.dtype])
        whole = [time * self.substeps, self.substeps, *([] if self._sweeps is None else [self._sweeps]), *extra]
        # Inputs may be views of any layout; results are contiguous, so that no copy is made of them.
        views = [wp.from_torch(array.detach().contiguous(), requires_grad=False) for array in arrays]
        self._launcher.launch(self._sources[name], count, [*whole, *self._settings, *views])

    def _step(self) -> Step:
        contact = self.contact
        world = World(self.gravity, self.friction_velocity, () if contact is None else contact.spheres)
        if contact is None or self.contact_mode == "soft":
            return Step(aligned(self.model), world)
        return RigidContactStep(
            aligned(self.model), world, smooth=self.contact_mode == "smooth", step_size=contact.step_size
        )

    def stored_shapes(self, steps: int) -> dict[str, tuple[int, int]]:
        """Length of the first and of the last dimension of each array that keeps what derivatives need, by name."""
        iterates = 1 if self._sweeps is None else self._sweeps + 1
        return {
            name: (steps, width * (iterates if name == "iterates" else 1))
            for name, width in self._stored_widths.items()
        }

    def _checked(
        self, initial: State, command: Tensor, parameters: Mapping[str, Tensor], push: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Held inputs [time, world, ...] and parameters [world, ...], each in one tensor, once everything fits."""
        model = self.model
        if command.ndim != 3 or command.shape[2] != model.joint_count:
            raise ValueError(f"command must be [time, world, {model.joint_count}], not {list(command.shape)}")
        time, worlds, _ = command.shape
        unknown = set(parameters) - set(self._parameter_widths)
        missing = set(PARAMETER_NAMES) - set(parameters)
        if unknown or missing:
            raise ValueError(
                f"parameters must be {tuple(self._parameter_widths)}; these differ: {sorted(unknown | missing)}"
            )
        if push is not None and model.base is None:
            raise ValueError("a fixed base cannot be pushed")
        values = {name: parameters.get(name, self._default(name)) for name in self._parameter_widths}
        push = torch.zeros(1, 1, 3, dtype=self.dtype).expand(time, worlds, 3) if push is None else push
        held = {"target": command} | ({"push": push} if "push" in held_widths(model) else {})
        shapes: dict[str, list[tuple[int, ...]]] = {
            name: [(worlds, width), (1, width)] for name, width in self._parameter_widths.items()
        }
        shapes |= {"initial position": [(worlds, model.coordinate_count)]}
        shapes |= {"initial velocity": [(worlds, model.velocity_count)], "push": [(time, worlds, 3)]}
        tensors = {"initial position": initial.position, "initial velocity": initial.velocity, **values, **held}
        for name, tensor in tensors.items():
            _check_tensor("command" if name == "target" else name, tensor, shapes.get(name), self.dtype)
        if model.base is not None:
            _check_base(model.base, initial.position[:, 3:7], values["added_base_mass"])
        joined = torch.cat([values[name].expand(worlds, -1) for name in self._parameter_widths], dim=1)
        joined_held = torch.cat(list(held.values()), dim=2) if len(held) > 1 else command
        # All in few looks; which of them it is matters only where one is not finite.
        if not all(map(_all_finite, (*initial, joined_held, joined))):
            name = next(name for name, tensor in tensors.items() if not _all_finite(tensor))
            raise ValueError(f"{'command' if name == 'target' else name} has a number that is not finite")
        return joined_held, joined

    def _first_parameter(self, name: str) -> int:
        """Where a parameter begins among all parameters of a world."""
        names = list(self._parameter_widths)
        return sum(self._parameter_widths[before] for before in names[: names.index(name)])

    def _default(self, name: str) -> Tensor:
        value = 0.0 if self.contact is None or name == "added_base_mass" else self.contact.friction_coefficient
        return torch.full((1, self._parameter_widths[name]), value, dtype=self.dtype)


def _check_contact(model: RobotModel, contact: ContactConfiguration | None, mode: str) -> None:
    if mode not in CONTACT_MODES:
        raise ValueError(f"contact_mode must be one of {CONTACT_MODES}, not '{mode}'")
    if contact is None:
        return
    if not contact.spheres:
        raise ValueError("a contact needs at least one sphere")
    if contact.step_size not in STEP_SIZES:
        raise ValueError(f"step_size must be one of {STEP_SIZES}, not '{contact.step_size}'")
    for sphere in contact.spheres:
        if model.frame(sphere.link).joint == BASE and model.base is None:
            raise RealityGradError(
                f"the contact sphere of link '{sphere.link}' stands still, for the base of robot '{model.name}' is "
                "fixed; leave it out, or let the base float"
            )


def _check_base(base: Body, orientation: Tensor, added_mass: Tensor) -> None:
    """Refuse what no floating base has."""
    if not orientation.any(dim=1).all():
        raise ValueError("initial position has an orientation of length zero; it must be a unit quaternion")
    if (added_mass <= -base.mass).any():
        raise ValueError(f"added_base_mass must be more than -{base.mass:g} kg, the mass of the base")


def _setting(contact: ContactConfiguration | None, name: str) -> float:
    """A contact's number by its name in `Step.settings`."""
    assert contact is not None
    soft = contact.soft
    return {
        "recovery_rate": contact.recovery_rate,
        "kappa": contact.kappa,
        "stiffness": soft.stiffness,
        "normal_damping": soft.damping,
        "tangential_damping": soft.tangential_damping,
    }[name]


def _check_tensor(name: str, tensor: Tensor, shapes: Sequence[tuple[int, ...]] | None, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise ValueError(f"{name} must be {dtype}, not {tensor.dtype}")
    if shapes is not None and tuple(tensor.shape) not in shapes:
        raise ValueError(f"{name} must be of shape {shapes}, not {tuple(tensor.shape)}")


def _all_finite(tensor: Tensor) -> bool:
    """Whether every number is finite. Their sum is not if one of them is not, and is found sooner."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _check_finite(what: str, tensor: Tensor, world_dimension: int) -> None:
    """Raise an error that names the first world of which a number is not finite."""
    if not _all_finite(tensor):
        world = int((~tensor.isfinite()).nonzero()[:, world_dimension].min())
        raise RealityGradError(
            f"{what} of world {world} is not finite: its motion grew beyond all numbers; check the world's parameters "
            "and initial state, or take a shorter time step"
        )


def _run(simulator: Simulator, initial: State, held: Tensor, values: Tensor, store: bool) -> dict[str, Tensor]:
    """Position and velocity before and after every step, and what derivatives need, which is empty unless stored."""
    time, worlds, _ = held.shape
    steps = time * simulator.substeps
    buffers = {
        name: torch.empty(steps + 1, worlds, start.shape[1], dtype=simulator.dtype)
        for name, start in (("position", initial.position), ("velocity", initial.velocity))
    }
    buffers["position"][0], buffers["velocity"][0] = initial
    for name, (length, width) in simulator.stored_shapes(steps if store else 0).items():
        buffers[name] = torch.empty(length, worlds, width, dtype=simulator.dtype)
    simulator.launch("rollout", worlds, time, [int(store)], [held, values, *buffers.values()])
    # What is no number once stays none, so the last states tell of all.
    _check_finite("the velocity", buffers["velocity"][-1], 0)
    _check_finite("the position", buffers["position"][-1], 0)
    return buffers


class _Rollout(torch.autograd.Function):
    """`Simulator.rollout` with the traced adjoint as its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, simulator: Simulator, position: Tensor, velocity: Tensor, held: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        store = any(ctx.needs_input_grad)
        buffers = _run(simulator, State(position, velocity), held, values, store)
        if store:
            ctx.simulator, ctx.buffers = simulator, buffers
            ctx.save_for_backward(held, values)
        return buffers["position"][:: simulator.substeps], buffers["velocity"][:: simulator.substeps]

    @staticmethod
    def backward(ctx: Any, position_bar: Tensor, velocity_bar: Tensor) -> tuple[Any, ...]:
        simulator, inputs = ctx.simulator, ctx.saved_tensors
        time, worlds, _ = inputs[0].shape
        bars = [torch.zeros_like(ctx.buffers[name][0]) for name in ("position", "velocity")]
        bars += [torch.zeros_like(value, memory_format=torch.contiguous_format) for value in inputs]
        arrays = [*inputs, *ctx.buffers.values(), position_bar, velocity_bar, *bars]
        simulator.launch("adjoint", worlds, time, [], arrays)
        for bar in bars:
            _check_finite("the gradient", bar, bar.ndim - 2)
        return None, *bars
