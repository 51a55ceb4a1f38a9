"""Training of a walking policy from the first iteration to the last, with checkpoints from which it goes on.

A training folder holds `checkpoint.safetensors`, everything that the next iteration depends on, so that a training that
was interrupted goes on as if it had not been; `curve.json`, the figures of every iteration; and, at the end,
`policy.safetensors`, the bundle for the robot. Each is written whole or not at all, the checkpoint last.

Where several processes share the worlds the first of them writes, with the worlds of all; as many processes go on from
there as if nothing had been, and another number can go on too, by other random numbers.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.shac import Shac, ShacSettings, processes
from realitygrad_ros.control.tasks.walking import TASKS
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.progress import CancelCheck, Progress, never, silent
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

VERSION = "2"
"""Of a checkpoint; a reader takes no other."""

CHECKPOINT, CURVE, POLICY = "checkpoint.safetensors", "curve.json", "policy.safetensors"

ITERATIONS_BETWEEN_CHECKPOINTS = 50


class Algorithm(Protocol):
    """What `Shac` and `Ppo` have in common."""

    iteration: int
    policy: WalkingPolicy

    def learn(self) -> dict[str, float]:
        """One iteration; returns its figures."""

    def state(self) -> dict[str, Tensor]:
        """Everything that the next iteration depends on, by name, the worlds of all processes together.

        Every process must ask for it when the others do.
        """

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Become what `state` described."""


@dataclass(frozen=True)
class Plan:
    """What is trained; two trainings of the same plan are the same."""

    robot: str
    task: str
    algorithm: str
    contact: str
    worlds: int
    horizon: int
    """Steps of each world in an iteration."""
    iterations: int
    seed: int


def usual_horizon(algorithm: str) -> int:
    """Steps of each world in an iteration, as the settings of an algorithm have them.

    Raises:
        RealityGradError: the library of `Ppo` is not there.
    """
    if algorithm == "shac":
        return ShacSettings.horizon
    from realitygrad_ros.control.ppo import PpoSettings  # its library is an extra

    return PpoSettings.steps


@dataclass(frozen=True)
class Training:
    """A training that has come to its end."""

    policy: WalkingPolicy
    bundle: PolicyBundle
    curve: list[dict[str, float]]
    """Figures of every iteration, `samples` and `seconds` since the beginning among them."""


@one_thread()
def train(
    plan: Plan,
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
    folder: Path | None = None,
    *,
    progress: Progress = silent,
    cancelled: CancelCheck = never,
) -> Training:
    """Train, from the folder's checkpoint on if there is one.

    Args:
        plan: what to train.
        configuration: of the robot.
        model: the robot.
        parameters: of the simulator.
        folder: where checkpoint, curve and policy are kept; without one nothing is.
        progress: told the figures of each iteration.
        cancelled: asked before each iteration.

    Raises:
        RealityGradError: the checkpoint is of another plan or damaged, the robot cannot walk, or training diverged; the
            last good checkpoint is as it was.
        OSError: a file cannot be written; so is it then.
        Cancelled: as asked; the checkpoint is that of the last iteration, as it is where the user interrupts.
    """
    algorithm, curve = _begin(plan, configuration, model, parameters, folder)
    done = _Done.now(algorithm, curve)
    try:
        while algorithm.iteration < plan.iterations:
            if cancelled():
                raise Cancelled
            figures = algorithm.learn()
            before = done.curve[-1] if done.curve else {"samples": 0.0, "seconds": 0.0}
            row = figures | {name: before[name] + figures[name] for name in ("samples", "seconds")}
            done = _Done.now(algorithm, [*done.curve, row])
            shown = {name: figures[name] for name in ("reward", "speed_mps", "gradient_norm", "steps_per_second")}
            progress(f"{plan.algorithm} {plan.task}", algorithm.iteration / plan.iterations, shown)
            if algorithm.iteration % ITERATIONS_BETWEEN_CHECKPOINTS == 0:
                _keep(plan, done, folder)
    except (Cancelled, KeyboardInterrupt):
        _keep(plan, done, folder)
        raise
    _keep(plan, done, folder)
    task = TASKS[plan.task]
    bundle = algorithm.policy.to_bundle(task, model, configuration, parameters, epoch=0, parent="")
    if folder is not None and _first_process():
        bundle.write(folder / POLICY)
    return Training(algorithm.policy, bundle, done.curve)


