"""The face of the differentiable simulator: batched rollouts of one robot as a torch autograd function."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import warp as wp
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics import actuator
from realitygrad_ros.physics import compile as kernels
from realitygrad_ros.physics.integrator import Step
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

UNLIMITED_TORQUE = 1e9
"""Stands for an infinite limit where a tensor must hold it [N m]."""


class State(NamedTuple):
    """Joint positions [rad or m] and velocities [rad/s or m/s], both [..., joint]."""

    position: Tensor
    velocity: Tensor


def parameter_tensors(parameters: SimulationParameters, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Parameters as tensors [1, joint] by name, which every world shares."""
    return {name: torch.tensor(getattr(parameters, name), dtype=dtype)[None] for name in PARAMETER_NAMES}


class Simulator:
    """Rolls out many worlds of one robot at once, with exact derivatives of the discrete time steps.

    A world is a robot with its own initial state, commands and parameters. Kernels are generated for the robot and
    compiled at first use; Warp keeps them on disk.
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
    ) -> None:
        """Prepare a simulator.

        Args:
            model: the robot.
            time_step: length h of a physics step [s].
            substeps: physics steps for each command; states are returned once a command.
            gravity: in the base frame [m/s^2].
            friction_velocity: width of the smooth Coulomb friction [rad/s].
            dtype: `torch.float32` for learning, `torch.float64` for identification and for checks of gradients.
            threads: CPU threads among which worlds are shared; default, one a core.

        Raises:
            ValueError: `time_step`, `substeps` or `friction_velocity` is not positive, or the dtype is another one.
        """
        if time_step <= 0.0 or substeps < 1 or friction_velocity <= 0.0:
            raise ValueError("time_step, substeps and friction_velocity must be positive")
        if dtype not in kernels.SCALAR_TYPES:
            raise ValueError(f"dtype must be one of {list(kernels.SCALAR_TYPES)}, not {dtype}")
        self.model = model
        self.time_step = time_step
        self.substeps = substeps
        self.gravity = tuple(float(g) for g in gravity)
        self.friction_velocity = friction_velocity
        self.dtype = dtype
        self._scalar = kernels.SCALAR_TYPES[dtype]
        self._launcher = kernels.Launcher(threads)
        self._factor_size = kernels.factor_size(model)
        self._sources: dict[str, str] = {}

    def rollout(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Float[Tensor, "world_or_1 joint"]],
    ) -> State:
        """Trajectories of all worlds; differentiable by every tensor that is given.

        Args:
            initial: [world, joint].
            command: position targets q* [rad], each held for `substeps` steps; the velocity target is zero.
            parameters: one tensor for each of `PARAMETER_NAMES`.

        Returns:
            States [time + 1, world, joint], the initial one first.

        Raises:
            ValueError: a shape or a dtype does not fit, or a parameter is missing.
        """
        checked = self._checked(initial, command, parameters)
        position, velocity = _Rollout.apply(self, initial.position, initial.velocity, command, *checked)
        return State(position, velocity)

    def jacobian(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Float[Tensor, "world_or_1 joint"]],
        wrt: Sequence[tuple[str, int]],
    ) -> tuple[State, State]:
        """Trajectories and their derivatives by parameters that all worlds share, by forward accumulation.

        Args:
            initial: as for `rollout`; held.
            command: as for `rollout`; held.
            parameters: as for `rollout`.
            wrt: pairs (parameter's name, joint's index), p of them.

        Returns:
            States [time + 1, world, joint], and their derivatives [time + 1, world, joint, p].

        Raises:
            ValueError: as for `rollout`.
        """
        checked = self._checked(initial, command, parameters)
        time, worlds, joints = command.shape
        rollout = _run(self, initial.position, initial.velocity, command, checked, store=True)
        directions = {name: torch.zeros(len(wrt), joints, dtype=self.dtype) for name in PARAMETER_NAMES}
        for d, (name, joint) in enumerate(wrt):
            directions[name][d, joint] = 1.0
        rates = [torch.zeros(time + 1, worlds, len(wrt), joints, dtype=self.dtype) for _ in range(2)]
        arguments = [time * self.substeps, self.substeps, len(wrt), self.time_step]
        arrays = [command, *checked, *rollout, *directions.values(), *rates]
        self.launch("tangent", worlds * len(wrt), arguments, arrays)
        states = State(*(buffer[:: self.substeps] for buffer in rollout[:2]))
        return states, State(*(rate.transpose(2, 3) for rate in rates))

    def torque(self, state: State, command: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
        """The servo's torque after its limit [N m], [..., joint], at given states and commands; differentiable."""
        limit = torch.tensor(self.model.limit_array("effort_limit"), dtype=self.dtype).clamp(max=UNLIMITED_TORQUE)
        kp, kd = parameters["kp"], parameters["kd"]
        return actuator.servo_torque(kp, kd, command, 0.0, state.position, state.velocity, limit)

    def launch(self, name: str, count: int, arguments: Sequence[float], arrays: Sequence[Tensor]) -> None:
        """Run one of this robot's kernels: `rollout`, `adjoint` or `tangent` of `physics.compile`."""
        if name not in self._sources:
            step = Step(self.model, self.gravity, self.friction_velocity)
            self._sources[name] = getattr(kernels, f"{name}_source")(step, self._scalar)
        # Inputs may be views of any layout; results are contiguous, so that no copy is made of them.
        views = [wp.from_torch(array.detach().contiguous(), requires_grad=False) for array in arrays]
        self._launcher.launch(self._sources[name], count, [*arguments, *views])

    def _checked(self, initial: State, command: Tensor, parameters: Mapping[str, Tensor]) -> list[Tensor]:
        """The parameters as [world, joint] in the order of `PARAMETER_NAMES`, once everything fits."""
        joints = self.model.joint_count
        if command.ndim != 3 or command.shape[2] != joints:
            raise ValueError(f"command must be [time, world, {joints}], not {list(command.shape)}")
        worlds = command.shape[1]
        missing = set(PARAMETER_NAMES) ^ set(parameters)
        if missing:
            raise ValueError(f"parameters must be {PARAMETER_NAMES}; these differ: {sorted(missing)}")
        tensors = {"initial position": initial.position, "initial velocity": initial.velocity, **parameters}
        for name, tensor in {**tensors, "command": command}.items():
            if tensor.dtype != self.dtype:
                raise ValueError(f"{name} must be {self.dtype}, not {tensor.dtype}")
        for name, tensor in tensors.items():
            allowed = [(worlds, joints)] + ([(1, joints)] if name in parameters else [])
            if tuple(tensor.shape) not in allowed:
                raise ValueError(f"{name} must be of shape {allowed}, not {tuple(tensor.shape)}")
        return [parameters[name].expand(worlds, joints) for name in PARAMETER_NAMES]


