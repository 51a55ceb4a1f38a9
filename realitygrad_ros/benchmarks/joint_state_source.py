"""A driver that does nothing but publish joint states at full rate; prints how many when it is done."""

import argparse
import time
from array import array

import rclpy
from sensor_msgs.msg import JointState

from realitygrad_ros.nodes.deadline import DeadlineThread
from realitygrad_ros.nodes.qos import SENSOR_DATA
from realitygrad_ros.robot.configuration import load_configuration

SETTLING = 0.5
"""From the moment at which we know the reader until it surely knows us [s]."""


def main() -> None:
    """Wait for a reader, publish for `--seconds` and print the number of messages.

    The joint states are those of a robot that stands at its home; the first entry of `effort` counts the messages.
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
    total = round(arguments.seconds * configuration.joint_state_rate)
    sent = 0

    def tick() -> None:
        nonlocal sent
        if sent == total:
            return
        effort[0] = sent
        message.header.stamp = node.get_clock().now().to_msg()
        message.effort = effort
        publisher.publish(message)
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


if __name__ == "__main__":
    main()
