"""Run the nodes of a robot on this machine until Ctrl-C; the same nodes as `ros2 launch ... bringup.launch.py`."""

import argparse
import sys

from realitygrad_ros.commands.run_arguments import add_run_arguments, open_run
from realitygrad_ros.nodes.bringup import HARDWARE, TWIN, left_out, node_specs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_arguments(parser)
    parser.add_argument(
        "--hardware",
        choices=HARDWARE,
        default=TWIN,
        help="a MuJoCo stand-in of the robot, or a real one whose ros2_control driver runs already (twin)",
    )
    parser.add_argument(
        "--bundle",
        default="",
        help="policy to begin with: name in policies/ or path of a file (the one that walks this robot, if any)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the nodes until one ends or the user interrupts."""
    from realitygrad_ros.nodes.processes import start_graph

    run_directory = open_run(arguments, arguments.hardware)
    specs = node_specs(arguments.robot, arguments.hardware, run_directory, arguments.seed, arguments.bundle)
    if remark := left_out(arguments.robot):
        print(remark, flush=True)
    with start_graph(specs, sys.stdout) as graph:
        graph.wait()
    return 0
