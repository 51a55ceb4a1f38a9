"""What a bag says of a walk: where the base and the joints were, which velocity was wanted, and who commanded when."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from realitygrad_ros.control.command_loop import MOST_LEAN, MOST_SINKING
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.bag import Bag
from realitygrad_ros.identification.recording import choose_clock, read_recording
from realitygrad_ros.robot.configuration import RobotConfiguration

SILENCE = 0.2
"""A policy that gives no command for so long may have stopped commanding [s]; or the machine was busy."""

NEARLY = 0.9
"""A robot that comes so near to what counts as fallen, as a share of it, when commands end has fallen."""

LATE = 0.2
"""How long after the last command a fall is looked for [s]."""


class Engagement(NamedTuple):
    """A time in which the policy commanded."""

    start: float
    """Time of its first command [s]."""
    end: float
    """Time of its last command [s]."""
    fell: bool
    """Whether the policy stopped because the robot had fallen, by the rules of `CommandLoop`."""


@dataclass(frozen=True, eq=False)
class WalkRecording:
    """A walk on a uniform time grid of the policy's period, from its first command on."""

    joint_names: tuple[str, ...]
    time: Float[np.ndarray, "sample"]
    """[s]"""
    position: Float[np.ndarray, "sample coordinate"]
    """Of the base in the frame of the odometry [m], its orientation `quat_xyzw`, and of the joints [rad]."""
    velocity: Float[np.ndarray, "sample dof"]
    """Linear [m/s] and angular [rad/s] of the base, in its frame, and of the joints [rad/s]."""
    wanted: Float[np.ndarray, "sample 3"]
    """The velocity that was commanded last: forward, left [m/s], turning left [rad/s]."""
    engagements: tuple[Engagement, ...]
    warnings: tuple[str, ...] = ()
    """What was mended or looks odd, one line each."""


def read_walk(path: Path, configuration: RobotConfiguration) -> WalkRecording:
    """Read a walk from a bag.

    Args:
        path: as for `read_recording`.
        configuration: of the robot; gives its joints and the policy's rate.

    Raises:
        RealityGradError: the bag is missing, damaged, lacks a topic or a joint, or holds values that are not finite.
    """
    recording = read_recording(path, configuration.joint_names)
    with Bag(path) as bag:
        odometry_time, base, warnings = _read_odometry(bag, recording.origin)
        wanted_time, wanted = _read_wanted(bag, recording.origin)
    uniform = recording.resample(1.0 / configuration.policy_rate)
    time = uniform.time
    position, orientation, velocity = (_interpolated(time, odometry_time, values) for values in base)
    orientation /= np.linalg.norm(orientation, axis=1, keepdims=True)
    held = np.searchsorted(wanted_time, time, side="right") - 1
    coordinates = np.concatenate([position, orientation, uniform.position], axis=1)
    command_time = recording.command_time[recording.command_time <= time[-1] + 1e-9]
    return WalkRecording(
        joint_names=recording.joint_names,
        time=time,
        position=coordinates,
        velocity=np.concatenate([velocity, uniform.velocity], axis=1),
        wanted=np.where(held[:, None] >= 0, wanted[held], 0.0) if len(wanted) else np.zeros((len(time), 3)),
        engagements=_engagements(command_time, time, coordinates, configuration),
        warnings=(*recording.warnings, *warnings),
    )


class _Base(NamedTuple):
    position: np.ndarray
    orientation: np.ndarray
    velocity: np.ndarray


def _read_odometry(bag: Bag, origin: int) -> tuple[Float[np.ndarray, "message"], _Base, list[str]]:
    topic = bag.find("odom", "nav_msgs/msg/Odometry")
    if topic is None:
        raise RealityGradError(f"bag '{bag.path}' has no topic 'odom'; record that of a robot on legs too")
    received, stamped, rows = [], [], []
    for time, message in bag.messages(topic):
        received.append(time)
        stamped.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
        pose, twist = message.pose.pose, message.twist.twist
        parts = (pose.position, pose.orientation, twist.linear, twist.angular)
        rows.append([value for part in parts for value in _numbers(part)])
    values = np.array(rows, dtype=float).reshape(len(rows), 13)
    if len(rows) < 2 or not np.isfinite(values).all() or not values[:, 3:7].any(1).all():
        raise RealityGradError(
            f"topic '{topic}' in bag '{bag.path}' holds fewer than two messages, or some without pose or velocity"
        )
    stamps, warnings = choose_clock(np.array(received), np.array(stamped), topic)
    # Two quaternions tell one orientation; what is interpolated between neighbours must not change sides.
    flip = np.cumprod(np.where((values[1:, 3:7] * values[:-1, 3:7]).sum(1) < 0.0, -1.0, 1.0))
    values[1:, 3:7] *= flip[:, None]
    return (stamps - origin) * 1e-9, _Base(values[:, :3], values[:, 3:7], values[:, 7:]), warnings


def _numbers(part: Any) -> list[float]:
    return [getattr(part, axis) for axis in "xyzw" if hasattr(part, axis)]


def _read_wanted(bag: Bag, origin: int) -> tuple[Float[np.ndarray, "message"], Float[np.ndarray, "message 3"]]:
    topic = bag.find("cmd_vel", "geometry_msgs/msg/TwistStamped")
    messages = [] if topic is None else list(bag.messages(topic))
    twists = [message.twist for _, message in messages]
    values = np.array([[t.linear.x, t.linear.y, t.angular.z] for t in twists], dtype=float).reshape(-1, 3)
    return (np.array([time for time, _ in messages], dtype=np.int64) - origin) * 1e-9, values


def _interpolated(time: np.ndarray, given: np.ndarray, values: np.ndarray) -> Float[np.ndarray, "sample column"]:
    order = np.argsort(given, kind="stable")
    return np.stack([np.interp(time, given[order], column[order]) for column in values.T], axis=1)


def _engagements(
    command_time: Float[np.ndarray, "command"],
    time: Float[np.ndarray, "sample"],
    position: Float[np.ndarray, "sample coordinate"],
    configuration: RobotConfiguration,
) -> tuple[Engagement, ...]:
    """From one fall to the next: on its feet a robot is commanded by the same policy from the first to the last."""
    x, y = position[:, 3], position[:, 4]
    lean = np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))
    height, most_sinking = position[:, 2], MOST_SINKING * (configuration.home_height or np.inf)

    def fell(start: float, end: float) -> bool:
        """Whether a robot that was engaged at `start` lies when its last command came at `end`."""
        first, last, late = np.searchsorted(time, [start - 1e-9, end - 1e-9, end + LATE])
        sunk = height[min(first, len(time) - 1)] - height[last:late]
        return bool((lean[last:late] > NEARLY * MOST_LEAN).any() or (sunk > NEARLY * most_sinking).any())

    found = []
    start = float(command_time[0])
    for pause in np.flatnonzero(np.diff(command_time) > SILENCE):
        end = float(command_time[pause])
        if fell(start, end):
            found.append(Engagement(start, end, True))
            start = float(command_time[pause + 1])
    end = float(command_time[-1])
    return (*found, Engagement(start, end, fell(start, end)))
