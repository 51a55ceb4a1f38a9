"""The launch file, resolved by ROS 2's own launch system where that is installed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import HARDWARE, node_specs
from realitygrad_ros.resources import share_directory

LAUNCH_FILE = share_directory() / "launch" / "bringup.launch.py"


def test_the_twin_stands_only_where_no_real_robot_does(tmp_path: Path) -> None:
    names = {hardware: [spec.name for spec in node_specs("ur5", hardware, tmp_path)] for hardware in HARDWARE}
    assert "twin_node" in names["twin"]
    assert names["ros2_control"] == [name for name in names["twin"] if name != "twin_node"]


def test_unknown_hardware_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RealityGradError, match=r"hardware 'gazebo' is unknown; choose one of twin, ros2_control"):
        node_specs("ur5", "gazebo", tmp_path)


def resolve(**arguments: str) -> list[Any]:
    """The node actions that the launch file makes of these arguments, substitutions done."""
    pytest.importorskip("launch_ros", reason="ROS 2's launch system is not installed; it has no wheel")
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    from launch.launch_description_sources import get_launch_description_from_python_launch_file
    from launch_ros.actions import Node

    context = LaunchContext()
    context.launch_configurations.update(arguments)
    description = get_launch_description_from_python_launch_file(str(LAUNCH_FILE))
    nodes: list[Any] = []
    for entity in description.entities:
        if isinstance(entity, DeclareLaunchArgument):
            assert entity.description
        results = entity.visit(context) or []
        if isinstance(entity, OpaqueFunction):
            nodes += [result for result in results if isinstance(result, Node)]
    for node in nodes:
        node._perform_substitutions(context)
    return nodes


@pytest.mark.parametrize("hardware", HARDWARE)
def test_the_launch_file_starts_the_nodes_of_the_list(hardware: str, tmp_path: Path) -> None:
    nodes = resolve(hardware=hardware, run_directory=str(tmp_path), namespace="left")
    specs = node_specs("ur5", hardware, tmp_path)
    assert [node.node_executable for node in nodes] == [spec.name for spec in specs]
    assert [node.node_name for node in nodes] == [f"/left/{spec.name}" for spec in specs]
    for node, spec in zip(nodes, specs, strict=True):
        assert parameters_of(node).items() >= spec.parameters.items()


def test_a_parameter_file_sets_what_is_no_argument(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("/**: {ros__parameters: {motions: 16, robot: mine, use_sim_time: true}}")
    nodes = resolve(params_file=str(file), run_directory=str(tmp_path))
    for node, spec in zip(nodes, node_specs("ur5", "twin", tmp_path), strict=True):
        expected = {**spec.parameters, "motions": 16, "use_sim_time": False}
        assert parameters_of(node).items() >= expected.items()


def parameters_of(node: Any) -> dict[str, Any]:
    """The parameters that a node starts with: the last file that launch hands to it goes before the others."""
    parameters: dict[str, Any] = {}
    for file, is_file in node._Node__expanded_parameter_arguments:
        assert is_file
        for rules in yaml.safe_load(Path(file).read_text()).values():
            parameters |= rules["ros__parameters"]
    return parameters
