"""A rollout over real DDS: twin, policy and recorder nodes as processes, led as the iteration node leads them."""

import dataclasses
import shutil
import threading

import numpy as np
import pytest
from conftest import wait_until
from std_msgs.msg import UInt8MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.benchmarks.policy import synthetic_bundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.identification.recording import read_recording
from realitygrad_ros.iteration.plan import Plan
from realitygrad_ros.nodes.graph_crew import GraphCrew
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.progress import never, silent
from realitygrad_ros.robot.configuration import load_configuration

UR5 = load_configuration("ur5")
BUNDLE = synthetic_bundle(UR5, epoch=3)
PLAN = dataclasses.replace(Plan.draw(UR5, k=1, seed=0, identification=2, evaluation=1), duration=0.5)


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "iteration_1"
    directory.mkdir()
    BUNDLE.write(directory / "policy.safetensors")
    return directory


@pytest.fixture
def graph(start_node):
    return {name: start_node(name) for name in ("twin_node", "policy_node", "recorder_node")}


@pytest.fixture
def crew(graph, probe):
    probe.node.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED).publish(
        UInt8MultiArray(data=BUNDLE.to_bytes())
    )
    crew = GraphCrew(probe.node, "base_link")
    # The nodes of a graph that leads iterations have known each other for long.
    wait_until(lambda: probe.node.count_subscribers("target") == 2, "the nodes to be there")
    status = probe.diagnostics_of("policy_node")
    wait_until(lambda: status() and _has_joint_states(status()), "the policy node to have joint states")
    return crew


def _has_joint_states(status):
    return {entry.key: entry.value for entry in status.values}["joint_states age [ms]"] != "inf"


def test_a_rollout_leaves_the_whole_recording_and_a_cancelled_one_a_robot_at_rest(crew, directory, probe):
    told = []
    crew.rollout(directory, PLAN, lambda *news: told.append(news), never)
    identification, evaluation = PLAN.segments(read_recording(directory / "bag", UR5.joint_names))
    assert len(identification) == 2
    assert np.allclose(evaluation[0].target, PLAN.evaluation[0])
    assert evaluation[0].end - evaluation[0].start == pytest.approx(PLAN.duration, abs=0.05)
    assert [figures["motion"] for _, _, figures in told] == [1, 2, 3]

    shutil.rmtree(directory / "bag")
    moving = threading.Event()
    with pytest.raises(Cancelled):
        crew.rollout(directory, PLAN, lambda *_: moving.set(), moving.is_set)
    stopped = probe.call(Trigger, "recorder/stop")
    assert not stopped.success
    assert "not recording" in stopped.message
    diagnostics = probe.diagnostics_of("policy_node")
    assert wait_until(diagnostics, "the policy node's diagnostics").message == "not engaged"

    # What a killed iteration node leaves behind is cleared away by the next rollout.
    shutil.rmtree(directory / "bag")
    assert probe.call(Trigger, "recorder/start").success
    crew.rollout(directory, PLAN, silent, never)
    assert sorted(path.name for path in directory.iterdir()) == ["bag", "policy.safetensors"]


def test_a_rollout_ends_where_the_policy_is_another_one_or_the_robot_falls_silent(crew, graph, directory, monkeypatch):
    monkeypatch.setattr("realitygrad_ros.nodes.graph_robot.POLICY_TIME", 2.0)
    synthetic_bundle(UR5, epoch=2).write(directory / "policy.safetensors")
    with pytest.raises(RealityGradError, match="does not take the policy of epoch 2; it has that of epoch 3"):
        crew.rollout(directory, PLAN, silent, never)
    assert [path.name for path in directory.iterdir()] == ["policy.safetensors"]

    BUNDLE.write(directory / "policy.safetensors")
    with pytest.raises(RealityGradError, match=r"policy_node commands no more during the rollout: .* joint states are"):
        crew.rollout(directory, dataclasses.replace(PLAN, duration=20.0), lambda *_: graph["twin_node"].kill(), never)
