"""A ROS graph for measurements: nodes in a domain of their own, and a node of this process to talk to them."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.client import Client
from rclpy.node import Node

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import NodeSpec
from realitygrad_ros.nodes.processes import Graph, enter_own_domain, start_graph
from realitygrad_ros.nodes.qos import DIAGNOSTICS
from realitygrad_ros.nodes.remote import spinning_node

PATIENCE = 30.0
"""Longest wait for another process [s]."""

POLL_PERIOD = 0.002
"""How often it is looked whether another process has come as far as it should [s]."""


class OwnGraph:
    """Running nodes apart from every robot; made by `own_graph`."""

    def __init__(self, node: Node, graph: Graph, directory: Path, log: Path) -> None:
        self.node = node
        """Of this process; a thread spins it."""
        self.directory = directory
        """For files of the measurement; it goes with the graph."""
        self.diagnostics: dict[str, dict[str, str]] = {}
        """The newest values by node."""
        self._graph = graph
        self._log = log
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, DIAGNOSTICS)

    def start(self, spec: NodeSpec) -> float:
        """Start a node and return the time until it says that it is ready [s].

        Raises:
            RealityGradError: it has ended, or is not ready in time.
        """
        begin = time.monotonic()
        self._graph.start(spec, self.directory)
        self.wait(lambda: f"[{spec.name}]: ready" in self._log.read_text(), f"{spec.name} to be ready")
        return time.monotonic() - begin

    def client(self, service_type: Any, name: str) -> Client:
        """A client of a service that is there."""
        client = self.node.create_client(service_type, name)
        self.wait(client.service_is_ready, f"service '{name}'")
        return client

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until `condition` returns something true.

        Raises:
            RealityGradError: it did not in time, and the message names `what`; or a node has ended.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self._graph.check()
            if time.monotonic() > deadline:
                raise RealityGradError(f"waited {PATIENCE:g} s in vain for {what}")
            time.sleep(POLL_PERIOD)

    def interrupted(self) -> bool:
        """A `CancelCheck` that never asks to stop.

        Raises:
            RealityGradError: a node has ended.
        """
        self._graph.check()
        return False

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.diagnostics[status.name] = {value.key: value.value for value in status.values}


@contextmanager
def own_graph() -> Iterator[OwnGraph]:
    """A graph without nodes yet, in a ROS domain that nobody uses; at its end every node is ended."""
    enter_own_domain()
    with tempfile.TemporaryDirectory(prefix="realitygrad_bench_") as directory:
        log = Path(directory) / "nodes.log"
        with log.open("w") as output, start_graph([], output) as graph, spinning_node("bench") as node:
            yield OwnGraph(node, graph, Path(directory), log)


@contextmanager
def joint_state_source(robot: str, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    """`realitygrad_ros.benchmarks.joint_state_source` as a process, which ends with the `with` block."""
    command = [sys.executable, "-m", "realitygrad_ros.benchmarks.joint_state_source", "--robot", robot]
    with subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
