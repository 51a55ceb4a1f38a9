"""Whether the base stood still in a recording, as identification takes for granted."""

from pathlib import Path

import numpy as np

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.bag import Bag

LARGEST_TURNING = 0.1
"""Root mean square of the angular velocity of a base that counts as resting [rad/s]; a gyroscope's noise is less."""


def refuse_moving_base(path: Path, namespace: str | None = None) -> None:
    """Refuse a bag whose IMU tells that the base moves; one without an IMU has a base that is bolted down.

    Args:
        path: as for `read_recording`.
        namespace: of the robot; None takes the topic from whichever namespace has it.

    Raises:
        RealityGradError: the base moves, or the bag cannot be read.
    """
    with Bag(path) as bag:
        topic = bag.find("imu", "sensor_msgs/msg/Imu", namespace)
        if topic is None:
            return
        omega = [message.angular_velocity for _, message in bag.messages(topic)]
    turning = np.array([[rate.x, rate.y, rate.z] for rate in omega]).reshape(-1, 3)
    # No number is no excuse: a sum that is not finite does not stay below anything.
    if len(turning) and not np.sqrt(np.mean((turning**2).sum(1))) < LARGEST_TURNING:
        raise RealityGradError(
            f"bag '{path}': the base moves, topic '{topic}' tells of {np.sqrt(np.mean((turning**2).sum(1))):.2g} rad/s "
            "root mean square; identify from a recording with the robot clamped or hung up"
        )
