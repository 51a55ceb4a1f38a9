"""Run the nodes of a robot on this machine until Ctrl-C; the same nodes as `ros2 launch ... bringup.launch.py`."""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from realitygrad_ros.nodes.bringup import HARDWARE, TWIN

    parser.add_argument("--robot", default="ur5", help="name of a robot in config/, or path of its YAML file (ur5)")
    parser.add_argument(
        "--hardware",
        choices=HARDWARE,
        default=TWIN,
        help="a MuJoCo stand-in of the robot, or a real arm whose ros2_control driver runs already (twin)",
    )
    parser.add_argument(
        "--run-directory",
        type=Path,
        metavar="FOLDER",
        help="folder of the iterations, one begun before is continued (runs/<time>)",
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the targets (0)")


def run(arguments: argparse.Namespace) -> int:
    """Run the nodes until one ends or the user interrupts."""
    from realitygrad_ros.nodes.bringup import new_run_directory, node_specs
    from realitygrad_ros.nodes.processes import start_graph

    run_directory = (arguments.run_directory or new_run_directory()).absolute()
    specs = node_specs(arguments.robot, arguments.hardware, run_directory, arguments.seed)
    with start_graph(specs, sys.stdout) as graph:
        graph.wait()
    return 0
