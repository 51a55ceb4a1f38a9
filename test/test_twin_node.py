"""The twin's node as a process of its own, over DDS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import NodeProcess, Probe, wait_until

HOME = {
    "elbow_joint": 1.6,
    "shoulder_lift_joint": -1.2,
    "shoulder_pan_joint": 0.0,
    "wrist_1_joint": -1.97,
    "wrist_2_joint": -1.57,
    "wrist_3_joint": 0.0,
}
"""In the alphabetical order of a ros2_control driver."""

COMMAND_ORDER = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)

COMMANDS = "forward_position_controller/commands"


def command(**changes: float) -> Any:
    """Home as a command, with some joints changed."""
    from std_msgs.msg import Float64MultiArray

    return Float64MultiArray(data=[(HOME | changes)[name] for name in COMMAND_ORDER])


def joint_states(probe: Probe) -> list[Any]:
    """Joint states, once they arrive."""
    from sensor_msgs.msg import JointState

    from realitygrad_ros.nodes.qos import SENSOR_DATA

    messages = probe.collect(JointState, "joint_states", SENSOR_DATA)
    wait_until(lambda: messages, "joint states")
    return messages


def value(status: Any, key: str) -> str:
    """One value of a DiagnosticStatus."""
    return {entry.key: entry.value for entry in status.values}[key]


def test_joint_states_come_by_name_and_a_good_command_moves_the_arm(
    start_node: Callable[..., NodeProcess], probe: Probe
) -> None:
    from std_msgs.msg import Float64MultiArray
    from std_srvs.srv import Trigger

    from realitygrad_ros.nodes.qos import COMMAND

    node = start_node("twin_node")
    messages = joint_states(probe)
    wait_until(lambda: len(messages) > 600, "600 joint states")
    assert all(message.name == list(HOME) for message in messages)
    stamps = np.array([message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in messages])
    # Stamps are deadlines of the steady clock: 2 ms apart, or a multiple of it where DDS has lost a sample.
    assert np.median(np.diff(stamps)) == pytest.approx(2e6, abs=2e4)
    np.testing.assert_allclose(messages[-1].position, list(HOME.values()), atol=0.08)
    assert min(messages[-1].effort) < -20.0  # the shoulder carries the arm

    publisher = probe.publisher(Float64MultiArray, COMMANDS, COMMAND)
    publisher.publish(command(shoulder_pan_joint=0.5))
    pan = list(HOME).index("shoulder_pan_joint")
    wait_until(lambda: abs(messages[-1].position[pan] - 0.5) < 0.01, "the shoulder's turn")
    assert probe.call(Trigger, "twin/reset").success
    wait_until(lambda: abs(messages[-1].position[pan]) < 0.01, "the reset")
    node.interrupt()


def test_bad_commands_are_refused_with_the_reason_and_move_nothing(
    start_node: Callable[..., NodeProcess], probe: Probe
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
    from std_msgs.msg import Float64MultiArray

    from realitygrad_ros.nodes.qos import COMMAND, DIAGNOSTICS

    node = start_node("twin_node")
    messages = joint_states(probe)
    arrays = probe.collect(DiagnosticArray, "/diagnostics", DIAGNOSTICS)
    publisher = probe.publisher(Float64MultiArray, COMMANDS, COMMAND)

    bad = [
        (command(shoulder_pan_joint=float("nan")), "the command of joint 'shoulder_pan_joint' is nan"),
        (Float64MultiArray(data=[0.5]), "a command has 1 values, but the twin has 6 joints"),
    ]
    for count, (message, reason) in enumerate(bad, start=1):

        def told(count: int = count, reason: str = reason) -> bool:
            return any(
                status.level == DiagnosticStatus.WARN
                and reason in status.message
                and value(status, "commands refused") == str(count)
                for array in list(arrays)
                for status in array.status
            )

        publisher.publish(message)
        node.wait_for_output(reason)
        wait_until(told, f"a warning of refusal {count} in the diagnostics")
    position = np.array([message.position for message in messages])
    np.testing.assert_allclose(position, np.broadcast_to(list(HOME.values()), position.shape), atol=0.08)
    node.interrupt()


def test_a_robot_on_legs_tells_of_its_base_can_be_pushed_and_hung_up(
    start_node: Callable[..., NodeProcess], probe: Probe
) -> None:
    from geometry_msgs.msg import TwistStamped
    from nav_msgs.msg import Odometry
    from rcl_interfaces.msg import Parameter, ParameterValue
    from rcl_interfaces.srv import SetParameters
    from sensor_msgs.msg import Imu
    from std_srvs.srv import Trigger

    from realitygrad_ros.nodes.qos import SENSOR_DATA, TARGET

    node = start_node("twin_node", {"robot": "anymal_c", "base_frame": "base"})
    imu, odometry = (probe.collect(kind, topic, SENSOR_DATA) for kind, topic in ((Imu, "imu"), (Odometry, "odom")))
    joints = joint_states(probe)
    wait_until(lambda: len(imu) > 200 and len(odometry) > 200, "the base")
    assert imu[-1].header.frame_id == odometry[-1].child_frame_id == "base"
    assert odometry[-1].header.frame_id == "odom"
    assert imu[-1].linear_acceleration.z == pytest.approx(9.81, abs=0.6)
    assert imu[-1].orientation.w == pytest.approx(1.0, abs=0.01)
    assert odometry[-1].pose.pose.position.z == pytest.approx(0.52, abs=0.02)
    assert imu[-1].orientation_covariance[0] > 0.0
    assert odometry[-1].twist.covariance[0] > 0.0
    stamps = [{(m.header.stamp.sec, m.header.stamp.nanosec) for m in list(kind)} for kind in (imu, odometry, joints)]
    assert len(stamps[0] & stamps[1] & stamps[2]) > 100  # one instant of the robot

    push = TwistStamped()
    push.twist.linear.y = 0.5
    probe.publisher(TwistStamped, "twin/push", TARGET).publish(push)
    wait_until(lambda: odometry[-1].pose.pose.position.y > 0.03, "the push to move the base")

    hung = Parameter(name="hung", value=ParameterValue(type=1, bool_value=True))
    assert probe.call(SetParameters, "twin_node/set_parameters", SetParameters.Request(parameters=[hung])).results[0]
    assert probe.call(Trigger, "twin/reset").message == "the twin hangs at its home, at rest"
    wait_until(lambda: odometry[-1].pose.pose.position.z > 1.0, "the robot to hang")
    node.interrupt()


def test_robot_without_twin_ends_the_node_with_one_line(start_node: Callable[..., NodeProcess], tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    content = yaml.safe_load((root / "config" / "ur5.yaml").read_text())
    content["urdf"] = str(root / "urdf" / "ur5.urdf")
    (tmp_path / "arm.yaml").write_text(yaml.safe_dump(content))
    node = start_node("twin_node", {"robot": str(tmp_path / "arm.yaml")})
    assert node.wait() == 2
    assert "twin_node: no twin configuration" in node.output
    assert len(node.output.splitlines()) == 1
