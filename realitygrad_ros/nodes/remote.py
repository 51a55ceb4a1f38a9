"""Other nodes, seen from a thread while an executor spins elsewhere: services, parameters and long jobs.

Nothing here may be called from a callback of the node: it waits.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.long_job import CANCELLED, ENDS, FAILED, STARTING
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.progress import CancelCheck, Progress, never

ANSWER_TIME = 5.0
"""How long a service may take to answer [s]."""

CANCEL_TIME = 0.7
"""How long a remote job may take to end after it was cancelled [s]."""

LEAVING_TIME = 5.0
"""How long a new job may wait for the end of one that was cancelled from here [s]."""

POLL_PERIOD = 0.02
"""How often a waiting thread looks whether it was cancelled [s]."""

SPIN_TIME = 0.1
"""Longest time until a spinning thread notices that it shall end [s]."""


@contextmanager
def spinning_node(name: str) -> Iterator[Node]:
    """A node of a process that is no node itself; its callbacks run in a thread while the `with` block lasts."""
    # Our process has its own way with signals.
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(name)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            executor.spin_once(timeout_sec=SPIN_TIME)

    thread = threading.Thread(target=spin, name="spin")
    thread.start()
    try:
        yield node
    finally:
        stop.set()
        thread.join()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


def call(
    client: Client,
    request: Any,
    owner: str,
    cancelled: CancelCheck = never,
    drop: Callable[[Any], None] = lambda _: None,
) -> Any:
    """Call a service from a worker thread and wait for its answer; the node's executor must spin elsewhere.

    Args:
        client: of the service.
        request: the request.
        owner: the node that should answer, for the message.
        cancelled: asked while waiting.
        drop: gets an answer that comes after the wait was cancelled, in the executor's thread.

    Raises:
        RealityGradError: no answer within `ANSWER_TIME`.
        Cancelled: `cancelled` asked for it.
    """
    deadline = time.monotonic() + ANSWER_TIME
    answered = threading.Event()
    future = None
    while not answered.is_set():
        if cancelled():
            if future is not None:
                future.add_done_callback(lambda done: drop(done.result()))
            raise Cancelled
        if time.monotonic() > deadline:
            raise RealityGradError(f"no answer from {client.srv_name} in {ANSWER_TIME:g} s: is {owner} running?")
        if future is None and client.service_is_ready():
            future = client.call_async(request)
            future.add_done_callback(lambda _: answered.set())
        answered.wait(POLL_PERIOD)
    assert future is not None
    return future.result()


class RemoteParameters:
    """The parameters of another node."""

    def __init__(self, node: Node, owner: str) -> None:
        """Args: the node to talk through, and the name of the node that has the parameters."""
        self._owner = owner
        self._client = node.create_client(SetParameters, f"{owner}/set_parameters")

    def is_ready(self) -> bool:
        """Whether the node is there."""
        return bool(self._client.service_is_ready())

    def set(self, parameters: Sequence[Parameter], cancelled: CancelCheck = never) -> None:
        """Set parameters and wait for the answer.

        Raises:
            RealityGradError: a value is refused, or the node does not answer.
            Cancelled: `cancelled` asked for it.
        """
        request = SetParameters.Request(parameters=[parameter.to_parameter_msg() for parameter in parameters])
        answer = call(self._client, request, self._owner, cancelled)
        for parameter, result in zip(parameters, answer.results, strict=True):
            if not result.successful:
                raise RealityGradError(f"{self._owner} refuses parameter '{parameter.name}': {result.reason}")


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
        self._leaving = False
        """Whether a job that was cancelled from here may still be on its way to its end."""
        node.create_subscription(DiagnosticStatus, f"{owner}/status", self._on_status, LATCHED)

    def run(self, progress: Progress, cancelled: CancelCheck) -> dict[str, str]:
        """Start the job, tell of it, and wait for its end.

        Returns:
            The values of its last status.

        Raises:
            RealityGradError: it was refused, it failed, or its node does not answer or went away.
            Cancelled: `cancelled` asked for it; the job has been cancelled too.
        """
        identity = self._begin(cancelled)
        try:
            return self._watch(identity, progress, cancelled)
        except Cancelled:
            call(self._cancel, Trigger.Request(), self._owner)
            deadline = time.monotonic() + CANCEL_TIME
            while self._end_of(identity) is None and time.monotonic() < deadline:
                self._wait()
            self._leaving = self._end_of(identity) is None
            raise

    def _begin(self, cancelled: CancelCheck) -> str:
        """Start the job and return its identity.

        A job that is busy with an import or a compilation sees only afterwards that it was cancelled: where that was
        ours, a new one need not be refused for it.
        """
        deadline = time.monotonic() + LEAVING_TIME
        while True:
            answer = call(self._start, Trigger.Request(), self._owner, cancelled, self._drop)
            if answer.success:
                self._leaving = False
                return str(answer.message.rpartition(" ")[2])
            if not self._leaving or time.monotonic() > deadline:
                raise RealityGradError(f"{self._start.srv_name} refused: {answer.message}")
            self._wait()

    def _drop(self, answer: Trigger.Response) -> None:
        """Cancel a job that was accepted when nobody waited for it any more."""
        if answer.success:
            self._leaving = True
            self._cancel.call_async(Trigger.Request())

    def _watch(self, identity: str, progress: Progress, cancelled: CancelCheck) -> dict[str, str]:
        told: DiagnosticStatus | None = None
        while (end := self._end_of(identity)) is None:
            if cancelled():
                raise Cancelled
            if not self._start.service_is_ready():
                raise RealityGradError(f"{self._owner} went away during {self._start.srv_name}; look at its log")
            status = self._status
            if status is not None and status is not told:
                if _values(status).get("job") == identity:
                    told = status
                    if status.message != STARTING:
                        _tell(status, progress)
                elif told is not None:
                    raise RealityGradError(f"{self._owner} has begun another job than that of {self._start.srv_name}")
            self._wait()
        values = _values(end)
        if end.message == FAILED:
            raise RealityGradError(f"{self._start.srv_name} failed: {values.get('error', 'no reason given')}")
        if end.message == CANCELLED:
            raise RealityGradError(f"{self._start.srv_name} was cancelled at {self._owner}, not from here")
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


def _tell(status: DiagnosticStatus, progress: Progress) -> None:
    values = _values(status)
    values.pop("job", None)
    fraction = float(values.pop("progress", 0.0))
    progress(status.message, fraction, {name: float(value) for name, value in values.items()})


def _values(status: DiagnosticStatus) -> dict[str, str]:
    return {entry.key: entry.value for entry in status.values}
