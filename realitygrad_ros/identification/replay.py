"""The simulator under the commands of a recording, from the measured state on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.recording import UniformRecording
from realitygrad_ros.identification.smoothing import local_polynomial
from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

PHYSICS_STEP = 1e-3
"""Longest physics step of an identification [s]; the parameters that are found hold for steps of about this length."""


def identification_simulator(configuration: RobotConfiguration, model: RobotModel, time_step: float) -> Simulator:
    """A simulator in double precision whose commands are held for `time_step` seconds.

    Raises:
        RealityGradError: the robot's base floats, and joint states do not tell how.
    """
    if model.base is not None:
        raise RealityGradError(
            f"robot '{configuration.name}' has a floating base, whose motion joint states do not tell; identify it as "
            "a robot whose base is clamped or hung up"
        )
    substeps = max(1, int(np.ceil(time_step / PHYSICS_STEP - 1e-6)))
    return Simulator(
        model,
        time_step=time_step / substeps,
        substeps=substeps,
        gravity=configuration.gravity.tolist(),
        friction_velocity=configuration.friction_velocity,
        dtype=torch.float64,
    )


class Replay(NamedTuple):
    """Measured and simulated joint positions [rad or m], the first sample of both the same but for noise."""

    measured: Float[np.ndarray, "sample recording joint"]
    simulated: Float[np.ndarray, "sample recording joint"]


def replay(simulator: Simulator, recordings: Sequence[UniformRecording], parameters: SimulationParameters) -> Replay:
    """Simulate recordings open loop: from the measured state at each start, under the recorded commands alone.

    Args:
        simulator: of `identification_simulator`, for the recordings' time step.
        recordings: each becomes a world; all are cut to the shortest.
        parameters: of the simulator.

    Raises:
        RealityGradError: a recording has a gap in that time.
    """
    steps = min(len(recording.command) for recording in recordings)
    for recording in recordings:
        if recording.gap[:steps].any():
            hole = recording.time[:-1][:steps][recording.gap[:steps]][0]
            raise RealityGradError(f"joint states are missing at {hole:.3f} s of the recording; record it again")
    motions = [smoothed_motion(recording) for recording in recordings]
    position = torch.tensor(np.stack([motion.position[0] for motion in motions]))
    velocity = torch.tensor(np.stack([motion.velocity[0] for motion in motions]))
    command = torch.tensor(np.stack([recording.command[:steps] for recording in recordings], axis=1))
    states = simulator.rollout(State(position, velocity), command, parameter_tensors(parameters, torch.float64))
    measured = np.stack([recording.position[: steps + 1] for recording in recordings], axis=1)
    return Replay(measured, states.position.numpy())


class SmoothedMotion(NamedTuple):
    """Positions, velocities and accelerations [sample, joint] of a recording, without the encoders' noise."""

    position: Float[np.ndarray, "sample joint"]
    velocity: Float[np.ndarray, "sample joint"]
    acceleration: Float[np.ndarray, "sample joint"]


def smoothed_motion(recording: UniformRecording) -> SmoothedMotion:
    """Positions and velocities, each smoothed for itself, and the slope of the velocities: see `local_polynomial`."""
    position, _ = local_polynomial(recording.time, recording.position)
    return SmoothedMotion(position, *local_polynomial(recording.time, recording.velocity))
