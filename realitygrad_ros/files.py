"""Files that are whole or not there."""

import os
import tempfile
import uuid
from pathlib import Path

from realitygrad_ros.errors import RealityGradError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, flush it to the disk, and rename it into place."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(folder: Path) -> None:
    """Find out whether files can be written in a folder that is there or can be made, and leave everything as it is.

    Raises:
        RealityGradError: they cannot.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise RealityGradError(f"folder '{folder}' cannot be written to: {error.strerror}; choose another") from error
