"""Measure speed and timing on this machine: the simulator, the policy node or the recorder node."""

import argparse
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json

BENCHMARKS = ("physics", "policy", "recorder")
"""Each is a module of `realitygrad_ros.benchmarks`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("benchmark", choices=BENCHMARKS, help="what to measure")
    parser.add_argument("--robot", default="ur5", help="name of a robot in config/, or path of its YAML file (ur5)")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print a table, and write the figures."""
    benchmark = importlib.import_module(f"realitygrad_ros.benchmarks.{arguments.benchmark}")
    with progress_bar() as progress:
        figures = benchmark.run(arguments.robot, progress)
    print(table(list(_rows(figures)), "<>"))
    write_json(arguments.json, figures)
    return 0


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
