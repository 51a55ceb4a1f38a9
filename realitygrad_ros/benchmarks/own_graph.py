"""A ROS graph for measurements: an own domain on this machine, processes in it, and a node to talk to them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.qos import DIAGNOSTICS

PATIENCE = 30.0
"""Longest wait for another process [s]."""


DOMAINS = range(215, 233)
"""The upper ones of those whose ports do not meet the ephemeral ports of Linux."""


class OwnGraph:
    """Apart from every robot: in a ROS domain that hardly anybody uses, and on this machine alone.

    A context manager; at its end every process is ended.
    """

    def __init__(self) -> None:
        self._domain = DOMAINS[os.getpid() % len(DOMAINS)]
        self._environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(self._domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        }
        self._processes: list[tuple[subprocess.Popen[bytes], Path]] = []
        self.diagnostics: dict[str, dict[str, str]] = {}
        """The newest values by node."""

    def __enter__(self) -> "OwnGraph":
        self._directory = tempfile.TemporaryDirectory(prefix="realitygrad_bench_")
        self.directory = Path(self._directory.name)
        users_range = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE")
        os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"  # read when the context begins
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=self._domain)
        self.node = rclpy.create_node("bench", context=self._context)
        if users_range is None:
            del os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"]
        else:
            os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = users_range
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, DIAGNOSTICS)
        return self

    def __exit__(self, *_: object) -> None:
        for process, _ in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process, _ in self._processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()
        self._directory.cleanup()

    def start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `python -m realitygrad_ros.<module>` in this graph."""
        output = self.directory / f"{module}_{len(self._processes)}.log"
        with open(output, "wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", f"realitygrad_ros.{module}", *arguments],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )
        self._processes.append((process, output))
        return process

    def output(self, process: subprocess.Popen[bytes]) -> str:
        """What a process has printed so far."""
        return next(path for known, path in self._processes if known is process).read_text(errors="replace")

    def wait(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Let messages come until `condition` returns something true, and return that.

        Raises:
            RealityGradError: it did not in `patience` seconds; the message names `what`.
        """
        deadline = time.monotonic() + patience
        while not (result := condition()):
            if time.monotonic() > deadline:
                raise RealityGradError(f"waited {patience:g} s in vain for {what}")
            self._executor.spin_once(timeout_sec=0.02)
        return result

    def spin(self, seconds: float) -> None:
        """Let messages come for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def call(self, service_type: Any, name: str, request: Any) -> Any:
        """Call a service, waiting for it first, and return its response."""
        client = self.node.create_client(service_type, name)
        self.wait(client.service_is_ready, f"service '{name}'")
        future = client.call_async(request)
        self.wait(future.done, f"the answer of '{name}'")
        self.node.destroy_client(client)
        return future.result()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.diagnostics[status.name] = {value.key: value.value for value in status.values}
