"""What commands that run the graph share: robot, run folder and seed, checked before any node starts."""

import argparse
from pathlib import Path

from realitygrad_ros.nodes.bringup import TWIN, new_run_directory

SEEDS = range(2**63)
"""What a ROS parameter holds."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--robot`, `--run-directory` and `--seed`."""
    parser.add_argument("--robot", default="ur5", help="name of a robot in config/, or path of its YAML file (ur5)")
    parser.add_argument(
        "--run-directory",
        type=Path,
        metavar="FOLDER",
        help="folder of the iterations, one begun before is continued (runs/<time>)",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="draws the targets (0)")


def open_run(arguments: argparse.Namespace, hardware: str) -> Path:
    """The absolute path of the run folder, once all that the nodes need is found sound.

    Raises:
        RealityGradError: the robot is unknown or wrong; the folder cannot be written to, or holds another run.
    """
    from realitygrad_ros.files import check_writable
    from realitygrad_ros.iteration.run_folder import RunFolder
    from realitygrad_ros.robot.load import load_robot
    from realitygrad_ros.twin.configuration import load_twin_configuration

    configuration, _ = load_robot(arguments.robot)
    if hardware == TWIN:
        load_twin_configuration(arguments.robot)
    path: Path = (arguments.run_directory or new_run_directory()).absolute()
    RunFolder(path).check_same_run(configuration, arguments.seed)
    check_writable(path)
    return path


def _seed(text: str) -> int:
    seed = int(text)
    if seed not in SEEDS:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {SEEDS[-1]}")
    return seed
