"""Replaying a recording, and the smoothing that it starts from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_motion import CONFIGURATION, MODEL, STEP, motion, simulated

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.replay import identification_simulator, replay, smoothed_motion
from realitygrad_ros.identification.smoothing import local_polynomial
from realitygrad_ros.robot.load import load_robot

NOMINAL = CONFIGURATION.nominal


def test_the_simulator_repeats_its_own_motion() -> None:
    recording = simulated(NOMINAL, 0, 3)
    first, second, third = motion(recording, 0, 3)
    simulator = identification_simulator(CONFIGURATION, MODEL, STEP)
    replayed = replay(simulator, [first, second, third.between(third.time[0], third.time[-1] - 0.1)], NOMINAL)
    assert replayed.measured.shape == replayed.simulated.shape == (len(third.time) - 50, 3, 6)
    np.testing.assert_array_equal(replayed.measured[:, 1], second.position[: len(replayed.measured)])
    np.testing.assert_allclose(replayed.simulated, replayed.measured, atol=1e-4)
    other = replay(simulator, [second], replace(NOMINAL, kp=0.5 * NOMINAL.kp))
    assert np.abs(other.simulated - other.measured).max() > 0.05


def test_a_floating_base_is_refused() -> None:
    with pytest.raises(RealityGradError, match=r"'anymal_c' has a floating base.* clamped or hung up"):
        identification_simulator(*load_robot("anymal_c"), STEP)


def test_a_gap_is_refused_where_it_matters() -> None:
    recording = simulated(NOMINAL, 0, 1)
    gap = np.zeros_like(recording.gap)
    gap[200] = True
    simulator = identification_simulator(CONFIGURATION, MODEL, STEP)
    with pytest.raises(RealityGradError, match=r"missing at 0.400 s"):
        replay(simulator, [replace(recording, gap=gap)], NOMINAL)
    short = recording.between(0.0, 0.3)
    assert len(replay(simulator, [short, replace(recording, gap=gap)], NOMINAL).simulated) == len(short.time)


@settings(max_examples=50, deadline=None)
@given(
    coefficients=st.lists(st.floats(-5.0, 5.0), min_size=3, max_size=3),
    seed=st.integers(0, 100),
    count=st.integers(3, 80),
)
def test_smoothing_keeps_parabolas(coefficients: list[float], seed: int, count: int) -> None:
    time = 0.002 * (np.arange(count) + np.random.default_rng(seed).uniform(-0.3, 0.3, count))
    polynomial = np.polynomial.Polynomial(coefficients)
    value, slope = local_polynomial(time, polynomial(time)[:, None])
    np.testing.assert_allclose(value[:, 0], polynomial(time), atol=1e-8)
    np.testing.assert_allclose(slope[:, 0], polynomial.deriv()(time), atol=1e-5)


def test_smoothing_takes_noise_away_without_delay() -> None:
    random = np.random.default_rng(0)
    recording = simulated(NOMINAL, 0, 2)
    noisy = replace(
        recording,
        position=recording.position + 1e-3 * random.standard_normal(recording.position.shape),
        velocity=recording.velocity + 1e-1 * random.standard_normal(recording.velocity.shape),
    )
    smooth = smoothed_motion(noisy)
    assert np.sqrt(np.mean((smooth.position - recording.position) ** 2)) < 0.5e-3
    assert np.sqrt(np.mean((smooth.velocity - recording.velocity) ** 2)) < 0.5e-1
    undisturbed = smoothed_motion(recording)
    np.testing.assert_allclose(undisturbed.position, recording.position, atol=1e-4)
    np.testing.assert_allclose(undisturbed.velocity, recording.velocity, atol=3e-2)
