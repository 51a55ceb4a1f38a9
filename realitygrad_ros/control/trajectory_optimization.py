"""Gradient MPC: many motions at once, improved by gradients through the differentiable simulator.

The first step of a RealityGrad iteration (Collins et al. 2021, arXiv 2109.04674) asks for K optimal trajectories under
the present parameters; it names gradient-based MPC in the simulator. Ours is direct shooting: the commands of a motion
are piecewise linear between knots, the gradient of J by the knots comes from the simulator's adjoint, and Adam descends
all K motions, which do not interact, as one batch.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from realitygrad_ros.control.tasks.reach import Goal, ReachProblem, sample_targets
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.progress import CancelCheck, Progress, never, silent
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

ITERATIONS = 50
KNOT_INTERVAL = 0.05
"""Time between two knots of a command [s]."""
STEP_SIZE = 0.03
"""Adam's first step; it falls to zero along a cosine [rad]."""

FROM_HOME = 0.125
"""Share of motions that begin at home; the others begin where another motion could have ended."""
START_POSITION_NOISE = 0.05
"""Standard deviation of the first position about that posture [rad]."""
START_VELOCITY_NOISE = 0.1
"""Standard deviation of the first velocity [rad/s]."""

SCHEMA = 1
_TENSORS = ("target", "position", "velocity", "command", "cost")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Optimal motions and what they were made from. Joints are in the order of `joint_names`."""

    robot: str
    """Name of the robot's configuration."""
    joint_names: tuple[str, ...]
    period: float
    """Time from one sample to the next [s]."""
    parameters: SimulationParameters
    """Of the simulator in which the motions are optimal."""
    seed: int
    target: Float[Tensor, "motion 3"]
    """In the base frame [m]."""
    position: Float[Tensor, "time+1 motion joint"]
    """[rad]"""
    velocity: Float[Tensor, "time+1 motion joint"]
    """[rad/s]"""
    command: Float[Tensor, "time motion joint"]
    """Position targets of the servos, each held for one period [rad]."""
    cost: Float[Tensor, "motion"]
    """J of each motion."""
    figures: Mapping[str, float]
    """Cost before and after, errors during hold [m], largest use of each limit."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything above."""
        total = hashlib.sha256(json.dumps(self._text(), sort_keys=True).encode())
        for name in _TENSORS:
            total.update(getattr(self, name).contiguous().numpy().tobytes())
        return total.hexdigest()

    def write(self, path: Path) -> None:
        """Write a safetensors file, whole or not at all."""
        tensors = {name: getattr(self, name).contiguous() for name in _TENSORS}
        text = json.dumps(self._text() | {"digest": self.digest}, sort_keys=True)
        write_whole(path, save(tensors, {"trajectories": text}))

    @staticmethod
    def read(path: Path) -> "Trajectories":
        """Read what `write` wrote.

        Raises:
            RealityGradError: the file is missing, damaged, or of another schema.
        """
        remedy = "optimise the trajectories again"
        try:
            with safe_open(path, framework="pt") as file:
                text = json.loads(file.metadata()["trajectories"])
            tensors = load(path.read_bytes())
            if text["schema"] != SCHEMA:
                raise RealityGradError(f"trajectories '{path}' have schema {text['schema']!r}, not {SCHEMA}; {remedy}")
            names = tuple(text["joint_names"])
            parameters = {name: [text["parameters"][name][joint] for joint in names] for name in PARAMETER_NAMES}
            trajectories = Trajectories(
                robot=text["robot"],
                joint_names=names,
                period=text["period"],
                parameters=SimulationParameters(names, **{name: np.array(row) for name, row in parameters.items()}),
                seed=text["seed"],
                figures=text["figures"],
                **{name: tensors[name] for name in _TENSORS},
            )
            digest = trajectories.digest
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RealityGradError(f"trajectories '{path}' cannot be read ({error}); {remedy}") from error
        if digest != text["digest"]:
            raise RealityGradError(f"trajectories '{path}' are damaged: their digest does not match; {remedy}")
        return trajectories

    def _text(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "robot": self.robot,
            "joint_names": list(self.joint_names),
            "period": self.period,
            "parameters": self.parameters.as_mapping(),
            "seed": self.seed,
            "figures": dict(self.figures),
        }


