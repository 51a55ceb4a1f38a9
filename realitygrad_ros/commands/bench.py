"""Measure on this machine: speed and timing of the simulator and the nodes, and what contact does to gradients."""

import argparse
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import check_writable

BENCHMARKS = {
    "physics": "steps per second of the simulator and of its gradient, beside MuJoCo",
    "policy": "period and latency of the policy node over ROS 2",
    "recorder": "messages that the recorder node keeps",
    "contact": "the landing of a foot, and its gradient, under each mode of contact: a picture",
}
"""Each is a module of `realitygrad_ros.benchmarks`, with its help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    for name, description in BENCHMARKS.items():
        benchmark = benchmarks.add_parser(name, help=description, description=f"Measure {description}.")
        if name == "contact":
            benchmark.add_argument(
                "--out",
                dest="subject",
                type=_folder,
                required=True,
                metavar="DIR",
                help="picture and curves go here",
            )
        else:
            robot_help = "name of a robot in config/, or path of its YAML file (ur5)"
            benchmark.add_argument("--robot", dest="subject", default="ur5", metavar="ROBOT", help=robot_help)
        add_json_argument(benchmark)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print a table, and write the figures."""
    benchmark = importlib.import_module(f"realitygrad_ros.benchmarks.{arguments.benchmark}")
    with progress_bar() as progress:
        figures = benchmark.run(arguments.subject, progress)
    print(table(list(_rows(figures)), "<>"))
    write_json(arguments.json, figures)
    return 0


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise RealityGradError(f"--out: '{path}' is a file; name a folder")
    check_writable(path)
    return path


def _rows(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_text, value))
    return f"{value:,.5g}" if isinstance(value, float) else str(value)
