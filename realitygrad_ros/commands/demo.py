"""Cross the reality gap of a robot's twin: every node in a process of its own, over ROS 2.

Starts the graph in a ROS domain of its own, lets it do RealityGrad iterations, and prints what came out. An arm reaches
for targets; a robot on legs walks at commanded velocities. Units in the file of --json: gaps and target errors in m,
velocity errors in m/s and rad/s, times in s.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realitygrad_ros.commands import demo_graph
from realitygrad_ros.commands.console import add_json_argument, table, write_json
from realitygrad_ros.commands.run_arguments import add_run_arguments, open_run
from realitygrad_ros.nodes.bringup import TWIN, NodeSpec, node_specs

ITERATIONS, LEGGED_ITERATIONS = 2, 1

SECONDS = ("optimise", "train", "rollout", "identify", "total")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    parser.add_argument(
        "--iterations",
        type=_count,
        metavar="N",
        help=f"identifications to do ({ITERATIONS} for an arm, {LEGGED_ITERATIONS} for a robot on legs)",
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do the iterations, print the tables and write the figures."""
    from realitygrad_ros.robot.load import load_reaching_robot, load_robot

    configuration, _ = load_robot(arguments.robot)
    if configuration.floating:
        from realitygrad_ros.commands import legged_demo

        return legged_demo.run(arguments, arguments.iterations or LEGGED_ITERATIONS)
    load_reaching_robot(arguments.robot)  # an arm's iteration is one of reaching
    run_directory = open_run(arguments, TWIN)
    specs = node_specs(arguments.robot, TWIN, run_directory, arguments.seed)
    figures = demonstrate(specs, run_directory, arguments.iterations or ITERATIONS)
    print(_iteration_table(figures["iterations"]), demo_graph.parameter_table(figures["parameters"]), sep="\n\n")
    print(f"\nreport: {run_directory / 'report.html'}")
    write_json(arguments.json, figures)
    return 0


def demonstrate(specs: Sequence[NodeSpec], run_directory: Path, iterations: int) -> dict[str, Any]:
    """Run a graph until its run has the given number of iterations after iteration 0, and return its figures.

    Raises:
        RealityGradError: a node ended, or a stage failed.
    """
    from realitygrad_ros.iteration.run_folder import RunFolder
    from realitygrad_ros.nodes.remote import RemoteJob

    folder = RunFolder(run_directory)
    with demo_graph.running_graph(specs, run_directory) as (node, graph), demo_graph.display() as show:
        job = RemoteJob(node, "iteration_node", "run_iteration", "cancel")
        while folder.finished() <= iterations:
            demo_graph.iterate(job.run, graph, show)
    return _figures(run_directory)


def _figures(run_directory: Path) -> dict[str, Any]:
    from realitygrad_ros.iteration.report import summarise
    from realitygrad_ros.iteration.run_folder import RunFolder

    folder = RunFolder(run_directory)
    metrics = summarise(folder)
    names = ("gap_mean_m", "gap_accumulated_m", "target_error_mean_m", "residual")
    return {
        "iterations": [
            {"k": row["k"], "seconds": {stage: row["seconds"][stage] for stage in SECONDS}}
            | {name: row[name] for name in names}
            for row in metrics
        ],
        "parameters": demo_graph.compared_parameters(metrics),
        "bag": str(folder.output(len(metrics) - 1, "rollout")),
    }


def _iteration_table(iterations: Sequence[dict[str, Any]]) -> str:
    from realitygrad_ros.iteration.report import iteration_rows

    head = ["iteration", "gap [mm]", "accumulated [m]", "target error [mm]", "residual"]
    head += [f"{stage} [s]" for stage in SECONDS]
    return table([head, *iteration_rows(iterations, SECONDS)], ">" * len(head))


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("there must be at least one iteration")
    return count
