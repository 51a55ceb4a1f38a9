"""The main job from end to end: every node a process, the twin as robot, few and short motions."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import wait_until

from realitygrad_ros.commands.demo import demonstrate
from realitygrad_ros.iteration.run_folder import RunFolder
from realitygrad_ros.nodes.bringup import node_specs
from realitygrad_ros.robot.parameters import PARAMETER_NAMES

FEW = {
    "trainer_node": {"motions": 4},
    "iteration_node": {"identification_targets": 2, "evaluation_targets": 1},
}
NODES = ("twin_node", "policy_node", "recorder_node", "sysid_node", "trainer_node", "iteration_node")


def test_one_iteration_over_ros(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", os.environ.get("ROS_DOMAIN_ID", "0"))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    specs = [
        dataclasses.replace(spec, parameters={**spec.parameters, **FEW.get(spec.name, {})})
        for spec in node_specs("ur5", "twin", tmp_path)
    ]
    figures = json.loads(json.dumps(demonstrate(specs, tmp_path, iterations=1)))
    before, after = figures["iterations"]
    for k, row in enumerate((before, after)):
        assert row.keys() == {"k", "seconds", "gap_mean_m", "gap_accumulated_m", "target_error_mean_m", "residual"}
        assert row["k"] == k
        assert row["seconds"].keys() == {"optimise", "train", "rollout", "identify", "total"}
        assert row["seconds"]["total"] >= sum(row["seconds"][name] for name in ("optimise", "train", "rollout"))
    assert before["seconds"]["identify"] == 0.0
    assert after["gap_mean_m"] < 0.5 * before["gap_mean_m"]
    assert after["residual"] <= before["residual"]
    assert figures["parameters"].keys() == set(PARAMETER_NAMES)
    elbow = figures["parameters"]["damping"]["elbow_joint"]
    assert elbow["nominal"] == 0.0
    assert elbow["truth"] > 0.0
    assert figures["bag"] == str(RunFolder(tmp_path).directory(1) / "bag")
    assert (tmp_path / "report.html").is_file()
    log = (tmp_path / "nodes.log").read_text()
    assert "Traceback" not in log
    assert log.count("ended with exit code 0") == len(NODES)


@pytest.fixture
def demo(tmp_path):
    """The command as a process, once all its nodes are there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "realitygrad_ros.main", "demo", "--run-directory", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    log = tmp_path / "run" / "nodes.log"
    try:
        wait_until(lambda: log.is_file() and log.read_text().count(": ready") == len(NODES), "the nodes")
        yield process
    finally:
        process.kill()
        process.wait()


def nodes_of(demo) -> dict[str, int]:
    """Process ids of the nodes that the demo started."""
    found = {}
    for children in Path(f"/proc/{demo.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            found[command[2].rpartition(".")[2]] = int(child)
    return found


def test_an_interrupt_ends_every_node_in_order(demo, tmp_path):
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 130, output
    assert output.endswith("interrupted\n")
    assert (tmp_path / "run" / "nodes.log").read_text().count("ended with exit code 0") == len(NODES)


def test_a_node_that_dies_ends_the_demo_with_its_name(demo, tmp_path):
    nodes = nodes_of(demo)
    assert sorted(nodes) == sorted(NODES)
    os.kill(nodes["trainer_node"], signal.SIGKILL)
    output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 2, output
    assert "error: trainer_node ended by SIGKILL" in output
    assert (tmp_path / "run" / "nodes.log").read_text().count("ended with exit code 0") == len(NODES) - 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in nodes.values())
