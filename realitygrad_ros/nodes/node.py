"""What every node of the graph shares: checked parameters, diagnostics once a second, an orderly end."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidParameterValueException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.parameter_rules import ParameterRule
from realitygrad_ros.nodes.qos import DIAGNOSTICS

DIAGNOSTICS_PERIOD = 1.0
"""[s]"""

SIGNAL_LATENCY = 0.1
"""Longest time until a signal is looked at while no message arrives [s]."""


@dataclass(frozen=True)
class Diagnostics:
    """How a node is, as `/diagnostics` tells it."""

    level: bytes = DiagnosticStatus.OK
    """One of `DiagnosticStatus.OK`, `WARN`, `ERROR`."""
    message: str = "running"
    values: Mapping[str, object] = field(default_factory=dict)


class RealityGradNode(Node):
    """A node with declared, checked parameters and `/diagnostics`; run it with `run`.

    A node named `policy_node` stands in `realitygrad_ros/nodes/policy_node.py`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)
        """For everything that must go on when simulated time stands still."""
        self._rules: dict[str, ParameterRule] = {}
        self._parameter_refusal: RealityGradError | None = None
        self.add_on_set_parameters_callback(self._check_parameters)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", DIAGNOSTICS)
        self.create_timer(DIAGNOSTICS_PERIOD, self.publish_diagnostics, clock=self.steady_clock)

    def declare(
        self,
        name: str,
        default: Any,
        description: str,
        lower: float | None = None,
        upper: float | None = None,
        read_only: bool = False,
        length: int | None = None,
    ) -> Any:
        """Declare a parameter and return its value; `default` gives its type (float, int, bool, str or a list of one).

        An integer is taken where a float is declared. Every later value is checked in the same way, and `ros2 param
        set` gets the reason when it is refused. An empty list as default stands for a list of strings.

        Args:
            name: the parameter's name, dots allowed.
            default: its value where nobody sets one.
            description: for `ros2 param describe`, with the unit.
            lower: smallest value allowed, of each element in a list.
            upper: largest value allowed, of each element in a list.
            read_only: whether it is fixed once the node runs.
            length: how many elements a list must have; None for any number.

        Raises:
            RealityGradError: the value given at start has the wrong type or is out of range.
        """
        rule = ParameterRule.of(name, default, lower, upper, length)
        self._rules[name] = rule
        # Typed dynamically, so that an integer in a parameter file is no error for a float: `rule` checks instead.
        descriptor = ParameterDescriptor(
            description=description, additional_constraints=rule.sentence, read_only=read_only, dynamic_typing=True
        )
        try:
            self.declare_parameter(name, default, descriptor)
        except InvalidParameterValueException as error:
            raise self._parameter_refusal or error from None
        return self.value(name)

    def value(self, name: str) -> Any:
        """The present value of a declared parameter, in its declared type."""
        return self._rules[name].coerce(self.get_parameter(name).value)

    def diagnostics(self) -> Diagnostics:
        """How the node is now; called once a second by the executor."""
        return Diagnostics()

    def close(self) -> None:
        """Stop threads and finish files before the node goes; it can still publish. Called once, by `run`."""

    def publish_diagnostics(self) -> None:
        """Publish `diagnostics` now."""
        state = self.diagnostics()
        status = DiagnosticStatus(
            level=state.level,
            name=self.get_fully_qualified_name().lstrip("/"),
            message=state.message,
            hardware_id=self.get_namespace(),
            values=[KeyValue(key=key, value=str(value)) for key, value in state.values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def _check_parameters(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        try:
            for parameter in parameters:
                if parameter.value is None and self.has_parameter(parameter.name):
                    raise RealityGradError(f"parameter '{parameter.name}' cannot be deleted while the node runs")
                if parameter.name in self._rules:
                    self._rules[parameter.name].coerce(parameter.value)
        except RealityGradError as error:
            self._parameter_refusal = error
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)


def _start(args: list[str] | None) -> None:
    # Our own signal handlers instead of rclpy's: those shut the context down at once, and a node that closes can then
    # no longer publish; they raise KeyboardInterrupt anywhere, too.
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        raise RealityGradError(f"ROS refuses the arguments: {' '.join(str(error).split())}") from error


def run(node_class: Callable[[], RealityGradNode], args: list[str] | None = None) -> None:
    """Run a node in this process until SIGINT or SIGTERM, then close it; a second signal changes nothing.

    Exits with 2, after one line on stderr, where the node raises a `RealityGradError`.
    """
    stop_requested = False

    def request_stop(_signal: int, _frame: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, request_stop)
    node = None
    try:
        _start(args)
        node = node_class()
        node.get_logger().info("ready")
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        while not stop_requested:
            executor.spin_once(timeout_sec=SIGNAL_LATENCY)
    except RealityGradError as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from error
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if node is not None:
            node.close()
            node.destroy_node()
        rclpy.try_shutdown()
