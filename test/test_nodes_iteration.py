"""Iteration, trainer and sysid nodes as processes over real DDS."""

import pytest
import yaml
from conftest import wait_until
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.parameter import Parameter
from std_msgs.msg import UInt8MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.benchmarks.policy import synthetic_bundle
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.nodes.remote import RemoteParameters
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.parameters import SimulationParameters

UR5 = load_configuration("ur5")


def test_a_cancelled_iteration_cancels_the_trainer_too_and_can_be_called_again(start_node, probe, tmp_path):
    start_node("trainer_node")
    start_node("iteration_node", {"run_directory": str(tmp_path / "run")})
    trainer = probe.collect(DiagnosticStatus, "trainer_node/status", LATCHED)
    iteration = probe.collect(DiagnosticStatus, "iteration_node/status", LATCHED)
    for _ in range(2):
        assert probe.call(Trigger, "run_iteration").success
        wait_until(lambda: iteration[-1].message == "optimise", "the optimisation")
        busy = probe.call(Trigger, "run_iteration")
        assert not busy.success
        assert busy.message.startswith("busy with 'optimise'")
        assert probe.call(Trigger, "cancel").success
        wait_until(lambda: iteration[-1].message == "cancelled", "the end of the iteration")
        wait_until(lambda: trainer[-1].message == "cancelled", "the end of the trainer's job")
    assert not list((tmp_path / "run").rglob("*.safetensors"))


def test_a_node_that_does_not_answer_is_named(start_node, probe, tmp_path):
    start_node("iteration_node", {"run_directory": str(tmp_path / "run")})
    iteration = probe.collect(DiagnosticStatus, "iteration_node/status", LATCHED)
    assert probe.call(Trigger, "run_iteration").success
    wait_until(lambda: iteration[-1].message == "failed", "the end of the iteration")
    error = next(value.value for value in iteration[-1].values if value.key == "error")
    assert error == "no answer from trainer_node/set_parameters in 5 s: is trainer_node running?"


def test_the_trainer_starts_from_files_and_names_what_is_out_of_range(start_node, probe, tmp_path):
    bundle = synthetic_bundle(UR5, epoch=7)
    (tmp_path / "iteration_7").mkdir()
    bundle.write(tmp_path / "iteration_7" / "policy.safetensors")
    matrix = UR5.nominal.as_matrix()
    matrix[0] = 1.0, 2.0, 3.0, 4.0, 5.0, 6.0
    order = tuple(reversed(UR5.joint_names))
    SimulationParameters.from_matrix(UR5.joint_names, matrix).reordered(order).write(tmp_path / "calibration.yaml")
    calibration = yaml.safe_load((tmp_path / "calibration.yaml").read_text())["/**"]["ros__parameters"]["calibration"]
    settings = {"iteration_directory": str(tmp_path), "calibration": calibration}
    start_node("trainer_node", settings)
    bundles = probe.collect(UInt8MultiArray, "policy/bundle", LATCHED)
    wait_until(lambda: bundles, "the policy of before")
    assert PolicyBundle.from_bytes(bytes(bundles[0].data), "from the trainer").digest == bundle.digest

    trainer = RemoteParameters(probe.node, "trainer_node")
    for name, value in (("joint_names", list(order[:-1])), ("kp", [100.0])):
        with pytest.raises(RealityGradError, match=rf"parameter 'calibration.{name}' is .* a list of 6"):
            trainer.set([Parameter(f"calibration.{name}", value=value)])
    trainer.set([Parameter("calibration.joint_names", value=[*order[:-1], "finger_joint"])])
    statuses = probe.collect(DiagnosticStatus, "trainer_node/status", LATCHED)
    assert probe.call(Trigger, "trainer/optimise").success
    wait_until(lambda: statuses and statuses[-1].message == "failed", "the end of the job")
    assert "parameters are for other joints; only one side has: finger_joint" in str(statuses[-1].values)
    wrong = start_node("trainer_node", settings | {"calibration": calibration | {"kp": [1.0] * 6}})
    assert wrong.wait() == 2
    assert "parameter 'calibration.kp' is [1.0" in wrong.output
    assert "from 10 to 10000" in wrong.output


def test_sysid_without_a_bag_says_so(start_node, probe, tmp_path):
    start_node("sysid_node", {"iteration_directory": str(tmp_path)})
    refused = probe.call(Trigger, "sysid/fit")
    assert not refused.success
    assert refused.message == "no bag: record one, or set the parameter 'bags'"
    statuses = probe.collect(DiagnosticStatus, "sysid_node/status", LATCHED)
    RemoteParameters(probe.node, "sysid_node").set([Parameter("bags", value=[str(tmp_path / "nothing")])])
    assert probe.call(Trigger, "sysid/fit").success
    wait_until(lambda: statuses and statuses[-1].message == "failed", "the end of the job")
    assert f"there is no file or folder '{tmp_path / 'nothing'}'" in str(statuses[-1].values)
    assert not list(tmp_path.glob("*/calibration.yaml"))
