"""The launch file, resolved by ROS 2's own launch system where that is installed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import HARDWARE, left_out, node_specs
from realitygrad_ros.resources import share_directory

LAUNCH_FILE = share_directory() / "launch" / "bringup.launch.py"


def test_the_twin_stands_only_where_no_real_robot_does(tmp_path: Path) -> None:
    names = {hardware: [spec.name for spec in node_specs("ur5", hardware, tmp_path)] for hardware in HARDWARE}
    assert "twin_node" in names["twin"]
    assert names["ros2_control"] == [name for name in names["twin"] if name != "twin_node"]


def test_unknown_hardware_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RealityGradError, match=r"hardware 'gazebo' is unknown; choose one of twin, ros2_control"):
        node_specs("ur5", "gazebo", tmp_path)


def test_a_robot_on_legs_gets_no_node_of_reaching_and_its_base_is_recorded(tmp_path: Path) -> None:
    specs = {spec.name: spec for spec in node_specs("anymal_c", "twin", tmp_path)}
    assert list(specs) == ["twin_node", "policy_node", "recorder_node", "sysid_node"]
    assert {"joint_states", "imu", "odom", "cmd_vel"} <= set(specs["recorder_node"].parameters["topics"])
    assert left_out("anymal_c") == (
        "trainer_node and iteration_node are left out: robot 'anymal_c' has no 'reach' section"
    )
    assert left_out("ur5") == ""


def test_the_policy_to_begin_with_is_the_one_asked_for_or_that_which_walks_the_robot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def policy(robot: str, **arguments: str) -> Any:
        specs = {spec.name: spec for spec in node_specs(robot, "twin", tmp_path, **arguments)}
        return specs["policy_node"].parameters.get("bundle")

    assert policy("ur5") is None
    assert policy("ur5", bundle="mine.safetensors") == "mine.safetensors"
    monkeypatch.setattr("realitygrad_ros.nodes.bringup.share_directory", lambda: tmp_path)
    assert policy("anymal_c") is None
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "anymal_c_velocity.safetensors").touch()
    assert policy("anymal_c") == "anymal_c_velocity"
    assert policy("anymal_c", bundle="anymal_c_walk") == "anymal_c_walk"


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
@pytest.mark.parametrize("robot", ["ur5", "anymal_c"])
def test_the_launch_file_starts_the_nodes_of_the_list(robot: str, hardware: str, tmp_path: Path) -> None:
    nodes = resolve(robot=robot, hardware=hardware, run_directory=str(tmp_path), namespace="left", bundle="mine")
    specs = node_specs(robot, hardware, tmp_path, bundle="mine")
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
        # launch writes a list as a Python tuple, and the parser of ROS passes over the tag.
        for rules in yaml.full_load(Path(file).read_text()).values():
            parameters |= rules["ros__parameters"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}