class _Done(NamedTuple):
    """What a training came to by the end of an iteration: an interruption finds the next one half done."""

    state: dict[str, Tensor]
    curve: list[dict[str, float]]

    @classmethod
    def now(cls, algorithm: Algorithm, curve: list[dict[str, float]]) -> "_Done":
        """A copy, so that the algorithm can go on."""
        return cls({name: tensor.detach().clone() for name, tensor in algorithm.state().items()}, curve)


def _begin(
    plan: Plan,
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
    folder: Path | None,
) -> tuple[Algorithm, list[dict[str, float]]]:
    robot = legged_robot(model, configuration, parameters, plan.contact)
    worlds = Worlds(robot, parameters, TASKS[plan.task], own_share(plan.worlds), plan.seed)
    algorithm: Algorithm
    if plan.algorithm == "shac":
        algorithm = Shac(worlds, ShacSettings(horizon=plan.horizon, iterations=plan.iterations), plan.seed)
    else:
        from realitygrad_ros.control.ppo import Ppo, PpoSettings  # its library is an extra

        algorithm = Ppo(worlds, PpoSettings(steps=plan.horizon), plan.seed)
    if folder is None or not (folder / CHECKPOINT).exists():
        return algorithm, []
    state, curve = read_checkpoint(folder / CHECKPOINT, plan)
    try:
        algorithm.load(state)
    except (KeyError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise RealityGradError(
            f"checkpoint '{folder / CHECKPOINT}' was written by another version of this package ({reason}); choose "
            "another folder, or remove it"
        ) from error
    return algorithm, curve


def own_share(worlds: int) -> Share:
    """This process's part of all worlds.

    Raises:
        RealityGradError: the processes cannot share them evenly.
    """
    count, rank = processes(), torch.distributed.get_rank() if processes() > 1 else 0
    if worlds < 1 or worlds % count:
        raise RealityGradError(f"{worlds} worlds cannot be shared evenly among {count} processes; choose a multiple")
    return Share(rank * worlds // count, worlds // count, worlds)


def _first_process() -> bool:
    return processes() == 1 or torch.distributed.get_rank() == 0


def _keep(plan: Plan, done: _Done, folder: Path | None) -> None:
    """Write curve and checkpoint."""
    if folder is None or not _first_process():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CURVE, json.dumps({"plan": asdict(plan), "curve": done.curve}, indent=1).encode() + b"\n")
    write_checkpoint(folder / CHECKPOINT, plan, done.state, done.curve)


def write_checkpoint(path: Path, plan: Plan, state: Mapping[str, Tensor], curve: list[dict[str, float]]) -> None:
    """Write a checkpoint, whole or not at all."""
    metadata = {"version": VERSION, "plan": json.dumps(asdict(plan)), "curve": json.dumps(curve)}
    tensors = {name: tensor.detach().contiguous() for name, tensor in state.items()}
    write_whole(path, save(tensors, metadata))


def read_checkpoint(path: Path, plan: Plan) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
    """The state and the curve that `write_checkpoint` wrote.

    Raises:
        RealityGradError: the file is damaged, or of another version or plan; the message says of which.
    """
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
        found: dict[str, Any] = json.loads(metadata["plan"])
        curve: list[dict[str, float]] = json.loads(metadata["curve"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise RealityGradError(f"checkpoint '{path}' is damaged: {error}; remove it to begin anew") from error
    if metadata.get("version") != VERSION:
        raise RealityGradError(
            f"checkpoint '{path}' is of version {metadata.get('version')}, not {VERSION}; choose another folder, or "
            "remove it"
        )
    for name, wanted in asdict(plan).items():
        if found.get(name) != wanted:
            raise RealityGradError(
                f"checkpoint '{path}' is of {name} {found.get(name)}, not {wanted}; choose another folder, or remove it"
            )
    return state, curve
