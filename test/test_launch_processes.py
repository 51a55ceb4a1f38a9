"""The graph as processes of the command line: watched, and ended together."""

import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from conftest import Probe, wait_until

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import NodeSpec, left_out, node_specs
from realitygrad_ros.nodes.processes import start_graph


def is_running(process_id: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("ros_domain")
def test_a_node_that_fails_is_named_and_ends_the_others(tmp_path: Path) -> None:
    output = StringIO()
    specs = [
        NodeSpec("recorder_node", {"bag_directory": str(tmp_path)}),
        NodeSpec("policy_node", {"robot": "nobody"}),
    ]
    with start_graph(specs, output) as graph:
        process_ids = graph.process_ids
        assert len(set(process_ids.values())) == 2
        with pytest.raises(RealityGradError) as failure:
            graph.wait()
    assert re.match(r"policy_node ended with exit code 2: .*nobody", str(failure.value))
    assert not any(map(is_running, process_ids.values()))
    assert re.search(r"policy_node +\| .*nobody", output.getvalue())


@pytest.mark.usefixtures("ros_domain")
def test_a_killed_node_is_named_with_its_signal(tmp_path: Path) -> None:
    specs = [NodeSpec("recorder_node", {"bag_directory": str(tmp_path)})]
    with start_graph(specs, StringIO()) as graph:
        graph.check()
        os.kill(graph.process_ids["recorder_node"], signal.SIGKILL)
        with pytest.raises(RealityGradError, match="recorder_node ended by SIGKILL"):
            graph.wait()


@pytest.mark.parametrize("robot", ["ur5", "anymal_c"])
def test_up_runs_the_graph_until_it_is_interrupted(robot: str, tmp_path: Path, probe: Probe) -> None:
    names = {spec.name for spec in node_specs(robot, "twin", tmp_path)}
    command = [sys.executable, "-m", "realitygrad_ros.main", "up", "--robot", robot, "--run-directory", str(tmp_path)]
    log = tmp_path / "up.log"
    with log.open("w") as output:
        up = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until(lambda: up.poll() is not None or names <= set(probe.node.get_node_names()), "all nodes of the graph")
        assert up.poll() is None, log.read_text()
        up.send_signal(signal.SIGINT)
        assert up.wait(20) == 130, log.read_text()
    finally:
        up.kill()
        up.wait()
    ends = dict(re.findall(r"(\w+) +\| ended (.*)", log.read_text()))
    assert ends == dict.fromkeys(names, "with exit code 0"), log.read_text()
    assert left_out(robot) in log.read_text()
