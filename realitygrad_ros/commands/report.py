"""Write report.html of a run anew from the files of its finished iterations."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run_directory", type=Path, metavar="RUN", help="folder of a run, runs/<time>")


def run(arguments: argparse.Namespace) -> int:
    """Write the report and print its path."""
    from realitygrad_ros.iteration import legged_report, report
    from realitygrad_ros.iteration.run_folder import RunFolder

    folder = RunFolder(arguments.run_directory.absolute())
    print((legged_report if legged_report.is_of_legs(folder) else report).write_report(folder))
    return 0
