"""The policy node as a process over real DDS."""

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import wait_until
from robot_stub import RobotStub
from std_msgs.msg import UInt8MultiArray
from std_srvs.srv import SetBool

from realitygrad_ros.benchmarks.policy import synthetic_bundle
from realitygrad_ros.robot.configuration import load_configuration

UR5 = load_configuration("ur5")
BUNDLE = synthetic_bundle(UR5, epoch=3)


@pytest.fixture
def robot(probe):
    return RobotStub(probe, UR5)


@pytest.fixture
def diagnostics(probe):
    newest = probe.diagnostics_of("policy_node")

    def values() -> dict[str, str]:
        status = newest()
        return {} if status is None else {"message": status.message} | {item.key: item.value for item in status.values}

    return values


def test_commands_start_at_the_measured_pose_and_stop_when_joint_states_do(start_node, robot, diagnostics):
    # The driver names joints in its own order, in another one later, and has one more; the controller has a third.
    robot.position |= {"gripper": 7.0, "shoulder_pan_joint": 0.4}
    robot.names = [*reversed(robot.names), "gripper"]
    robot.velocity = [0.0] * len(robot.names)
    order = sorted(UR5.joint_names)
    node = start_node("policy_node", {"robot": "ur5", "command_joints": order})
    robot.send_bundle(BUNDLE)
    robot.send_target()
    robot.engage_when_possible()
    wait_until(lambda: len(robot.commands) > 40, "commands")
    robot.names = [*robot.names[3:], *robot.names[:3]]
    wait_until(lambda: len(robot.commands) > 80, "commands")

    commands = np.array([command.data for command in robot.commands])
    step = np.pi / 200.0 + 1e-9
    measured = np.array([robot.position[name] for name in order])
    assert np.isfinite(commands).all()
    assert (abs(np.diff(commands, axis=0)) <= 3 * step).all()  # a command may be overtaken by the next two
    assert (abs(commands[0] - measured) <= 10 * step).all()
    # The policy holds every joint near home, whatever the order: nothing is mixed up.
    home = np.array([UR5.home[UR5.joint_names.index(name)] for name in order])
    assert (abs(commands[-1] - home) < 0.5).all()
    measured_time = "inference median [ms]"
    wait_until(lambda: float(diagnostics().get(measured_time, "nan")) > 0.0, "the diagnostics of an engaged policy")
    assert diagnostics()["engaged"] == "True"
    assert diagnostics()["epoch"] == "3"
    assert diagnostics()["digest"] == BUNDLE.digest

    robot.publishing = False
    node.wait_for_output("stopped commanding: joint states are")
    wait_until(lambda: diagnostics()["engaged"] == "False", "the diagnostics of a stopped policy")
    assert diagnostics()["message"].startswith("stopped: joint states are")
    count = len(robot.commands)
    time.sleep(0.3)
    assert len(robot.commands) == count
    answer = robot.engage()
    assert not answer.success
    assert "ms old" in answer.message
    node.interrupt()


def test_engaging_is_refused_until_everything_is_there(start_node, robot):
    robot.publishing = False
    start_node("policy_node", {"robot": "ur5"})
    assert robot.engage().message.startswith("no policy")
    robot.send_bundle(BUNDLE)
    wait_until(lambda: robot.engage().message.startswith("no joint states"), "the policy to be accepted")

    robot.names = robot.names[1:]
    robot.velocity = robot.velocity[1:]
    robot.publishing = True
    missing = "joint_states: position: joint shoulder_pan_joint is missing"
    wait_until(lambda: missing in robot.engage().message, "the missing joint to be named")
    robot.names = list(UR5.joint_names)
    robot.velocity = [0.0] * len(robot.names)
    wait_until(lambda: robot.engage().message.startswith("no target"), "joint states to be accepted")

    robot.send_target(frame="camera")
    wait_until(lambda: "target is in frame 'camera'; give it in 'base_link'" in robot.engage().message, "the frame")
    robot.send_target(x=np.nan)
    wait_until(lambda: "target is not finite" in robot.engage().message, "the target to be refused")
    robot.send_target()
    robot.engage_when_possible()
    assert robot.engage(False).success


def test_a_bad_bundle_leaves_the_running_policy(start_node, robot, diagnostics):
    node = start_node("policy_node", {"robot": "ur5"})
    robot.send_bundle(BUNDLE)
    node.wait_for_output("policy of epoch 3")
    flipped = bytearray(BUNDLE.to_bytes())
    flipped[len(flipped) // 2] ^= 1
    robot.send_bundle(bytes(flipped))
    node.wait_for_output("refused: policy bundle on 'policy/bundle' is damaged: its content does not match its digest")
    robot.send_bundle(replace(BUNDLE, robot="panda"))
    node.wait_for_output("refused: policy bundle is for robot 'panda', this one is 'ur5'")
    robot.send_bundle(replace(BUNDLE, joint_names=(*UR5.joint_names[1:], "gripper")))
    node.wait_for_output("refused: policy bundle is for the joints")
    robot.send_bundle(replace(BUNDLE, epoch=2))
    node.wait_for_output("refused: policy bundle has epoch 2, the present policy has 3")
    wait_until(lambda: diagnostics().get("policy/bundle refused") == "4", "four refusals")
    assert diagnostics()["digest"] == BUNDLE.digest

    newer = synthetic_bundle(UR5, seed=1, epoch=4)
    robot.send_bundle(newer)
    wait_until(lambda: diagnostics()["digest"] == newer.digest, "the newer policy")
    node.interrupt()


def test_a_missing_velocity_is_estimated_and_flagged(start_node, robot, diagnostics):
    robot.velocity = None
    node = start_node("policy_node", {"robot": "ur5"})
    robot.send_bundle(BUNDLE)
    robot.send_target()
    robot.engage_when_possible()
    robot.velocity = [float("nan")] * 6
    wait_until(lambda: len(robot.commands) > 5, "commands")
    assert all(np.isfinite(command.data).all() for command in robot.commands)
    wait_until(lambda: diagnostics().get("velocity estimated") == "True", "the flag")
    node.wait_for_output("joint_states have no velocity")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"robot": "nobody"}, "policy_node: no configuration"),
        ({"robot": "ur5", "command_joints": ["elbow_joint"]}, "policy_node: parameter 'command_joints' is"),
    ],
)
def test_a_wrong_parameter_ends_the_node_with_one_line(start_node, parameters, message):
    node = start_node("policy_node", parameters)
    assert node.wait() == 2
    assert node.output.startswith(message)
    assert node.output.count("\n") == 1


@pytest.mark.parametrize("module", ["policy_node", "recorder_node"])
def test_what_runs_on_the_robot_imports_nothing_heavy(module):
    heavy = {"torch", "warp", "scipy", "yourdfpy", "trimesh", "matplotlib", "mujoco"}
    program = f"import sys, realitygrad_ros.nodes.{module}; print(*set(sys.modules) & {heavy})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_a_refusal_tells_only_of_what_is_still_refused(start_node, robot, probe):
    start_node("policy_node")
    robot.publishing = False
    for bundle, frame, refused in ((b"", "world", True), (BUNDLE.to_bytes(), "base_link", False)):
        robot._bundles.publish(UInt8MultiArray(data=bundle))
        robot.send_target(frame=frame)

        def answer():
            return probe.call(SetBool, "policy/engage", SetBool.Request(data=True)).message

        for words in ("is cut, damaged", "target is in frame 'world'"):
            wait_until(lambda words=words, refused=refused: (words in answer()) == refused, words)