def _run(
    simulator: Simulator,
    position: Tensor,
    velocity: Tensor,
    command: Tensor,
    parameters: Sequence[Tensor],
    store: bool,
) -> list[Tensor]:
    """Position, velocity, acceleration and factor of every step; the last two are empty unless stored."""
    time, worlds, joints = command.shape
    steps = time * simulator.substeps
    stored = steps if store else 0
    shapes = [(steps + 1, joints), (steps + 1, joints), (stored, joints), (stored, simulator._factor_size)]
    buffers = [torch.empty(length, worlds, width, dtype=simulator.dtype) for length, width in shapes]
    buffers[0][0], buffers[1][0] = position, velocity
    arguments = [steps, simulator.substeps, int(store), simulator.time_step]
    simulator.launch("rollout", worlds, arguments, [command, *parameters, *buffers])
    return buffers


class _Rollout(torch.autograd.Function):
    """`Simulator.rollout` with the traced adjoint as its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, simulator: Simulator, position: Tensor, velocity: Tensor, command: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        store = any(ctx.needs_input_grad)
        buffers = _run(simulator, position, velocity, command, parameters, store)
        if store:
            ctx.simulator = simulator
            ctx.buffers = buffers
            ctx.save_for_backward(command, *parameters)
        return buffers[0][:: simulator.substeps], buffers[1][:: simulator.substeps]

    @staticmethod
    def backward(ctx: Any, position_bar: Tensor, velocity_bar: Tensor) -> tuple[Any, ...]:
        simulator = ctx.simulator
        command, *parameters = ctx.saved_tensors
        time = command.shape[0]
        state_bars = [torch.zeros_like(ctx.buffers[0][0]) for _ in range(2)]
        command_bar = torch.zeros_like(command, memory_format=torch.contiguous_format)
        parameter_bars = [torch.zeros_like(state_bars[0]) for _ in parameters]
        inputs = [command, *parameters, *ctx.buffers, position_bar, velocity_bar]
        arguments = [time * simulator.substeps, simulator.substeps, simulator.time_step]
        results = [*state_bars, command_bar, *parameter_bars]
        simulator.launch("adjoint", command.shape[1], arguments, [*inputs, *results])
        return None, *state_bars, command_bar, *parameter_bars
