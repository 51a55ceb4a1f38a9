"""A twin on legs and the policy node that walks it: reached by topics and services alone."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from geometry_msgs.msg import TwistStamped
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.graph_robot import GraphRobot
from realitygrad_ros.nodes.qos import TARGET
from realitygrad_ros.nodes.remote import POLL_PERIOD, RemoteParameters, call
from realitygrad_ros.progress import CancelCheck

TWIN = "twin_node"

VELOCITY_PERIOD = 0.1
"""How often the velocity that is wanted is published [s]; the policy node holds it for five times as long."""

ENGAGE_TIME = 2.0
"""How long the policy node may refuse to engage, because the robot was just moved [s]."""

NEWS_TIME = 0.2
"""How long until every node has seen that the twin was placed anew [s]."""


class Stop(NamedTuple):
    """The policy commands no more, by itself."""

    reason: str
    """What the policy node says."""
    fallen: bool
    """Whether that is because the robot has fallen."""


class WalkingTwin:
    """Stands the twin up, engages the policy, and wants velocities.

    Its methods are called from a worker thread, while an executor spins `node`.
    """

    def __init__(self, node: Node, robot: GraphRobot) -> None:
        """Args: the node to talk through, and the robot that the twin stands for."""
        self._node = node
        self._robot = robot
        self._twin = RemoteParameters(node, TWIN)
        self._reset = node.create_client(Trigger, "twin/reset")
        self._velocity = node.create_publisher(TwistStamped, "cmd_vel", TARGET)

    def place(self, hung: bool) -> None:
        """Have the twin hang, or stand, at home and at rest.

        Raises:
            RealityGradError: it refuses, or does not answer.
        """
        self._twin.set([Parameter("hung", value=hung)])
        answer = call(self._reset, Trigger.Request(), TWIN)
        if not answer.success:
            raise RealityGradError(f"twin/reset failed: {answer.message}")
        time.sleep(NEWS_TIME)

    def engage(self, velocity: tuple[float, float, float]) -> None:
        """Engage the policy; news of the robot that was just stood up may be behind the service.

        Args:
            velocity: wanted, forward, left [m/s], turning left [rad/s].

        Raises:
            RealityGradError: the policy node refuses for longer than `ENGAGE_TIME`, or does not answer.
        """
        deadline = time.monotonic() + ENGAGE_TIME
        while True:
            self._want(velocity)
            try:
                return self._robot.set_engaged(True)
            except RealityGradError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_PERIOD)

    def follow(self, velocity: tuple[float, float, float], duration: float, cancelled: CancelCheck) -> Stop | None:
        """Want a velocity for a while; returns early where the policy stops.

        Args:
            velocity: as for `engage`.
            duration: how long [s].
            cancelled: asked meanwhile.

        Raises:
            Cancelled: `cancelled` asked for it.
        """
        # From now on, and not from the start of the walk: where this thread was late, no stretch is cut short.
        for _ in self._ticks(duration, cancelled):
            self._want(velocity)
            if reason := self._robot.stopped():
                return Stop(reason, "fallen" in reason)
        return None

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

    def _want(self, velocity: tuple[float, float, float]) -> None:
        message = TwistStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = velocity
        self._velocity.publish(message)
