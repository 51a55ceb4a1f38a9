"""What a driver of a robot on legs publishes beside its joint states: `imu` and `odom`."""

import numpy as np
from geometry_msgs.msg import Point, Quaternion, Vector3
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.time import Time
from sensor_msgs.msg import Imu

from realitygrad_ros.nodes.qos import SENSOR_DATA
from realitygrad_ros.twin.base import BaseReading
from realitygrad_ros.twin.configuration import BaseNoise

ODOM_FRAME = "odom"


class BaseStatePublisher:
    """Publishes readings of the base; the IMU is at the base's origin, its axes are the base's (REP 103, REP 145)."""

    def __init__(self, node: Node, base_frame: str, noise: BaseNoise) -> None:
        """Make the publishers of `node`; `noise` gives the covariances."""
        self._imu = Imu(
            orientation_covariance=_covariance(noise.orientation),
            angular_velocity_covariance=_covariance(noise.angular_velocity),
            linear_acceleration_covariance=_covariance(noise.linear_acceleration),
        )
        self._odometry = Odometry(child_frame_id=base_frame)
        self._imu.header.frame_id, self._odometry.header.frame_id = base_frame, ODOM_FRAME
        self._odometry.pose.covariance = _covariance(noise.position, noise.orientation)
        self._odometry.twist.covariance = _covariance(noise.linear_velocity, noise.angular_velocity)
        self._imu_publisher = node.create_publisher(Imu, "imu", SENSOR_DATA)
        self._odometry_publisher = node.create_publisher(Odometry, "odom", SENSOR_DATA)

    def publish(self, stamp: Time, reading: BaseReading) -> None:
        """Publish both."""
        x, y, z, w = reading.quat_xyzw.tolist()
        orientation, angular_velocity = Quaternion(x=x, y=y, z=z, w=w), _vector(reading.angular_velocity)
        imu, odometry = self._imu, self._odometry
        imu.header.stamp = odometry.header.stamp = stamp.to_msg()
        imu.orientation = odometry.pose.pose.orientation = orientation
        imu.angular_velocity = odometry.twist.twist.angular = angular_velocity
        imu.linear_acceleration = _vector(reading.linear_acceleration)
        x, y, z = reading.position.tolist()
        odometry.pose.pose.position = Point(x=x, y=y, z=z)
        odometry.twist.twist.linear = _vector(reading.linear_velocity)
        self._imu_publisher.publish(imu)
        self._odometry_publisher.publish(odometry)


def _vector(values: np.ndarray) -> Vector3:
    x, y, z = values.tolist()
    return Vector3(x=x, y=y, z=z)


def _covariance(*deviations: float) -> np.ndarray:
    """Of independent errors, three along the axes for each standard deviation; row by row."""
    return np.diag(np.repeat(np.square(deviations), 3)).ravel()
