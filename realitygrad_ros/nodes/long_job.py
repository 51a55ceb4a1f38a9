"""A long job behind a service, seen from both ends.

The service answers at once: accepted, or refused with the reason. From then on `~/status` tells where the job is: a
`DiagnosticStatus` whose message is the stage and whose values are `job` (its identity), `progress` (0 to 1), the
stage's figures, and `error` where it failed. The last status of a job has one of `ENDS` as its message.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.client import Client
from rclpy.node import Node
from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.progress import CancelCheck, Progress

IDLE, DONE, FAILED, CANCELLED = "idle", "done", "failed", "cancelled"
ENDS = (DONE, FAILED, CANCELLED)

STATUS_PERIOD = 0.1
"""Shortest time between two statuses of one stage [s]."""

ANSWER_TIME = 5.0
"""How long a service may take to answer [s]."""

CANCEL_TIME = 0.7
"""How long a remote job may take to end after it was cancelled [s]."""

POLL_PERIOD = 0.02
"""How often a waiting thread looks whether it was cancelled [s]."""

Work = Callable[[Progress, CancelCheck], Mapping[str, object]]
"""A job: given how to tell of itself and whether to stop, it returns its final figures."""


class LongJob:
    """Runs one job at a time in a worker thread of a node and publishes `~/status`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._publisher = node.create_publisher(DiagnosticStatus, "~/status", LATCHED)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._stage = IDLE
        self._identity = ""
        self._last_status = -STATUS_PERIOD
        self._publish(IDLE, {})

    @property
    def stage(self) -> str:
        """What the job does now, or how the last one ended."""
        return self._stage

    def start(self, work: Work, response: Trigger.Response) -> Trigger.Response:
        """Start a job and fill the service's answer; refuse while another runs."""
        with self._lock:
            if self._thread is not None:
                response.success, response.message = False, f"busy with '{self._stage}'; cancel it or wait for its end"
                return response
            self._stop.clear()
            self._identity = uuid.uuid4().hex
            self._thread = threading.Thread(target=self._run, args=(work,), name="long_job")
            self._thread.start()
        response.success, response.message = True, f"accepted {self._identity}"
        return response

    def cancel(self, response: Trigger.Response) -> Trigger.Response:
        """Ask the running job to stop and fill the service's answer; its end is told in `~/status`."""
        with self._lock:
            running = self._thread is not None
            self._stop.set()
        response.success = running
        response.message = "cancelling" if running else "no job is running"
        return response

    def close(self) -> None:
        """Stop the running job and wait for it; to be called before the node is destroyed."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(ANSWER_TIME)

    def _run(self, work: Work) -> None:
        try:
            end, values, level = DONE, dict(work(self._progress, self._stop.is_set)), DiagnosticStatus.OK
        except Cancelled:
            end, values, level = CANCELLED, {}, DiagnosticStatus.WARN
        except RealityGradError as error:
            end, values, level = FAILED, {"error": error}, DiagnosticStatus.ERROR
            self._node.get_logger().error(str(error))
        except Exception as error:  # a job must never end without a status: whoever waits for it would wait for ever
            import traceback

            end, values, level = FAILED, {"error": f"fault in the program: {error!r}"}, DiagnosticStatus.ERROR
            self._node.get_logger().error(traceback.format_exc())
        with self._lock:
            self._thread = None
            self._publish(end, values, level)

    def _progress(self, stage: str, fraction: float, figures: Mapping[str, float]) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._last_status < STATUS_PERIOD:
            return
        self._last_status = now
        self._publish(stage, {"progress": f"{fraction:.3f}"} | {name: f"{value:.6g}" for name, value in figures.items()})

    def _publish(self, stage: str, values: Mapping[str, object], level: bytes = DiagnosticStatus.OK) -> None:
        self._stage = stage
        status = DiagnosticStatus(level=level, name=self._node.get_fully_qualified_name().lstrip("/"), message=stage)
        entries = {"job": self._identity} | dict(values)
        status.values = [KeyValue(key=name, value=str(value)) for name, value in entries.items()]
        self._publisher.publish(status)


class RemoteJob:
    """A `LongJob` of another node.

    To be used from a thread of its own, while an executor spins `node` in another one.
    """

    def __init__(self, node: Node, owner: str, service: str, cancel_service: str) -> None:
        """Args: the node to talk through, the name of the node that owns the job, and its two services."""
        self._owner = owner
        self._start = node.create_client(Trigger, service)
        self._cancel = node.create_client(Trigger, cancel_service)
        self._news = threading.Condition()
        self._status: DiagnosticStatus | None = None
        node.create_subscription(DiagnosticStatus, f"{owner}/status", self._on_status, LATCHED)

    def run(self, progress: Progress, cancelled: CancelCheck) -> dict[str, str]:
        """Start the job, tell of it, and wait for its end.

        Returns:
            The values of its last status.

        Raises:
            RealityGradError: it was refused, it failed, or its node does not answer or went away.
            Cancelled: `cancelled` asked for it; the job has been cancelled too.
        """
        answer = call(self._start, Trigger.Request(), self._owner, cancelled)
        if not answer.success:
            raise RealityGradError(f"{self._start.srv_name} refused: {answer.message}")
        identity = answer.message.rpartition(" ")[2]
        try:
            return self._watch(identity, progress, cancelled)
        except Cancelled:
            call(self._cancel, Trigger.Request(), self._owner)
            deadline = time.monotonic() + CANCEL_TIME
            while self._end_of(identity) is None and time.monotonic() < deadline:
                self._wait()
            raise

    def _watch(self, identity: str, progress: Progress, cancelled: CancelCheck) -> dict[str, str]:
        told: DiagnosticStatus | None = None
        while (end := self._end_of(identity)) is None:
            if cancelled():
                raise Cancelled
            if not self._start.service_is_ready():
                raise RealityGradError(f"{self._owner} went away during {self._start.srv_name}; look at its log")
            status = self._status
            if status is not None and status is not told and _values(status).get("job") == identity:
                told = status
                _tell(status, progress)
            self._wait()
        values = _values(end)
        if end.message == FAILED:
            raise RealityGradError(f"{self._start.srv_name} failed: {values.get('error', 'no reason given')}")
        if end.message == CANCELLED:
            raise Cancelled
        return values

    def _end_of(self, identity: str) -> DiagnosticStatus | None:
        status = self._status
        if status is None or status.message not in ENDS or _values(status).get("job") != identity:
            return None
        return status

    def _on_status(self, status: DiagnosticStatus) -> None:
        with self._news:
            self._status = status
            self._news.notify_all()

    def _wait(self) -> None:
        with self._news:
            self._news.wait(POLL_PERIOD)


def call(client: Client, request: Any, owner: str, cancelled: CancelCheck = lambda: False) -> Any:
    """Call a service from a worker thread and wait for its answer; the node's executor must spin elsewhere.

    Args:
        client: of the service.
        request: the request.
        owner: the node that should answer, for the message.
        cancelled: asked while waiting.

    Raises:
        RealityGradError: no answer within `ANSWER_TIME`.
        Cancelled: `cancelled` asked for it.
    """
    deadline = time.monotonic() + ANSWER_TIME
    answered = threading.Event()
    future = None
    while not answered.wait(POLL_PERIOD):
        if cancelled():
            raise Cancelled
        if time.monotonic() > deadline:
            raise RealityGradError(f"no answer from {client.srv_name} in {ANSWER_TIME:g} s: is {owner} running?")
        if future is None and client.service_is_ready():
            future = client.call_async(request)
            future.add_done_callback(lambda _: answered.set())
    return future.result()


def _tell(status: DiagnosticStatus, progress: Progress) -> None:
    values = _values(status)
    values.pop("job", None)
    fraction = float(values.pop("progress", 0.0))
    progress(status.message, fraction, {name: float(value) for name, value in values.items()})


def _values(status: DiagnosticStatus) -> dict[str, str]:
    return {entry.key: entry.value for entry in status.values}
