"""The twin against closed forms and Pinocchio, and what it refuses."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.parameters import SimulationParameters
from realitygrad_ros.twin.configuration import TwinConfiguration, load_twin_configuration
from realitygrad_ros.twin.twin import STEP_RATE, Twin

UR5 = load_configuration("ur5")
HIDDEN = load_twin_configuration("ur5")
TWIN = Twin(UR5, HIDDEN)
"""For tests that leave it as it is."""

PENDULUM_MASS, PENDULUM_LENGTH = 2.0, 0.5
PENDULUM = f"""<robot name="pendulum">
  <link name="base"/>
  <joint name="pivot" type="continuous">
    <parent link="base"/><child link="bob"/><axis xyz="0 1 0"/><limit effort="12" velocity="100"/>
  </joint>
  <link name="bob">
    <inertial>
      <origin xyz="0 0 {-PENDULUM_LENGTH}"/><mass value="{PENDULUM_MASS}"/>
      <inertia ixx="1e-9" iyy="1e-9" izz="1e-9" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/bob.stl"/></geometry></visual>
    <collision><geometry><mesh filename="package://nowhere/bob.stl"/></geometry></collision>
  </link>
</robot>"""


def silent(hidden: TwinConfiguration) -> TwinConfiguration:
    """The same twin with perfect encoders."""
    return replace(hidden, noise=replace(hidden.noise, position=0.0, velocity=0.0))


def pendulum(tmp_path: Path, home: float, **values: float) -> Twin:
    """A pendulum that hangs down at zero; parameters that are not given are zero."""
    (tmp_path / "pendulum.urdf").write_text(PENDULUM)
    robot = replace(
        UR5,
        name="pendulum",
        urdf=tmp_path / "pendulum.urdf",
        joint_names=("pivot",),
        home=np.array([home]),
    )
    zeros = dict.fromkeys(("damping", "armature", "kp", "kd", "friction"), np.zeros(1))
    truth = SimulationParameters(("pivot",), **zeros | {name: np.array([value]) for name, value in values.items()})
    payload = replace(HIDDEN.payload, link="bob", mass=0.0, offset=np.zeros(3))
    return Twin(robot, silent(replace(HIDDEN, truth=truth, payload=payload)))


def pinocchio_ur5() -> pinocchio.Model:
    """The UR5 with the hidden payload."""
    model = pinocchio.buildModelFromUrdf(str(UR5.urdf))
    tool = model.frames[model.getFrameId(HIDDEN.payload.link)]
    point = pinocchio.Inertia(HIDDEN.payload.mass, np.asarray(HIDDEN.payload.offset), np.zeros((3, 3)))
    model.appendBodyToJoint(tool.parentJoint, point, tool.placement)
    return model


@pytest.mark.parametrize("pose", [UR5.home, [0.4, -0.9, 1.1, -1.2, -1.0, 0.7], [-1.0, -2.0, 2.0, -1.5, 0.3, -2.0]])
def test_holding_torque_is_gravity_with_payload(pose: list[float]) -> None:
    twin = Twin(UR5, silent(HIDDEN))
    for _ in range(3 * STEP_RATE):
        twin.step(pose)
    model = pinocchio_ur5()
    gravity = pinocchio.computeGeneralizedGravity(model, model.createData(), twin.position)
    np.testing.assert_allclose(twin.velocity, 0.0, atol=1e-5)
    np.testing.assert_allclose(twin.effort, gravity, atol=2e-3)
    # Without gravity compensation the servos hold by their sag alone.
    np.testing.assert_allclose(twin.truth.kp * (pose - twin.position), gravity, atol=2e-3)


def test_free_damped_pendulum_follows_its_closed_form(tmp_path: Path) -> None:
    start, damping, armature = 0.02, 0.3, 0.1
    twin = pendulum(tmp_path, start, damping=damping, armature=armature)
    samples = twin.simulate(np.zeros((400, 1)), 200.0)
    # I qdd + d qd + m g l q = 0 for small q, from rest.
    inertia = PENDULUM_MASS * PENDULUM_LENGTH**2 + armature
    decay = damping / (2.0 * inertia)
    omega = np.sqrt(PENDULUM_MASS * 9.81 * PENDULUM_LENGTH / inertia - decay**2)
    time = samples.time
    expected = start * np.exp(-decay * time) * (np.cos(omega * time) + decay / omega * np.sin(omega * time))
    np.testing.assert_allclose(samples.position[:, 0], expected, atol=0.02 * start)
    np.testing.assert_array_equal(samples.effort, 0.0)


def test_servo_follows_its_closed_form(tmp_path: Path) -> None:
    kp, kd, start, target = 80.0, 6.0, 0.0, 0.02
    twin = pendulum(tmp_path, start, kp=kp, kd=kd)
    samples = twin.simulate(np.full((400, 1), target), 200.0)
    # I qdd + kd qd + (kp + m g l) q = kp q*
    stiffness = kp + PENDULUM_MASS * 9.81 * PENDULUM_LENGTH
    inertia = PENDULUM_MASS * PENDULUM_LENGTH**2
    rest, decay = kp * target / stiffness, kd / (2.0 * inertia)
    omega = np.sqrt(stiffness / inertia - decay**2)
    time = samples.time
    swing = np.exp(-decay * time) * (np.cos(omega * time) + decay / omega * np.sin(omega * time))
    np.testing.assert_allclose(samples.position[:, 0], rest * (1.0 - swing), atol=0.02 * target)


def test_coulomb_friction_takes_the_energy_of_its_way(tmp_path: Path) -> None:
    friction, start = 1.0, 1.5
    fall = pendulum(tmp_path, start, friction=friction).simulate(np.zeros((60, 1)), 200.0)
    weight = PENDULUM_MASS * 9.81 * PENDULUM_LENGTH
    energy = 0.5 * PENDULUM_MASS * PENDULUM_LENGTH**2 * fall.velocity[:, 0] ** 2 - weight * np.cos(fall.position[:, 0])
    np.testing.assert_allclose(energy - energy[0], -friction * (start - fall.position[:, 0]), atol=0.02)


def test_coulomb_friction_creeps_below_its_velocity(tmp_path: Path) -> None:
    friction, start = 5.0, 0.05
    creep = pendulum(tmp_path, start, friction=friction).simulate(np.zeros((400, 1)), 200.0)
    # friction / friction_velocity qd + m g l q = 0 for small q: slow enough to leave inertia out.
    rate = PENDULUM_MASS * 9.81 * PENDULUM_LENGTH * HIDDEN.friction_velocity / friction
    np.testing.assert_allclose(creep.position[:, 0], start * np.exp(-rate * creep.time), atol=0.02 * start)


def test_effort_never_exceeds_the_limits_of_the_urdf() -> None:
    twin = Twin(UR5, HIDDEN)
    far = UR5.home + np.array([2.0, -1.5, 1.0, 2.0, 2.0, 3.0])
    samples = twin.simulate(np.tile(far, (100, 1)), 200.0)
    limit = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
    assert np.all(np.abs(samples.effort) <= limit)
    np.testing.assert_array_equal(np.abs(samples.effort).max(axis=0), limit)


def test_starts_at_home_and_holds_it_within_the_sag() -> None:
    twin = Twin(UR5, HIDDEN)
    np.testing.assert_allclose(twin.position, UR5.home, atol=2e-4)
    samples = twin.simulate(np.tile(UR5.home, (600, 1)), 200.0)
    assert np.abs(samples.position - UR5.home).max() < 0.08
    assert np.abs(samples.velocity[-500:]).max() < 6e-3  # nothing but noise


@pytest.mark.parametrize("joint", range(6))
def test_servos_are_well_damped_at_home(joint: int) -> None:
    twin = Twin(UR5, silent(HIDDEN))
    start = twin.simulate(np.tile(UR5.home, (200, 1)), 200.0).position[-1]
    target = UR5.home.copy()
    target[joint] += 0.3
    moved = twin.simulate(np.tile(target, (400, 1)), 200.0).position[:, joint] - start[joint]
    assert moved.max() < 1.2 * moved[-1]
    assert np.ptp(moved[-STEP_RATE:]) < 0.01


def test_command_is_clamped_to_the_position_limits() -> None:
    twin = Twin(UR5, HIDDEN)
    np.testing.assert_allclose(
        twin.check_command([9.0, -9.0, 9.0, 0.1, 0.2, 0.3]),
        [2 * np.pi, -2 * np.pi, np.pi, 0.1, 0.2, 0.3],
    )


@given(st.lists(st.floats(-100.0, 100.0), max_size=10).filter(lambda values: len(values) != 6))
def test_command_of_wrong_length_is_refused(values: list[float]) -> None:
    with pytest.raises(RealityGradError, match=rf"{len(values)} values, but the twin has 6 joints: shoulder_pan_joint"):
        TWIN.check_command(values)


@given(
    st.lists(st.floats(-6.0, 6.0), min_size=6, max_size=6),
    st.integers(0, 5),
    st.sampled_from([np.nan, np.inf, -np.inf]),
)
def test_command_that_is_not_finite_is_refused(values: list[float], joint: int, wrong: float) -> None:
    values[joint] = wrong
    before = TWIN.position.copy()
    with pytest.raises(RealityGradError, match=f"the command of joint '{UR5.joint_names[joint]}' is .*finite"):
        TWIN.step(values)
    np.testing.assert_array_equal(TWIN.position, before)


def test_same_seed_same_recording_and_reset_begins_anew() -> None:
    command = np.tile(UR5.home + 0.1, (40, 1))
    twin = Twin(UR5, HIDDEN)
    first, other = twin.simulate(command, 200.0), Twin(UR5, HIDDEN).simulate(command, 200.0)
    twin.reset()
    for expected, same, again in zip(first, other, twin.simulate(command, 200.0), strict=True):
        np.testing.assert_array_equal(expected, same)
        np.testing.assert_array_equal(expected, again)


def test_seed_changes_the_noise_and_nothing_else() -> None:
    command = np.tile(UR5.home + 0.1, (200, 1))
    first = Twin(UR5, HIDDEN).simulate(command, 200.0)
    other = Twin(UR5, replace(HIDDEN, noise=replace(HIDDEN.noise, seed=1))).simulate(command, 200.0)
    clean = Twin(UR5, silent(HIDDEN)).simulate(command, 200.0)
    for noisy in (first, other):
        np.testing.assert_array_equal(noisy.effort, clean.effort)
        np.testing.assert_allclose(np.std(noisy.position - clean.position), HIDDEN.noise.position, rtol=0.1)
        np.testing.assert_allclose(np.std(noisy.velocity - clean.velocity), HIDDEN.noise.velocity, rtol=0.1)
    assert not np.array_equal(first.position, other.position)


def test_simulate_holds_each_command_for_its_period() -> None:
    twin, by_hand = Twin(UR5, HIDDEN), Twin(UR5, HIDDEN)
    command = UR5.home + np.linspace(0.0, 0.2, 10)[:, None]
    samples = twin.simulate(command, 200.0)
    assert samples.position.shape == (51, 6)
    np.testing.assert_allclose(samples.time[[0, 1, -1]], [0.0, 0.001, 0.05])
    for target in command:
        for _ in range(5):
            by_hand.step(target)
    np.testing.assert_array_equal(samples.position[-1], by_hand.position)


@pytest.mark.parametrize("rate", [300.0, 2000.0, 999.0])
def test_command_rate_that_does_not_divide_is_refused(rate: float) -> None:
    with pytest.raises(RealityGradError, match="does not divide the twin's 1000 Hz"):
        Twin(UR5, HIDDEN).simulate(np.tile(UR5.home, (2, 1)), rate)


def test_joint_order_is_the_robots_and_not_that_of_the_hidden_file() -> None:
    shuffled = tuple(sorted(UR5.joint_names))
    twin = Twin(UR5, replace(HIDDEN, truth=HIDDEN.truth.reordered(shuffled)))
    assert twin.truth.joint_names == UR5.joint_names
    command = np.tile(UR5.home + 0.1, (40, 1))
    expected = Twin(UR5, HIDDEN).simulate(command, 200.0)
    np.testing.assert_array_equal(twin.simulate(command, 200.0).position, expected.position)


def test_payload_on_a_link_that_is_not_there_is_refused() -> None:
    with pytest.raises(RealityGradError, match="payload's link 'gripper' is not in the URDF"):
        Twin(UR5, replace(HIDDEN, payload=replace(HIDDEN.payload, link="gripper")))


def test_joints_that_the_urdf_lacks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pendulum.urdf").write_text(PENDULUM)
    with pytest.raises(RealityGradError, match=r"differ; only one side has: elbow_joint, pivot"):
        Twin(replace(UR5, urdf=tmp_path / "pendulum.urdf"), HIDDEN)


def test_parameters_of_other_joints_are_refused() -> None:
    names = (*UR5.joint_names[:-1], "wrist_4_joint")
    with pytest.raises(RealityGradError, match="wrist_3_joint, wrist_4_joint"):
        Twin(UR5, replace(HIDDEN, truth=replace(HIDDEN.truth, joint_names=names)))


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        (("joints", "elbow_joint", "kp"), -1.0, "joints.elbow_joint.kp is -1.0"),
        (("joints", "elbow_joint", "kp"), None, "lacks the entry 'joints.elbow_joint.kp'"),
        (("joints", "elbow_joint", "kp"), "stiff", "joints.elbow_joint.kp is 'stiff'; it must be a number"),
        (("payload", "mass"), float("nan"), "payload.mass is nan"),
        (("payload", "offset"), [0.0, 1.0], r"payload.offset is \[0.0, 1.0\]; it must be a list of 3 finite numbers"),
        (("friction_velocity",), 0.0, "friction_velocity is 0.0; it must be finite and positive"),
        (("noise", "velocity"), -1.0, "noise.velocity is -1.0"),
        (("noise",), None, "lacks the entry 'noise'"),
    ],
)
def test_wrong_entry_of_the_hidden_file_is_named(
    tmp_path: Path, entry: tuple[str, ...], value: object, message: str
) -> None:
    content = yaml.safe_load((Path(__file__).parents[1] / "config" / "twin" / "ur5.yaml").read_text())
    place = content
    for key in entry[:-1]:
        place = place[key]
    if value is None:
        del place[entry[-1]]
    else:
        place[entry[-1]] = value
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "arm.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(RealityGradError, match=message):
        load_twin_configuration(str(tmp_path / "arm.yaml"))


def test_robot_without_twin_is_told_which_file_is_missing() -> None:
    with pytest.raises(RealityGradError, match=r"no twin configuration '.*config/twin/nobody.yaml'"):
        load_twin_configuration("nobody")


def test_truth_is_far_from_the_nominal_model() -> None:
    truth, nominal = HIDDEN.truth.reordered(UR5.joint_names), UR5.nominal
    assert np.all(nominal.damping == 0.0) and np.all(truth.damping > 1.0)
    assert np.all(nominal.friction == 0.0) and np.all(truth.friction > 0.0)
    # A fit that holds kd at the nominal value must still find a damping that is not negative.
    assert np.all(truth.kd + truth.damping > nominal.kd)
    for name in ("kp", "armature"):
        ratio = getattr(truth, name) / getattr(nominal, name)
        assert np.all(np.maximum(ratio, 1.0 / ratio) > 1.2), name
    for name, (lower, upper) in UR5.bounds.items():
        values = getattr(truth, name)
        assert np.all((lower <= values) & (values <= upper)), name


def test_twin_shares_no_code_with_the_simulator_it_judges() -> None:
    program = (
        "import sys, realitygrad_ros.twin.twin, realitygrad_ros.nodes.twin_node;"
        "print([name for name in sys.modules if name.startswith(('realitygrad_ros.physics', 'warp', 'torch'))])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
