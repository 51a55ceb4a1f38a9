"""Fixtures for tests over real DDS: an own domain a test, nodes as processes, and a probe in the test's process."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

TIMEOUT = 20.0
"""Longest wait for anything that another process does [s]."""

DOMAINS = range(1, 101)
"""Domain numbers whose ports do not meet the ephemeral ports of Linux."""


def wait_until(condition: Callable[[], object], what: str, timeout: float = TIMEOUT) -> Any:
    """Poll `condition` until it returns something true, and return that; fail the test after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    pytest.fail(f"waited {timeout:g} s in vain for {what}")


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """A ROS domain that no other test of this machine uses meanwhile; the environment of later processes names it."""
    locks = Path(tempfile.gettempdir()) / "realitygrad_ros_test_domains"
    locks.mkdir(exist_ok=True)
    start = os.getpid()
    for offset in DOMAINS:
        domain = DOMAINS[(start + offset) % len(DOMAINS)]
        lock = open(locks / str(domain), "w")  # noqa: SIM115 (held for the whole test)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            lock.close()
    else:
        pytest.fail("every ROS domain is in use by another test")
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    yield domain
    lock.close()


class NodeProcess:
    """A node in a process of its own; its output goes to a file."""

    def __init__(self, command: list[str], output: Path) -> None:
        self._output = output
        with open(output, "wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)

    @property
    def output(self) -> str:
        """What the process has printed so far, stdout and stderr together."""
        return self._output.read_text(errors="replace")

    def wait_for_output(self, text: str) -> None:
        """Wait until the process has printed `text`."""
        wait_until(lambda: text in self.output, f"'{text}' in:\n{self.output}")

    def wait(self) -> int:
        """Wait for the process's own end and return its exit code."""
        try:
            return self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the process did not end; it printed:\n{self.output}")

    def interrupt(self) -> None:
        """End the process by SIGINT and check that it ends in order."""
        self.process.send_signal(signal.SIGINT)
        code = self.wait()
        assert code == 0, f"exit code {code} after SIGINT; it printed:\n{self.output}"

    def kill(self) -> None:
        """End the process at any price."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def start_node(ros_domain: int, tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Start `realitygrad_ros/nodes/<name>.py` as a process: `start_node("policy_node", {"robot": "ur5"})`.

    `arguments` are further arguments after `--ros-args`, such as a remapping. What still runs at the test's end is
    killed.
    """
    processes: list[NodeProcess] = []

    def start(name: str, parameters: dict[str, Any] | None = None, arguments: tuple[str, ...] = ()) -> NodeProcess:
        parameter_file = tmp_path / f"{name}_{len(processes)}.yaml"
        parameter_file.write_text(yaml.safe_dump({"/**": {"ros__parameters": parameters or {}}}))
        command = [sys.executable, "-m", f"realitygrad_ros.nodes.{name}", "--ros-args"]
        if parameters:
            command += ["--params-file", str(parameter_file)]
        processes.append(NodeProcess([*command, *arguments], tmp_path / f"{name}_{len(processes)}.log"))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


class Probe:
    """A node in the test's own process, spinning in a thread: calls services, collects messages, publishes."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def publisher(self, message_type: type, topic: str, qos: Any) -> Any:
        """A publisher that has at least one subscriber."""
        publisher = self.node.create_publisher(message_type, topic, qos)
        wait_until(publisher.get_subscription_count, f"a subscriber of '{topic}'")
        return publisher

    def collect(self, message_type: type, topic: str, qos: Any) -> list[Any]:
        """A list that grows with every message that arrives."""
        messages: list[Any] = []
        self.node.create_subscription(message_type, topic, messages.append, qos)
        return messages

    def call(self, service_type: Any, name: str, request: Any | None = None) -> Any:
        """Call a service, waiting for it first, and return its response."""
        client = self.node.create_client(service_type, name)
        wait_until(client.service_is_ready, f"service '{name}'")
        future = client.call_async(request or service_type.Request())
        wait_until(future.done, f"the answer of '{name}'")
        return future.result()

    def diagnostics_of(self, node: str) -> Callable[[], Any]:
        """A function that returns the newest DiagnosticStatus of `node`, or None."""
        from diagnostic_msgs.msg import DiagnosticArray

        from realitygrad_ros.nodes.qos import DIAGNOSTICS

        messages = self.collect(DiagnosticArray, "/diagnostics", DIAGNOSTICS)

        def newest() -> Any:
            found = [status for message in list(messages) for status in message.status if status.name == node]
            return found[-1] if found else None

        return newest


@pytest.fixture
def probe(ros_domain: int) -> Iterator[Probe]:
    """A `Probe` in the test's domain."""
    from realitygrad_ros.nodes.remote import spinning_node

    with spinning_node("probe") as node:
        yield Probe(node)
