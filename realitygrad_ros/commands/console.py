"""What commands share: tables, a progress bar, and `--json FILE`."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import check_writable, write_whole
from realitygrad_ros.progress import Progress


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--json FILE`, refused at once where it cannot be written: the work before may take minutes."""
    parser.add_argument("--json", type=_file_to_write, metavar="FILE", help="write the figures to this file")


def write_json(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures where the user asked for them by `--json FILE`.

    Raises:
        RealityGradError: the file cannot be written.
    """
    if path is None:
        return
    try:
        write_whole(path, json.dumps(figures, indent=2, allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise RealityGradError(f"'{path}' cannot be written: {error.strerror}") from error


def table(rows: Sequence[Sequence[str]], alignment: str) -> str:
    """Rows of cells as lines of aligned columns; `alignment` has `<` or `>` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{side}{width}}" for side, cell, width in zip(alignment, row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr that shows the stage, its figures and the time; nothing where stderr is no terminal."""
    from tqdm import tqdm

    bar_format = "{desc:<28} {percentage:3.0f}% |{bar}| {elapsed}{postfix}"
    with tqdm(total=1.0, bar_format=bar_format, leave=False, disable=None) as bar:

        def show(stage: str, fraction: float, figures: Mapping[str, float]) -> None:
            bar.set_description_str(stage, refresh=False)
            bar.set_postfix({name: f"{value:.4g}" for name, value in figures.items()}, refresh=False)
            bar.n = fraction
            bar.refresh()

        yield show


def _file_to_write(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise RealityGradError(f"--json: '{path}' cannot be written: it is a folder; name a file")
    if not path.parent.is_dir():
        raise RealityGradError(f"--json: '{path}' cannot be written: the folder '{path.parent}' does not exist")
    check_writable(path.parent)
    return path
