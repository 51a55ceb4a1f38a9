"""Glue between the twin and the topics of a robot's driver: joint states out, position commands in."""

import threading
import time
from array import array
from collections import deque
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.base_state import BaseStatePublisher
from realitygrad_ros.nodes.deadline import DeadlineThread
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.nodes.qos import COMMAND, SENSOR_DATA, TARGET
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.twin.configuration import load_twin_configuration
from realitygrad_ros.twin.twin import STEP_RATE, Twin

STEP = 1.0 / STEP_RATE
"""[s]"""

CLOCK_READING = 1e-4
"""Two clocks that are read one after the other within this time tell their difference [s]."""

BEHIND = 0.05
"""How late a step may be before the diagnostics say so [s]."""


class TwinNode(RealityGradNode):
    """Steps a twin in real time, in a thread of its own; steps that are due late are made up for, none is left out.

    A joint state's stamp is the time at which its step ends, also where it was computed later. A step uses the last
    command that had arrived when the step begins. So what the twin does depends on when commands come, and not on how
    the machine schedules this process.

    A robot with a floating base has `imu` and `odom`, too. `twin/push` changes the velocity of its base at once, by the
    twist of the message in the base frame.
    """

    def __init__(self) -> None:
        super().__init__("twin_node")
        robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        base_frame = self.declare("base_frame", "base_link", "name of the base's frame in imu and odom", read_only=True)
        hung = self.declare("hung", False, "whether a floating base hangs in the air; taken at twin/reset")
        configuration, hidden = load_configuration(robot), load_twin_configuration(robot)
        self._make_twin = partial(Twin, configuration, hidden)
        self._twin = self._make_twin(hung=hung)
        self._steps_per_message = round(STEP_RATE / configuration.joint_state_rate)
        if self._steps_per_message * configuration.joint_state_rate != STEP_RATE:
            raise RealityGradError(
                f"rates.joint_states of robot '{configuration.name}' is {configuration.joint_state_rate} Hz; the twin "
                f"can publish only at a rate that divides {STEP_RATE} Hz"
            )
        self._home = configuration.home
        self._held = self._home
        self._arrived: deque[tuple[float, np.ndarray]] = deque()
        """Commands and when they came on the steady clock [s], not yet at work."""
        self._accepted = 0
        self._refused = 0
        self._refusal = ""
        self._refused_before = 0
        self._worst_delay = 0.0
        # A ros2_control driver publishes in alphabetical order: who relies on an order is found out here.
        self._published = sorted(range(len(self._twin.joint_names)), key=self._twin.joint_names.__getitem__)
        self._message = JointState(name=[self._twin.joint_names[index] for index in self._published])
        self._publisher = self.create_publisher(JointState, "joint_states", SENSOR_DATA)
        self.create_subscription(Float64MultiArray, "forward_position_controller/commands", self._on_command, COMMAND)
        self._base: BaseStatePublisher | None = None
        if hidden.base_noise is not None:
            self._base = BaseStatePublisher(self, base_frame, hidden.base_noise)
            self.create_subscription(TwistStamped, "twin/push", self._on_push, TARGET)
        self.create_service(Trigger, "twin/reset", self._on_reset)
        self._clock_offset = self.get_clock().now().nanoseconds - time.monotonic_ns()
        """Time of the node's clock minus that of the steady clock [ns]."""
        self._lock = threading.Lock()
        self._steps = 0
        self._ticker = DeadlineThread(self._catch_up, STEP, "twin")
        self._begin = time.monotonic()
        self._ticker.start()

    def diagnostics(self) -> Diagnostics:
        """The commands taken and refused, and how far the twin was behind real time in the last second."""
        self._ticker.check()
        delay, self._worst_delay = self._worst_delay, 0.0
        warnings = []
        if self._refused > self._refused_before:
            warnings.append(f"commands are refused: {self._refusal}")
        if delay > BEHIND:
            warnings.append(f"was {delay * 1e3:.0f} ms behind real time; is the machine busy?")
        self._refused_before = self._refused
        return Diagnostics(
            DiagnosticStatus.WARN if warnings else DiagnosticStatus.OK,
            "; ".join(warnings) or "running",
            {
                "commands accepted": self._accepted,
                "commands refused": self._refused,
                "last refusal": self._refusal,
                "worst delay [ms]": f"{delay * 1e3:.2f}",
            },
        )

    def close(self) -> None:
        """End the thread."""
        self._ticker.close()

    def _catch_up(self) -> None:
        """Do every step that ends by now."""
        now = time.monotonic()
        end = self._begin + (self._steps + 1) * STEP
        self._worst_delay = max(self._worst_delay, now - end)
        while end <= now:
            with self._lock:
                while self._arrived and self._arrived[0][0] <= end - STEP:
                    self._held = self._arrived.popleft()[1]
                self._twin.step(self._held)
                self._steps += 1
                if self._steps % self._steps_per_message == 0:
                    self._publish(end)
            end = self._begin + (self._steps + 1) * STEP

    def _publish(self, end: float) -> None:
        before = time.monotonic()
        now = self.get_clock().now().nanoseconds
        if time.monotonic() - before < CLOCK_READING:
            self._clock_offset = now - round(before * 1e9)
        stamp = Time(nanoseconds=self._clock_offset + round(end * 1e9))
        self._message.header.stamp = stamp.to_msg()
        self._message.position = array("d", self._twin.position[self._published])
        self._message.velocity = array("d", self._twin.velocity[self._published])
        self._message.effort = array("d", self._twin.effort[self._published])
        self._publisher.publish(self._message)
        if self._base is not None:
            self._base.publish(stamp, self._twin.base)

    def _on_command(self, message: Float64MultiArray) -> None:
        arrival = time.monotonic()
        try:
            command = self._twin.check_command(message.data)
        except RealityGradError as error:
            self._refused += 1
            if str(error) != self._refusal:
                self._refusal = str(error)
                self.get_logger().warning(f"command refused: {error}")
            return
        self._accepted += 1
        self._arrived.append((arrival, command))

    def _on_push(self, message: TwistStamped) -> None:
        v, omega = message.twist.linear, message.twist.angular
        try:
            with self._lock:
                self._twin.push([v.x, v.y, v.z], [omega.x, omega.y, omega.z])
        except RealityGradError as error:
            self.get_logger().warning(f"push refused: {error}")

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        hung = self.value("hung")
        try:
            twin = self._twin if hung == self._twin.hung else self._make_twin(hung=hung)
        except RealityGradError as error:
            response.success, response.message = False, str(error)
            return response
        with self._lock:
            self._arrived.clear()
            self._held = self._home
            twin.reset()
            self._twin = twin
        response.success, response.message = True, f"the twin {'hangs' if hung else 'is'} at its home, at rest"
        return response


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(TwinNode, args)


if __name__ == "__main__":
    main()
