"""What a walk shows: how well the robot follows commanded velocities, and how well the simulator foretells its walk."""

from pathlib import Path

import numpy as np

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.tasks.legged import LeggedRobot
from realitygrad_ros.control.tasks.worlds import legged_robot
from realitygrad_ros.iteration.legged_comparison import WalkComparison
from realitygrad_ros.iteration.legged_recording import WalkRecording, read_walk
from realitygrad_ros.iteration.legged_walk import feet, simulate_walk
from realitygrad_ros.iteration.run_folder import Figures, Tell
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

CONTACT = "smooth"
"""How contact is simulated: as in the training."""


def measure(
    directory: Path,
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
    tell: Tell,
) -> Figures:
    """Compare the robot's walk with the simulator's, and write `comparison.safetensors`.

    Args:
        directory: the iteration's folder, with `bag` and `policy.safetensors`.
        configuration: of the robot.
        model: of the robot.
        parameters: of the simulator.
        tell: gets what is odd about the recording.

    Returns:
        The figures of `WalkComparison`, and `falls` and `predicted_falls`, of the robot and in the simulator.

    Raises:
        RealityGradError: the bag lacks something or is damaged.
    """
    recording = read_walk(directory / "bag", configuration)
    for warning in recording.warnings:
        tell(f"{directory.name}: {warning}")
    robot = legged_robot(model, configuration, parameters, CONTACT)
    bundle = PolicyBundle.read(directory / "policy.safetensors")
    compared, predicted_falls = compare(recording, robot, configuration, parameters, bundle)
    compared.write(directory / "comparison.safetensors")
    falls = sum(engagement.fell for engagement in recording.engagements)
    return compared.figures() | {"falls": falls, "predicted_falls": predicted_falls}


def compare(
    recording: WalkRecording,
    robot: LeggedRobot,
    configuration: RobotConfiguration,
    parameters: SimulationParameters,
    bundle: PolicyBundle,
) -> tuple[WalkComparison, int]:
    """Simulate a recorded walk, from the measured state on at every time at which the policy was engaged.

    Returns:
        The comparison, and how often the simulated robot fell.
    """
    engagement = np.full(len(recording.time), -1)
    position, velocity = np.full_like(recording.position, np.nan), np.full_like(recording.velocity, np.nan)
    predicted_falls = 0
    for number, (start, end, _) in enumerate(recording.engagements):
        first, last = np.searchsorted(recording.time, [start - 1e-9, end + 1e-9])
        if last - first < 2:
            continue
        samples = slice(first, last)
        engagement[samples] = number
        walk = simulate_walk(
            robot,
            configuration,
            parameters,
            bundle,
            (recording.position[first], recording.velocity[first]),
            recording.wanted[samples],
            float(recording.time[first] - start),
        )
        position[samples], velocity[samples] = walk.position, walk.velocity
        predicted_falls += bool(walk.stopped_because)
    comparison = WalkComparison(
        joint_names=recording.joint_names,
        foot_names=() if configuration.contact is None else tuple(s.link for s in configuration.contact.spheres),
        time=recording.time,
        wanted=recording.wanted,
        engagement=engagement,
        measured_position=recording.position,
        measured_velocity=recording.velocity,
        measured_feet=feet(robot, recording.position),
        simulated_position=position,
        simulated_velocity=velocity,
        simulated_feet=feet(robot, position),
    )
    return comparison, predicted_falls
