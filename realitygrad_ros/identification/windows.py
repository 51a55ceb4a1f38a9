"""Multiple shooting: recordings cut into short windows, each simulated from its own measured start.

A long simulation drifts away from a recording whatever the parameters are, and its gradients with it; a short window
started in the measured state stays near, so that what differs at its end is due to the parameters.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.recording import UniformRecording
from realitygrad_ros.identification.replay import SmoothedMotion, identification_simulator, smoothed_motion
from realitygrad_ros.physics.simulator import State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

WINDOW = 0.3
"""Length of a window [s]."""

COMPARISON_STEP = 0.02
"""Time between two comparisons of simulation and measurement in a window [s]."""

LEAST_MOTION = 1e-3
"""At least one joint must move this far in a window, root mean square [rad or m]."""

SMALLEST_SHARE = 0.01
"""A joint that moves less than this share of the liveliest joint's motion counts as if it moved that much."""

LEAST_SIGNAL = 5.0
"""A joint that moves less than this multiple of its encoder's noise counts as resting."""

BATCH = 128
"""Windows whose derivatives are held in memory together."""


class Windows:
    r"""The residual of simulated against measured windows, and its derivatives.

    With q, v the simulated and \hat q, \hat v the measured positions and velocities at the times that are compared:

        r = [ (q - \hat q) / s_q , (v - \hat v) / s_v ],   s_q = rms(\hat q - \hat q_0),  s_v = rms(\hat v - \hat v_0)

    s_q and s_v, one a joint, are the root mean squares over all windows of the measured motion since the window's
    start. So r has no unit; its root mean square is 0 for a perfect model and about 1 for one whose joints do not
    follow their commands at all. It depends on recordings and parameters alone, and may be compared between models.
    """

    def __init__(
        self, configuration: RobotConfiguration, model: RobotModel, recordings: Sequence[UniformRecording]
    ) -> None:
        """Cut recordings into windows of `WINDOW` seconds that span no gap.

        Attributes:
            smoothed: motion without noise, [time, window, joint]; windows start in it.
            command: mean position command of each step, [time, window, joint].
            motion: s_q, [joint].
            resting: [joint], True where the motion does not stand out from the noise.

        Raises:
            RealityGradError: the recordings hold no window, differ in their time step, or nothing moves in them.
        """
        self.time_step = _common_time_step(recordings)
        length = max(2, round(WINDOW / self.time_step))
        self._stride = max(1, round(COMPARISON_STEP / self.time_step))
        self._simulator = identification_simulator(configuration, model, self.time_step)
        pieces = [piece for recording in recordings for piece in _cut(recording, length)]
        if not pieces:
            raise RealityGradError(
                f"the recordings hold no stretch of {WINDOW:g} s with commands and without gaps; record a longer motion"
            )
        self.smoothed = SmoothedMotion(*(_side_by_side(piece.smoothed[i] for piece in pieces) for i in range(3)))
        self.command = _side_by_side(piece.command for piece in pieces)
        self._initial = State(torch.tensor(self.smoothed.position[0]), torch.tensor(self.smoothed.velocity[0]))
        measured = [_side_by_side(piece.measured[i] for piece in pieces) for i in range(2)]
        self._measured = [signal[:: self._stride] for signal in measured]
        self.motion, speed = (np.sqrt(np.mean((signal - signal[:1]) ** 2, axis=(0, 1))) for signal in measured)
        noise = measured[0] - self.smoothed.position
        self.resting = self.motion < LEAST_SIGNAL * np.sqrt(np.mean(noise**2, axis=(0, 1)))
        self._scale = [np.maximum(m, SMALLEST_SHARE * m.max()) for m in (self.motion, speed)]
        if self.motion.max() < LEAST_MOTION or self.resting.all():
            raise RealityGradError(
                f"nothing moves in the recordings but by noise ({self.motion.max():.1e} rad within {WINDOW:g} s); "
                "record motions that use every joint"
            )

    def __len__(self) -> int:
        return self.command.shape[1]

    def residual(self, parameters: SimulationParameters) -> Float[np.ndarray, "signal sample joint"]:
        """r of all windows: that of the positions, then that of the velocities."""
        tensors = parameter_tensors(parameters, torch.float64)
        states = self._simulator.rollout(self._initial, torch.tensor(self.command), tensors)
        return np.stack(
            [
                ((state.numpy()[:: self._stride] - measured) / scale).reshape(-1, measured.shape[-1])
                for state, measured, scale in zip(states, self._measured, self._scale, strict=True)
            ]
        )

    def jacobian(
        self, parameters: SimulationParameters, wrt: Sequence[tuple[str, int]]
    ) -> Float[np.ndarray, "signal sample joint parameter"]:
        """Derivatives of `residual` by pairs (parameter's name, joint's index)."""
        tensors = parameter_tensors(parameters, torch.float64)
        blocks: list[list[np.ndarray]] = [[], []]
        for first in range(0, len(self), BATCH):
            batch = slice(first, first + BATCH)
            initial = State(*(tensor[batch] for tensor in self._initial))
            _, rates = self._simulator.jacobian(initial, torch.tensor(self.command[:, batch]), tensors, wrt)
            for block, rate, scale in zip(blocks, rates, self._scale, strict=True):
                block.append(rate.numpy()[:: self._stride] / scale[:, None])
        shape = (-1, self.command.shape[2], len(wrt))
        return np.stack([np.concatenate(block, axis=1).reshape(shape) for block in blocks])


def rms(residual: Float[np.ndarray, "..."]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(residual**2)))


def window_residual(
    configuration: RobotConfiguration,
    model: RobotModel,
    recordings: Sequence[UniformRecording],
    parameters: SimulationParameters,
) -> float:
    """Root mean square of the residual of `Windows`: how well parameters explain recordings.

    Raises:
        RealityGradError: see `Windows`.
    """
    return rms(Windows(configuration, model, recordings).residual(parameters))


def _common_time_step(recordings: Sequence[UniformRecording]) -> float:
    steps = {recording.time_step for recording in recordings}
    if len(steps) != 1:
        told = ", ".join(f"{step:g} s" for step in sorted(steps)) or "none"
        raise RealityGradError(f"recordings must be given, all of one time step; here: {told}")
    return steps.pop()


def _side_by_side(signals: Iterable[np.ndarray]) -> Float[np.ndarray, "time window joint"]:
    return np.stack(list(signals), axis=1)


class _Window(NamedTuple):
    smoothed: SmoothedMotion
    measured: tuple[np.ndarray, np.ndarray]
    command: np.ndarray


def _cut(recording: UniformRecording, length: int) -> list[_Window]:
    motion = smoothed_motion(recording)
    windows = []
    for begin, end in _stretches(recording.gap):
        # As many windows as fit best, evenly spread: a stretch that lacks a sample overlaps them by one.
        count = round((end - begin) / length) if end - begin >= length else 0
        for first in np.linspace(begin, end - length, count).astype(int):
            steps, samples = slice(first, first + length), slice(first, first + length + 1)
            measured = recording.position[samples], recording.velocity[samples]
            smoothed = SmoothedMotion(*(signal[samples] for signal in motion))
            windows.append(_Window(smoothed, measured, recording.command[steps]))
    return windows


def _stretches(gap: Bool[np.ndarray, "step"]) -> list[tuple[int, int]]:
    """First step of each stretch without a gap, and the step after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], gap, [True]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
