"""Policy cloning: one network that commands as the optimal trajectories do, checked in closed loop.

The second step of a RealityGrad iteration (Collins et al. 2021, arXiv 2109.04674) trains a network on the K optimal
trajectories. A clone leaves the states on which it was trained, and errors grow. Ours is kept on them in two ways:

- Every sample is drawn with noise in its state, and the label is mended by the law that the servo itself gives. With
  lag T = (kd + damping) / kp a joint follows its command by u - q = T qd, so a deviation dq from the motion dies out
  as d(dq)/dt = -lambda dq where the command deviates by

      du = (1 - lambda T) dq,        0 where lambda T > 1.

  A deviation of the velocity changes nothing: the servo's own damping ends it. In these directions the policy makes the
  servo softer, and takes nothing from its damping, whatever the true gains are.
- Rest is the best motion from a state of rest on the target, and is known without optimisation: half of each batch
  are goals (q*, 0; p*) -> u* for targets from the whole box.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.policy import ReachPolicy
from realitygrad_ros.control.tasks.reach import ReachProblem, sample_targets
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.control.trajectory_optimization import KNOT_INTERVAL, Trajectories
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.progress import CancelCheck, Progress, never, silent
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

STEPS = 1600
"""Steps of the optimiser."""
STEP_SIZE = 1e-2
"""Adam's first step; it falls to zero along a cosine."""
BATCH = 512
"""Samples of motions in a batch, and as many of rest."""
REST_TARGETS = 2048
POSITION_NOISE = 0.1
"""Standard deviation of the noise in a sample's position [rad]."""
VELOCITY_NOISE = 0.3
"""The same for velocity [rad/s]."""
RETURN_RATE = 10.0
"""lambda, the rate at which a deviation dies out [1/s]."""

CHECK_WORLDS = 16
CHECK_MOTIONS = 3
"""The closed loop is checked on as many chains of as many motions, to targets never trained on."""

LARGEST_FIGURES = {
    "hold_error_mean_m": (0.05, "misses its targets by more than"),
    "hold_speed_max": (0.5, "does not come to rest: while it should hold, a joint moves faster [rad/s] than"),
    "torque_ratio_max": (1.0, "asks for more of the effort limit than"),
    "velocity_ratio_max": (1.0, "moves a joint at more of its velocity limit than"),
    "position_limit_excess_max": (0.0, "moves a joint beyond its position limit by more [rad] than"),
}
"""What the closed-loop check may find in a policy that is fit for a robot, and what is wrong with it otherwise."""


class CloneResult(NamedTuple):
    """A policy for the robot, and how it does in the simulator."""

    bundle: PolicyBundle
    figures: dict[str, float]
    """Training loss [rad^2]; in closed loop: errors during hold [m] and largest use of each limit."""


