"""The rules of commanding a robot on legs, without ROS."""

import numpy as np
import pytest
from walking_policies import showing_bundle

from realitygrad_ros.control.command_loop import STALE_AFTER, VELOCITY_HOLD, CommandLoop
from realitygrad_ros.control.observations import REACH_TERMS
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import load_configuration

ANYMAL = load_configuration("anymal_c")
HOME = ANYMAL.home
COUNT = len(HOME)
UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])
PERIOD = 1.0 / ANYMAL.policy_rate


def sense(loop: CommandLoop, time: float, quat_xyzw=UPRIGHT, height: float = 0.5) -> None:
    """Tell what the sensors of a robot at home say."""
    loop.set_state(time, HOME, np.zeros(COUNT))
    loop.set_imu(time, quat_xyzw, np.zeros(3))
    loop.set_odometry(time, height, np.zeros(3))


def ready_loop(**changes) -> CommandLoop:
    loop = CommandLoop(ANYMAL)
    loop.accept(showing_bundle(ANYMAL, **changes))
    sense(loop, 0.0)
    return loop


def shown(loop: CommandLoop, time: float) -> np.ndarray:
    """What the policy was told of `SHOWN` at a tick."""
    command = loop.command(time)
    assert command is not None, loop.stopped_because
    np.testing.assert_allclose(command[4:], HOME[4:], atol=1e-6)
    return (command[:4] - HOME[:4]) / 0.5


def stands_and_rests(loop: CommandLoop, time: float) -> None:
    """The last command is to stand."""
    np.testing.assert_array_equal(loop.command(time), HOME)
    assert not loop.engaged
    assert loop.command(time) is None


def tilted(degrees: float) -> np.ndarray:
    """Rolled about x."""
    half = np.deg2rad(degrees) / 2.0
    return np.array([np.sin(half), 0.0, 0.0, np.cos(half)])


def test_it_stands_until_told_otherwise_and_again_when_nobody_tells_any_more():
    loop = ready_loop()
    loop.engage(0.0)
    assert shown(loop, 0.0)[0] == pytest.approx(0.0, abs=1e-6)
    loop.set_velocity_command(0.0, np.array([0.7, 0.0, 0.0]))
    for time in np.arange(0.0, VELOCITY_HOLD + 1e-9, 0.1):
        sense(loop, time)
        assert shown(loop, time)[0] == pytest.approx(0.7, abs=1e-6)
    sense(loop, VELOCITY_HOLD + 0.01)
    assert shown(loop, VELOCITY_HOLD + 0.01)[0] == pytest.approx(0.0, abs=1e-6)
    loop.set_velocity_command(0.6, np.array([-0.2, 0.0, 0.0]))
    sense(loop, 0.6)
    assert shown(loop, 0.6)[0] == pytest.approx(-0.2, abs=1e-6)


def test_the_gait_begins_when_it_is_engaged_and_the_action_before_is_known():
    loop = ready_loop()
    sense(loop, 100.0)
    loop.engage(100.0)
    first = shown(loop, 100.0)
    assert first[1:] == pytest.approx([0.0, -1.0, 0.0], abs=1e-6)  # gait, gravity, action before
    sense(loop, 100.1)
    loop.set_velocity_command(100.1, np.array([0.4, 0.0, 0.0]))
    assert shown(loop, 100.1)[1] == pytest.approx(np.sin(2.0 * np.pi * 2.0 * 0.1), abs=1e-6)
    assert shown(loop, 100.1)[3] == pytest.approx(0.4, abs=1e-6)


def test_a_velocity_beyond_what_the_policy_knows_is_reduced():
    loop = ready_loop()
    loop.engage(0.0)
    loop.set_velocity_command(0.0, np.array([3.0, -2.0, 0.5]))
    assert shown(loop, 0.0)[0] == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(loop.velocity_command(0.0), [1.0, -1.0, 0.5])


def test_a_policy_that_cannot_stand_is_engaged_only_by_a_velocity_that_it_knows_and_stops_without_one():
    loop = ready_loop(slowest=0.9)
    with pytest.raises(RealityGradError, match=r"no velocity \(0.00, 0.00, 0.00\).* on 'cmd_vel' .* x 0.90 to 1.00, y"):
        loop.engage(0.0)
    assert not loop.engaged
    loop.set_velocity_command(0.0, np.array([1.0, 0.0, 0.0]))
    loop.engage(0.0)
    assert shown(loop, 0.0)[0] == pytest.approx(1.0, abs=1e-6)
    sense(loop, VELOCITY_HOLD + 0.01)
    stands_and_rests(loop, VELOCITY_HOLD + 0.01)
    assert loop.stopped_because.startswith("the policy knows no velocity (0.00")


