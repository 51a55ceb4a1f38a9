"""How well the policy node keeps its rate, and how fast it starts, over real DDS with sensors at full rate."""

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import REACH_TERMS, WALKING_TERMS, components
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.progress import Progress, silent
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration

if TYPE_CHECKING:
    from realitygrad_ros.benchmarks.own_graph import OwnGraph

HIDDEN = (128, 128)
"""Neurons in the layers of the synthetic policy: the size of a real one."""


def synthetic_bundle(configuration: RobotConfiguration, seed: int = 0, epoch: int = 0) -> PolicyBundle:
    """A policy of production size with random weights, which moves the robot a little around its home."""
    random = np.random.default_rng(seed)
    count = len(configuration.joint_names)
    terms = WALKING_TERMS if configuration.floating else REACH_TERMS
    widths = {term: len(components(term, configuration.joint_names)) for term in terms}
    sizes = (sum(widths.values()), *HIDDEN, count)
    means = {term: np.zeros(width) for term, width in widths.items()} | {"joint_position": configuration.home}
    return PolicyBundle(
        robot=configuration.name,
        joint_names=configuration.joint_names,
        layers=tuple(
            (random.normal(scale=1.0 / np.sqrt(inputs), size=(outputs, inputs)), np.zeros(outputs))
            for inputs, outputs in pairwise(sizes)
        ),
        activation="tanh",
        observation_terms=terms,
        observation_mean=np.concatenate([means[term] for term in terms]),
        observation_scale=np.ones(sizes[0]),
        action_offset=configuration.home,
        action_scale=np.full(count, 0.1),
        kp=configuration.nominal.kp,
        kd=configuration.nominal.kd,
        lower=np.full(count, -np.pi),
        upper=np.full(count, np.pi),
        velocity_limit=np.full(count, np.pi),
        effort_limit=np.full(count, 150.0),
        policy_rate=configuration.policy_rate,
        epoch=epoch,
    )


def run(robot: str, progress: Progress = silent, seconds: float = 20.0) -> dict[str, float]:
    """Run the policy node for `seconds`, engaged, with sensors at the robot's full rate in another process.

    Returns:
        Of the node: the time from its process's start until it is ready [s], its rate [Hz], the p99 of its period
        error [ms], the ticks it missed, median and p99 of the inference [ms]; and the commands that arrived here.

    Raises:
        RealityGradError: the configuration is wrong, or the node does not come up.
    """
    # ROS is imported here, because the policy above serves tests without it, too.
    from std_msgs.msg import Float64MultiArray

    from realitygrad_ros.benchmarks.own_graph import joint_state_source, own_graph
    from realitygrad_ros.nodes.bringup import NodeSpec
    from realitygrad_ros.nodes.qos import COMMAND

    configuration = load_configuration(robot)
    commands = 0

    def count(_: Float64MultiArray) -> None:
        nonlocal commands
        commands += 1

    with own_graph() as graph:
        progress("start", 0.0, {})
        start = graph.start(NodeSpec("policy_node", {"robot": robot}))
        with joint_state_source(robot, seconds + 60.0):
            graph.node.create_subscription(Float64MultiArray, "forward_position_controller/commands", count, COMMAND)
            _engage(graph, configuration)
            begin = time.monotonic()
            while (elapsed := time.monotonic() - begin) < seconds:
                progress("run", elapsed / seconds, {"commands": commands})
                time.sleep(0.1)
            figures = graph.diagnostics["policy_node"]
    if figures["engaged"] != "True":
        raise RealityGradError("the policy node stopped by itself during the measurement")
    return {
        "start_s": start,
        "rate_hz": float(figures["rate [Hz]"]),
        "period_error_p99_ms": float(figures["period error p99 [ms]"]),
        "missed_ticks": int(figures["missed ticks"]),
        "inference_median_ms": float(figures["inference median [ms]"]),
        "inference_p99_ms": float(figures["inference p99 [ms]"]),
        "commands_received": commands,
    }


def _engage(graph: "OwnGraph", configuration: RobotConfiguration) -> None:
    """Give the policy node a policy and, where it reaches for one, a target, and engage it."""
    from geometry_msgs.msg import PointStamped
    from std_msgs.msg import UInt8MultiArray
    from std_srvs.srv import SetBool

    from realitygrad_ros.nodes.qos import LATCHED, TARGET
    from realitygrad_ros.nodes.remote import call

    bundles = graph.node.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED)
    bundles.publish(UInt8MultiArray(data=synthetic_bundle(configuration).to_bytes()))
    if not configuration.floating:
        targets = graph.node.create_publisher(PointStamped, "target", TARGET)
        graph.wait(targets.get_subscription_count, "the policy node")
        target = PointStamped()
        target.header.frame_id = "base_link"
        targets.publish(target)
    engage = graph.client(SetBool, "policy/engage")
    graph.wait(lambda: call(engage, SetBool.Request(data=True), "policy_node").success, "the policy to engage")
