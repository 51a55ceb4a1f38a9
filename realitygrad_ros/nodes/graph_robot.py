"""The robot, as the policy and recorder nodes of the graph lead it: reached by topics and services alone."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.qos import DIAGNOSTICS
from realitygrad_ros.nodes.remote import POLL_PERIOD, RemoteParameters, call
from realitygrad_ros.progress import CancelCheck

POLICY, RECORDER = "policy_node", "recorder_node"

POLICY_TIME = 5.0
"""How long the policy node may take to report the policy that was just published [s]; it reports once a second."""


class GraphRobot:
    """Engages the policy, and records what the robot does.

    Its methods are called from a worker thread, while an executor spins `node`.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._recorder = RemoteParameters(node, RECORDER)
        self._record = node.create_client(Trigger, "recorder/start")
        self._stop_recording = node.create_client(Trigger, "recorder/stop")
        self._engage = node.create_client(SetBool, "policy/engage")
        self._policy_name = f"{node.get_namespace()}/{POLICY}".lstrip("/")
        self._policy_news = threading.Condition()
        self._policy: DiagnosticStatus | None = None
        self._reports = 0
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, DIAGNOSTICS)

    @contextmanager
    def recording(self, directory: Path, cancelled: CancelCheck) -> Iterator[None]:
        """Record into `directory / "bag"` while the `with` block lasts; at its end the policy commands no more.

        Raises:
            RealityGradError: a node refuses or does not answer, or the recorder cannot write.
            Cancelled: `cancelled` asked for it before the recording began.
        """
        self._start_recording(directory, cancelled)
        try:
            yield
        finally:
            # Whatever happened: the robot shall rest, and the recorder be free.
            try:
                self.set_engaged(False)
            finally:
                stopped = call(self._stop_recording, Trigger.Request(), RECORDER)
        if not stopped.success:
            raise RealityGradError(f"recorder/stop failed: {stopped.message}")
        if Path(stopped.message) != directory / "bag":
            raise RealityGradError(f"{RECORDER} wrote '{stopped.message}', not '{directory / 'bag'}'")

    def set_engaged(self, engaged: bool) -> None:
        """Have the policy command the robot, or command no more.

        Raises:
            RealityGradError: the policy node refuses, or does not answer.
        """
        answer = call(self._engage, SetBool.Request(data=engaged), POLICY)
        if not answer.success:
            raise RealityGradError(f"policy/engage refused: {answer.message}")
        self._reports = 0

    def stopped(self) -> str:
        """What the policy node says when it has stopped commanding by itself; empty while it commands."""
        status = self._policy
        # The first report after engaging may have been on its way before.
        if status is None or self._reports < 2 or _value(status, "engaged") != "False":
            return ""
        return status.message

    def await_policy(self, bundle: PolicyBundle, cancelled: CancelCheck) -> None:
        """Wait until the policy node reports this very policy: the robot shall not move by another one.

        Raises:
            RealityGradError: it does not within `POLICY_TIME`.
            Cancelled: `cancelled` asked for it.
        """
        deadline = time.monotonic() + POLICY_TIME
        with self._policy_news:
            while self._policy is None or _value(self._policy, "digest") != bundle.digest:
                if cancelled():
                    raise Cancelled
                if time.monotonic() > deadline:
                    raise RealityGradError(self._why_not(bundle))
                self._policy_news.wait(POLL_PERIOD)

    def _start_recording(self, directory: Path, cancelled: CancelCheck) -> None:
        left = call(self._stop_recording, Trigger.Request(), RECORDER, cancelled)
        if left.success:
            self._node.get_logger().warning(f"a recording was still running; it is ended: '{left.message}'")
            if Path(left.message).parent == directory:
                # That of this very rollout, before this node was killed: it does not hold the whole plan.
                shutil.rmtree(left.message)
        self._recorder.set([Parameter("bag_directory", value=str(directory))], cancelled)
        started = call(self._record, Trigger.Request(), RECORDER, cancelled)
        if not started.success:
            raise RealityGradError(f"recorder/start refused: {started.message}")

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
