"""The graph as processes of this machine, for users without `ros2 launch`: started, watched and ended together."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

import yaml
from honcho.colour import get_colours
from honcho.printer import Message, Printer

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import NodeSpec

GRACE = ((signal.SIGINT, 10.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
"""How a node is asked to end, and how long it may take before the next, harder way [s]."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

DOMAINS = range(1, 101)
"""ROS domains whose ports lie below those that Linux gives away by itself."""


def stay_on_this_machine() -> None:
    """Keep the ROS traffic of this process and of its children on this machine, unless the user said otherwise."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")


def enter_own_domain() -> int:
    """Take this process and its children into a ROS domain that nobody uses, on this machine alone; return its number.

    Raises:
        RealityGradError: every domain is in use.
    """
    domain = _free_domain()
    os.environ["ROS_DOMAIN_ID"] = str(domain)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    return domain


def _free_domain() -> int:
    """A ROS domain that nobody on this machine uses: the port at which its first participant listens is free."""
    for domain in random.sample(DOMAINS, len(DOMAINS)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # DDSI-RTPS 2.5, 9.6.2.3: ports start at 7400, 250 a domain; 10 is the first participant's own.
                probe.bind(("", 7400 + 250 * domain + 10))
            except OSError:
                continue
            return domain
    raise RealityGradError("every ROS domain of this machine is in use; end some ROS nodes")


class Graph:
    """Running nodes; made by `start_graph`."""

    def __init__(self, output: TextIO) -> None:
        self._printer = Printer(output)
        self._colours = get_colours()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._failure: str | None = None
        self._stopping = False
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []

    @property
    def process_ids(self) -> dict[str, int]:
        """Process id by node name."""
        return {name: process.pid for name, process in self._processes.items()}

    def check(self) -> None:
        """Return at once while every node runs.

        Raises:
            RealityGradError: a node has ended; the message says which, with which code and last words.
        """
        if self._failure is not None:
            raise RealityGradError(self._failure)

    def wait(self) -> None:
        """Wait until a node ends, which none does by itself, and raise what `check` raises."""
        self._ended.wait()
        self.check()

    def stop(self) -> None:
        """End every node, first by SIGINT; further signals to this process change nothing meanwhile."""
        self._stopping = True
        with _signals_ignored():
            for number, grace in GRACE:
                running = [process for process in self._processes.values() if process.poll() is None]
                for process in running:
                    _signal_group(process, number)
                deadline = time.monotonic() + grace
                for process in running:
                    try:
                        process.wait(max(0.0, deadline - time.monotonic()))
                    except subprocess.TimeoutExpired:
                        continue
            for reader in self._readers:
                reader.join(1.0)  # it may hang on a pipe that a grandchild holds open

    def start(self, spec: NodeSpec, parameter_directory: Path) -> None:
        """Start one node in a process group of its own; its parameters are written to `parameter_directory`."""
        parameter_file = parameter_directory / f"{spec.name}.yaml"
        parameter_file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(spec.parameters)}}))
        ros_arguments = ["--ros-args", "-r", f"__node:={spec.name}", "--params-file", str(parameter_file)]
        process = subprocess.Popen(
            [sys.executable, "-m", f"realitygrad_ros.nodes.{spec.name}", *ros_arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C in the terminal reaches us alone, and we end the nodes in order
        )
        self._processes[spec.name] = process
        self._printer.width = max(self._printer.width, len(spec.name))
        follow = (spec.name, process, next(self._colours))
        reader = threading.Thread(target=self._follow, args=follow, daemon=True)
        self._readers.append(reader)
        reader.start()

    def _follow(self, name: str, process: "subprocess.Popen[str]", colour: str) -> None:
        assert process.stdout is not None
        last_line = ""
        try:
            with process.stdout as lines:
                for line in lines:
                    last_line = line.strip().removeprefix(f"{name}: ") or last_line
                    self._print(name, line, colour)
            code = process.wait()
            how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
            self._fail(f"{name} ended {how}" + (f": {last_line}" if last_line else ""))
            self._print(name, f"ended {how}", colour)
        except OSError as error:
            self._fail(f"the output of the nodes cannot be written: {error}")
        self._ended.set()

    def _fail(self, reason: str) -> None:
        with self._lock:
            if self._failure is None and not self._stopping:
                self._failure = reason

    def _print(self, name: str, line: str, colour: str) -> None:
        with self._lock:
            self._printer.write(Message(type="line", data=line, time=datetime.now(), name=name, colour=colour))


@contextmanager
def start_graph(specs: Sequence[NodeSpec], output: TextIO) -> Iterator[Graph]:
    """Run nodes, each in a process and a process group of its own, while the `with` block lasts.

    Args:
        specs: the nodes.
        output: takes every line that a node prints, with time and name before it, in colour on a terminal.
    """
    stay_on_this_machine()
    with tempfile.TemporaryDirectory(prefix="realitygrad_") as parameter_directory:
        graph = Graph(output)
        try:
            for spec in specs:
                graph.start(spec, Path(parameter_directory))
            yield graph
        finally:
            graph.stop()


def _signal_group(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended by itself just now
        os.killpg(process.pid, number)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
