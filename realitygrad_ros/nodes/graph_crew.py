"""The crew of an iteration that the other nodes of the graph make up, reached by topics and services alone."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from geometry_msgs.msg import PointStamped
from jaxtyping import Float
from numpy import ndarray
from rclpy.node import Node
from rclpy.parameter import Parameter

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.calibration import as_ros_parameters
from realitygrad_ros.nodes.graph_robot import POLICY, GraphRobot
from realitygrad_ros.nodes.qos import TARGET
from realitygrad_ros.nodes.remote import POLL_PERIOD, RemoteJob, RemoteParameters
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.parameters import SimulationParameters

if TYPE_CHECKING:
    # It brings scipy, and the node that uses this crew shall start fast.
    from realitygrad_ros.iteration.plan import Plan

SYSID, TRAINER = "sysid_node", "trainer_node"

ENGAGE_TIME = 1.0
"""How long the policy node may refuse to engage, because it has not seen the target yet [s]."""


class RemoteIdentification:
    """The stage `identify` by `sysid/fit`."""

    def __init__(self, node: Node) -> None:
        self._parameters = RemoteParameters(node, SYSID)
        self._fit = RemoteJob(node, SYSID, "sysid/fit", "sysid/cancel")

    def identify(
        self,
        directory: Path,
        bags: list[Path],
        prior: SimulationParameters,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """See `realitygrad_ros.iteration.loop.Crew`."""
        settings = [
            Parameter("iteration_directory", value=str(directory)),
            Parameter("bags", value=[str(bag) for bag in bags]),
        ]
        self._parameters.set(settings + as_ros_parameters(prior), cancelled)
        self._fit.run(progress, cancelled)


class GraphCrew(RemoteIdentification):
    """`realitygrad_ros.iteration.loop.Crew` by the trainer, sysid, recorder and policy nodes.

    Its methods are called from a worker thread, while an executor spins `node`.
    """

    def __init__(self, node: Node, base_frame: str) -> None:
        super().__init__(node)
        self._node = node
        self._base_frame = base_frame
        self._robot = GraphRobot(node)
        self._trainer = RemoteParameters(node, TRAINER)
        self._optimise = RemoteJob(node, TRAINER, "trainer/optimise", "trainer/cancel")
        self._target = node.create_publisher(PointStamped, "target", TARGET)

    def learn(
        self,
        directory: Path,
        parameters: SimulationParameters,
        seed: int,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """By `trainer/optimise`, which publishes the policy."""
        settings = [Parameter("iteration_directory", value=str(directory)), Parameter("seed", value=seed)]
        self._trainer.set(settings + as_ros_parameters(parameters), cancelled)
        self._optimise.run(progress, cancelled)

    def rollout(self, directory: Path, plan: "Plan", progress: Progress, cancelled: CancelCheck) -> None:
        """By the policy node, recorded by the recorder node."""
        self._robot.await_policy(PolicyBundle.read(directory / "policy.safetensors"), cancelled)
        with self._robot.recording(directory, cancelled):
            self._follow(plan, progress, cancelled)

    def _follow(self, plan: "Plan", progress: Progress, cancelled: CancelCheck) -> None:
        """Give one target after the other, each at its time."""
        targets = plan.targets
        self._engage_towards(targets[0])
        for number, target in enumerate(targets):
            progress("rollout", number / len(targets), {"motion": number + 1, "motions": len(targets)})
            if number > 0:
                self._publish(target)
            # From now on, and not from the start of the rollout: where this thread was late, no motion is cut short.
            self._sleep_until(time.monotonic() + plan.duration, cancelled)

    def _engage_towards(self, target: Float[ndarray, "3"]) -> None:
        """Publish a target and engage the policy; the topic may be behind the service, so once is not always enough."""
        deadline = time.monotonic() + ENGAGE_TIME
        while True:
            self._publish(target)
            try:
                return self._robot.set_engaged(True)
            except RealityGradError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_PERIOD)

    def _sleep_until(self, deadline: float, cancelled: CancelCheck) -> None:
        while (rest := deadline - time.monotonic()) > 0.0:
            if cancelled():
                raise Cancelled
            if reason := self._robot.stopped():
                raise RealityGradError(f"{POLICY} commands no more during the rollout: {reason}")
            time.sleep(min(rest, POLL_PERIOD))

    def _publish(self, target: Float[ndarray, "3"]) -> None:
        message = PointStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = self._base_frame
        message.point.x, message.point.y, message.point.z = (float(value) for value in target)
        self._target.publish(message)
