"""A walking policy for a calibrated simulator, from the policy before it.

It keeps its network and its normaliser. A critic is learned first, while the policy stays as it is: by one that knows
nothing the policy would unlearn what it can. Then follows a usual training.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.shac import Shac, ShacSettings
from realitygrad_ros.control.tasks.walking import TASKS, VELOCITY
from realitygrad_ros.control.tasks.worlds import Worlds, legged_robot
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.control.training import CHECKPOINT, Plan, own_share, train, write_checkpoint
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.iteration.legged_measure import CONTACT
from realitygrad_ros.iteration.legged_walk import simulate_walk, standing
from realitygrad_ros.iteration.run_folder import Figures
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.parameters import SimulationParameters

if TYPE_CHECKING:
    from realitygrad_ros.iteration.legged_loop import LeggedTask

CRITIC_ITERATIONS = 20
"""In which the critic alone learns."""

DEVIATION = 0.1
"""Standard deviation of the actions with which a policy that can walk begins to learn more."""

SAMPLES = 1e6
"""How many observations the statistics of the policy before count for: about as many as a training sees."""


def train_policy(
    task: "LeggedTask",
    parent: PolicyBundle,
    parameters: SimulationParameters,
    folder: Path,
    progress: Progress,
    cancelled: CancelCheck,
) -> tuple[PolicyBundle, Figures]:
    """Train a policy further, and have it walk the schedule in the simulator.

    Args:
        task: gives the robot, the schedule, the seed, and how much to train.
        parent: the policy to begin with.
        parameters: of the simulator.
        folder: of the training; one that was interrupted there goes on.
        progress: told the reward.
        cancelled: asked before each step.

    Returns:
        The bundle, and its figures.

    Raises:
        RealityGradError: `parent` is another kind of network, training diverged, or the policy falls in the simulator.
        Cancelled: `cancelled` asked for it; the folder keeps what was learned.
    """
    configuration, model = task.configuration, task.model
    plan = Plan(
        robot=configuration.name,
        task=VELOCITY.name,
        algorithm="shac",
        contact=CONTACT,
        worlds=task.worlds,
        horizon=ShacSettings.horizon,
        iterations=task.training_iterations,
        seed=task.seed,
    )

    def told(_: str, fraction: float, figures: Mapping[str, float]) -> None:
        progress("train", fraction, {"reward": figures["reward"]})

    progress("train", 0.0, {})
    if not (folder / CHECKPOINT).exists():
        _write_beginning(task, plan, parent, parameters, folder, cancelled)
    training = train(plan, configuration, model, parameters, folder, progress=told, cancelled=cancelled)
    period = 1.0 / configuration.policy_rate
    wanted = np.concatenate([np.tile(s.velocity, (round(s.duration / period), 1)) for s in task.schedule])
    robot = legged_robot(model, configuration, parameters, CONTACT)
    walk = simulate_walk(robot, configuration, parameters, training.bundle, standing(configuration), wanted)
    if walk.stopped_because:
        raise RealityGradError(
            f"the policy that was trained is not given to the robot: in the simulator {walk.stopped_because}; train "
            "longer, or with another seed"
        )
    last = training.curve[-1]
    return training.bundle, {"reward": last["reward"], "samples": last["samples"], "seconds": last["seconds"]}


@one_thread()
def _write_beginning(
    task: "LeggedTask",
    plan: Plan,
    parent: PolicyBundle,
    parameters: SimulationParameters,
    folder: Path,
    cancelled: CancelCheck,
) -> None:
    """Write the checkpoint of a training that begins with the policy `parent`, and a critic that knows it."""
    robot = legged_robot(task.model, task.configuration, parameters, plan.contact)
    worlds = Worlds(robot, parameters, TASKS[plan.task], own_share(plan.worlds), plan.seed)
    settings = ShacSettings(horizon=plan.horizon, iterations=plan.iterations, actor_rate=0.0, last_rate=0.0)
    shac = Shac(worlds, settings, plan.seed)
    take_over(shac.policy, parent)
    for _ in range(CRITIC_ITERATIONS):
        if cancelled():
            raise Cancelled
        shac.learn()
    shac.iteration = 0
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder / CHECKPOINT, plan, shac.state(), [])


@torch.no_grad()
def take_over(policy: WalkingPolicy, bundle: PolicyBundle) -> None:
    """Give a policy the network and the normaliser of a bundle.

    Raises:
        RealityGradError: the bundle observes something else, or its network is of another shape.
    """
    layers = [layer for layer in policy.network if isinstance(layer, nn.Linear)]
    ours = [tuple(layer.weight.shape) for layer in layers]
    theirs = [weight.shape for weight, _ in bundle.layers]
    if bundle.observation_terms != VELOCITY.observations or bundle.activation != "elu" or ours != theirs:
        raise RealityGradError(
            f"policy of epoch {bundle.epoch} cannot be trained further: it observes "
            f"{', '.join(bundle.observation_terms)} by layers {theirs}; begin with one of 'realitygrad train --task "
            f"{VELOCITY.name}'"
        )
    for layer, (weight, bias) in zip(layers, bundle.layers, strict=True):
        layer.weight.copy_(torch.tensor(weight))
        layer.bias.copy_(torch.tensor(bias))
    normalizer, scale = policy.normalizer, torch.tensor(bundle.observation_scale)
    normalizer.mean.copy_(torch.tensor(bundle.observation_mean))
    least = normalizer.variance.zero_() + normalizer.scale.square()  # it keeps a scale from being zero
    normalizer.variance.copy_((scale.square() - least).clamp(min=0.0))
    normalizer.count.fill_(SAMPLES)
    policy.log_deviation.fill_(float(np.log(DEVIATION)))
