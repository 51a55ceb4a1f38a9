"""Bring the whole graph up: `ros2 launch realitygrad_ros bringup.launch.py robot:=ur5 hardware:=twin`."""

from pathlib import Path
from typing import TYPE_CHECKING

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, SetEnvironmentVariable, Shutdown
from launch.conditions import UnlessCondition
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from realitygrad_ros.nodes.bringup import HARDWARE, TWIN, left_out, new_run_directory, node_specs

if TYPE_CHECKING:
    from launch import LaunchContext

RESPAWN_DELAY = 2.0
"""[s]"""

ARGUMENTS = (
    DeclareLaunchArgument(
        "robot", default_value="ur5", description="Name of a robot in config/, or path of its YAML file."
    ),
    DeclareLaunchArgument(
        "hardware",
        default_value=TWIN,
        choices=HARDWARE,
        description="twin: a MuJoCo stand-in of the robot; ros2_control: a real robot whose driver runs already.",
    ),
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of all nodes, topics and services."),
    DeclareLaunchArgument(
        "run_directory",
        default_value=str(new_run_directory()),
        description="Folder of the iterations; one that was begun before is continued.",
    ),
    DeclareLaunchArgument(
        "bundle",
        default_value="",
        description="Policy to begin with: name in policies/ or path of a file. Empty for the one that walks this "
        "robot, where one comes with this package.",
    ),
    DeclareLaunchArgument("seed", default_value="0", description="Draws the targets."),
    DeclareLaunchArgument(
        "use_sim_time", default_value="false", description="Take the time from /clock instead of the system."
    ),
    DeclareLaunchArgument(
        "params_file",
        default_value="",
        description="ROS parameter file for everything that is no argument here; empty for none.",
    ),
    DeclareLaunchArgument("log_level", default_value="info", description="Log level of all nodes."),
    DeclareLaunchArgument(
        "use_respawn",
        default_value="false",
        description="Start a node again that has ended; otherwise the end of one ends all.",
    ),
)


def make_nodes(context: "LaunchContext") -> list[Node | LogInfo]:
    """The actions for the nodes of `bringup.py`, once the arguments have their values."""

    def argument(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    run_directory = Path(argument("run_directory")).absolute()
    specs = node_specs(
        argument("robot"), argument("hardware"), run_directory, int(argument("seed")), argument("bundle")
    )
    use_sim_time = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    use_respawn = LaunchConfiguration("use_respawn")
    params_file = [argument("params_file")] if argument("params_file") else []
    remark = left_out(argument("robot"))
    return [
        *([LogInfo(msg=remark)] if remark else []),
        *(
            Node(
                package="realitygrad_ros",
                executable=spec.name,
                name=spec.name,
                namespace=LaunchConfiguration("namespace"),
                parameters=[*params_file, {**spec.parameters, "use_sim_time": use_sim_time}],
                arguments=["--ros-args", "--log-level", LaunchConfiguration("log_level")],
                respawn=use_respawn,
                respawn_delay=RESPAWN_DELAY,
                on_exit=Shutdown(reason=f"{spec.name} ended", condition=UnlessCondition(use_respawn)),
                output="screen",
            )
            for spec in specs
        ),
    ]


def generate_launch_description() -> LaunchDescription:
    """The arguments, the environment and the nodes."""
    unbuffered = SetEnvironmentVariable("PYTHONUNBUFFERED", "1")
    return LaunchDescription([*ARGUMENTS, unbuffered, OpaqueFunction(function=make_nodes)])
