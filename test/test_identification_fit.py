"""The fit finds what recordings fix, says what they leave open, and never makes a model worse."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_motion import CONFIGURATION, MODEL, STEP, motion, simulated, twin_recording

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.identification.coordinates import DISSIPATION, VARIABLE_NAMES, Coordinates, Variable
from realitygrad_ros.identification.fit import FitResult, fit
from realitygrad_ros.identification.identifiability import (
    information,
    open_variables,
    standard_errors,
    tool_doubt,
    unexplained,
)
from realitygrad_ros.identification.recording import UniformRecording
from realitygrad_ros.identification.replay import identification_simulator, replay
from realitygrad_ros.identification.verdict import ParameterVerdict
from realitygrad_ros.identification.windows import Windows, window_residual
from realitygrad_ros.physics.kinematics import ForwardKinematics
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

NOMINAL = CONFIGURATION.nominal
PAN, LIFT, ELBOW, WRIST_1, WRIST_2, WRIST_3 = range(6)


def run(recordings: list[UniformRecording], prior: SimulationParameters = NOMINAL, **options: object) -> FitResult:
    """Fit the UR5."""
    return fit(CONFIGURATION, MODEL, recordings, prior, **options)  # type: ignore[arg-type]


def verdict(result: FitResult, name: str, joint: int) -> ParameterVerdict:
    """The verdict on one parameter."""
    (found,) = (v for v in result.verdicts if (v.name, v.joint) == (name, MODEL.joint_names[joint]))
    return found


TRUTH = SimulationParameters(
    MODEL.joint_names,
    damping=np.array([25.0, 30.0, 20.0, 3.0, 2.0, 1.5]),
    armature=np.array([0.3, 0.4, 0.25, 0.09, 0.03, 0.1]),
    kp=np.array([800.0, 700.0, 1300.0, 160.0, 200.0, 280.0]),
    kd=NOMINAL.kd,
    friction=np.array([2.0, 4.0, 2.5, 0.6, 0.4, 0.3]),
)
"""The links weigh the servos of the first four joints; kp of wrist_2 is that of the prior, kp of wrist_3 is not."""


@pytest.fixture(scope="module")
def clean() -> FitResult:
    """Fitted to two recordings of the simulator itself, without noise."""
    return run([simulated(TRUTH, 1, 2), simulated(TRUTH, 2, 2)])


def test_finds_the_parameters_of_the_simulator_itself(clean: FitResult) -> None:
    for name in PARAMETER_NAMES:
        np.testing.assert_allclose(
            getattr(clean.parameters, name)[:WRIST_3], getattr(TRUTH, name)[:WRIST_3], rtol=2e-3, atol=2e-3
        )
    assert clean.residual_before > 0.1
    assert clean.residual_after < 5e-4
    assert clean.residual_after == pytest.approx(min(clean.history), rel=1e-3)
    assert clean.windows == 16
    assert clean.saturated == 0.0
    assert all(verdict(clean, name, LIFT).identified for name in ("damping", "armature", "kp", "friction"))


def test_a_gain_that_nothing_weighs_is_held_and_its_ratios_are_found(clean: FitResult) -> None:
    held = verdict(clean, "kp", WRIST_3)
    assert not held.identified
    assert held.fitted == held.prior == NOMINAL.kp[WRIST_3]
    assert "armature / kp" in held.reason and "wrist_3_joint" in held.reason
    factor = NOMINAL.kp[WRIST_3] / TRUTH.kp[WRIST_3]
    fitted = clean.parameters
    # The links' own inertia, 0.2 % of the armature, does not scale.
    assert fitted.armature[WRIST_3] == pytest.approx(factor * TRUTH.armature[WRIST_3], rel=1e-2)
    assert fitted.friction[WRIST_3] == pytest.approx(factor * TRUTH.friction[WRIST_3], rel=1e-2)
    assert fitted.damping[WRIST_3] + fitted.kd[WRIST_3] == pytest.approx(factor * (8.0 + 1.5), rel=1e-2)


def test_kd_is_named_as_one_number_with_damping(clean: FitResult) -> None:
    for joint in (PAN, LIFT, ELBOW, WRIST_1, WRIST_2):
        held = verdict(clean, "kd", joint)
        assert not held.identified and held.fitted == held.prior and held.standard_error is None
        assert f"only kd + damping of {held.joint} is fixed by this data; kd kept at its prior" == held.reason
    lowered = verdict(clean, "kd", WRIST_3)
    assert lowered.fitted < lowered.prior and lowered.standard_error is not None
    assert "damping is at its lower bound" in lowered.reason
    assert clean.parameters.damping[WRIST_3] == 0.0


def test_the_truth_is_found_again_from_the_truth() -> None:
    result = run([simulated(TRUTH, 3, 2)], TRUTH)
    # What is left is what smoothing does to the windows' starts.
    assert result.residual_after <= result.residual_before < 5e-4
    for name in PARAMETER_NAMES:
        np.testing.assert_allclose(getattr(result.parameters, name), getattr(TRUTH, name), rtol=1e-2, atol=1e-2)


def test_a_joint_at_rest_keeps_its_prior() -> None:
    result = run([simulated(TRUTH, 4, 2, noise=1e-4, still=(WRIST_3,))])
    for name in ("damping", "armature", "kp", "friction"):
        assert not verdict(result, name, WRIST_3).identified
        assert getattr(result.parameters, name)[WRIST_3] == getattr(NOMINAL, name)[WRIST_3]
    assert verdict(result, "damping", WRIST_3).reason == (
        "wrist_3_joint hardly moves in this data; kd + damping kept at its prior"
    )
    assert verdict(result, "kp", LIFT).identified


def test_errors_are_as_large_as_their_standard_errors_say() -> None:
    result = run([simulated(TRUTH, 5, 3, noise=1e-4)])
    deviations = []
    for judged in result.verdicts:
        if judged.identified and not judged.joint.startswith(("wrist_2", "wrist_3")):
            truth = getattr(TRUTH, judged.name)[MODEL.joint_names.index(judged.joint)]
            assert judged.standard_error is not None
            deviations.append((judged.fitted - truth) / judged.standard_error)
    assert len(deviations) >= 12
    assert np.max(np.abs(deviations)) < 3.0


def gap(recordings: list[UniformRecording], parameters: SimulationParameters) -> float:
    """Mean distance between the measured and the simulated end effector [m]."""
    simulator = identification_simulator(CONFIGURATION, MODEL, recordings[0].time_step)
    replayed = replay(simulator, recordings, parameters)
    kinematics = ForwardKinematics(MODEL, CONFIGURATION.reach.end_effector, torch.float64)
    measured, other = (kinematics(torch.tensor(positions)).numpy() for positions in replayed)
    return float(np.linalg.norm(measured - other, axis=-1).mean())


def test_the_gap_to_the_twin_closes_on_motions_that_were_not_fitted() -> None:
    recording = twin_recording(0, 9).resample(0.002)
    result = run(motion(recording, 0, 6))
    held_out = motion(recording, 6, 9)
    before, after = gap(held_out, NOMINAL), gap(held_out, result.parameters)
    assert before > 0.01
    assert after < 0.05 * before
    assert result.residual_after < 0.05 * result.residual_before


@pytest.mark.parametrize("seed", [0, 1])
def test_the_residual_never_rises(seed: int) -> None:
    random = np.random.default_rng(seed)
    factors = {name: random.uniform(0.3, 3.0, 6) for name in PARAMETER_NAMES}
    prior = SimulationParameters(
        MODEL.joint_names, **{name: (getattr(TRUTH, name) + 0.01) * factors[name] for name in PARAMETER_NAMES}
    )
    recordings = [simulated(TRUTH, seed, 1, noise=1e-5)]
    result = run(recordings, prior)
    assert result.residual_after <= result.residual_before
    assert result.residual_before == pytest.approx(window_residual(CONFIGURATION, MODEL, recordings, prior))
    assert result.residual_after == pytest.approx(window_residual(CONFIGURATION, MODEL, recordings, result.parameters))
    for name in PARAMETER_NAMES:
        lower, upper = CONFIGURATION.bounds[name]
        assert ((getattr(result.parameters, name) >= lower) & (getattr(result.parameters, name) <= upper)).all()


def test_progress_is_told_and_cancelling_stops_the_fit() -> None:
    told: list[tuple[str, float]] = []
    recordings = [simulated(TRUTH, 6, 1)]
    run(recordings, progress=lambda stage, fraction, figures: told.append((stage, fraction)))
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and {stage for stage, _ in told} == {"identify"}
    asked = iter([False, False, True])
    with pytest.raises(Cancelled):
        run(recordings, cancelled=lambda: next(asked))


def test_recordings_that_tell_nothing_are_refused() -> None:
    still = simulated(NOMINAL, 0, 1, still=tuple(range(6)))
    at_rest = replace(still, position=np.tile(CONFIGURATION.home, (len(still.time), 1)), velocity=0.0 * still.velocity)
    with pytest.raises(RealityGradError, match="nothing moves in the recordings"):
        run([at_rest])
    noise = 1e-2 * np.random.default_rng(0).standard_normal(at_rest.position.shape)
    with pytest.raises(RealityGradError, match="nothing moves in the recordings"):
        run([replace(at_rest, position=at_rest.position + noise)])
    moving = simulated(NOMINAL, 0, 1)
    with pytest.raises(RealityGradError, match="no stretch of"):
        run([moving.between(0.0, 0.2)])
    with pytest.raises(RealityGradError, match="no stretch of"):
        run([replace(moving, gap=np.arange(len(moving.gap)) % 100 == 0)])
    with pytest.raises(RealityGradError, match=r"0.002 s, 0.004 s"):
        run([moving, replace(moving, time_step=0.004)])
    with pytest.raises(RealityGradError, match="none"):
        run([])


def test_a_prior_out_of_bounds_is_refused() -> None:
    with pytest.raises(RealityGradError, match="kp of joint 'elbow_joint' is 20000"):
        run([simulated(NOMINAL, 0, 1)], replace(NOMINAL, kp=np.array([1e3, 1e3, 2e4, 2e2, 2e2, 2e2])))


@settings(max_examples=50, deadline=None)
@given(holes=st.lists(st.integers(0, 599), max_size=6), length=st.integers(120, 600))
def test_windows_span_no_gap_and_leave_little_out(holes: list[int], length: int) -> None:
    gap = np.zeros(length, dtype=bool)
    gap[[hole for hole in holes if hole < length]] = True
    numbers = np.tile(np.arange(length + 1.0)[:, None], 6)
    recording = UniformRecording(MODEL.joint_names, STEP, STEP * numbers[:, 0], numbers, numbers, numbers[:-1], gap)
    stretches = [len(part) - (k > 0) for k, part in enumerate(np.split(gap, np.flatnonzero(gap)))]
    fitting = [steps for steps in stretches if steps >= 150]
    if not fitting:
        with pytest.raises(RealityGradError, match="no stretch of"):
            Windows(CONFIGURATION, MODEL, [recording])
        return
    steps = Windows(CONFIGURATION, MODEL, [recording]).command[:, :, 0]
    assert (np.diff(steps, axis=0) == 1.0).all()
    assert not gap[steps.astype(int)].any()
    assert steps.shape == (150, sum(round(stretch / 150) for stretch in fitting))


def test_the_residual_is_about_one_for_a_robot_that_does_not_follow() -> None:
    recordings = [simulated(TRUTH, 0, 2)]
    heavy = replace(NOMINAL, armature=np.full(6, 1e4), kp=np.full(6, 1e4))
    assert window_residual(CONFIGURATION, MODEL, recordings, heavy) == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("wrt", [("kd", LIFT), ("damping", ELBOW), ("kp", WRIST_1), ("friction", PAN)])
def test_the_jacobian_is_that_of_the_residual(wrt: tuple[str, int]) -> None:
    windows = Windows(CONFIGURATION, MODEL, [simulated(TRUTH, 0, 1)])
    name, joint = wrt
    step = 1e-4 * getattr(TRUTH, name)[joint]

    def shifted(sign: float) -> np.ndarray:
        values = getattr(TRUTH, name).copy()
        values[joint] += sign * step
        return windows.residual(replace(TRUTH, **{name: values}))

    difference = (shifted(1.0) - shifted(-1.0)) / (2.0 * step)
    column = windows.jacobian(TRUTH, [wrt])[..., 0]
    np.testing.assert_allclose(column, difference, atol=1e-6 * np.abs(difference).max())


def test_an_unknown_tool_is_doubted_where_the_robot_has_an_end_effector() -> None:
    windows = Windows(CONFIGURATION, MODEL, [simulated(TRUTH, 0, 1)])
    assert (tool_doubt(CONFIGURATION, MODEL, windows) > 0.0).all()
    assert (tool_doubt(replace(CONFIGURATION, reach_section=None), MODEL, windows) == 0.0).all()


LINK_INERTIA = np.full(6, 0.5)


def coordinates(prior: SimulationParameters) -> Coordinates:
    """All variables of the UR5."""
    variables = [Variable(name, joint) for name in VARIABLE_NAMES for joint in range(6)]
    return Coordinates(variables, prior, CONFIGURATION.bounds, LINK_INERTIA, CONFIGURATION.friction_velocity)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 3.0), min_size=24, max_size=24))
def test_coordinates_give_parameters_within_bounds_and_come_back(x_of: list[float]) -> None:
    space = coordinates(NOMINAL)
    x = np.clip(np.array(x_of), space.lower, space.upper)
    parameters = space.parameters(x)
    np.testing.assert_allclose(space.vector(parameters), x, rtol=1e-9, atol=1e-9)
    for name in PARAMETER_NAMES:
        lower, upper = CONFIGURATION.bounds[name]
        assert ((getattr(parameters, name) >= lower) & (getattr(parameters, name) <= upper)).all()
    # kd is touched only where damping has nothing left to give.
    lowered = parameters.kd < NOMINAL.kd
    assert (parameters.damping[lowered] == 0.0).all() and (parameters.kd <= NOMINAL.kd).all()
    moved = [pair for pair, variable in zip(space.wrt(x), space.variables, strict=True) if variable.name == DISSIPATION]
    assert moved == [("kd" if low else "damping", joint) for joint, low in enumerate(lowered)]


def test_standard_errors_are_those_of_least_squares() -> None:
    J = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 0.1, 10.0]
    residual = np.random.default_rng(1).normal(size=(2, 500, 1)) * [[[0.01]], [[0.02]]]
    rho = unexplained(residual)
    np.testing.assert_allclose(rho, [[0.01], [0.02]], rtol=0.1)
    # Each of 1,000 windows with one sample of one joint and signal: the textbook's formula.
    known = information(J.reshape(2, 500, 1, 3), rho, 1000)
    weights = np.repeat(1.0 / rho[:, 0] ** 2, 500)
    expected = np.sqrt(np.diag(np.linalg.inv(J.T * weights @ J)))
    np.testing.assert_allclose(standard_errors(known), expected, rtol=1e-9)
    # A window counts once, however many samples it has.
    np.testing.assert_allclose(standard_errors(information(J.reshape(2, 500, 1, 3), rho, 10)), 10.0 * expected)


def test_directions_that_change_nothing_have_infinite_errors() -> None:
    known = 1e4 * np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    errors = standard_errors(known)
    assert np.isinf(errors[:2]).all() and np.isfinite(errors[2])
    variables = [Variable("armature", 0), Variable("kp", 0), Variable("friction", 0)]
    assert list(open_variables(variables, known, np.zeros(3))) == [Variable("kp", 0)]
    assert open_variables(variables, np.diag([1e4, 1e4, 0.0]), np.ones(3)).keys() == {Variable("friction", 0)}
    assert not open_variables(variables, 1e4 * np.eye(3), np.zeros(3))


def test_what_is_uncertain_but_far_from_its_prior_is_not_held() -> None:
    variables, known = [Variable("armature", 0), Variable("friction", 0)], np.diag([0.25, 0.25])
    assert open_variables(variables, known, np.array([3.0, 5.0])) == {Variable("armature", 0): 2.0}
