"""What a walking policy does over whole episodes: without spread, noise, kicks or a second chance."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from realitygrad_ros.control.shac import stacked
from realitygrad_ros.control.tasks.legged import LeggedRobot, Motion
from realitygrad_ros.control.tasks.walking import Randomisation, WalkingTask
from realitygrad_ros.control.tasks.worlds import Share, Worlds
from realitygrad_ros.robot.parameters import SimulationParameters

SETTLING = 2.0
"""How long a robot may take to reach its speed [s]."""


@dataclass(frozen=True)
class Episodes:
    """One episode a world."""

    motion: Motion
    """[time, world, ...]"""
    standing: Bool[Tensor, "time world"]
    """Whether the world had not fallen up to and with this step."""
    returns: Float[Tensor, "world"]
    """Sum of the rewards until the fall, or the end."""

    def figures(self) -> dict[str, float | None]:
        """`falls`, `return_mean`, and, after the settling, of worlds that never fell, none if all did:

        `speed_mean_mps` forward, and `tracking_error_mps`, the mean distance of the horizontal velocity from the
        command.
        """
        upright = self.standing[-1]
        figures: dict[str, float | None] = {"falls": int((~upright).sum()), "return_mean": float(self.returns.mean())}
        if not upright.any():
            return figures | {"speed_mean_mps": None, "tracking_error_mps": None}
        settled = self.motion.before.time[:, 0] >= SETTLING
        velocity = self.motion.after.velocity[settled][:, upright, :2]
        error = (velocity - self.motion.before.command[settled][:, upright, :2]).norm(dim=-1)
        return figures | {"speed_mean_mps": float(velocity[..., 0].mean()), "tracking_error_mps": float(error.mean())}


@torch.no_grad()
def evaluate(
    robot: LeggedRobot,
    parameters: SimulationParameters,
    task: WalkingTask,
    act: Callable[[Float[Tensor, "world observation"]], Float[Tensor, "world joint"]],
    *,
    worlds: int,
    seed: int,
) -> Episodes:
    """Walk one episode in each of a number of worlds, each with its own start and command.

    Args:
        robot: in the simulator by which the policy shall be judged.
        parameters: of its joints.
        task: gives commands, rewards, and when a robot has fallen.
        act: the policy.
        worlds: how many.
        seed: of starts and commands.
    """
    calm = replace(task, randomisation=Randomisation())
    here = Worlds(robot, parameters, calm, Share(0, worlds, worlds), seed)
    situation = here.situation._replace(time=torch.zeros(worlds))
    standing = torch.ones(worlds, dtype=torch.bool)
    motions, alive = [], []
    for _ in range(round(task.duration / robot.period)):
        step = here.advance(situation, act(here.observe(situation)))
        standing = standing & ~step.fallen
        motions.append(step.motion)
        alive.append(standing)
        # Who has fallen lies where it fell: what it does there is nobody's concern, and must not grow beyond numbers.
        situation = here.frozen(step, standing)
    motion = stacked(motions)
    rewards = torch.stack(list(here.rewards(motion).values())).sum(0)
    kept = torch.stack(alive)
    return Episodes(motion, kept, (rewards * kept).sum(0))
