"""A robot on legs over real DDS: the policy node with a stub of the robot, and walking on the twin."""

import time
from pathlib import Path

import numpy as np
import pytest
from conftest import wait_until
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from robot_stub import RobotStub
from std_srvs.srv import SetBool, Trigger
from walking_policies import showing_bundle

from realitygrad_ros.nodes.qos import SENSOR_DATA, TARGET
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import load_configuration

ANYMAL = load_configuration("anymal_c")
VELOCITY = "anymal_c_velocity"
SHIPPED = share_directory() / "policies" / f"{VELOCITY}.safetensors"

ATTEMPTS = 3


@pytest.fixture
def robot(probe):
    return RobotStub(probe, ANYMAL)


@pytest.fixture
def bundle(tmp_path) -> Path:
    path = tmp_path / "showing.safetensors"
    showing_bundle(ANYMAL).write(path)
    return path


def refuses(robot: RobotStub, words: str) -> None:
    """Wait until `policy/engage` is refused with these words."""
    wait_until(lambda: words in (answer := robot.engage()).message and not answer.success, f"'{words}'")


def test_it_is_engaged_when_everything_is_there_and_stops_when_the_imu_does(start_node, robot, bundle, probe):
    imu, odometry = robot.imu, robot.odometry
    robot.imu = robot.odometry = None
    robot.publishing = False
    node = start_node("policy_node", {"robot": "anymal_c", "bundle": str(bundle)})
    refuses(robot, "no joint states: nothing acceptable has come on 'joint_states' yet")
    robot.publishing = True
    refuses(robot, "no IMU messages: nothing acceptable has come on 'imu' yet")
    imu.header.frame_id = "imu_link"
    robot.imu = imu
    refuses(robot, "imu is in frame 'imu_link'; give it in 'base_link'")
    imu.header.frame_id = "base_link"
    imu.orientation_covariance[0] = -1.0
    refuses(robot, "imu has no orientation")
    imu.orientation_covariance[0] = 0.0
    refuses(robot, "no odometry messages: nothing acceptable has come on 'odom' yet")
    robot.odometry = odometry
    robot.engage_when_possible()

    def told() -> float:
        """The velocity forward that the policy was told last."""
        return (robot.commands[-1].data[0] - ANYMAL.home[0]) / 0.5 if robot.commands else np.nan

    wait_until(lambda: abs(told()) < 1e-6, "a command to stand")
    robot.send_velocity(0.5)
    wait_until(lambda: abs(told() - 0.5) < 1e-6, "a command to walk")
    wait_until(lambda: abs(told()) < 1e-6, "a command to stand, as nobody wants it to walk any more")

    status = probe.diagnostics_of("policy_node")
    robot.imu = None
    node.wait_for_output("stopped commanding: IMU messages are")
    wait_until(lambda: status() and status().message.startswith("stopped: IMU messages are"), "the reason")
    refuses(robot, "IMU messages are")
    node.interrupt()


def test_a_fall_is_told_and_ends_the_commands(start_node, robot, bundle, probe):
    node = start_node("policy_node", {"robot": "anymal_c", "bundle": str(bundle)})
    robot.engage_when_possible()
    wait_until(lambda: robot.commands, "commands")
    robot.imu.orientation.x = robot.imu.orientation.w = np.sqrt(0.5)
    node.wait_for_output("stopped commanding: the robot has fallen: it leans by 90 degrees")
    status = probe.diagnostics_of("policy_node")
    wait_until(lambda: status() and status().message == "stopped: the robot has fallen: it leans by 90 degrees", "why")
    refuses(robot, "the robot has fallen")


def test_a_policy_that_is_not_there_ends_the_node_with_one_line(start_node):
    node = start_node("policy_node", {"robot": "anymal_c", "bundle": "nobody"})
    assert node.wait() == 2
    assert node.output.startswith("policy_node: policy bundle '")
    assert node.output.endswith("policies/nobody.safetensors' cannot be read: No such file or directory\n")


def value(status, key: str) -> str:
    """One value of a DiagnosticStatus."""
    return {entry.key: entry.value for entry in status.values}[key]


@pytest.mark.skipif(not SHIPPED.is_file(), reason=f"no policy '{SHIPPED}' yet")
def test_it_walks_on_the_twin(start_node, probe):
    nodes = [start_node("twin_node", {"robot": "anymal_c"})]
    odometry = probe.collect(Odometry, "odom", SENSOR_DATA)
    status = probe.diagnostics_of("policy_node")
    nodes.append(start_node("policy_node", {"robot": "anymal_c", "bundle": VELOCITY}))
    velocity = probe.publisher(TwistStamped, "cmd_vel", TARGET)
    forward = TwistStamped()
    forward.twist.linear.x = 0.5
    probe.node.create_timer(0.1, lambda: velocity.publish(forward))
    wait_until(lambda: odometry, "the twin")
    for _ in range(ATTEMPTS):
        assert probe.call(Trigger, "twin/reset").success
        wait_until(lambda: probe.call(SetBool, "policy/engage", SetBool.Request(data=True)).success, "to be engaged")
        time.sleep(6.0)
        walked = odometry[-1].pose.pose.position
        if status().message == "engaged":
            break
        # Where other programs starve the nodes, commands come too late for anybody to walk.
        assert int(value(status(), "missed ticks")) > 0, status().message
    assert status().message == "engaged"
    assert walked.x > 1.5  # 3 m, less the start and what the true robot is slower
    assert abs(walked.y) < 1.0
    assert walked.z > 0.4

    # Who ends the policy in the middle of a step leaves a robot that stands.
    nodes.pop().interrupt()
    time.sleep(1.0)
    assert odometry[-1].pose.pose.position.z > 0.4
    nodes.pop().interrupt()
