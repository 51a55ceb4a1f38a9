"""Which nodes the graph consists of, and with which parameters: the one list for launch files and command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from realitygrad_ros.errors import RealityGradError

TWIN, ROS2_CONTROL = "twin", "ros2_control"
HARDWARE = (TWIN, ROS2_CONTROL)
"""What moves: the MuJoCo stand-in of the robot, or a real arm whose ros2_control driver runs already."""

ParameterValue = str | int | float | bool | list[str]


@dataclass(frozen=True)
class NodeSpec:
    """One node of the graph: `ros2 run realitygrad_ros <name>`, or `python -m realitygrad_ros.nodes.<name>`."""

    name: str
    """Name of the node, of its module in `realitygrad_ros/nodes/` and of its executable."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)


def new_run_directory() -> Path:
    """Where a run that was not told where to write goes: `runs/<time>` under the working directory."""
    return Path("runs", datetime.now().strftime("%Y-%m-%d_%H-%M-%S")).absolute()


def node_specs(robot: str, hardware: str, run_directory: Path, seed: int = 0) -> tuple[NodeSpec, ...]:
    """The nodes of the graph, in the order in which they are started.

    Args:
        robot: a robot's name in `config/`, or the path of a configuration.
        hardware: one of `HARDWARE`.
        run_directory: where the iterations are written.
        seed: draws the targets.

    Raises:
        RealityGradError: `hardware` is unknown.
    """
    if hardware not in HARDWARE:
        raise RealityGradError(f"hardware '{hardware}' is unknown; choose one of {', '.join(HARDWARE)}")
    twin = (NodeSpec("twin_node", {"robot": robot}),) if hardware == TWIN else ()
    return (
        *twin,
        NodeSpec("policy_node", {"robot": robot}),
        NodeSpec("recorder_node", {"bag_directory": str(run_directory)}),
        NodeSpec("sysid_node", {"robot": robot, "iteration_directory": str(run_directory)}),
        NodeSpec("trainer_node", {"robot": robot, "iteration_directory": str(run_directory)}),
        NodeSpec(
            "iteration_node",
            {"robot": robot, "hardware": hardware, "run_directory": str(run_directory), "seed": seed},
        ),
    )
