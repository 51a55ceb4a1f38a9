"""The crew of a robot on legs that the other nodes of the graph make up, reached by topics and services alone."""

import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from geometry_msgs.msg import TwistStamped
from jaxtyping import Float
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray, UInt8MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.graph_crew import RemoteIdentification
from realitygrad_ros.nodes.graph_robot import POLICY, GraphRobot
from realitygrad_ros.nodes.qos import COMMAND, LATCHED, TARGET
from realitygrad_ros.nodes.remote import POLL_PERIOD, RemoteParameters, call
from realitygrad_ros.progress import CancelCheck, Progress

if TYPE_CHECKING:
    from realitygrad_ros.iteration.legged_plan import Stretch

TWIN = "twin_node"

VELOCITY_PERIOD = 0.1
"""How often the velocity that is wanted is published [s]; the policy node holds it for five times as long."""

ENGAGE_TIME = 2.0
"""How long the policy node may refuse to engage, because the robot was just moved [s]."""

NEWS_TIME = 0.2
"""How long until every node has seen that the twin was placed anew [s]."""

TOLD_STEPS = 25
"""Progress is told once in so many commands of a chirp."""


class LeggedCrew(RemoteIdentification):
    """`realitygrad_ros.iteration.legged_loop.LeggedCrew` by the sysid, recorder and policy nodes, and a twin.

    A twin can be hung up and stood up by a service, which is what binds this crew to it. Its methods are called from a
    worker thread, while an executor spins `node`.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._node = node
        self._robot = GraphRobot(node)
        self._twin = RemoteParameters(node, TWIN)
        self._reset = node.create_client(Trigger, "twin/reset")
        self._bundle = node.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED)
        self._command = node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
        self._velocity = node.create_publisher(TwistStamped, "cmd_vel", TARGET)

    def excite(
        self,
        directory: Path,
        commands: Float[np.ndarray, "time joint"],
        rate: float,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Hang the twin up, and command it without the policy."""
        self._place(hung=True)
        with self._robot.recording(directory, cancelled):
            begin = time.monotonic()
            for k, command in enumerate(commands):
                if k % TOLD_STEPS == 0:
                    progress("excite", k / len(commands), {"time_s": k / rate})
                if cancelled():
                    raise Cancelled
                # A command that is late shifts none after it, and is recorded when it came.
                time.sleep(max(0.0, begin + k / rate - time.monotonic()))
                self._command.publish(Float64MultiArray(data=array("d", command)))

    def walk(self, directory: Path, schedule: Sequence["Stretch"], progress: Progress, cancelled: CancelCheck) -> None:
        """Stand the twin up, engage the policy, and publish the velocities of the schedule."""
        bundle = PolicyBundle.read(directory / "policy.safetensors")
        self._bundle.publish(UInt8MultiArray(data=bundle.to_bytes()))
        self._robot.await_policy(bundle, cancelled)
        self._place(hung=False)
        with self._robot.recording(directory, cancelled):
            engaged = False
            for number, stretch in enumerate(schedule):
                progress("rollout", number / len(schedule), {"stretch": number + 1, "stretches": len(schedule)})
                if not engaged:
                    self._engage(stretch.velocity)
                engaged = self._follow(stretch, cancelled)
                if not engaged:
                    self._place(hung=False)

    def _follow(self, stretch: "Stretch", cancelled: CancelCheck) -> bool:
        """Want a velocity for as long as the stretch lasts; returns whether the robot is still on its feet then."""
        # From now on, and not from the start of the walk: where this thread was late, no stretch is cut short.
        for _ in self._ticks(stretch.duration, cancelled):
            self._want(stretch.velocity)
            if reason := self._robot.stopped():
                if "fallen" not in reason:
                    raise RealityGradError(f"{POLICY} commands no more during the walk: {reason}")
                self._node.get_logger().warning(f"during '{stretch.name}': {reason}")
                return False
        return True

    def _ticks(self, duration: float, cancelled: CancelCheck) -> Iterator[None]:
        """One every `VELOCITY_PERIOD` while `duration` lasts."""
        end = time.monotonic() + duration
        following = time.monotonic()
        while (now := time.monotonic()) < end:
            if cancelled():
                raise Cancelled
            if now >= following:
                following = now + VELOCITY_PERIOD
                yield
            time.sleep(min(POLL_PERIOD, end - now))

    def _engage(self, velocity: tuple[float, float, float]) -> None:
        """Engage the policy; news of the robot that was just stood up may be behind the service."""
        deadline = time.monotonic() + ENGAGE_TIME
        while True:
            self._want(velocity)
            try:
                return self._robot.set_engaged(True)
            except RealityGradError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_PERIOD)

    def _want(self, velocity: tuple[float, float, float]) -> None:
        message = TwistStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = velocity
        self._velocity.publish(message)

    def _place(self, hung: bool) -> None:
        """Have the twin hang, or stand, at home and at rest."""
        self._twin.set([Parameter("hung", value=hung)])
        answer = call(self._reset, Trigger.Request(), TWIN)
        if not answer.success:
            raise RealityGradError(f"twin/reset failed: {answer.message}")
        time.sleep(NEWS_TIME)
