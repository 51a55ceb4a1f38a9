"""Learning curves, and what it takes to reach a reward."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

SMOOTHED_OVER = 40_960
"""Samples over which a curve is smoothed: 20 iterations of 64 worlds and 32 steps."""


class LearningCurve(NamedTuple):
    """A training's reward over what it has cost so far, smoothed."""

    samples: Float[np.ndarray, "iteration"]
    """Control steps of all worlds."""
    seconds: Float[np.ndarray, "iteration"]
    reward: Float[np.ndarray, "iteration"]
    """Mean reward a control step."""

    @property
    def final(self) -> float:
        """Reward at the training's end."""
        return float(self.reward[-1])

    def samples_to(self, reward: float) -> float | None:
        """Samples after which the reward was reached for the first time; None if it never was."""
        reached = self.reward >= reward
        return float(self.samples[int(np.argmax(reached))]) if reached.any() else None


def learning_curve(figures: Sequence[Mapping[str, float]]) -> LearningCurve:
    """The curve of a training by the figures of its iterations.

    The reward of an iteration is the mean over the iterations that fill the last `SMOOTHED_OVER` samples, itself among
    them; earlier iterations, which have not so many behind them, are left out. So the curve lags, by half of these
    samples at most, whatever the algorithm. It is the reward while learning: with the spread of the actions, by which
    either algorithm explores.
    """
    samples, seconds, reward = (np.array([row[name] for row in figures]) for name in ("samples", "seconds", "reward"))
    window = min(len(reward), max(1, round(SMOOTHED_OVER / samples[0])))
    mean = np.convolve(reward, np.full(window, 1.0 / window), "valid")
    return LearningCurve(samples[window - 1 :], seconds[window - 1 :], mean)
