"""The crew of a robot on legs that the other nodes of the graph make up, reached by topics and services alone."""

import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray, UInt8MultiArray

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.graph_crew import RemoteIdentification
from realitygrad_ros.nodes.graph_robot import POLICY, GraphRobot
from realitygrad_ros.nodes.qos import COMMAND, LATCHED
from realitygrad_ros.nodes.walking_twin import WalkingTwin
from realitygrad_ros.progress import CancelCheck, Progress

if TYPE_CHECKING:
    from realitygrad_ros.iteration.legged_plan import Stretch

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
        self._twin = WalkingTwin(node, self._robot)
        self._bundle = node.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED)
        self._command = node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)

    def excite(
        self,
        directory: Path,
        commands: Float[np.ndarray, "time joint"],
        rate: float,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Hang the twin up, and command it without the policy."""
        self._twin.place(hung=True)
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
        self._twin.place(hung=False)
        with self._robot.recording(directory, cancelled):
            engaged = False
            for number, stretch in enumerate(schedule):
                progress("rollout", number / len(schedule), {"stretch": number + 1, "stretches": len(schedule)})
                if not engaged:
                    self._twin.engage(stretch.velocity)
                engaged = self._follow(stretch, cancelled)
                if not engaged:
                    self._twin.place(hung=False)

    def _follow(self, stretch: "Stretch", cancelled: CancelCheck) -> bool:
        """Want a velocity for as long as the stretch lasts; returns whether the robot is still on its feet then."""
        stop = self._twin.follow(stretch.velocity, stretch.duration, cancelled)
        if stop is None:
            return True
        if not stop.fallen:
            raise RealityGradError(f"{POLICY} commands no more during the walk: {stop.reason}")
        self._node.get_logger().warning(f"during '{stretch.name}': {stop.reason}")
        return False
