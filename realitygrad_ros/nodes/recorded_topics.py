"""The topics of the graph that a bag can hold, each with its type and the way to subscribe to it."""

from importlib import import_module
from typing import Any, NamedTuple

from rclpy.qos import DurabilityPolicy, QoSProfile

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.qos import COMMAND, LATCHED, SENSOR_DATA, TARGET

HISTORY_DEPTH = 2000
"""Messages of a topic that may wait for the recorder: 4 s at 500 Hz."""

_GRAPH: dict[str, tuple[str, QoSProfile]] = {
    "joint_states": ("sensor_msgs/msg/JointState", SENSOR_DATA),
    "imu": ("sensor_msgs/msg/Imu", SENSOR_DATA),
    "odom": ("nav_msgs/msg/Odometry", SENSOR_DATA),
    "forward_position_controller/commands": ("std_msgs/msg/Float64MultiArray", COMMAND),
    "target": ("geometry_msgs/msg/PointStamped", TARGET),
    "cmd_vel": ("geometry_msgs/msg/TwistStamped", TARGET),
    "policy/bundle": ("std_msgs/msg/UInt8MultiArray", LATCHED),
}

DEFAULT_TOPICS = ("joint_states", "forward_position_controller/commands", "target", "policy/bundle")


class RecordedTopic(NamedTuple):
    """A topic of the graph, as the recorder takes it."""

    name: str
    """Relative, as in the graph's table."""
    message_type: str
    """For example `sensor_msgs/msg/JointState`."""
    offered: QoSProfile
    """What its publisher offers."""

    @property
    def message_class(self) -> Any:
        """The Python class of the message; its package is imported here."""
        package, _, name = self.message_type.partition("/msg/")
        return getattr(import_module(f"{package}.msg"), name)

    @property
    def is_latched(self) -> bool:
        """Whether who comes later still gets the last message."""
        return self.offered.durability == DurabilityPolicy.TRANSIENT_LOCAL

    @property
    def requested(self) -> QoSProfile:
        """What the recorder asks for: as offered, with a deep queue, so that nothing is lost while it is busy."""
        return QoSProfile(
            reliability=self.offered.reliability,
            durability=self.offered.durability,
            history=self.offered.history,
            depth=HISTORY_DEPTH,
        )


def recorded_topic(name: str) -> RecordedTopic:
    """The topic `name` of the graph.

    Raises:
        RealityGradError: the graph has no such topic.
    """
    if name not in _GRAPH:
        raise RealityGradError(f"parameter 'topics' names '{name}'; the recorder knows {', '.join(_GRAPH)}")
    return RecordedTopic(name, *_GRAPH[name])
