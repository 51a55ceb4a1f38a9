"""A robot's driver and an operator, as far as the policy node can tell: joint states, target, bundle, engage."""

import time
from typing import Any

from conftest import Probe, wait_until
from geometry_msgs.msg import PointStamped, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, UInt8MultiArray
from std_srvs.srv import SetBool

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.nodes.qos import LATCHED, SENSOR_DATA, TARGET
from realitygrad_ros.robot.configuration import RobotConfiguration


class RobotStub:
    """Publishes joint states at 200 Hz while `publishing`, and collects commands.

    A robot with a floating base has an IMU and odometry, too, each while there is a message of it.
    """

    def __init__(self, probe: Probe, configuration: RobotConfiguration) -> None:
        self._probe = probe
        self.names = list(configuration.joint_names)
        self.position = {name: float(value) for name, value in zip(self.names, configuration.home, strict=True)}
        self.velocity: list[float] | None = [0.0] * len(self.names)
        self.publishing = True
        every = QoSProfile(depth=1000)
        self.commands = probe.collect(Float64MultiArray, "forward_position_controller/commands", every)
        self.imu = Imu() if configuration.floating else None
        self.odometry = Odometry(child_frame_id="base_link") if configuration.floating else None
        if self.imu is not None:
            self.imu.header.frame_id = "base_link"
        self._imu = probe.node.create_publisher(Imu, "imu", SENSOR_DATA)
        self._odometry = probe.node.create_publisher(Odometry, "odom", SENSOR_DATA)
        self._velocities = probe.node.create_publisher(TwistStamped, "cmd_vel", TARGET)
        self._joint_states = probe.node.create_publisher(JointState, "joint_states", SENSOR_DATA)
        self._targets = probe.node.create_publisher(PointStamped, "target", TARGET)
        self._bundles = probe.node.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED)
        probe.node.create_timer(0.005, self._publish)

    def send_target(self, frame: str = "base_link", x: float = 0.5) -> None:
        """Publish a target once the policy node listens."""
        wait_until(self._targets.get_subscription_count, "a subscriber of 'target'")
        message = PointStamped()
        message.header.frame_id = frame
        message.point.x = x
        self._targets.publish(message)

    def send_velocity(self, x: float) -> None:
        """Publish a velocity forward once the policy node listens."""
        wait_until(self._velocities.get_subscription_count, "a subscriber of 'cmd_vel'")
        message = TwistStamped()
        message.twist.linear.x = x
        self._velocities.publish(message)

    def send_bundle(self, bundle: PolicyBundle | bytes) -> None:
        """Publish a bundle, or the bytes of something else."""
        content = bundle if isinstance(bundle, bytes) else bundle.to_bytes()
        self._bundles.publish(UInt8MultiArray(data=content))

    def engage(self, wanted: bool = True) -> Any:
        """Call `policy/engage`."""
        return self._probe.call(SetBool, "policy/engage", SetBool.Request(data=wanted))

    def engage_when_possible(self) -> None:
        """Call `policy/engage` until it is granted: topics and services are discovered one by one."""
        wait_until(lambda: self._probe.node.count_publishers("forward_position_controller/commands"), "the policy node")
        time.sleep(0.3)  # until it knows us, too, so that we get its first command
        wait_until(lambda: self.engage().success, "the policy to be engaged")

    def _publish(self) -> None:
        if self.imu is not None:
            self._imu.publish(self.imu)
        if self.odometry is not None:
            self._odometry.publish(self.odometry)
        if not self.publishing:
            return
        message = JointState(name=self.names, position=[self.position[name] for name in self.names])
        message.header.stamp = self._probe.node.get_clock().now().to_msg()
        if self.velocity is not None:
            message.velocity = self.velocity
        self._joint_states.publish(message)
