"""What a rollout shows: the reality gap, the error at the targets, and the residual of the model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from realitygrad_ros.identification.recording import TargetSegment, UniformRecording, read_recording
from realitygrad_ros.identification.replay import identification_simulator, replay
from realitygrad_ros.identification.windows import window_residual
from realitygrad_ros.iteration.comparison import Comparison
from realitygrad_ros.iteration.plan import Plan
from realitygrad_ros.iteration.run_folder import Figures, Tell
from realitygrad_ros.physics.kinematics import ForwardKinematics
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters


def measure(
    directory: Path,
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
    tell: Tell,
) -> Figures:
    """Compare the robot with its model on the held-out motions of an iteration, and write `comparison.safetensors`.

    Args:
        directory: the iteration's folder, with `bag` and `targets.json`.
        configuration: of the robot.
        model: of the robot.
        parameters: of the simulator, not fitted to this bag.
        tell: gets what is odd about the recording.

    Returns:
        `gap_mean_m`, `gap_accumulated_m` and `target_error_mean_m` as in `Comparison`, and `residual`, that of the
        windows of the motions to identify from.

    Raises:
        RealityGradError: the bag does not hold every motion of the plan, or not without gaps.
    """
    recording = read_recording(directory / "bag", configuration.joint_names)
    for warning in recording.warnings:
        tell(f"{directory.name}: {warning}")
    plan = Plan.read(directory / "targets.json")
    identification, evaluation = plan.segments(recording)
    uniform = recording.resample(1.0 / configuration.joint_state_rate)
    compared = compare(uniform, evaluation, configuration, model, parameters)
    compared.write(directory / "comparison.safetensors")
    return {
        "gap_mean_m": compared.gap_mean(),
        "gap_accumulated_m": compared.gap_accumulated(),
        "target_error_mean_m": float(compared.target_error(plan.hold).mean()),
        "residual": window_residual(configuration, model, pieces(uniform, identification), parameters),
    }


def pieces(uniform: UniformRecording, segments: Sequence[TargetSegment]) -> list[UniformRecording]:
    """A recording cut into its motions."""
    return [uniform.between(segment.start, segment.end) for segment in segments]


def compare(
    uniform: UniformRecording,
    segments: Sequence[TargetSegment],
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
) -> Comparison:
    """Simulate recorded motions from their measured start under their recorded commands.

    Raises:
        RealityGradError: a motion was not recorded, or not without gaps.
    """
    simulator = identification_simulator(configuration, model, uniform.time_step)
    measured, simulated = replay(simulator, pieces(uniform, segments), parameters)
    kinematics = ForwardKinematics(model, configuration.reach.end_effector, torch.float64)

    def end_effector(position: Float[np.ndarray, "sample segment joint"]) -> Float[np.ndarray, "segment sample 3"]:
        return kinematics(torch.tensor(position)).numpy().swapaxes(0, 1)

    return Comparison(
        joint_names=configuration.joint_names,
        time=uniform.time_step * np.arange(len(measured)),
        target=np.stack([segment.target for segment in segments]),
        measured_position=measured.swapaxes(0, 1),
        simulated_position=simulated.swapaxes(0, 1),
        measured_end_effector=end_effector(measured),
        simulated_end_effector=end_effector(simulated),
    )
