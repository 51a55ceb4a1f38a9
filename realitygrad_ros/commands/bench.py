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
    "learning": "learning to walk: against PPO, under each mode of contact, and on the twin; an hour",
}
"""Each is a module of `realitygrad_ros.benchmarks`, with its help."""

LEARNING_PARTS = ("walk", "ppo", "transfer", "horizon", "tracking", "endurance")
"""Of `learning`, which can be measured one by one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    for name, description in BENCHMARKS.items():
        benchmark = benchmarks.add_parser(name, help=description, description=f"Measure {description}.")
        benchmark.set_defaults(options=())
        if name in ("contact", "learning"):
            benchmark.add_argument(
                "--out",
                dest="subject",
                type=_folder,
                required=True,
                metavar="DIR",
                help="pictures and curves go here",
            )
        else:
            robot_help = "name of a robot in config/, or path of its YAML file (ur5)"
            benchmark.add_argument("--robot", dest="subject", default="ur5", metavar="ROBOT", help=robot_help)
        if name == "learning":
            _add_learning_arguments(benchmark)
        add_json_argument(benchmark)


def _add_learning_arguments(benchmark: argparse.ArgumentParser) -> None:
    benchmark.set_defaults(options=("seeds", "part"))
    benchmark.add_argument("--seeds", type=_count, default=3, help="trainings of a kind, whose median counts (3)")
    benchmark.add_argument("--part", choices=LEARNING_PARTS, help="measure this alone (all)")
    benchmark.epilog = "What DIR holds of trainings is not trained again: an interrupted measurement goes on."


def run(arguments: argparse.Namespace) -> int:
    """Measure, print a table, and write the figures."""
    benchmark = importlib.import_module(f"realitygrad_ros.benchmarks.{arguments.benchmark}")
    with progress_bar() as progress:
        options = {name: getattr(arguments, name) for name in arguments.options}
        figures = benchmark.run(arguments.subject, progress, **options)
    print(table(list(_rows(figures)), "<>"))
    write_json(arguments.json, figures)
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 on")
    return int(text)


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
        return (" to " if len(value) == 2 else ", ").join(map(_text, value))
    return f"{value:,.5g}" if isinstance(value, float) else str(value)
