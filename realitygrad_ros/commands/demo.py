"""Cross the reality gap of a robot's twin: every node in a process of its own, over ROS 2.

Starts the graph in a ROS domain of its own, lets it do RealityGrad iterations, and prints what came out. Units: gaps
and target errors in m in the file of --json and in mm in the table, times in s.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json
from realitygrad_ros.commands.run_arguments import add_run_arguments, open_run
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import TWIN, NodeSpec, node_specs
from realitygrad_ros.nodes.processes import Graph, enter_own_domain, start_graph
from realitygrad_ros.progress import Progress
from realitygrad_ros.robot.parameters import PARAMETER_UNITS

if TYPE_CHECKING:
    from rclpy.node import Node

    from realitygrad_ros.nodes.remote import RemoteJob

START_TIME = 60.0
"""How long the nodes may take to be there [s]."""

ROLLOUTS = 3
"""How often an iteration is tried while it is the rollout that fails."""

SECONDS = ("optimise", "train", "rollout", "identify", "total")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    parser.add_argument("--iterations", type=_count, default=2, metavar="N", help="identifications to do (2)")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do the iterations, print the tables and write the figures."""
    from realitygrad_ros.robot.load import load_reaching_robot

    load_reaching_robot(arguments.robot)  # an iteration is one of reaching
    run_directory = open_run(arguments, TWIN)
    specs = node_specs(arguments.robot, TWIN, run_directory, arguments.seed)
    figures = demonstrate(specs, run_directory, arguments.iterations)
    print(_iteration_table(figures["iterations"]), _parameter_table(figures["parameters"]), sep="\n\n")
    print(f"\nreport: {run_directory / 'report.html'}")
    write_json(arguments.json, figures)
    return 0


def demonstrate(specs: Sequence[NodeSpec], run_directory: Path, iterations: int) -> dict[str, Any]:
    """Run a graph until its run has the given number of iterations after iteration 0, and return its figures.

    Raises:
        RealityGradError: a node ended, or a stage failed.
    """
    from realitygrad_ros.iteration.run_folder import RunFolder
    from realitygrad_ros.nodes.remote import RemoteJob, spinning_node

    folder = RunFolder(run_directory)
    domain = enter_own_domain()
    run_directory.mkdir(parents=True, exist_ok=True)
    log = run_directory / "nodes.log"
    print(f"run folder {run_directory}, nodes' log {log}, ROS_DOMAIN_ID={domain}", flush=True)
    try:
        with (
            log.open("a") as output,
            start_graph(specs, output) as graph,
            spinning_node("demo") as node,
            _display() as show,
        ):
            _await_nodes(node, graph, [spec.name for spec in specs])
            job = RemoteJob(node, "iteration_node", "run_iteration", "cancel")
            while folder.finished() <= iterations:
                _run_iteration(job, graph, show)
    except RealityGradError as error:
        raise RealityGradError(f"{error} (all that the nodes said is in '{log}')") from error
    return _figures(run_directory)


def _run_iteration(job: "RemoteJob", graph: Graph, show: Progress) -> None:
    """Let the graph do an iteration, and roll out again where other programs starved the twin.

    The policy stops, as it must, when joint states are late. On a real robot its user looks why before going on.
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
            job.run(told, interrupted)
            return
        except RealityGradError as error:
            graph.check()
            if stage != "rollout" or attempt == ROLLOUTS:
                raise
            print(f"{error}; rolling out again", file=sys.stderr, flush=True)


def _figures(run_directory: Path) -> dict[str, Any]:
    from realitygrad_ros.iteration.report import summarise
    from realitygrad_ros.iteration.run_folder import RunFolder

    folder = RunFolder(run_directory)
    metrics = summarise(folder)
    names = ("gap_mean_m", "gap_accumulated_m", "target_error_mean_m", "residual")
    nominal, fitted, truth = metrics[0]["parameters"], metrics[-1]["parameters"], metrics[-1]["truth"]
    return {
        "iterations": [
            {"k": row["k"], "seconds": {stage: row["seconds"][stage] for stage in SECONDS}}
            | {name: row[name] for name in names}
            for row in metrics
        ],
        "parameters": {
            name: {
                joint: {"nominal": value, "fitted": fitted[name][joint], "truth": truth[name][joint]}
                for joint, value in joints.items()
            }
            for name, joints in nominal.items()
        },
        "bag": str(folder.output(len(metrics) - 1, "rollout")),
    }


def _await_nodes(node: "Node", graph: Graph, names: Sequence[str]) -> None:
    deadline = time.monotonic() + START_TIME
    while missing := set(names) - set(node.get_node_names()):
        graph.check()
        if time.monotonic() > deadline:
            raise RealityGradError(f"{', '.join(sorted(missing))} did not appear in {START_TIME:g} s")
        time.sleep(0.05)


@contextmanager
def _display() -> Iterator[Progress]:
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


def _iteration_table(iterations: Sequence[dict[str, Any]]) -> str:
    from realitygrad_ros.iteration.report import iteration_rows

    head = ["iteration", "gap [mm]", "accumulated [m]", "target error [mm]", "residual"]
    head += [f"{stage} [s]" for stage in SECONDS]
    return table([head, *iteration_rows(iterations, SECONDS)], ">" * len(head))


def _parameter_table(parameters: Mapping[str, Any]) -> str:
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


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("there must be at least one iteration")
    return count
