"""The policy on the robot's computer: joint states and a target in, commands out, at the policy's own rate."""

import time
from array import array

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PointStamped
from sensor_msgs.msg import JointState
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
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration
from realitygrad_ros.robot.joint_map import JointMap


class PolicyNode(RealityGradNode):
    """Runs the policy that comes on `policy/bundle` while it is engaged by `policy/engage`.

    The rules are those of `CommandLoop`; here is what moves messages. A thread of its own sleeps from deadline to
    deadline on the steady clock, takes the newest joint state and publishes a command, so that neither other messages
    nor simulated time delay it.
    """

    def __init__(self) -> None:
        super().__init__("policy_node")
        robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        self._base_frame = self.declare("base_frame", "base_link", "frame that targets are given in", read_only=True)
        configuration = load_configuration(robot)
        self._command_joints = self._declare_command_joints(configuration)
        self._command_order = JointMap(self._command_joints).indices(configuration.joint_names)
        self._loop = CommandLoop(configuration.name, configuration.joint_names)
        self._reader = JointStateReader(configuration.joint_names)
        self._ticker = DeadlineThread(self._tick, 1.0 / configuration.policy_rate, "policy")
        self._inference = Window()
        self._velocity_estimated = False
        self._refused = {"joint_states": 0, "target": 0, "policy/bundle": 0}
        self._refusals = dict.fromkeys(self._refused, "")
        self._message = Float64MultiArray()
        self._publisher = self.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
        self._joint_states = PolledSubscription(self, JointState, "joint_states", NEWEST_SENSOR_DATA)
        self.create_subscription(PointStamped, "target", self._on_target, TARGET)
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
                "joint states age [ms]": f"{self._loop.state_age(now) * 1e3:.1f}",
                "velocity estimated": self._velocity_estimated,
                "observation deviation": f"{self._loop.deviation():.2f}",
                "command joints": ", ".join(self._command_joints),
            }
            | {f"{topic} refused": count for topic, count in self._refused.items()},
        )

    def close(self) -> None:
        """Stop commanding and end the thread."""
        self._loop.disengage("the node ends")
        self._ticker.close()

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

    def _tick(self) -> None:
        for message, _ in self._joint_states.take():
            self._on_joint_state(message)
        start = time.monotonic()
        was_engaged = self._loop.engaged
        command = self._loop.command(start)
        if command is not None:
            self._inference.add(time.monotonic() - start)
            self._message.data = array("d", command[self._command_order])
            self._publisher.publish(self._message)
        elif was_engaged and self._loop.stopped_because:
            self.get_logger().error(f"stopped commanding: {self._loop.stopped_because}")

    def _on_joint_state(self, message: JointState) -> None:
        now = time.monotonic()
        stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        try:
            sample = self._reader.read(message.name, message.position, message.velocity, stamp or now)
        except RealityGradError as error:
            self._refuse("joint_states", error)
            return
        if sample is None:
            return
        estimated = bool(sample.estimated.any())
        if estimated and not self._velocity_estimated:
            self.get_logger().warning("joint_states have no velocity for every joint; it is estimated from positions")
        self._velocity_estimated = estimated
        self._loop.set_state(now, sample.position, sample.velocity)

    def _on_target(self, message: PointStamped) -> None:
        try:
            if message.header.frame_id != self._base_frame:
                raise RealityGradError(
                    f"target is in frame '{message.header.frame_id}'; give it in '{self._base_frame}'"
                )
            self._loop.set_target(np.array([message.point.x, message.point.y, message.point.z]))
            self._refusals["target"] = ""
        except RealityGradError as error:
            self._refuse("target", error)

    def _on_bundle(self, message: UInt8MultiArray) -> None:
        try:
            bundle = PolicyBundle.from_bytes(bytes(message.data), "on 'policy/bundle'")
            self._loop.accept(bundle)
        except RealityGradError as error:
            self._refuse("policy/bundle", error)
            return
        self._refusals["policy/bundle"] = ""
        self._ticker.period = 1.0 / bundle.policy_rate
        self.publish_diagnostics()  # who waits for this policy need not wait a second more
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
        # Joint states come so often that the same sentence is worth one line only.
        if topic != "joint_states" or str(error) != self._refusals[topic]:
            self.get_logger().error(f"refused: {error}")
        self._refusals[topic] = str(error)


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(PolicyNode, args)


if __name__ == "__main__":
    main()
