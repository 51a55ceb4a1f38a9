"""The demo of a robot on legs: it walks on the twin, is hung up and identified, learns anew, and walks again."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realitygrad_ros.commands import demo_graph
from realitygrad_ros.commands.console import table, write_json
from realitygrad_ros.commands.run_arguments import open_run
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import TWIN, NodeSpec, node_specs
from realitygrad_ros.resources import share_directory

if TYPE_CHECKING:
    from realitygrad_ros.iteration.legged_loop import LeggedTask

FIGURES = (
    "tracking_error_mps",
    "turning_error_radps",
    "falls",
    "predicted_tracking_error_mps",
    "predicted_turning_error_radps",
    "predicted_falls",
    "velocity_gap_mps",
    "joint_gap_rad",
    "foot_gap_m",
    "residual",
)
"""Of an iteration, in the file of --json."""


def run(arguments: argparse.Namespace, iterations: int) -> int:
    """Do the iterations, print the tables and write the figures."""
    from realitygrad_ros.iteration.legged_loop import LeggedTask
    from realitygrad_ros.robot.load import load_robot
    from realitygrad_ros.twin.configuration import load_twin_configuration

    run_directory = open_run(arguments, TWIN)
    configuration, model = load_robot(arguments.robot)
    task = LeggedTask(
        configuration=configuration,
        model=model,
        seed=arguments.seed,
        policy=shipped_policy(configuration.name),
        truth=load_twin_configuration(arguments.robot).truth.reordered(configuration.joint_names),
    )
    figures = demonstrate(node_specs(arguments.robot, TWIN, run_directory), run_directory, task, iterations)
    print(_iteration_table(run_directory), demo_graph.parameter_table(figures["parameters"]), sep="\n\n")
    print(f"\nreport: {run_directory / 'report.html'}")
    write_json(arguments.json, figures)
    return 0


def shipped_policy(robot: str) -> Path:
    """The policy that walks a robot at commanded velocities, as it comes with this package.

    Raises:
        RealityGradError: none comes for this robot.
    """
    path = share_directory() / "policies" / f"{robot}_velocity.safetensors"
    if not path.is_file():
        raise RealityGradError(
            f"no policy '{path}' to begin with; train one by 'realitygrad train --robot {robot} --task velocity' and "
            "put its policy.safetensors there"
        )
    return path


def demonstrate(specs: Sequence[NodeSpec], run_directory: Path, task: "LeggedTask", iterations: int) -> dict[str, Any]:
    """Run a graph until its run has the given number of iterations after iteration 0, and return its figures.

    Raises:
        RealityGradError: a node ended, or a stage failed.
    """
    from realitygrad_ros.iteration.legged_loop import run_iteration
    from realitygrad_ros.iteration.run_folder import RunFolder
    from realitygrad_ros.nodes.legged_crew import LeggedCrew

    folder = RunFolder(run_directory)
    with demo_graph.running_graph(specs, run_directory) as (node, graph), demo_graph.display() as show:
        crew, tell = LeggedCrew(node), node.get_logger().info
        while folder.finished() <= iterations:
            demo_graph.iterate(
                lambda progress, cancelled: run_iteration(folder, task, crew, progress, cancelled, tell), graph, show
            )
    return _figures(run_directory)


def _figures(run_directory: Path) -> dict[str, Any]:
    from realitygrad_ros.iteration.legged_loop import STAGES
    from realitygrad_ros.iteration.legged_report import summarise
    from realitygrad_ros.iteration.run_folder import RunFolder

    folder = RunFolder(run_directory)
    metrics = summarise(folder)
    last = metrics[-1]
    return {
        "tracking_error_mps": last["tracking_error_mps"],
        "falls": sum(row["falls"] for row in metrics),
        "seconds": sum(row["seconds"]["total"] for row in metrics),
        "iterations": [
            {"k": row["k"], "seconds": {stage: row["seconds"][stage] for stage in (*STAGES, "total")}}
            | {name: row[name] for name in FIGURES}
            for row in metrics
        ],
        "parameters": demo_graph.compared_parameters(metrics),
        "bag": str(folder.output(len(metrics) - 1, "rollout")),
    }


def _iteration_table(run_directory: Path) -> str:
    from realitygrad_ros.iteration.legged_report import HEAD, SECONDS, iteration_rows, summarise
    from realitygrad_ros.iteration.run_folder import RunFolder

    rows = iteration_rows(summarise(RunFolder(run_directory)), SECONDS)
    head = [*HEAD, *(f"{stage} [s]" for stage in SECONDS)]
    return table([head, *rows], ">" * len(head))
