"""Small bags for tests, written by rosbags without ROS."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.LATEST)
COMMANDS = "/forward_position_controller/commands"
START = 1_700_000_000 * 10**9
"""When the bags begin [ns since the epoch]."""


def header(time: int, frame: str = "") -> Any:
    """A header stamped with `time` [ns]."""
    stamp = STORE.types["builtin_interfaces/msg/Time"](sec=time // 10**9, nanosec=time % 10**9)
    return STORE.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)


def joint_state(names: Sequence[str], position: Sequence[float], velocity: Sequence[float] = (), stamp: int = 0) -> Any:
    """A sensor_msgs/JointState without efforts."""
    return STORE.types["sensor_msgs/msg/JointState"](
        header=header(stamp),
        name=list(names),
        position=np.asarray(position, dtype=float),
        velocity=np.asarray(velocity, dtype=float),
        effort=np.zeros(0),
    )


def command(values: Sequence[float]) -> Any:
    """A std_msgs/Float64MultiArray."""
    layout = STORE.types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    return STORE.types["std_msgs/msg/Float64MultiArray"](layout=layout, data=np.asarray(values, dtype=float))


def target(point: Sequence[float]) -> Any:
    """A geometry_msgs/PointStamped."""
    xyz = STORE.types["geometry_msgs/msg/Point"](*(float(value) for value in point))
    return STORE.types["geometry_msgs/msg/PointStamped"](header=header(0, "base_link"), point=xyz)


def _vector(values: Sequence[float], kind: str = "Vector3") -> Any:
    return STORE.types[f"geometry_msgs/msg/{kind}"](*(float(value) for value in values))


def twist_stamped(linear: Sequence[float], angular: Sequence[float]) -> Any:
    """A geometry_msgs/TwistStamped."""
    twist = STORE.types["geometry_msgs/msg/Twist"](linear=_vector(linear), angular=_vector(angular))
    return STORE.types["geometry_msgs/msg/TwistStamped"](header=header(0), twist=twist)


def imu(quat_xyzw: Sequence[float], angular: Sequence[float], stamp: int = 0) -> Any:
    """A sensor_msgs/Imu of a base, without accelerations."""
    return STORE.types["sensor_msgs/msg/Imu"](
        header=header(stamp, "base_link"),
        orientation=_vector(quat_xyzw, "Quaternion"),
        orientation_covariance=np.zeros(9),
        angular_velocity=_vector(angular),
        angular_velocity_covariance=np.zeros(9),
        linear_acceleration=_vector(np.zeros(3)),
        linear_acceleration_covariance=np.zeros(9),
    )


def odometry(
    position: Sequence[float],
    quat_xyzw: Sequence[float],
    linear: Sequence[float],
    angular: Sequence[float],
    stamp: int = 0,
) -> Any:
    """A nav_msgs/Odometry of a base."""
    pose = STORE.types["geometry_msgs/msg/Pose"](
        position=_vector(position, "Point"), orientation=_vector(quat_xyzw, "Quaternion")
    )
    twist = STORE.types["geometry_msgs/msg/Twist"](linear=_vector(linear), angular=_vector(angular))
    return STORE.types["nav_msgs/msg/Odometry"](
        header=header(stamp, "odom"),
        child_frame_id="base_link",
        pose=STORE.types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=np.zeros(36)),
        twist=STORE.types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=np.zeros(36)),
    )


Messages = list[tuple[str, float, Any]]
"""Topic, time of reception [s after START], message."""


def write_bag(path: Path, messages: Messages, storage: StoragePlugin = StoragePlugin.MCAP) -> Path:
    """Write messages to a bag and return its path."""
    with Writer(path, version=9, storage_plugin=storage) as writer:
        connections: dict[str, Any] = {}
        for topic, time, message in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, message.__msgtype__, typestore=STORE)
            raw = STORE.serialize_cdr(message, message.__msgtype__)
            writer.write(connections[topic], START + round(time * 1e9), raw)
    return path