@dataclass(frozen=True, eq=False)
class Samples:
    """States, targets and the commands to give there."""

    position: Float[Tensor, "sample joint"]
    velocity: Float[Tensor, "sample joint"]
    target: Float[Tensor, "sample 3"]
    command: Float[Tensor, "sample joint"]

    def drawn(self, count: int, generator: torch.Generator, follow: Float[Tensor, "joint"]) -> "Samples":
        """`count` of them with noise in the state; `follow` = du/dq mends the command."""
        chosen = torch.randint(len(self.target), (count,), generator=generator)
        shape = (2, count, self.position.shape[1])
        noise = torch.randn(shape, generator=generator)
        dq, dqd = POSITION_NOISE * noise[0], VELOCITY_NOISE * noise[1]
        return Samples(
            self.position[chosen] + dq,
            self.velocity[chosen] + dqd,
            self.target[chosen],
            self.command[chosen] + follow * dq,
        )

    def __add__(self, other: "Samples") -> "Samples":
        return Samples(*(torch.cat([a, b]) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@one_thread()
def clone(
    model: RobotModel,
    configuration: RobotConfiguration,
    parameters: SimulationParameters,
    trajectories: Trajectories,
    *,
    seed: int,
    epoch: int,
    parent: str,
    progress: Progress = silent,
    cancelled: CancelCheck = never,
) -> CloneResult:
    """Train a policy on optimal trajectories and check it in closed loop.

    Args:
        model: the robot.
        configuration: of the same robot.
        parameters: of the simulator, those by which the trajectories were made.
        trajectories: what to clone.
        seed: draws weights, batches, and the targets of the check.
        epoch: counts the policies of a run; written into the bundle.
        parent: digest of the policy before this one, empty for the first.
        progress: told the loss.
        cancelled: asked before each step of the optimiser and of the check.

    Raises:
        RealityGradError: the trajectories are for another robot, rate or other parameters.
        Cancelled: `cancelled` answered true.
    """
    _check_origin(model, configuration, parameters, trajectories)
    problem = ReachProblem(model, configuration, parameters)
    motions = motion_samples(trajectories)
    rest = rest_samples(problem, configuration, seed)
    policy = _untrained(problem, motions + rest, seed)
    loss = train(policy, motions, rest, problem.lag, seed, progress, cancelled)
    figures = {"loss": loss} | check(policy, problem, configuration, seed, cancelled)
    return CloneResult(policy.to_bundle(model, configuration, parameters, epoch=epoch, parent=parent), figures)


def refuse_unfit(figures: Mapping[str, float]) -> None:
    """Keep a policy from the robot that fails in its own simulator.

    Args:
        figures: of `clone`.

    Raises:
        RealityGradError: a figure is above its largest allowed value, or not finite.
    """
    for name, (largest, complaint) in LARGEST_FIGURES.items():
        if not figures[name] <= largest:
            raise RealityGradError(
                f"the policy is not given to the robot: in the simulator it {complaint} {largest:g} "
                f"({name} = {figures[name]:.3g}); check the calibration and the task, or train with more motions"
            )


def _check_origin(
    model: RobotModel, configuration: RobotConfiguration, parameters: SimulationParameters, trajectories: Trajectories
) -> None:
    here = (configuration.name, model.joint_names, 1.0 / configuration.policy_rate)
    there = (trajectories.robot, trajectories.joint_names, trajectories.period)
    for what, mine, its in zip(("robot", "joints", "period"), here, there, strict=True):
        if mine != its:
            raise RealityGradError(f"trajectories are for {what} {its!r}, not {mine!r}; optimise them again")
    for name in PARAMETER_NAMES:
        mine, its = getattr(parameters, name), getattr(trajectories.parameters, name)
        if (mine != its).any():
            joint = int(np.argmax(mine != its))
            raise RealityGradError(
                f"trajectories are for other parameters: '{name}' of joint '{model.joint_names[joint]}' "
                f"is {its[joint]} there and {mine[joint]} here; optimise them again"
            )


def motion_samples(trajectories: Trajectories) -> Samples:
    """Every sample of every motion but those before the second knot.

    The first knot stands by the command before the motion, which the policy does not see and its rate clamp repeats:
    what is commanded there follows from the past, and not from the state.
    """
    skipped = round(KNOT_INTERVAL / trajectories.period)
    command = trajectories.command[skipped:]
    target = trajectories.target.expand(len(command), -1, -1)
    parts = (trajectories.position[skipped:-1], trajectories.velocity[skipped:-1], target, command)
    return Samples(*(part.flatten(0, 1) for part in parts))


def rest_samples(problem: ReachProblem, configuration: RobotConfiguration, seed: int) -> Samples:
    """Rest on targets from the whole box."""
    targets = sample_targets(configuration, REST_TARGETS, _stream(seed, "rest"))
    goal = problem.goal(torch.tensor(targets, dtype=torch.float32))
    return Samples(goal.position, torch.zeros_like(goal.position), goal.target, goal.command)


def _untrained(problem: ReachProblem, samples: Samples, seed: int) -> ReachPolicy:
    observed = torch.cat([samples.position, samples.velocity, samples.target], -1)
    noise = torch.cat(
        [torch.full_like(problem.home, POSITION_NOISE), torch.full_like(problem.home, VELOCITY_NOISE), torch.zeros(3)]
    )
    return ReachPolicy(
        observed.mean(0),
        (observed.var(0) + noise**2).sqrt(),
        samples.command.mean(0),
        # One scale for all joints, so that the loss counts an error of each alike.
        samples.command.std(0).max().expand(len(problem.home)).clone(),
        lower=problem.lower,
        upper=problem.upper,
        longest_step=problem.weights.margin * problem.velocity_limit * problem.period,
        seed=_stream(seed, "weights"),
    )


def train(
    policy: ReachPolicy,
    motions: Samples,
    rest: Samples,
    lag: Float[Tensor, "joint"],
    seed: int,
    progress: Progress,
    cancelled: CancelCheck,
) -> float:
    """Adam on the mean squared error of the command; returns that of the last batches [rad^2]."""
    generator = torch.Generator().manual_seed(_stream(seed, "batches"))
    follow = (1.0 - RETURN_RATE * lag).clamp(min=0.0)
    optimiser = torch.optim.Adam(policy.parameters(), lr=STEP_SIZE, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    smooth = float("nan")
    for step in range(STEPS):
        if cancelled():
            raise Cancelled
        batch = motions.drawn(BATCH, generator, follow) + rest.drawn(BATCH, generator, follow)
        error = policy(batch.position, batch.velocity, batch.target) - batch.command
        loss = (error / policy.action_scale).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        squared = float(error.detach().square().mean())
        smooth = squared if step == 0 else 0.95 * smooth + 0.05 * squared
        progress("train", (step + 1) / STEPS, {"loss": smooth})
    return smooth


def closed_loop(
    policy: ReachPolicy,
    problem: ReachProblem,
    initial: State,
    previous: Float[Tensor, "world joint"],
    targets: Float[Tensor, "time world 3"],
    cancelled: CancelCheck = never,
) -> tuple[State, Float[Tensor, "time world joint"]]:
    """Policy and simulator together, one command for each target in time.

    Returns:
        States [time + 1, world, joint] and commands.
    """
    states, commands = [initial], [previous]
    with torch.no_grad():
        for target in targets:
            if cancelled():
                raise Cancelled
            commands.append(policy.act(*states[-1], target, commands[-1]))
            after = problem.simulator.rollout(states[-1], commands[-1][None], problem.parameters)
            states.append(State(after.position[1], after.velocity[1]))
    return State(*(torch.stack(part) for part in zip(*states, strict=True))), torch.stack(commands[1:])


def check(
    policy: ReachPolicy, problem: ReachProblem, configuration: RobotConfiguration, seed: int, cancelled: CancelCheck
) -> dict[str, float]:
    """The policy on chains of motions from home, to targets never trained on, as a robot runs them."""
    state = State(problem.home.expand(CHECK_WORLDS, -1), torch.zeros(CHECK_WORLDS, len(problem.home)))
    previous = problem.rest_command(state.position)
    targets = sample_targets(configuration, CHECK_MOTIONS * CHECK_WORLDS, _stream(seed, "check"))
    found: list[dict[str, float]] = []
    for target in torch.tensor(targets, dtype=torch.float32).split(CHECK_WORLDS):
        goal = problem.goal(target)
        in_time = target.expand(problem.steps, -1, -1)
        states, command = closed_loop(policy, problem, state, previous, in_time, cancelled)
        found.append(problem.figures(states, command, goal, previous))
        state, previous = State(states.position[-1], states.velocity[-1]), command[-1]
    mean_or_max = {name: np.mean if "_mean" in name else np.max for name in found[0]}
    return {name: float(reduce([figures[name] for figures in found])) for name, reduce in mean_or_max.items()}


def _stream(seed: int, use: str) -> int:
    """A seed for one use of the run's seed, which no other use shares."""
    return int(np.random.SeedSequence([seed, *use.encode()]).generate_state(1)[0])
