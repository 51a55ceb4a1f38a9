"""A walk in the simulator: by the policy, under the rules and at the commanded velocities of the robot's own walk."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.command_loop import CommandLoop
from realitygrad_ros.control.tasks.legged import BASE_COORDINATES, BASE_FREEDOM, ORIENTATION, LeggedRobot
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.physics.simulator import State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.parameters import SimulationParameters


class Walk(NamedTuple):
    """States at each tick of a policy; not a number from the moment on at which the policy has stopped."""

    position: Float[np.ndarray, "sample coordinate"]
    """As in `physics.simulator.State`."""
    velocity: Float[np.ndarray, "sample dof"]
    stopped_because: str
    """Why the policy stopped before the end, such as for a fall; empty where it did not."""


@one_thread()
def simulate_walk(
    robot: LeggedRobot,
    configuration: RobotConfiguration,
    parameters: SimulationParameters,
    bundle: PolicyBundle,
    initial: tuple[Float[np.ndarray, "coordinate"], Float[np.ndarray, "dof"]],
    wanted: Float[np.ndarray, "sample 3"],
    start: float = 0.0,
) -> Walk:
    """Let the policy walk the simulated robot.

    Args:
        robot: in the simulator.
        configuration: of the same robot.
        parameters: of its joints.
        bundle: the policy.
        initial: position and velocity at the first sample, as in `physics.simulator.State`.
        wanted: velocity forward, left [m/s], turning left [rad/s] at each sample, one a period of the policy.
        start: time since the policy was engaged at the first sample [s]; it sets the phase of the gait.

    Raises:
        RealityGradError: the policy is not for this robot, or does not know a velocity.
    """
    loop = CommandLoop(configuration)
    loop.accept(bundle)
    values = parameter_tensors(parameters)
    commands = round(robot.period / (robot.simulator.time_step * robot.simulator.substeps))
    position, velocity = (np.full((len(wanted), len(part)), np.nan) for part in initial)
    position[0], velocity[0] = initial
    for k in range(len(wanted) - 1):
        time = start + k / bundle.policy_rate
        _tell(loop, time, position[k], velocity[k], wanted[k])
        if k == 0:
            loop.engage(0.0)
        command = loop.command(time)
        if not loop.engaged or command is None:
            break
        state = State(*(torch.tensor(array[k : k + 1], dtype=torch.float32) for array in (position, velocity)))
        held = torch.tensor(command, dtype=torch.float32).expand(commands, 1, -1)
        after = robot.simulator.rollout(state, held, values)
        position[k + 1], velocity[k + 1] = (tensor[-1, 0].numpy() for tensor in after)
    return Walk(position, velocity, loop.stopped_because)


def standing(configuration: RobotConfiguration) -> tuple[Float[np.ndarray, "coordinate"], Float[np.ndarray, "dof"]]:
    """Position and velocity of the robot that stands at home, at rest."""
    position = np.concatenate([[0.0, 0.0, configuration.home_height, 0.0, 0.0, 0.0, 1.0], configuration.home])
    return position, np.zeros(BASE_FREEDOM + len(configuration.home))


def feet(robot: LeggedRobot, position: Float[np.ndarray, "sample coordinate"]) -> Float[np.ndarray, "sample foot"]:
    """Height of each foot above the ground [m]; not a number where the position is none."""
    there = np.isfinite(position).all(1)
    heights = np.full((len(position), robot.heights.output_count), np.nan)
    heights[there] = robot.heights(torch.tensor(position[there], dtype=torch.float32)).numpy()
    return heights


def _tell(
    loop: CommandLoop,
    time: float,
    position: Float[np.ndarray, "coordinate"],
    velocity: Float[np.ndarray, "dof"],
    wanted: Float[np.ndarray, "3"],
) -> None:
    """What sensors without noise would measure."""
    loop.set_state(time, position[BASE_COORDINATES:], velocity[BASE_FREEDOM:])
    loop.set_imu(time, position[ORIENTATION], velocity[3:6])
    loop.set_odometry(time, float(position[2]), velocity[0:3])
    loop.set_velocity_command(time, wanted)
