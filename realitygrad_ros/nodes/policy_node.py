"""The policy on the robot's computer: what it observes in, commands out, at the policy's own rate."""

import time
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PointStamped, TwistStamped
from jaxtyping import Float
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray, UInt8MultiArray
from std_srvs.srv import SetBool

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.command_loop import CommandLoop
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.deadline import DeadlineThread, Window
from realitygrad_ros.nodes.joint_state import JointStateReader
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.nodes.polled import PolledSubscription
from realitygrad_ros.nodes.qos import COMMAND, LATCHED, NEWEST_SENSOR_DATA, TARGET
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration
from realitygrad_ros.robot.joint_map import JointMap

SENSORS = ("joint_states", "imu", "odom")
"""Topics that come so often that only the newest message counts, and the same complaint is worth one line only."""

NO_ORIENTATION = -1.0
"""What sensor_msgs/Imu has as the first covariance where there is no estimate."""

SUFFIX = ".safetensors"


class PolicyNode(RealityGradNode):
    """Runs the policy of the parameter `bundle`, then that which comes on `policy/bundle`, while it is engaged.

    The rules are those of `CommandLoop`; here is what moves messages. A thread of its own sleeps from deadline to
    deadline on the steady clock, takes what the sensors told last and publishes a command, so that neither other
    messages nor simulated time delay it.
    """

    def __init__(self) -> None:
        super().__init__("policy_node")
        robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        self._base_frame = self.declare(
            "base_frame", "base_link", "frame of the base: that of targets, or of imu and odom", read_only=True
        )
        bundle = self.declare(
            "bundle", "", "policy to begin with: name in policies/ or path of a file; empty for none", read_only=True
        )
        configuration = load_configuration(robot)
        self._command_joints = self._declare_command_joints(configuration)
        self._command_order = JointMap(self._command_joints).indices(configuration.joint_names)
        self._loop = CommandLoop(configuration)
        self._reader = JointStateReader(configuration.joint_names)
        self._ticker = DeadlineThread(self._tick, 1.0 / configuration.policy_rate, "policy")
        self._inference = Window()
        self._velocity_estimated = False
        self._refused = dict.fromkeys((*self._loop.topics, "policy/bundle"), 0)
        self._refusals = dict.fromkeys(self._refused, "")
        self._told = dict.fromkeys(self._refused, "")
        if bundle:
            self._accept(PolicyBundle.read(_bundle_path(bundle)))
        self._message = Float64MultiArray()
        self._publisher = self.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
        self._sensors: dict[str, PolledSubscription] = {}
        self._subscribe()
        self.create_subscription(UInt8MultiArray, "policy/bundle", self._on_bundle, LATCHED)
        self.create_service(SetBool, "policy/engage", self._on_engage)
        self._ticker.start()

    def diagnostics(self) -> Diagnostics:
        """Whether and what the policy commands, how well it has kept its rate since then, and what was refused."""
        self._ticker.check()
        bundle, now = self._loop.bundle, time.monotonic()
        level, message = DiagnosticStatus.OK, "engaged" if self._loop.engaged else "not engaged"
        if self._loop.stopped_because:
            level, message = DiagnosticStatus.WARN, f"stopped: {self._loop.stopped_because}"
        elif self._velocity_estimated:
            level, message = DiagnosticStatus.WARN, f"{message}; velocities are estimated from positions"
        return Diagnostics(
            level,
            message,
            {
                "engaged": self._loop.engaged,
                "epoch": "" if bundle is None else bundle.epoch,
                "digest": "" if bundle is None else bundle.digest,
                "rate [Hz]": f"{1.0 / self._ticker.period:g}",
                "period error p99 [ms]": f"{self._ticker.period_error.quantile(0.99) * 1e3:.3f}",
                "missed ticks": self._ticker.missed,
                "inference median [ms]": f"{self._inference.quantile(0.5) * 1e3:.4f}",
                "inference p99 [ms]": f"{self._inference.quantile(0.99) * 1e3:.4f}",
                "velocity estimated": self._velocity_estimated,
                "observation deviation": f"{self._loop.deviation(now):.2f}",
                "command joints": ", ".join(self._command_joints),
            }
            | {f"{topic} age [ms]": f"{self._loop.age(topic, now) * 1e3:.1f}" for topic in self._sensors}
            | {f"{topic} refused": count for topic, count in self._refused.items()},
        )

    def close(self) -> None:
        """Stop commanding and end the thread; a robot on legs is told to stand."""
        self._loop.disengage("the node ends")
        self._ticker.close()
        self._publish(self._loop.command(time.monotonic()))

    def _declare_command_joints(self, configuration: RobotConfiguration) -> list[str]:
        joints = self.declare(
            "command_joints",
            list(configuration.joint_names),
            "the controller's joints, in the order in which it takes commands",
            read_only=True,
        )
        if sorted(joints) != sorted(configuration.joint_names):
            raise RealityGradError(
                f"parameter 'command_joints' is {joints}; it must hold each of {list(configuration.joint_names)} once"
            )
        return joints

    def _subscribe(self) -> None:
        """To what there is to tell of such a robot."""
        self._readers: dict[str, tuple[Any, Callable[[Any], None]]] = {
            "joint_states": (JointState, self._read_joint_state),
            "imu": (Imu, self._read_imu),
            "odom": (Odometry, self._read_odometry),
            "cmd_vel": (TwistStamped, self._read_velocity),
            "target": (PointStamped, self._read_target),
        }
        for topic in self._loop.topics:
            message_type, _ = self._readers[topic]
            if topic in SENSORS:
                self._sensors[topic] = PolledSubscription(self, message_type, topic, NEWEST_SENSOR_DATA)
            else:
                self.create_subscription(message_type, topic, partial(self._take, topic), TARGET)

    def _tick(self) -> None:
        for topic, sensor in self._sensors.items():
            for message, _ in sensor.take():
                self._take(topic, message)
        start = time.monotonic()
        was_engaged = self._loop.engaged
        command = self._loop.command(start)
        if self._loop.engaged:
            self._inference.add(time.monotonic() - start)
        self._publish(command)
        if was_engaged and not self._loop.engaged and self._loop.stopped_because:
            self.get_logger().error(f"stopped commanding: {self._loop.stopped_because}")

    def _publish(self, command: Float[np.ndarray, "joint"] | None) -> None:
        if command is not None:
            self._message.data = array("d", command[self._command_order])
            self._publisher.publish(self._message)

    def _take(self, topic: str, message: Any) -> None:
        _, read = self._readers[topic]
        try:
            read(message)
        except RealityGradError as error:
            self._refuse(topic, error)
        else:
            self._refusals[topic] = ""

    def _read_joint_state(self, message: JointState) -> None:
        now = time.monotonic()
        stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        sample = self._reader.read(message.name, message.position, message.velocity, stamp or now)
        if sample is None:
            return
        estimated = bool(sample.estimated.any())
        if estimated and not self._velocity_estimated:
            self.get_logger().warning("joint_states have no velocity for every joint; it is estimated from positions")
        self._velocity_estimated = estimated
        self._loop.set_state(now, sample.position, sample.velocity)

    def _read_imu(self, message: Imu) -> None:
        self._require_base_frame("imu", message.header.frame_id)
        if message.orientation_covariance[0] == NO_ORIENTATION:
            raise RealityGradError("imu has no orientation (orientation_covariance[0] is -1); give one by a filter")
        q, omega = message.orientation, message.angular_velocity
        self._loop.set_imu(time.monotonic(), np.array([q.x, q.y, q.z, q.w]), np.array([omega.x, omega.y, omega.z]))

    def _read_odometry(self, message: Odometry) -> None:
        self._require_base_frame("odom", message.child_frame_id)
        v = message.twist.twist.linear
        self._loop.set_odometry(time.monotonic(), message.pose.pose.position.z, np.array([v.x, v.y, v.z]))

    def _read_velocity(self, message: TwistStamped) -> None:
        # In the base frame whatever its header says, as everywhere in ROS: many who drive a robot leave it empty.
        v, omega = message.twist.linear, message.twist.angular
        self._loop.set_velocity_command(time.monotonic(), np.array([v.x, v.y, omega.z]))

    def _read_target(self, message: PointStamped) -> None:
        self._require_base_frame("target", message.header.frame_id)
        self._loop.set_target(np.array([message.point.x, message.point.y, message.point.z]))

    def _require_base_frame(self, topic: str, frame: str) -> None:
        if frame != self._base_frame:
            raise RealityGradError(f"{topic} is in frame '{frame}'; give it in '{self._base_frame}'")

    def _on_bundle(self, message: UInt8MultiArray) -> None:
        try:
            self._accept(PolicyBundle.from_bytes(bytes(message.data), "on 'policy/bundle'"))
        except RealityGradError as error:
            self._refuse("policy/bundle", error)
            return
        self._refusals["policy/bundle"] = ""
        self.publish_diagnostics()  # who waits for this policy need not wait a second more

    def _accept(self, bundle: PolicyBundle) -> None:
        self._loop.accept(bundle)
        self._ticker.period = 1.0 / bundle.policy_rate
        self.get_logger().info(f"policy of epoch {bundle.epoch} at {bundle.policy_rate:g} Hz, digest {bundle.digest}")

    def _on_engage(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            self._set_engaged(request.data)
            response.success, response.message = True, "engaged" if request.data else "not engaged"
        except RealityGradError as error:
            refusals = [f"; refused before: {refusal}" for refusal in self._refusals.values() if refusal]
            response.success, response.message = False, str(error) + "".join(refusals)
        self.publish_diagnostics()
        self.get_logger().info(f"policy/engage: {response.message}")
        return response

    def _set_engaged(self, engaged: bool) -> None:
        if not engaged:
            self._loop.disengage("")
            return
        if not self._loop.engaged:
            self._ticker.measure_anew()
            self._inference = Window()
        self._loop.engage(time.monotonic())

    def _refuse(self, topic: str, error: RealityGradError) -> None:
        self._refused[topic] += 1
        self._refusals[topic] = str(error)
        if topic not in SENSORS or str(error) != self._told[topic]:
            self.get_logger().error(f"refused: {error}")
        self._told[topic] = str(error)


def _bundle_path(bundle: str) -> Path:
    """Of a bundle that is named as robots are: by its name among the data of this package, or by its path."""
    return Path(bundle) if bundle.endswith(SUFFIX) else share_directory() / "policies" / f"{bundle}{SUFFIX}"


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(PolicyNode, args)


if __name__ == "__main__":
    main()
