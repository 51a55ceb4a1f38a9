"""The twin of a robot on legs: it stands, can be pushed or hung up, and has an IMU and odometry."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import ArrayLike

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.twin.configuration import BaseNoise, TwinConfiguration, load_twin_configuration
from realitygrad_ros.twin.ground import place
from realitygrad_ros.twin.twin import STEP_RATE, Twin

ANYMAL = load_configuration("anymal_c")
HIDDEN = load_twin_configuration("anymal_c")
HOME, HEIGHT = ANYMAL.home, ANYMAL.home_height
assert HEIGHT is not None


def silent(hidden: TwinConfiguration = HIDDEN) -> TwinConfiguration:
    """The same twin with perfect sensors."""
    noise = replace(hidden.noise, position=0.0, velocity=0.0)
    return replace(hidden, noise=noise, base_noise=BaseNoise(0.0, 0.0, 0.0, 0.0, 0.0))


def put(twin: Twin, position: ArrayLike, quat_xyzw: ArrayLike, linear: ArrayLike, angular: ArrayLike) -> None:
    """Put the base somewhere, with a velocity in its frame, and the joints at rest at home."""
    rest = np.zeros(len(HOME))
    state = [*np.ravel(position), *np.ravel(quat_xyzw), *HOME]
    place(twin._model, twin._data, twin.joint_names, state, [*np.ravel(linear), *np.ravel(angular), *rest])
    twin._data.ctrl[:] = HOME
    assert twin._sensors is not None
    twin._sensors.begin(twin._data)
    twin._measure()


def rotation(quat_xyzw: ArrayLike) -> np.ndarray:
    """As textbooks have it."""
    x, y, z, w = np.ravel(quat_xyzw)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_it_starts_at_home_at_its_height_and_goes_on_standing() -> None:
    twin = Twin(ANYMAL, silent())
    np.testing.assert_array_equal(twin.position, HOME)
    np.testing.assert_array_equal(twin.base.position, [0.0, 0.0, HEIGHT])
    np.testing.assert_array_equal(twin.base.quat_xyzw, [0.0, 0.0, 0.0, 1.0])
    twin.simulate(np.tile(HOME, (100, 1)), 50.0)
    assert abs(twin.base.position[2] - HEIGHT) < 0.05  # what the servos sag
    np.testing.assert_allclose(twin.base.quat_xyzw, [0.0, 0.0, 0.0, 1.0], atol=5e-3)
    np.testing.assert_allclose(twin.base.linear_velocity, 0.0, atol=1e-3)
    np.testing.assert_allclose(twin.base.angular_velocity, 0.0, atol=1e-3)
    np.testing.assert_allclose(twin.base.linear_acceleration, [0.0, 0.0, 9.81], atol=0.05)


def test_an_accelerometer_that_falls_feels_nothing() -> None:
    twin = Twin(ANYMAL, silent())
    put(twin, [0.0, 0.0, 3.0], [0.2, -0.4, 0.1, np.sqrt(0.79)], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0])
    # The legs have no gravity to hold against, and the servos rest at home.
    for _ in range(100):
        twin.step(HOME)
    np.testing.assert_allclose(twin.base.linear_acceleration, 0.0, atol=0.05)


def test_velocities_are_in_the_frame_of_the_base() -> None:
    twin = Twin(ANYMAL, silent())
    quat_xyzw, linear, angular = [0.2, -0.4, 0.1, np.sqrt(0.79)], np.array([0.5, -0.3, 0.2]), np.array([0.7, 0.1, -0.4])
    put(twin, [1.0, 2.0, 3.0], quat_xyzw, linear, angular)
    reading = twin.base
    np.testing.assert_allclose(reading.position, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(reading.quat_xyzw, quat_xyzw)
    np.testing.assert_allclose(reading.linear_velocity, linear, atol=1e-12)
    np.testing.assert_allclose(reading.angular_velocity, angular, atol=1e-12)
    steps = 20
    for _ in range(steps):
        twin.step(HOME)
    moved, turned = twin.base.position - reading.position, rotation(quat_xyzw).T @ rotation(twin.base.quat_xyzw)
    seconds = steps / STEP_RATE
    fall = np.array([0.0, 0.0, -0.5 * 9.81 * seconds**2])
    np.testing.assert_allclose(moved, rotation(quat_xyzw) @ linear * seconds + fall, atol=3e-4)
    spin = np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]]) / 2.0
    np.testing.assert_allclose(spin / seconds, angular, atol=0.02)


def test_a_push_changes_the_velocity_of_the_base_in_its_frame_and_no_joint() -> None:
    twin = Twin(ANYMAL, silent())
    put(twin, [0.0, 0.0, HEIGHT], [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)], [0.1, 0.0, 0.0], np.zeros(3))
    twin.push([0.0, 0.5, 0.0], [0.0, 0.0, 0.3])
    twin._measure()
    np.testing.assert_allclose(twin.base.linear_velocity, [0.1, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(twin.base.angular_velocity, [0.0, 0.0, 0.3], atol=1e-12)
    np.testing.assert_array_equal(twin.velocity, 0.0)
    # It looks along y, and so goes along -x.
    twin.step(HOME)
    assert twin.base.position[0] < -3e-4


def test_the_base_that_hangs_stays_and_the_legs_move_freely() -> None:
    twin = Twin(ANYMAL, silent(), hung=True)
    assert twin.base.position[2] > HEIGHT + 0.4
    command = np.tile(HOME + 0.2, (100, 1))
    twin.simulate(command, 50.0)
    assert twin._data.ncon == 0
    np.testing.assert_array_equal(twin.base.linear_velocity, 0.0)
    np.testing.assert_allclose(twin.base.linear_acceleration, [0.0, 0.0, 9.81])
    np.testing.assert_allclose(twin.position, command[-1], atol=0.1)  # no weight but the legs' own
    with pytest.raises(RealityGradError, match="the base cannot be pushed: it is fixed"):
        twin.push([0.5, 0.0, 0.0], np.zeros(3))


def test_the_joints_of_one_that_hangs_are_those_of_one_that_stands() -> None:
    models = [Twin(ANYMAL, HIDDEN, hung=hung)._model for hung in (False, True)]
    for name in ANYMAL.joint_names:
        standing, hanging = (model.joint(name) for model in models)
        for entry in ("armature", "damping", "frictionloss"):
            np.testing.assert_array_equal(getattr(standing, entry), getattr(hanging, entry))
    assert models[0].body_mass.sum() == pytest.approx(models[1].body_mass.sum())


def test_ground_and_payload_are_the_true_ones() -> None:
    twin, nominal = Twin(ANYMAL, HIDDEN), Twin(ANYMAL, replace(HIDDEN, payload=replace(HIDDEN.payload, mass=0.0)))
    assert set(twin._model.pair_friction[:, 0]) == {HIDDEN.foot_friction_coefficient}
    assert twin._model.body_mass.sum() - nominal._model.body_mass.sum() == pytest.approx(HIDDEN.payload.mass)


def test_sensors_are_noisy_by_the_seed_and_nobody_notices_a_reading() -> None:
    command = np.tile(HOME, (300, 1))
    first, same, unread = Twin(ANYMAL, HIDDEN), Twin(ANYMAL, HIDDEN), Twin(ANYMAL, HIDDEN)
    clean = Twin(ANYMAL, silent())
    noise = HIDDEN.base_noise
    assert noise is not None
    errors = []
    for target in command:
        for twin in (first, same, unread, clean):
            twin.step(target)
        for values, others in zip(first.base, same.base, strict=True):
            np.testing.assert_array_equal(values, others)
        errors.append([value - true for value, true in zip(first.base, clean.base, strict=True)])
        assert first.base is first.base  # once a step, whoever asks
    np.testing.assert_array_equal(first.position, unread.position)
    columns = [np.array(column) for column in zip(*errors, strict=True)]
    deviations = {name: float(np.std(column)) for name, column in zip(first.base._fields, columns, strict=True)}
    assert deviations["position"] == pytest.approx(noise.position, rel=0.15)
    assert 2.0 * float(np.std(columns[1][:, :3])) == pytest.approx(noise.orientation, rel=0.15)  # of half the angle
    for name in ("linear_velocity", "angular_velocity", "linear_acceleration"):
        assert deviations[name] == pytest.approx(getattr(noise, name), rel=0.15), name
    lengths = [np.linalg.norm(reading) for reading in (first.base.quat_xyzw, same.base.quat_xyzw)]
    np.testing.assert_allclose(lengths, 1.0)
    first.reset()
    np.testing.assert_array_equal(first.base.position, Twin(ANYMAL, HIDDEN).base.position)


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (replace(HIDDEN, base_noise=None), "'noise.base' is for a floating base alone, .* has one; add it"),
        (replace(HIDDEN, foot_friction_coefficient=None), "lacks 'foot_friction_coefficient'"),
    ],
)
def test_a_truth_that_is_not_whole_is_refused(hidden: TwinConfiguration, message: str) -> None:
    with pytest.raises(RealityGradError, match=message):
        Twin(ANYMAL, hidden)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "    orientation: 3.0e-3",
            "    orientation: -1.0",
            "noise.base.orientation is -1.0; it must be finite and not",
        ),
        ("    linear_velocity: 2.0e-2", "", "lacks the entry 'noise.base.linear_velocity'"),
        ("coefficient: 0.7", "coefficient: slippery", "foot_friction_coefficient is 'slippery'; it must be a number"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (share_directory() / "config" / "twin" / "anymal_c.yaml").read_text()
    assert old in text
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "dog.yaml").write_text(text.replace(old, new))
    with pytest.raises(RealityGradError, match=message):
        load_twin_configuration(str(tmp_path / "dog.yaml"))


def test_an_arm_neither_hangs_nor_has_an_imu() -> None:
    arm, hidden = load_configuration("ur5"), load_twin_configuration("ur5")
    with pytest.raises(RealityGradError, match="robot 'ur5' cannot hang: its base is fixed"):
        Twin(arm, hidden, hung=True)
    with pytest.raises(RealityGradError, match="has none; drop it"):
        Twin(arm, replace(hidden, base_noise=HIDDEN.base_noise))
    with pytest.raises(RealityGradError, match="a robot with a fixed base has no IMU"):
        _ = Twin(arm, hidden).base
    with pytest.raises(RealityGradError, match="cannot be pushed"):
        Twin(arm, hidden).push(np.zeros(3), np.zeros(3))


def test_a_push_that_is_not_finite_is_refused() -> None:
    twin = Twin(ANYMAL, HIDDEN)
    with pytest.raises(RealityGradError, match="the push is not finite"):
        twin.push([np.nan, 0.0, 0.0], np.zeros(3))
    assert np.isfinite(twin._data.qvel).all()


def test_truth_is_off_the_nominal_model_and_within_its_bounds() -> None:
    truth, nominal = HIDDEN.truth.reordered(ANYMAL.joint_names), ANYMAL.nominal
    assert np.all(truth.damping >= 1.0) and np.all(truth.friction >= 1.0)
    assert np.all(truth.kd + truth.damping > nominal.kd)
    assert np.all(np.abs(truth.kp / nominal.kp - 1.0) >= 0.0999)
    assert np.all(np.abs(truth.armature / nominal.armature - 1.0) >= 0.1199)
    assert ANYMAL.contact is not None
    assert HIDDEN.foot_friction_coefficient != ANYMAL.contact.friction_coefficient
    for name, (lower, upper) in ANYMAL.bounds.items():
        values = getattr(truth, name)
        assert np.all((lower <= values) & (values <= upper)), name


def test_mujoco_is_told_the_axes_of_the_base() -> None:
    """The orientation that the IMU tells is the one that MuJoCo draws."""
    twin = Twin(ANYMAL, silent())
    put(twin, [0.0, 0.0, 1.0], [0.2, -0.4, 0.1, np.sqrt(0.79)], np.zeros(3), np.zeros(3))
    mujoco.mj_forward(twin._model, twin._data)
    np.testing.assert_allclose(rotation(twin.base.quat_xyzw), twin._data.body("base").xmat.reshape(3, 3), atol=1e-12)
