"""Where the package's own data lie: `config/`, `urdf/`, `launch/`."""

import os
import sys
from pathlib import Path

from realitygrad_ros.errors import RealityGradError

PACKAGE = "realitygrad_ros"


def share_directory() -> Path:
    """The folder that holds `config/`, `urdf/` and `launch/`, in a checkout, a colcon or a pip installation.

    Raises:
        RealityGradError: none of the places has them.
    """
    prefixes = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    candidates = [Path(__file__).resolve().parents[1]]
    candidates += [prefix / "share" / PACKAGE for prefix in (*prefixes, Path(sys.prefix))]
    for candidate in candidates:
        if (candidate / "package.xml").is_file() and (candidate / "config").is_dir():
            return candidate
    raise RealityGradError(
        f"the data of {PACKAGE} were not found in {', '.join(map(str, candidates))}; install the package again"
    )
