"""The crew of an iteration that the other nodes of the graph make up, reached by topics and services alone."""

import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PointStamped
from jaxtyping import Float
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.calibration import as_ros_parameters
from realitygrad_ros.nodes.qos import DIAGNOSTICS, TARGET
from realitygrad_ros.nodes.remote import POLL_PERIOD, RemoteJob, RemoteParameters, call
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.parameters import SimulationParameters

if TYPE_CHECKING:
    # It brings scipy, and the node that uses this crew shall start fast.
    from realitygrad_ros.iteration.plan import Plan

POLICY, RECORDER, SYSID, TRAINER = "policy_node", "recorder_node", "sysid_node", "trainer_node"

POLICY_TIME = 5.0
"""How long the policy node may take to report the policy that was just published [s]; it reports once a second."""

ENGAGE_TIME = 1.0
"""How long the policy node may refuse to engage, because it has not seen the target yet [s]."""


class GraphCrew:
    """`realitygrad_ros.iteration.loop.Crew` by the trainer, sysid, recorder and policy nodes.

    Its methods are called from a worker thread, while an executor spins `node`.
    """

    def __init__(self, node: Node, base_frame: str) -> None:
        self._node = node
        self._base_frame = base_frame
        self._parameters = {owner: RemoteParameters(node, owner) for owner in (RECORDER, SYSID, TRAINER)}
        self._fit = RemoteJob(node, SYSID, "sysid/fit", "sysid/cancel")
        self._optimise = RemoteJob(node, TRAINER, "trainer/optimise", "trainer/cancel")
        self._record = node.create_client(Trigger, "recorder/start")
        self._stop_recording = node.create_client(Trigger, "recorder/stop")
        self._engage = node.create_client(SetBool, "policy/engage")
        self._target = node.create_publisher(PointStamped, "target", TARGET)
        self._policy_name = f"{node.get_namespace()}/{POLICY}".lstrip("/")
        self._policy_news = threading.Condition()
        self._policy: DiagnosticStatus | None = None
        self._reports = 0
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, DIAGNOSTICS)

    def identify(
        self,
        directory: Path,
        bags: list[Path],
        prior: SimulationParameters,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """By `sysid/fit`."""
        settings = [
            Parameter("iteration_directory", value=str(directory)),
            Parameter("bags", value=[str(bag) for bag in bags]),
        ]
        self._parameters[SYSID].set(settings + as_ros_parameters(prior), cancelled)
        self._fit.run(progress, cancelled)

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
        self._parameters[TRAINER].set(settings + as_ros_parameters(parameters), cancelled)
        self._optimise.run(progress, cancelled)

    def rollout(self, directory: Path, plan: "Plan", progress: Progress, cancelled: CancelCheck) -> None:
        """By the policy node, recorded by the recorder node."""
        self._await_policy(PolicyBundle.read(directory / "policy.safetensors"), cancelled)
        self._start_recording(directory, cancelled)
        try:
            self._follow(plan, progress, cancelled)
        finally:
            # Whatever happened: the robot shall rest, and the recorder be free.
            try:
                self._set_engaged(False)
            finally:
                stopped = call(self._stop_recording, Trigger.Request(), RECORDER)
        if not stopped.success:
            raise RealityGradError(f"recorder/stop failed: {stopped.message}")
        if Path(stopped.message) != directory / "bag":
            raise RealityGradError(f"{RECORDER} wrote '{stopped.message}', not '{directory / 'bag'}'")

    def _start_recording(self, directory: Path, cancelled: CancelCheck) -> None:
        left = call(self._stop_recording, Trigger.Request(), RECORDER, cancelled)
        if left.success:
            self._node.get_logger().warning(f"a recording was still running; it is ended: '{left.message}'")
            if Path(left.message).parent == directory:
                # That of this very rollout, before this node was killed: it does not hold the whole plan.
                shutil.rmtree(left.message)
        self._parameters[RECORDER].set([Parameter("bag_directory", value=str(directory))], cancelled)
        started = call(self._record, Trigger.Request(), RECORDER, cancelled)
        if not started.success:
            raise RealityGradError(f"recorder/start refused: {started.message}")

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

    def _engage_towards(self, target: Float[np.ndarray, "3"]) -> None:
        """Publish a target and engage the policy; the topic may be behind the service, so once is not always enough."""
        deadline = time.monotonic() + ENGAGE_TIME
        while True:
            self._publish(target)
            try:
                return self._set_engaged(True)
            except RealityGradError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_PERIOD)

    def _sleep_until(self, deadline: float, cancelled: CancelCheck) -> None:
        while (rest := deadline - time.monotonic()) > 0.0:
            if cancelled():
                raise Cancelled
            status = self._policy
            # The first report after engaging may have been on its way before.
            if status is not None and self._reports > 1 and _value(status, "engaged") == "False":
                raise RealityGradError(f"{POLICY} commands no more during the rollout: {status.message}")
            time.sleep(min(rest, POLL_PERIOD))

    def _publish(self, target: Float[np.ndarray, "3"]) -> None:
        message = PointStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = self._base_frame
        message.point.x, message.point.y, message.point.z = (float(value) for value in target)
        self._target.publish(message)

    def _set_engaged(self, engaged: bool) -> None:
        answer = call(self._engage, SetBool.Request(data=engaged), POLICY)
        if not answer.success:
            raise RealityGradError(f"policy/engage refused: {answer.message}")
        self._reports = 0

    def _await_policy(self, bundle: PolicyBundle, cancelled: CancelCheck) -> None:
        """Wait until the policy node reports this very policy: the robot shall not move by another one."""
        deadline = time.monotonic() + POLICY_TIME
        with self._policy_news:
            while self._policy is None or _value(self._policy, "digest") != bundle.digest:
                if cancelled():
                    raise Cancelled
                if time.monotonic() > deadline:
                    raise RealityGradError(self._why_not(bundle))
                self._policy_news.wait(POLL_PERIOD)

    def _why_not(self, bundle: PolicyBundle) -> str:
        status = self._policy
        if status is None:
            return f"no word of {POLICY} on /diagnostics in {POLICY_TIME:g} s: is it running?"
        epoch = _value(status, "epoch")
        return (
            f"{POLICY} does not take the policy of epoch {bundle.epoch}; it has "
            f"{'that of epoch ' + epoch if epoch else 'none'}. See its log; restart it to go back to an older policy"
        )

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == self._policy_name:
                with self._policy_news:
                    self._policy = status
                    self._reports += 1
                    self._policy_news.notify_all()


def _value(status: DiagnosticStatus, key: str) -> str:
    return next((entry.value for entry in status.values if entry.key == key), "")
