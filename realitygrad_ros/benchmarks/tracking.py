"""Wanted against measured velocity of a policy, in the simulator and on the twin: after figure 6 of Schwarke et al."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from realitygrad_ros.benchmarks.twin_walk import evaluate_on_twin
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.tasks.legged import LeggedRobot
from realitygrad_ros.control.tasks.walking import VELOCITY, WalkingTask
from realitygrad_ros.control.walking_evaluation import SETTLING, Episodes, evaluate
from realitygrad_ros.progress import Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.twin.configuration import TwinConfiguration

DURATION = 8.0
"""Of an episode [s]."""

MIDDLE = 0.5
"""Targets up to this speed are in the middle of the range [m/s]."""


@dataclass(frozen=True)
class Tracking:
    """What came of each target, of episodes without a fall and after the settling; nan where every episode fell."""

    target: Float[np.ndarray, "target"]
    """Velocity wanted forward [m/s]; none is wanted sideways, nor any turning."""
    speed: Float[np.ndarray, "target"]
    """Mean velocity forward [m/s]."""
    lowest: Float[np.ndarray, "target"]
    """Of the episodes' mean velocities [m/s]."""
    highest: Float[np.ndarray, "target"]
    error: Float[np.ndarray, "target"]
    """Mean distance of the horizontal velocity from the one wanted, in every instant [m/s]."""
    falls: Float[np.ndarray, "target"]

    def middle(self, values: Float[np.ndarray, "target"]) -> float:
        """The mean of values over the targets in the middle of the range."""
        return float(values[np.abs(self.target) <= MIDDLE + 1e-9].mean())


def track(
    judge: Callable[[float], Episodes], targets: Float[np.ndarray, "target"], name: str, progress: Progress
) -> Tracking:
    """Have a policy follow each target.

    Args:
        judge: the episodes of a target.
        targets: velocities forward [m/s].
        name: of the place, for `progress`.
        progress: told of each target.
    """
    rows = []
    for done, target in enumerate(targets):
        episodes = judge(float(target))
        figures = episodes.figures()
        speeds = _speeds(episodes)
        extremes = (speeds.min(), speeds.max()) if len(speeds) else (np.nan, np.nan)
        rows.append((target, figures["speed_mean_mps"], *extremes, figures["tracking_error_mps"], figures["falls"]))
        progress(name, (done + 1) / len(targets), {"target": float(target), "speed_mps": figures["speed_mean_mps"]})
    return Tracking(*np.array(rows).T)


def in_simulator(
    robot: LeggedRobot, configuration: RobotConfiguration, bundle: PolicyBundle, *, episodes: int, seed: int
) -> Callable[[float], Episodes]:
    """Judges a bundle in the simulator with the nominal parameters."""
    act = _network(bundle)
    return lambda target: evaluate(robot, configuration.nominal, _straight(target), act, worlds=episodes, seed=seed)


def on_twin(
    robot: LeggedRobot,
    configuration: RobotConfiguration,
    hidden: TwinConfiguration,
    bundle: PolicyBundle,
    *,
    episodes: int,
    seed: int,
) -> Callable[[float], Episodes]:
    """Judges a bundle on the twin."""
    return lambda target: evaluate_on_twin(
        robot, configuration, hidden, _straight(target), bundle, episodes=episodes, seed=seed
    )


def _straight(target: float) -> WalkingTask:
    """The task `velocity` with one command for all, without turning."""
    command = (target, 0.0, 0.0)
    return replace(VELOCITY, command_lower=command, command_upper=command, duration=DURATION)


def _speeds(episodes: Episodes) -> Float[np.ndarray, "upright"]:
    """Mean velocity forward of every episode without a fall, after the settling [m/s]."""
    settled = episodes.motion.before.time[:, 0] >= SETTLING
    return episodes.motion.after.velocity[settled][:, episodes.standing[-1], 0].mean(0).numpy()


def _network(bundle: PolicyBundle) -> Callable[[Float[Tensor, "world observation"]], Float[Tensor, "world joint"]]:
    """The network of a bundle for many worlds at once, from observations to actions."""
    mean, scale = (torch.tensor(v, dtype=torch.float32) for v in (bundle.observation_mean, bundle.observation_scale))
    layers = [(torch.tensor(weight), torch.tensor(bias)) for weight, bias in bundle.layers]
    activation: Callable[[Tensor], Tensor] = nn.functional.elu if bundle.activation == "elu" else torch.tanh

    def act(observation: Tensor) -> Tensor:
        h = (observation - mean) / scale
        for weight, bias in layers[:-1]:
            h = activation(nn.functional.linear(h, weight, bias))
        return nn.functional.linear(h, *layers[-1])

    return act
