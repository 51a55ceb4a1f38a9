"""What a new process pays before the simulator's first results, and the memory that they take.

Run as a module with a robot's name it measures itself and prints the figures as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from realitygrad_ros.benchmarks.rollouts import Rollouts
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.load import load_robot


def first_results(robot: str) -> dict[str, Any]:
    """Measure two new processes, one after the other, that share a cache of kernels, empty at first.

    Args:
        robot: name in `config/` or path of a configuration.

    Returns:
        `first_launch_seconds` of the process that had to compile, `cached_launch_seconds` of the one that found the
        kernels in the cache: of each, the seconds from the construction of the simulator to the first result,
        `forward`, and from there to that with a gradient, `forward_backward`; and `memory_mib`, by which the second
        process grew at most on the way.

    Raises:
        RealityGradError: a process failed.
    """
    with tempfile.TemporaryDirectory() as cache:
        compiled, cached = _measured(robot, cache), _measured(robot, cache)
    return {
        "first_launch_seconds": compiled["seconds"],
        "cached_launch_seconds": cached["seconds"],
        "memory_mib": cached["memory_mib"],
    }


def _measured(robot: str, cache: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "realitygrad_ros.benchmarks.fresh_process", robot]
    environment = {**os.environ, "WARP_CACHE_PATH": cache}
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if process.returncode != 0:
        reason = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise RealityGradError(f"the process that measures the first launch of '{robot}' failed: {reason}")
    return dict(json.loads(process.stdout.splitlines()[-1]))


def _measure(robot: str) -> dict[str, Any]:
    configuration, model = load_robot(robot)
    # PyTorch imports a part of itself at the first backward pass from given gradients, which most never make.
    torch.autograd.backward(torch.ones(1, requires_grad=True).exp(), torch.ones(1))
    before = _peak_memory()
    start = time.perf_counter()
    rollouts = Rollouts(configuration, model, threads=1)
    rollouts.forward()
    forward = time.perf_counter()
    rollouts.forward_backward()
    end = time.perf_counter()
    seconds = {"forward": forward - start, "forward_backward": end - forward}
    return {"seconds": seconds, "memory_mib": _peak_memory() - before}


def _peak_memory() -> float:
    """The most memory that this process had resident so far [MiB]."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024.0


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
