"""Which nodes the graph consists of, and with which parameters: the one list for launch files and command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import load_configuration

TWIN, ROS2_CONTROL = "twin", "ros2_control"
HARDWARE = (TWIN, ROS2_CONTROL)
"""What moves: the MuJoCo stand-in of the robot, or a real arm whose ros2_control driver runs already."""

REACH_NODES = ("trainer_node", "iteration_node")
"""What makes policies and iterations of the task `reach`."""

LEGGED_TOPICS = ("joint_states", "imu", "odom", "forward_position_controller/commands", "cmd_vel", "policy/bundle")
"""What is recorded of a robot on legs."""

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


def node_specs(robot: str, hardware: str, run_directory: Path, seed: int = 0, bundle: str = "") -> tuple[NodeSpec, ...]:
    """The nodes of the graph, in the order in which they are started.

    Args:
        robot: a robot's name in `config/`, or the path of a configuration.
        hardware: one of `HARDWARE`.
        run_directory: where the iterations are written.
        seed: draws the targets.
        bundle: policy to begin with, as the policy node takes it; empty for that which walks the robot at commanded
            velocities, where one comes with this package, else none.

    Raises:
        RealityGradError: `hardware` is unknown, or the configuration is missing or wrong.
    """
    if hardware not in HARDWARE:
        raise RealityGradError(f"hardware '{hardware}' is unknown; choose one of {', '.join(HARDWARE)}")
    configuration = load_configuration(robot)
    here, directory = {"robot": robot}, str(run_directory)
    specs = (
        *((NodeSpec("twin_node", here),) if hardware == TWIN else ()),
        NodeSpec("policy_node", here | _first_policy(configuration.name, bundle)),
        NodeSpec("recorder_node", {"bag_directory": directory} | _topics(configuration.floating)),
        NodeSpec("sysid_node", here | {"iteration_directory": directory}),
        NodeSpec("trainer_node", here | {"iteration_directory": directory}),
        NodeSpec("iteration_node", {**here, "hardware": hardware, "run_directory": directory, "seed": seed}),
    )
    reaches = configuration.reach_section is not None
    return tuple(spec for spec in specs if reaches or spec.name not in REACH_NODES)


def left_out(robot: str) -> str:
    """A line that says which nodes such a robot lacks and why; empty where it has all.

    Raises:
        RealityGradError: the configuration is missing or wrong.
    """
    configuration = load_configuration(robot)
    if configuration.reach_section is not None:
        return ""
    return f"{' and '.join(REACH_NODES)} are left out: robot '{configuration.name}' has no 'reach' section"


def _first_policy(robot: str, bundle: str) -> dict[str, str]:
    name = f"{robot}_velocity"
    shipped = (share_directory() / "policies" / f"{name}.safetensors").is_file()
    bundle = bundle or (name if shipped else "")
    return {"bundle": bundle} if bundle else {}


def _topics(floating: bool) -> dict[str, list[str]]:
    return {"topics": list(LEGGED_TOPICS)} if floating else {}
