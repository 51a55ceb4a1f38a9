"""A walking policy on the twin, judged as `control.walking_evaluation` judges it in the simulator; without ROS.

The twin tells its sensors' readings to the same `CommandLoop` as on the robot, which runs the policy's bundle; the
rewards are the task's own terms of these readings.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.command_loop import CommandLoop
from realitygrad_ros.control.tasks.legged import LeggedRobot, Motion, Situation
from realitygrad_ros.control.tasks.walking import Randomisation, WalkingTask
from realitygrad_ros.control.tasks.worlds import Share, Worlds
from realitygrad_ros.control.walking_evaluation import Episodes
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.twin.configuration import TwinConfiguration
from realitygrad_ros.twin.twin import STEP_RATE, Twin


class _Walk(NamedTuple):
    """One episode; what follows a fall repeats what it ended with."""

    position: Float[np.ndarray, "time+1 coordinate"]
    """As in `physics.simulator.State`."""
    velocity: Float[np.ndarray, "time+1 dof"]
    action: Float[np.ndarray, "time+1 joint"]
    """The first is the one before the episode, zero."""
    standing: Bool[np.ndarray, "time"]


@torch.no_grad()
def evaluate_on_twin(
    robot: LeggedRobot,
    configuration: RobotConfiguration,
    hidden: TwinConfiguration,
    task: WalkingTask,
    bundle: PolicyBundle,
    *,
    episodes: int,
    seed: int,
) -> Episodes:
    """Walk a number of episodes on the twin, one after the other.

    Commands, and the velocity of the base at the beginning, are those of the worlds of `evaluate` by the same seed; the
    pose is home. A robot has fallen when the task says so, or when the command loop finds that it has.

    Args:
        robot: as the task's terms know it; its simulator does nothing here.
        configuration: of the same robot.
        hidden: the twin's truth.
        task: gives commands, rewards, and when a robot has fallen.
        bundle: the policy.
        episodes: how many.
        seed: of beginnings and commands.
    """
    calm = replace(task, randomisation=Randomisation())
    worlds = Worlds(robot, configuration.nominal, calm, Share(0, episodes, episodes), seed)
    twin = Twin(configuration, hidden)
    begun = worlds.situation
    walks = []
    for command, velocity in zip(begun.command.numpy(), begun.state.velocity.numpy(), strict=True):
        loop = CommandLoop(configuration)
        loop.accept(bundle)
        twin.reset()
        twin.push(velocity[0:3], velocity[3:6])
        walks.append(_walk(twin, loop, command, task))
    position, velocity, action, standing = (torch.tensor(np.stack(values, 1)) for values in zip(*walks, strict=True))
    time = (torch.arange(len(standing)) / bundle.policy_rate)[:, None].expand(-1, episodes)
    before = Situation(
        State(position[:-1], velocity[:-1]), action[:-1], begun.command.expand(len(standing), -1, -1), time
    )
    motion = Motion(before, action[1:], State(position[1:], velocity[1:]))
    reward = torch.stack(list(worlds.rewards(motion).values())).sum(0)
    return Episodes(motion, standing, (reward * standing).sum(0))


def _walk(twin: Twin, loop: CommandLoop, command: Float[np.ndarray, "3"], task: WalkingTask) -> _Walk:
    bundle = loop.bundle
    assert bundle is not None
    steps = round(task.duration * bundle.policy_rate)
    states, actions = [_tell(twin, loop, 0.0, command)], [np.zeros(len(bundle.joint_names))]
    loop.engage(0.0)
    stood = 0
    while stood < steps:
        target = loop.command(stood / bundle.policy_rate)
        if target is None:
            break
        for _ in range(round(STEP_RATE / bundle.policy_rate)):
            twin.step(target)
        states.append(_tell(twin, loop, (stood + 1) / bundle.policy_rate, command))
        actions.append((target - bundle.action_offset) / bundle.action_scale)
        if twin.base.position[2] < task.least_base_height:
            break
        stood += 1
    reached = np.minimum(np.arange(steps + 1), len(states) - 1)
    position, velocity = (np.stack(values)[reached].astype(np.float32) for values in zip(*states, strict=True))
    return _Walk(position, velocity, np.stack(actions)[reached].astype(np.float32), np.arange(steps) < stood)


def _tell(
    twin: Twin, loop: CommandLoop, time: float, command: Float[np.ndarray, "3"]
) -> tuple[Float[np.ndarray, "coordinate"], Float[np.ndarray, "dof"]]:
    """Tell the command loop what the sensors measure; returns it as position and velocity of a `State`."""
    base = twin.base
    loop.set_state(time, twin.position, twin.velocity)
    loop.set_imu(time, base.quat_xyzw, base.angular_velocity)
    loop.set_odometry(time, float(base.position[2]), base.linear_velocity)
    loop.set_velocity_command(time, command.astype(float))
    position = np.concatenate([base.position, base.quat_xyzw, twin.position])
    return position, np.concatenate([base.linear_velocity, base.angular_velocity, twin.velocity])
