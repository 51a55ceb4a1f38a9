"""Motions of the UR5 for tests of identification: commands, and what a simulator or the twin makes of them."""

import numpy as np
import torch

from realitygrad_ros.identification.recording import Recording, UniformRecording
from realitygrad_ros.identification.replay import identification_simulator
from realitygrad_ros.physics.simulator import State, parameter_tensors
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.parameters import SimulationParameters
from realitygrad_ros.twin.configuration import load_twin_configuration
from realitygrad_ros.twin.twin import Twin

CONFIGURATION, MODEL = load_robot("ur5")
DURATION = 1.2
"""Of one motion: to its goal in the first half, then at rest [s]."""

STEP = 0.002
"""Of joint states [s]."""


def commands(seed: int, motions: int, rate: float, still: tuple[int, ...] = ()) -> np.ndarray:
    """Position commands [time, joint] from home to random goals in turn; the joints `still` stay at home."""
    random = np.random.default_rng(seed)
    start, rows = CONFIGURATION.home, []
    phase = np.clip(np.arange(round(DURATION * rate)) / (0.5 * DURATION * rate), 0.0, 1.0)
    blend = (10.0 * phase**3 - 15.0 * phase**4 + 6.0 * phase**5)[:, None]
    for _ in range(motions):
        goal = CONFIGURATION.home + random.uniform(-0.6, 0.6, len(start))
        goal[list(still)] = CONFIGURATION.home[list(still)]
        rows.append(start + blend * (goal - start))
        start = goal
    return np.concatenate(rows)


def simulated(
    truth: SimulationParameters, seed: int, motions: int, *, noise: float = 0.0, still: tuple[int, ...] = ()
) -> UniformRecording:
    """What the simulator itself does with `truth`; `noise` of the encoders in rad, a hundredfold of it in rad/s."""
    command = commands(seed, motions, 1.0 / STEP, still)
    home = torch.tensor(CONFIGURATION.home)[None]
    states = identification_simulator(CONFIGURATION, MODEL, STEP).rollout(
        State(home, torch.zeros_like(home)), torch.tensor(command)[:, None], parameter_tensors(truth, torch.float64)
    )
    random = np.random.default_rng(seed)
    position, velocity = (state[:, 0].numpy() for state in states)
    return UniformRecording(
        joint_names=MODEL.joint_names,
        time_step=STEP,
        time=STEP * np.arange(len(position)),
        position=position + noise * random.standard_normal(position.shape),
        velocity=velocity + 100.0 * noise * random.standard_normal(velocity.shape),
        command=command,
        gap=np.zeros(len(command), dtype=bool),
    )


def twin_recording(seed: int, motions: int) -> Recording:
    """What the twin does, as a bag would have it: joint states at 500 Hz, commands at 200 Hz."""
    command = commands(seed, motions, CONFIGURATION.policy_rate)
    samples = Twin(CONFIGURATION, load_twin_configuration("ur5")).simulate(command, CONFIGURATION.policy_rate)
    return Recording(
        source="twin",
        joint_names=MODEL.joint_names,
        time=samples.time[::2],
        position=samples.position[::2],
        velocity=samples.velocity[::2],
        command_time=np.arange(len(command)) / CONFIGURATION.policy_rate,
        command=command,
        target_time=np.zeros(0),
        target=np.zeros((0, 3)),
    )


def motion(recording: UniformRecording, first: int, last: int) -> list[UniformRecording]:
    """The motions first to last - 1 of a recording, one by one."""
    end = recording.time[-1]
    return [recording.between(k * DURATION, min((k + 1) * DURATION, end)) for k in range(first, last)]