@one_thread()
def optimise(
    model: RobotModel,
    configuration: RobotConfiguration,
    parameters: SimulationParameters,
    *,
    count: int = 64,
    seed: int,
    progress: Progress = silent,
    cancelled: CancelCheck = never,
) -> Trajectories:
    """Optimise reaching motions to targets drawn from the task's box.

    Args:
        model: the robot.
        configuration: of the same robot; gives the task.
        parameters: of the simulator, in the model's joint order.
        count: number of motions, K.
        seed: draws targets and initial states; the same seed gives the same motions.
        progress: told the mean cost after each step of the optimiser.
        cancelled: asked before each step of the optimiser.

    Raises:
        RealityGradError: a target is out of reach, or the motions' cost is not finite.
        Cancelled: `cancelled` answered true.
    """
    problem = ReachProblem(model, configuration, parameters)
    goal = problem.goal(torch.tensor(sample_targets(configuration, count, seed), dtype=torch.float32))
    initial = initial_states(problem, configuration, count, seed)
    previous = problem.rest_command(initial.position) + problem.lag * initial.velocity
    knots = first_guess(problem, configuration, initial, goal)
    motions = _descend(problem, initial, previous, goal, knots, progress, cancelled)
    states, command, cost, first_cost = motions
    figures = {"cost_mean_before": float(first_cost.mean()), "cost_mean": float(cost.mean())}
    return Trajectories(
        robot=configuration.name,
        joint_names=model.joint_names,
        period=problem.period,
        parameters=parameters,
        seed=seed,
        target=goal.target,
        position=states.position,
        velocity=states.velocity,
        command=command,
        cost=cost,
        figures=figures | problem.figures(states, command, goal, previous),
    )


def initial_states(problem: ReachProblem, configuration: RobotConfiguration, count: int, seed: int) -> State:
    """Where motions begin: on a robot each begins where the one before has ended, so mostly on other targets.

    Returns:
        States [count, joint], somewhat off rest, so that motions also come from states that are not quite right.
    """
    generator = np.random.default_rng([seed, 1])
    former = sample_targets(configuration, count, int(generator.integers(2**32)))
    position = problem.goal(torch.tensor(former, dtype=torch.float32)).position
    position[: math.ceil(FROM_HOME * count)] = problem.home
    noise = torch.tensor(generator.standard_normal((2, *position.shape)), dtype=torch.float32)
    return State(position + START_POSITION_NOISE * noise[0], START_VELOCITY_NOISE * noise[1])


def first_guess(
    problem: ReachProblem, configuration: RobotConfiguration, initial: State, goal: Goal
) -> Float[Tensor, "knot motion joint"]:
    """Knots that lead each joint straight to the goal with least jerk, ahead of it by the servo's lag."""
    reach = configuration.reach
    knots = round(reach.duration / KNOT_INTERVAL) + 1
    moving = reach.duration - reach.hold
    s = (torch.linspace(0.0, reach.duration, knots) / moving).clamp(max=1.0)[:, None, None]
    way = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    speed = 30.0 * s**2 * (1.0 - s) ** 2 / moving
    start = problem.rest_command(initial.position)
    return start + (goal.command - start) * way + problem.lag * (goal.position - initial.position) * speed


def interpolation(steps: int, knots: int) -> Float[Tensor, "time knot"]:
    """The matrix that turns knots into commands, linearly between them; the first and last knot stand at the ends."""
    place = torch.linspace(0.0, knots - 1.0, steps)
    return torch.relu(1.0 - (place[:, None] - torch.arange(knots)).abs())


def _descend(
    problem: ReachProblem,
    initial: State,
    previous: Float[Tensor, "motion joint"],
    goal: Goal,
    knots: Float[Tensor, "knot motion joint"],
    progress: Progress,
    cancelled: CancelCheck,
) -> tuple[State, Float[Tensor, "time motion joint"], Float[Tensor, "motion"], Float[Tensor, "motion"]]:
    """Adam on the knots. Returns the motions, their commands, their cost, and the cost of the first guess."""
    hat = interpolation(problem.steps, len(knots))
    knots = knots.clone().requires_grad_()
    optimiser = torch.optim.Adam([knots], lr=STEP_SIZE, betas=(0.8, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, ITERATIONS)
    first_cost: Tensor | None = None
    for iteration in range(ITERATIONS + 1):
        if cancelled():
            raise Cancelled
        command = torch.einsum("tk,kmj->tmj", hat, knots)
        states = problem.simulator.rollout(initial, command, problem.parameters)
        cost = torch.stack(list(problem.cost(states, command, goal, previous).values())).sum(0)
        mean = float(cost.detach().mean())
        if not math.isfinite(mean):
            raise RealityGradError("the simulated motions are not finite; check the calibration's parameters")
        progress("optimise", iteration / ITERATIONS, {"cost": mean})
        if first_cost is None:
            first_cost = cost.detach()
        if iteration < ITERATIONS:
            optimiser.zero_grad()
            # Motions do not interact, so the gradient of the sum is that of each.
            cost.sum().backward()
            optimiser.step()
            schedule.step()
    assert first_cost is not None
    return State(*(part.detach() for part in states)), command.detach(), cost.detach(), first_cost
