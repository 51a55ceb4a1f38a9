"""What demos have in common: the graph in a ROS domain of its own, a line that tells of the work, rollouts again."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realitygrad_ros.commands.console import progress_bar, table
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import NodeSpec
from realitygrad_ros.nodes.processes import Graph, enter_own_domain, start_graph
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.parameters import PARAMETER_UNITS

if TYPE_CHECKING:
    from rclpy.node import Node

START_TIME = 60.0
"""How long the nodes may take to be there [s]."""

ROLLOUTS = 3
"""How often an iteration is tried while it is the rollout that fails."""


@contextmanager
def running_graph(specs: Sequence[NodeSpec], run_directory: Path) -> Iterator[tuple["Node", Graph]]:
    """The graph while the `with` block lasts, once all its nodes are there, and a node that spins in this process.

    What the nodes print goes to `nodes.log` in the run's folder, which errors name.

    Raises:
        RealityGradError: a node ended, or did not appear.
    """
    from realitygrad_ros.nodes.remote import spinning_node

    domain = enter_own_domain()
    run_directory.mkdir(parents=True, exist_ok=True)
    log = run_directory / "nodes.log"
    print(f"run folder {run_directory}, nodes' log {log}, ROS_DOMAIN_ID={domain}", flush=True)
    try:
        with log.open("a") as output, start_graph(specs, output) as graph, spinning_node("demo") as node:
            _await_nodes(node, graph, [spec.name for spec in specs])
            yield node, graph
    except RealityGradError as error:
        raise RealityGradError(f"{error} (all that the nodes said is in '{log}')") from error


def _await_nodes(node: "Node", graph: Graph, names: Sequence[str]) -> None:
    deadline = time.monotonic() + START_TIME
    while missing := set(names) - set(node.get_node_names()):
        graph.check()
        if time.monotonic() > deadline:
            raise RealityGradError(f"{', '.join(sorted(missing))} did not appear in {START_TIME:g} s")
        time.sleep(0.05)


def iterate(work: Callable[[Progress, CancelCheck], object], graph: Graph, show: Progress) -> None:
    """Do an iteration, and roll out again where other programs starved the twin.

    The policy stops, as it must, when joint states are late. On a real robot its user looks why before going on.

    Args:
        work: the iteration; does not do again what is done.
        graph: of whose nodes none may end.
        show: gets what `work` tells.
    """
    stage = ""

    def told(name: str, fraction: float, figures: Mapping[str, float]) -> None:
        nonlocal stage
        stage = name
        show(name, fraction, figures)

    def interrupted() -> bool:
        graph.check()
        return False

    for attempt in range(1, ROLLOUTS + 1):
        try:
            work(told, interrupted)
            return
        except RealityGradError as error:
            graph.check()
            if stage != "rollout" or attempt == ROLLOUTS:
                raise
            print(f"{error}; rolling out again", file=sys.stderr, flush=True)


@contextmanager
def display() -> Iterator[Progress]:
    """One line that lives on a terminal; elsewhere a line a stage, when it ends."""
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar()) if sys.stderr.isatty() else None
        begun = time.monotonic()
        shown = ""

        def show(stage: str, fraction: float, figures: Mapping[str, float]) -> None:
            nonlocal begun, shown
            if "iteration" not in figures:
                return
            rest = dict(figures)
            title = f"iteration {int(rest.pop('iteration'))}: {stage}"
            if bar is not None:
                bar(title, fraction, rest)
            if title != shown:
                if shown and bar is None:
                    print(f"{shown} took {time.monotonic() - begun:.1f} s", flush=True)
                begun, shown = time.monotonic(), title

        yield show
        if shown and bar is None:
            print(f"{shown} took {time.monotonic() - begun:.1f} s", flush=True)


def compared_parameters(metrics: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Nominal, fitted and true value of every parameter of every joint, from the metrics of all iterations."""
    nominal, fitted, truth = metrics[0]["parameters"], metrics[-1]["parameters"], metrics[-1]["truth"]
    return {
        name: {
            joint: {"nominal": value, "fitted": fitted[name][joint], "truth": truth[name][joint]}
            for joint, value in joints.items()
        }
        for name, joints in nominal.items()
    }


def parameter_table(parameters: Mapping[str, Any]) -> str:
    """The same as text."""
    head = ["parameter", "joint", "nominal", "fitted", "truth"]
    # With position commands alone kd and damping are one number; only their sum can be compared with the truth.
    sums = {
        joint: {column: values[column] + parameters["damping"][joint][column] for column in values}
        for joint, values in parameters["kd"].items()
    }
    units = {**PARAMETER_UNITS, "kd + damping": PARAMETER_UNITS["kd"]}
    rows = [
        [f"{name} [{units[name]}]", joint, *(f"{value:.4g}" for value in values.values())]
        for name, joints in {**parameters, "kd + damping": sums}.items()
        for joint, values in joints.items()
    ]
    return table([head, *rows], "<<>>>")
