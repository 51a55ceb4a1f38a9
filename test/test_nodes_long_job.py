"""A long job over real DDS, from both ends."""

import sys
import threading
from pathlib import Path

import pytest
from conftest import NodeProcess, wait_until
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.nodes.remote import RemoteJob, RemoteParameters
from realitygrad_ros.progress import never, silent


@pytest.fixture
def stub(ros_domain, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    process = NodeProcess([sys.executable, str(Path(__file__).parent / "long_job_stub.py")], tmp_path / "stub.log")
    yield process
    process.kill()


@pytest.fixture
def job(stub, probe):
    return RemoteJob(probe.node, "stub_node", "stub/start", "stub/cancel")


@pytest.fixture
def parameters(stub, probe):
    return RemoteParameters(probe.node, "stub_node")


def test_a_job_tells_of_itself_and_returns_its_figures(job, parameters):
    told = []
    assert job.run(lambda *news: told.append(news), never)["counted"] == "3"
    assert ("count", 0.0, {"number": 0.0}) in told
    assert {stage for stage, _, _ in told} == {"count"}
    parameters.set([Parameter("count", value=1)])
    assert job.run(silent, never)["counted"] == "1"


def test_a_busy_node_refuses_and_a_cancelled_job_says_so(job, parameters, probe):
    parameters.set([Parameter("count", value=100000)])
    statuses = probe.collect(DiagnosticStatus, "stub_node/status", LATCHED)
    stop, ended = threading.Event(), []

    def run():
        try:
            job.run(silent, stop.is_set)
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: statuses and statuses[-1].message == "count", "the job to run")
    refusal = probe.call(Trigger, "stub/start")
    assert not refusal.success
    assert "busy with 'count'" in refusal.message
    stop.set()
    thread.join()
    assert len(ended) == 1
    wait_until(lambda: statuses[-1].message == "cancelled", "the end of the job")
    idle = probe.call(Trigger, "stub/cancel")
    assert not idle.success
    assert idle.message == "no job is running"


def test_a_new_job_waits_for_the_end_of_one_that_was_cancelled_from_here(job, parameters, probe):
    parameters.set([Parameter("behaviour", value="linger")])
    statuses = probe.collect(DiagnosticStatus, "stub_node/status", LATCHED)
    with pytest.raises(Cancelled):
        job.run(silent, lambda: bool(statuses) and statuses[-1].message == "starting")
    assert statuses[-1].message == "starting"
    parameters.set([Parameter("behaviour", value="count")])
    assert job.run(silent, never)["counted"] == "3"


def test_a_job_whose_start_was_cancelled_before_its_answer_does_not_go_on(job, parameters, probe):
    parameters.set([Parameter("count", value=100000)])
    statuses = probe.collect(DiagnosticStatus, "stub_node/status", LATCHED)
    wait_until(job._start.service_is_ready, "the service")
    asked = []
    with pytest.raises(Cancelled):
        job.run(silent, lambda: bool(asked) or asked.append(True))
    wait_until(lambda: statuses and statuses[-1].message == "cancelled", "the end of the job")
    parameters.set([Parameter("count", value=1)])
    assert job.run(silent, never)["counted"] == "1"


def test_a_job_that_is_stopped_with_its_node_can_still_call_services(parameters, stub, probe):
    parameters.set([Parameter("count", value=100000), Parameter("behaviour", value="part")])
    statuses = probe.collect(DiagnosticStatus, "stub_node/status", LATCHED)
    assert probe.call(Trigger, "stub/start").success
    wait_until(lambda: statuses and statuses[-1].message == "count", "the job to run")
    stub.interrupt()
    assert "parted" in stub.output


def test_a_failed_job_names_the_reason(job, parameters, stub):
    parameters.set([Parameter("behaviour", value="fail")])
    with pytest.raises(RealityGradError, match="stub/start failed: the bag 'x' is empty"):
        job.run(silent, never)
    parameters.set([Parameter("behaviour", value="write")])
    with pytest.raises(RealityGradError, match=r"failed: '/proc/calibration.yaml' cannot be used: No such file"):
        job.run(silent, never)
    assert "Traceback" not in stub.output
    parameters.set([Parameter("behaviour", value="fault")])
    with pytest.raises(RealityGradError, match="fault in the program: ZeroDivisionError"):
        job.run(silent, never)
    stub.wait_for_output("Traceback")
    with pytest.raises(RealityGradError, match=r"stub_node refuses parameter 'count': .*it must be an integer"):
        parameters.set([Parameter("count", value="many")])


def test_a_node_that_is_not_there_is_named(probe, monkeypatch):
    monkeypatch.setattr("realitygrad_ros.nodes.remote.ANSWER_TIME", 0.2)
    job = RemoteJob(probe.node, "trainer_node", "trainer/optimise", "trainer/cancel")
    with pytest.raises(RealityGradError, match=r"no answer from trainer/optimise in 0.2 s: is trainer_node running\?"):
        job.run(silent, never)


def test_a_node_that_ends_during_its_job_is_named(job, parameters, stub, probe):
    parameters.set([Parameter("count", value=100000)])

    def end(stage, fraction, figures):
        if stage == "count" and stub.process.poll() is None:
            stub.interrupt()

    with pytest.raises(RealityGradError, match="stub_node"):
        job.run(end, never)