@pytest.mark.parametrize(
    ("topic", "words"), [("joint_states", "joint states"), ("imu", "IMU messages"), ("odom", "odometry messages")]
)
def test_what_is_missing_or_old_is_named_and_stops_it(topic, words):
    loop = ready_loop()
    kept = loop._news[topic]
    loop._news[topic] = None
    with pytest.raises(RealityGradError, match=f"no {words}: nothing acceptable has come on '{topic}' yet"):
        loop.engage(0.0)
    loop._news[topic] = kept
    loop.engage(0.0)
    assert loop.command(0.0) is not None
    late = STALE_AFTER + 0.02
    sense(loop, late)
    loop._news[topic] = kept
    stands_and_rests(loop, late)
    assert loop.stopped_because == f"{words} are 120 ms old, more than 100 ms"
    with pytest.raises(RealityGradError, match=f"{words} are 120 ms old"):
        loop.engage(late)


@pytest.mark.parametrize(
    ("quat_xyzw", "height", "reason"),
    [
        (tilted(70.0), 0.5, "the robot has fallen: it leans by 70 degrees"),
        (tilted(-170.0), 0.5, "the robot has fallen: it leans by 170 degrees"),
        (UPRIGHT, 0.2, "the robot has fallen: its base is 0.30 m lower than when it was engaged"),
    ],
)
def test_a_robot_that_has_fallen_is_let_go(quat_xyzw, height, reason):
    loop = ready_loop()
    loop.engage(0.0)
    sense(loop, 0.02, tilted(50.0), 0.3)
    assert loop.command(0.02) is not None
    sense(loop, 0.04, quat_xyzw, height)
    assert loop.command(0.04) is None
    assert loop.stopped_because == reason


def test_a_robot_that_is_let_go_stands():
    loop = ready_loop()
    loop.disengage("")
    assert loop.command(0.0) is None  # it was not engaged
    loop.engage(0.0)
    assert loop.command(0.0) is not None
    loop.disengage("")
    stands_and_rests(loop, 0.0)
    assert loop.stopped_because == ""
    loop.engage(0.0)
    loop.disengage("")
    loop.engage(0.0)
    assert not np.array_equal(loop.command(0.0), HOME)  # but for a policy that was engaged again


def test_a_robot_that_lies_is_not_engaged():
    loop = ready_loop()
    sense(loop, 0.0, tilted(90.0))
    with pytest.raises(RealityGradError, match="the robot has fallen: it leans by 90 degrees"):
        loop.engage(0.0)


def test_heights_count_from_where_it_was_engaged():
    loop = ready_loop()
    sense(loop, 0.0, height=-7.0)
    loop.engage(0.0)
    assert loop.command(0.0) is not None


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (
            lambda loop: loop.set_imu(0.0, np.zeros(4), np.zeros(3)),
            "imu: the orientation's quaternion has length 0.000",
        ),
        (lambda loop: loop.set_imu(0.0, UPRIGHT, np.full(3, np.nan)), "imu is not finite"),
        (lambda loop: loop.set_odometry(0.0, np.inf, np.zeros(3)), "odom is not finite"),
        (lambda loop: loop.set_odometry(0.0, 0.5, np.full(3, np.nan)), "odom is not finite"),
        (lambda loop: loop.set_velocity_command(0.0, np.full(3, np.nan)), "cmd_vel is not finite"),
    ],
)
def test_what_is_no_number_leaves_what_was_told_before(tell, message):
    loop = ready_loop()
    before = dict(loop._news)
    with pytest.raises(RealityGradError, match=message):
        tell(loop)
    assert loop._news == before


def test_a_policy_of_another_kind_of_task_is_refused():
    count = 2 * COUNT + 3
    reaching = showing_bundle(
        ANYMAL,
        observation_terms=REACH_TERMS,
        observation_mean=np.zeros(count),
        observation_scale=np.ones(count),
        layers=((np.zeros((COUNT, count)), np.zeros(COUNT)),),
    )
    with pytest.raises(RealityGradError, match="observes target; a robot with a floating base has joint_states, imu"):
        CommandLoop(ANYMAL).accept(reaching)
    arm = load_configuration("ur5")
    with pytest.raises(
        RealityGradError, match="observes imu, odom, cmd_vel; a robot with a fixed base has joint_states"
    ):
        CommandLoop(arm).accept(showing_bundle(arm))


def test_the_deviation_is_that_of_the_present_observation():
    loop = ready_loop()
    loop.engage(0.0)
    assert loop.deviation(0.0) == pytest.approx(np.abs(np.concatenate([HOME, [1.0]])).max(), abs=1e-6)
    assert np.isnan(loop.deviation(1.0))
