"""The rules of commanding, the reading of joint states and the deadline thread, without ROS."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realitygrad_ros.benchmarks.policy import synthetic_bundle
from realitygrad_ros.control.command_loop import STALE_AFTER, CommandLoop
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.deadline import DeadlineThread, Window
from realitygrad_ros.nodes.joint_state import VELOCITY_TIME_CONSTANT, JointStateReader
from realitygrad_ros.robot.configuration import load_configuration

UR5 = load_configuration("ur5")
BUNDLE = synthetic_bundle(UR5, epoch=3)
STEP = BUNDLE.velocity_limit / BUNDLE.policy_rate


def ready_loop(pose=UR5.home) -> CommandLoop:
    loop = CommandLoop(UR5)
    loop.accept(BUNDLE)
    loop.set_state(0.0, np.asarray(pose), np.zeros(6))
    loop.set_target(np.array([0.5, 0.0, 0.4]))
    return loop


def test_nothing_is_commanded_before_it_is_engaged():
    assert ready_loop().command(0.0) is None


def test_the_first_command_lies_one_step_from_the_measured_pose():
    pose = UR5.home + 1.0
    loop = ready_loop(pose)
    loop.engage(0.0)
    first = loop.command(0.0)
    np.testing.assert_allclose(first, pose - STEP, atol=1e-12)
    np.testing.assert_allclose(loop.command(0.0), first - STEP, atol=1e-12)


def test_old_joint_states_disengage_for_good():
    loop = ready_loop()
    loop.engage(0.0)
    assert loop.command(STALE_AFTER) is not None
    assert loop.command(STALE_AFTER + 0.001) is None
    assert loop.stopped_because == "joint states are 101 ms old, more than 100 ms"
    loop.set_state(0.2, UR5.home, np.zeros(6))
    assert loop.command(0.2) is None
    loop.engage(0.2)
    assert loop.command(0.2) is not None
    assert loop.stopped_because == ""


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda loop: setattr(loop, "bundle", None), "no policy"),
        (lambda loop: loop._news.update(joint_states=None), "no joint states"),
        (lambda loop: loop.set_state(-1.0, UR5.home, np.zeros(6)), "joint states are 1000 ms old"),
        (lambda loop: loop._news.update(target=None), "no target"),
    ],
)
def test_engaging_needs_everything(spoil, message):
    loop = ready_loop()
    spoil(loop)
    with pytest.raises(RealityGradError, match=message):
        loop.engage(0.0)
    assert not loop.engaged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robot": "panda"}, "for robot 'panda', this one is 'ur5'"),
        ({"joint_names": UR5.joint_names[::-1]}, "in this order"),
        ({"epoch": 2}, "epoch 2, the present policy has 3"),
    ],
)
def test_a_wrong_policy_leaves_the_present_one(changes, message):
    loop = ready_loop()
    with pytest.raises(RealityGradError, match=message):
        loop.accept(replace(BUNDLE, **changes))
    assert loop.bundle is BUNDLE


def test_a_new_policy_goes_on_from_the_last_command():
    loop = ready_loop()
    loop.engage(0.0)
    last = loop.command(0.0)
    loop.accept(replace(BUNDLE, epoch=4, action_offset=UR5.home + 2.0))
    np.testing.assert_allclose(loop.command(0.0), last + STEP, atol=1e-12)


def test_a_target_that_is_not_finite_leaves_the_present_one():
    loop = ready_loop()
    with pytest.raises(RealityGradError, match="target is not finite"):
        loop.set_target(np.array([0.0, np.nan, 0.0]))
    loop.engage(0.0)
    assert np.isfinite(loop.command(0.0)).all()


def test_a_policy_that_fails_is_disengaged():
    loop = ready_loop()
    loop.engage(0.0)
    loop.set_state(0.0, np.full(6, np.nan), np.zeros(6))
    assert loop.command(0.0) is None
    assert "not finite" in loop.stopped_because


names = ("a", "b")


@given(st.permutations(["a", "b", "gripper"]), st.lists(st.floats(-5, 5), min_size=6, max_size=6))
def test_joints_are_taken_by_name(order, numbers):
    position, velocity = dict(zip("abc", numbers[:3], strict=True)), dict(zip("abc", numbers[3:], strict=True))
    keys = [{"gripper": "c"}.get(name, name) for name in order]
    sample = JointStateReader(names).read(order, [position[k] for k in keys], [velocity[k] for k in keys], 0.0)
    np.testing.assert_array_equal(sample.position, [position["a"], position["b"]])
    np.testing.assert_array_equal(sample.velocity, [velocity["a"], velocity["b"]])
    assert not sample.estimated.any()


@pytest.mark.parametrize("velocity", [[], [np.nan, np.nan]])
def test_a_missing_velocity_is_the_filtered_difference(velocity):
    reader = JointStateReader(names)
    assert reader.read(names, [0.0, 0.0], velocity, 0.0) is None
    h = 0.002
    expected = np.zeros(2)
    for k in range(1, 50):
        sample = reader.read(names, [3.0 * k * h, -k * h], velocity, k * h)
        expected += h / (h + VELOCITY_TIME_CONSTANT) * (np.array([3.0, -1.0]) - expected)
        np.testing.assert_allclose(sample.velocity, expected, rtol=1e-9)
    assert sample.estimated.all()
    np.testing.assert_allclose(sample.velocity, [3.0, -1.0], rtol=1e-3)


def test_a_velocity_missing_for_one_joint_is_estimated_for_that_one():
    reader = JointStateReader(names)
    reader.read(names, [0.0, 0.0], [1.0, 2.0], 0.0)
    sample = reader.read(names, [0.1, 0.2], [1.5, np.nan], 0.1)
    assert sample.velocity[0] == 1.5
    assert sample.estimated.tolist() == [False, True]
    # The same message once more has no time in it.
    assert reader.read(names, [0.1, 0.2], [1.5, np.nan], 0.1).velocity[1] == sample.velocity[1]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ((("a",), [0.0], []), "position: joint b is missing"),
        ((("a", "b"), [0.0], []), "position: there are 1 values for the 2 joints"),
        ((("a", "b"), [0.0, 0.0], [1.0]), "velocity: there are 1 values for the 2 joints"),
        ((("a", "b"), [0.0, np.nan], []), "the position of joint 'b' is not finite"),
        ((("a", "b"), [np.inf, 0.0], []), "the position of joint 'a' is not finite"),
    ],
)
def test_a_bad_joint_state_is_named(message, error):
    with pytest.raises(RealityGradError, match=error) as caught:
        JointStateReader(names).read(*message, 0.0)
    assert str(caught.value).startswith("joint_states: ")


def test_a_deadline_thread_ticks_until_it_is_closed():
    ticks = []
    enough = threading.Event()

    def tick() -> None:
        ticks.append(None)
        if len(ticks) == 20:
            enough.set()

    thread = DeadlineThread(tick, 0.001, "test")
    thread.start()
    assert enough.wait(10.0)
    thread.close()
    thread.check()
    assert thread.period_error.quantile(0.5) >= 0.0


def test_what_a_tick_raises_is_raised_by_check():
    raised = threading.Event()

    def tick() -> None:
        raised.set()
        raise ValueError("wrong")

    thread = DeadlineThread(tick, 0.001, "test")
    thread.start()
    assert raised.wait(10.0)
    thread.close()
    with pytest.raises(ValueError, match="wrong"):
        thread.check()


def test_a_thread_that_never_started_can_be_closed():
    DeadlineThread(lambda: None, 1.0, "test").close()


def test_a_window_forgets_the_oldest():
    window = Window()
    assert np.isnan(window.quantile(0.5))
    for value in range(10000):
        window.add(value)
    assert window.quantile(0.0) == 6000
    assert window.quantile(1.0) == 9999
