"""How fast the simulator steps and differentiates, beside MuJoCo stepping the same arm in the same run.

MuJoCo's `mj_step` in C is the yardstick: the same URDF without shapes, the same servos, damping and armature, the same
time step. It has no gradient, so the simulator's forward and backward pass is set against MuJoCo's forward step too.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles
from typing import Any

import mujoco
import torch

from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.progress import Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.twin.twin import mujoco_model

TIME_STEP = 0.002
WORLDS = 256
STEPS = 400
MUJOCO_STEPS = 20_000
ROUNDS = 15


def run(robot: str, progress: Progress) -> dict[str, Any]:
    """Measure in rounds, everything once a round, so that a noisy machine is noisy for all.

    Args:
        robot: name in `config/` or path of a configuration.
        progress: told of each round.

    Returns:
        Medians of physics steps per second by what was run: `forward` and `forward_backward` on one thread,
        `mujoco_forward`; the medians of their ratios round by round; `threads_speedup`, of forward and backward on two
        threads over one, and `mujoco_threads_speedup`, the same of two MuJoCo simulations over one, which is what the
        machine gives to work that shares nothing; the middle half of the rounds of each; the seconds that a first
        launch of each kernel took, which is its compilation unless it was found in the cache; and the machine.
    """
    configuration, model = load_robot(robot)
    one, two = (_Rollouts(configuration, model, threads) for threads in (1, 2))
    first_launch = {"forward": _seconds(one.forward), "forward_backward": _seconds(one.forward_backward)}
    two.forward_backward()
    peer, second_peer = _mujoco(configuration), _mujoco(configuration)
    parallel_peers = _together(peer, second_peer, ThreadPoolExecutor(1))
    work: dict[str, tuple[Callable[[], None], int]] = {
        "forward": (one.forward, WORLDS * STEPS),
        "forward_backward": (one.forward_backward, WORLDS * STEPS),
        "mujoco_forward": (peer, MUJOCO_STEPS),
        "two_threads": (two.forward_backward, WORLDS * STEPS),
        "mujoco_two_threads": (parallel_peers, 2 * MUJOCO_STEPS),
    }
    rates: dict[str, list[float]] = {name: [] for name in work}
    for done in range(ROUNDS):
        for name, (function, steps) in work.items():
            rates[name].append(steps / _seconds(function))
        progress("physics", (done + 1) / ROUNDS, {name: rate[-1] for name, rate in rates.items()})
    ratios = {
        "forward_over_mujoco": _ratio(rates, "forward", "mujoco_forward"),
        "forward_backward_over_mujoco": _ratio(rates, "forward_backward", "mujoco_forward"),
        "threads_speedup": _ratio(rates, "two_threads", "forward_backward"),
        "mujoco_threads_speedup": _ratio(rates, "mujoco_two_threads", "mujoco_forward"),
    }
    return {
        **{name: median(rates[name]) for name in ("forward", "forward_backward", "mujoco_forward")},
        **{name: median(values) for name, values in ratios.items()},
        "middle_half": {name: _middle_half(values) for name, values in {**rates, **ratios}.items()},
        "first_launch_seconds": first_launch,
        "robot": configuration.name,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, MuJoCo {mujoco.__version__}",
    }


class _Rollouts:
    """The simulator's work: float32, commands a little off the home pose."""

    def __init__(self, configuration: RobotConfiguration, model: RobotModel, threads: int) -> None:
        self._simulator = Simulator(
            model,
            time_step=TIME_STEP,
            gravity=configuration.gravity.tolist(),
            friction_velocity=configuration.friction_velocity,
            threads=threads,
        )
        home = torch.tensor(configuration.home, dtype=torch.float32).repeat(WORLDS, 1)
        self._initial = State(home, torch.zeros_like(home))
        offset = torch.rand(home.shape, generator=torch.Generator().manual_seed(0)) - 0.5
        self._command = (home + 0.2 * offset).repeat(STEPS, 1, 1)
        self._parameters = parameter_tensors(configuration.nominal)
        self._bar = torch.ones(STEPS + 1, *home.shape)

    def forward(self) -> None:
        self._simulator.rollout(self._initial, self._command, self._parameters)

    def forward_backward(self) -> None:
        command = self._command.requires_grad_()
        states = self._simulator.rollout(self._initial, command, self._parameters)
        torch.autograd.backward(states, (self._bar, self._bar))
        self._command = command.detach()


def _mujoco(configuration: RobotConfiguration) -> Callable[[], None]:
    model = mujoco_model(configuration, configuration.nominal)
    model.opt.timestep = TIME_STEP
    data = mujoco.MjData(model)

    def step() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = data.ctrl[:] = configuration.home
        mujoco.mj_step(model, data, MUJOCO_STEPS)

    return step


def _together(first: Callable[[], None], second: Callable[[], None], pool: ThreadPoolExecutor) -> Callable[[], None]:
    def both() -> None:
        other = pool.submit(second)
        first()
        other.result()

    return both


def _seconds(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _ratio(rates: Mapping[str, list[float]], ours: str, theirs: str) -> list[float]:
    return [a / b for a, b in zip(rates[ours], rates[theirs], strict=True)]


def _middle_half(values: list[float]) -> list[float]:
    lower, _, upper = quantiles(values, n=4)
    return [lower, upper]
