"""The demo of a robot on legs from end to end: every node a process, the twin as robot, little of everything."""

import json
import os

import pytest
from legged_local_crew import crouching_bundle

from realitygrad_ros.commands.legged_demo import FIGURES, demonstrate
from realitygrad_ros.iteration.legged_loop import STAGES, LeggedTask
from realitygrad_ros.iteration.legged_plan import Chirp, Stretch
from realitygrad_ros.nodes.bringup import node_specs
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.parameters import PARAMETER_NAMES
from realitygrad_ros.twin.configuration import load_twin_configuration

NODES = ("twin_node", "policy_node", "recorder_node", "sysid_node")


def test_a_robot_that_falls_is_identified_while_it_hangs_and_learns_to_stand(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", os.environ.get("ROS_DOMAIN_ID", "0"))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    # Plots have a test of their own, and take seconds.
    monkeypatch.setattr("realitygrad_ros.iteration.legged_report.svg", lambda figure: "")
    # From the policy that falls on it would take minutes to stand; an untrained one hardly moves.
    monkeypatch.setattr("realitygrad_ros.iteration.legged_training.take_over", lambda policy, bundle: None)
    monkeypatch.setattr("realitygrad_ros.iteration.legged_training.CRITIC_ITERATIONS", 1)
    configuration, model = load_robot("anymal_c")
    crouching_bundle().write(tmp_path / "falls.safetensors")
    task = LeggedTask(
        configuration,
        model,
        seed=0,
        policy=tmp_path / "falls.safetensors",
        truth=load_twin_configuration("anymal_c").truth.reordered(configuration.joint_names),
        schedule=(Stretch("stand", (0.0, 0.0, 0.0), 2.0), Stretch("forward", (0.3, 0.0, 0.0), 1.5)),
        chirp=Chirp(duration=3.0, lowest=0.5),
        training_iterations=1,
    )
    specs = node_specs("anymal_c", "twin", tmp_path)
    figures = json.loads(json.dumps(demonstrate(specs, tmp_path, task, iterations=1), allow_nan=False))
    before, after = figures["iterations"]
    for k, row in enumerate((before, after)):
        assert row.keys() == {"k", "seconds", *FIGURES}
        assert row["k"] == k
        assert row["seconds"].keys() == {*STAGES, "total"}
    assert (before["falls"], after["falls"]) == (2, 0)
    assert figures["falls"] == 2
    assert figures["tracking_error_mps"] == after["tracking_error_mps"]
    assert after["tracking_error_mps"] == pytest.approx(0.15, abs=0.1)  # it stands where it shall walk for a while
    assert after["residual"] < 0.5 * before["residual"]
    assert figures["parameters"].keys() == set(PARAMETER_NAMES)
    assert (tmp_path / "report.html").is_file()
    log = (tmp_path / "nodes.log").read_text()
    assert "Traceback" not in log
    assert log.count("ended with exit code 0") == len(NODES)
