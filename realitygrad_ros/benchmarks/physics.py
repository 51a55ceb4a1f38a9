"""How fast the simulator steps and differentiates, beside MuJoCo stepping the same robot in the same run.

MuJoCo's `mj_step` in C is the yardstick: the same URDF without shapes, the same servos, damping and armature, the same
time step; a robot on legs stands on the same ground. It has no gradient, so the simulator's forward and backward pass
is set against MuJoCo's forward step too.
"""

import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median, quantiles
from typing import Any

import mujoco
import numpy as np

from realitygrad_ros.benchmarks.fresh_process import first_results
from realitygrad_ros.benchmarks.rollouts import Rollouts, batch_of, home_position
from realitygrad_ros.progress import Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.twin.ground import place
from realitygrad_ros.twin.twin import mujoco_model

MUJOCO_STEPS = 20_000
ROUNDS = 15

_WHOLE_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

SETTLING = 20.0
"""How long a robot on legs stands before it is measured [s]: the swing into its servos has died away."""


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

        Of a robot with contact also `mujoco_contacts`, the mean number of its contacts in MuJoCo's steps; and the
        figures of `fresh_process.first_results`, so that the first launch compiled for certain.
    """
    configuration, model = load_robot(robot)
    batch = batch_of(configuration)
    fresh = {} if configuration.contact is None else first_results(robot)
    one, two = (Rollouts(configuration, model, threads) for threads in (1, 2))
    first_launch = {"forward": _seconds(one.forward), "forward_backward": _seconds(one.forward_backward)}
    two.forward_backward()
    peer, second_peer = (Peer(configuration, batch.time_step) for _ in range(2))
    parallel_peers = _together(peer.step, second_peer.step, ThreadPoolExecutor(1))
    work: dict[str, tuple[Callable[[], None], int]] = {
        "forward": (one.forward, batch.steps),
        "forward_backward": (one.forward_backward, batch.steps),
        "mujoco_forward": (peer.step, MUJOCO_STEPS),
        "two_threads": (two.forward_backward, batch.steps),
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
        **({"mujoco_contacts": peer.mean_contacts()} if configuration.contact is not None else {}),
        **fresh,
        "robot": configuration.name,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, MuJoCo {mujoco.__version__}",
    }


class Peer:
    """MuJoCo's work: the same robot at home; one on legs has come to rest there."""

    def __init__(self, configuration: RobotConfiguration, time_step: float) -> None:
        """Prepare it, with its nominal parameters.

        Args:
            configuration: of the robot.
            time_step: [s]
        """
        self._model = mujoco_model(configuration, configuration.nominal)
        self._model.opt.timestep = time_step
        self._data = mujoco.MjData(self._model)
        if configuration.floating:
            position = home_position(configuration)
            place(self._model, self._data, configuration.joint_names, position, np.zeros(self._model.nv))
        else:
            self._data.qpos[:] = configuration.home
        self._data.ctrl[:] = configuration.home
        if configuration.contact is not None:
            mujoco.mj_step(self._model, self._data, round(SETTLING / time_step))
        self._start = np.empty(mujoco.mj_stateSize(self._model, _WHOLE_STATE))
        mujoco.mj_getState(self._model, self._data, self._start, _WHOLE_STATE)

    def step(self) -> None:
        """`MUJOCO_STEPS` steps from the start."""
        mujoco.mj_setState(self._model, self._data, self._start, _WHOLE_STATE)
        mujoco.mj_step(self._model, self._data, MUJOCO_STEPS)

    def mean_contacts(self) -> float:
        """Contacts with the ground, on average over the steps of `step`."""
        mujoco.mj_setState(self._model, self._data, self._start, _WHOLE_STATE)
        counts = []
        for _ in range(MUJOCO_STEPS):
            mujoco.mj_step(self._model, self._data)
            counts.append(self._data.ncon)
        return mean(counts)


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
