"""Smoothing without delay: local polynomials over time."""

import numpy as np
from jaxtyping import Float

HALF_WIDTH = 0.01
"""Half of the stretch of time over which samples are smoothed [s]."""

DEGREE = 2


def local_polynomial(
    time: Float[np.ndarray, "sample"], values: Float[np.ndarray, "sample column"]
) -> tuple[Float[np.ndarray, "sample column"], Float[np.ndarray, "sample column"]]:
    """Smoothed values and their time derivative: a least-squares parabola through each sample's neighbours.

    The filter of Savitzky and Golay (1964), for samples that need not be equidistant; it has no delay. The neighbours
    are those within `HALF_WIDTH` at the median rate, at least two on either side; at the ends they are the nearest
    ones, all on one side.

    Args:
        time: strictly increasing [s].
        values: signals sampled at `time`.

    Returns:
        The parabola's value and slope at each sample.
    """
    count = len(time)
    period = float(np.median(np.diff(time))) if count > 1 else HALF_WIDTH
    half = max(DEGREE, round(HALF_WIDTH / period))
    width = min(2 * half + 1, count)
    first = np.clip(np.arange(count) - half, 0, count - width)
    neighbours = first[:, None] + np.arange(width)
    scale = period * half
    tau = (time[neighbours] - time[:, None]) / scale
    powers = tau[..., None] ** np.arange(min(DEGREE, width - 1) + 1)
    coefficients = np.einsum("skn,snc->skc", np.linalg.pinv(powers), values[neighbours])
    slope = coefficients[:, 1] / scale if width > 1 else np.zeros_like(values)
    return coefficients[:, 0], slope
