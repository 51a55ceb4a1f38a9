"""A driver that does nothing but publish what sensors tell at full rate; prints how many joint states it sent."""

import argparse
import time
from array import array
from collections.abc import Callable

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.time import Time
from sensor_msgs.msg import JointState

from realitygrad_ros.nodes.deadline import DeadlineThread
from realitygrad_ros.nodes.qos import SENSOR_DATA
from realitygrad_ros.robot.configuration import load_configuration

SETTLING = 0.5
"""From the moment at which we know the reader until it surely knows us [s]."""


def main() -> None:
    """Wait for a reader, publish for `--seconds` and print the number of messages.

    They are of a robot that stands at its home; the first entry of the joint states' `effort` counts the messages.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--robot", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    configuration = load_configuration(arguments.robot)
    rclpy.init()
    node = rclpy.create_node("joint_state_source")
    publisher = node.create_publisher(JointState, "joint_states", SENSOR_DATA)
    count = len(configuration.joint_names)
    message = JointState(
        name=list(configuration.joint_names), position=configuration.home.tolist(), velocity=[0.0] * count
    )
    effort = array("d", [0.0] * count)
    publish_base = _base(node) if configuration.floating else None
    total = round(arguments.seconds * configuration.joint_state_rate)
    sent = 0

    def tick() -> None:
        nonlocal sent
        if sent == total:
            return
        effort[0] = sent
        now = node.get_clock().now()
        message.header.stamp = now.to_msg()
        message.effort = effort
        publisher.publish(message)
        if publish_base is not None:
            publish_base(now)
        sent += 1

    while not publisher.get_subscription_count():
        time.sleep(0.05)
    time.sleep(SETTLING)
    thread = DeadlineThread(tick, 1.0 / configuration.joint_state_rate, "joint_states")
    thread.start()
    while sent < total:
        thread.check()
        time.sleep(0.05)
    thread.close()
    time.sleep(SETTLING)  # what is on its way arrives
    print(sent)
    node.destroy_node()
    rclpy.shutdown()


def _base(node: Node) -> Callable[[Time], None]:
    """Publishes IMU and odometry of a robot that stands."""
    # Imported here: it brings MuJoCo, and the driver of an arm does without.
    from realitygrad_ros.nodes.base_state import BaseStatePublisher
    from realitygrad_ros.twin.base import BaseReading
    from realitygrad_ros.twin.configuration import BaseNoise

    zeros = np.zeros(3)
    reading = BaseReading(zeros, np.array([0.0, 0.0, 0.0, 1.0]), zeros, zeros, np.array([0.0, 0.0, 9.81]))
    publisher = BaseStatePublisher(node, "base_link", BaseNoise(0.0, 0.0, 0.0, 0.0, 0.0))
    return lambda stamp: publisher.publish(stamp, reading)


if __name__ == "__main__":
    main()
