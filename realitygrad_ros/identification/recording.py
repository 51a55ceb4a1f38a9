"""Recordings of a robot: joint states, commands and targets as arrays on one clock, from a rosbag2 bag.

`read_recording` takes joints by name from every message and refuses what it cannot understand; what it had to mend is
told in `Recording.warnings`. `Recording.resample` puts everything on a uniform grid, as the simulator needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import CubicHermiteSpline

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.bag import Bag
from realitygrad_ros.identification.smoothing import local_polynomial
from realitygrad_ros.robot.joint_map import JointMap

COMMANDS = "forward_position_controller/commands"

GAP_PERIODS = 5.0
"""Joint states further apart than this many periods leave a gap, over which nothing is compared."""

CLOCK_TOLERANCE = 0.25
"""Header stamps further than this from the times of reception are of another clock [s]."""

VELOCITY_TOLERANCE = 0.05
"""A velocity signal that differs from the positions' difference by this and by half of it is not one [rad/s]."""


@dataclass(frozen=True, eq=False)
class TargetSegment:
    """The time in which one target was valid."""

    target: Float[np.ndarray, "3"]
    """[m], in the frame in which it was published."""
    start: float
    """[s] on the recording's clock."""
    end: float
    """When the next target came, or the last joint state [s]."""


@dataclass(frozen=True, eq=False)
class UniformRecording:
    """A recording on a uniform time grid; sample k lies at `time[k]`, step k goes from sample k to k + 1."""

    joint_names: tuple[str, ...]
    time_step: float
    """[s]"""
    time: Float[np.ndarray, "sample"]
    """[s] on the recording's clock."""
    position: Float[np.ndarray, "sample joint"]
    """[rad or m]"""
    velocity: Float[np.ndarray, "sample joint"]
    """[rad/s or m/s]"""
    command: Float[np.ndarray, "step joint"]
    """The position command's mean over each step [rad or m]."""
    gap: Bool[np.ndarray, "step"]
    """True where joint states are missing in the step."""

    def between(self, start: float, end: float) -> "UniformRecording":
        """The samples with start <= time <= end [s].

        Raises:
            RealityGradError: fewer than two samples lie between.
        """
        first, last = np.searchsorted(self.time, [start - 1e-9, end + 1e-9])
        if last - first < 2:
            raise RealityGradError(
                f"no joint states and commands were recorded between {start:.3f} s and {end:.3f} s; "
                f"the recording has them from {self.time[0]:.3f} s to {self.time[-1]:.3f} s"
            )
        samples, steps = slice(first, last), slice(first, last - 1)
        return replace(
            self,
            time=self.time[samples],
            position=self.position[samples],
            velocity=self.velocity[samples],
            command=self.command[steps],
            gap=self.gap[steps],
        )


@dataclass(frozen=True, eq=False)
class Recording:
    """What a bag holds of one robot. Times are seconds since the first joint state; arrays are in joint order."""

    source: str
    """The bag's path."""
    joint_names: tuple[str, ...]
    time: Float[np.ndarray, "sample"]
    """Of the joint states, strictly increasing [s]."""
    position: Float[np.ndarray, "sample joint"]
    """[rad or m]"""
    velocity: Float[np.ndarray, "sample joint"]
    """[rad/s or m/s]"""
    command_time: Float[np.ndarray, "command"]
    """[s]"""
    command: Float[np.ndarray, "command joint"]
    """Position commands, each valid until the next [rad or m]."""
    target_time: Float[np.ndarray, "target"]
    """[s]"""
    target: Float[np.ndarray, "target 3"]
    """[m]"""
    warnings: tuple[str, ...] = ()
    """What was mended or looks odd, one line each."""
    origin: int = 0
    """When time zero was [ns since the epoch]."""

    @property
    def period(self) -> float:
        """Median time between joint states [s]."""
        return float(np.median(np.diff(self.time)))

    def target_segments(self) -> tuple[TargetSegment, ...]:
        """The targets in order, a target that was only repeated counted once."""
        new = [i for i in range(len(self.target)) if i == 0 or not np.array_equal(self.target[i], self.target[i - 1])]
        ends = [*(float(self.target_time[i]) for i in new[1:]), float(self.time[-1])]
        return tuple(
            TargetSegment(self.target[i], float(self.target_time[i]), end) for i, end in zip(new, ends, strict=True)
        )

    def resample(self, time_step: float) -> UniformRecording:
        """Put joint states and commands on a uniform grid, from the first command to the last joint state.

        Positions follow the cubic Hermite spline through positions and velocities, velocities are interpolated
        linearly. A step's command is the exact mean of the commands held in it. Steps that touch a stretch of more
        than `GAP_PERIODS` periods without a joint state are marked.

        Args:
            time_step: of the grid [s].

        Raises:
            RealityGradError: joint states and commands do not overlap by two samples.
        """
        start, end = max(self.time[0], self.command_time[0]), self.time[-1]
        count = int(np.floor((end - start) / time_step * (1.0 + 1e-12))) + 1
        if count < 2:
            raise RealityGradError(
                f"recording '{self.source}': joint states (until {end:.3f} s) and commands (from "
                f"{self.command_time[0]:.3f} s) do not overlap; record both together"
            )
        time = start + time_step * np.arange(count)
        velocity = [np.interp(time, self.time, column) for column in self.velocity.T]
        hole = np.flatnonzero(np.diff(self.time) > GAP_PERIODS * self.period)
        gap = np.zeros(count - 1, dtype=bool)
        for begin, finish in zip(self.time[hole], self.time[hole + 1], strict=True):
            gap |= (time[:-1] < finish) & (time[1:] > begin)
        return UniformRecording(
            joint_names=self.joint_names,
            time_step=time_step,
            time=time,
            position=CubicHermiteSpline(self.time, self.position, self.velocity)(np.minimum(time, self.time[-1])),
            velocity=np.stack(velocity, axis=1),
            command=_held_mean(self.command_time, self.command, time),
            gap=gap,
        )


def _held_mean(
    command_time: Float[np.ndarray, "command"],
    command: Float[np.ndarray, "command joint"],
    time: Float[np.ndarray, "sample"],
) -> Float[np.ndarray, "step joint"]:
    """Mean over each step of commands that are held until the next: the difference quotient of their integral."""
    knots = np.append(command_time, max(time[-1], command_time[-1]) + 1.0)
    integral = np.vstack([np.zeros(command.shape[1]), np.cumsum(np.diff(knots)[:, None] * command, axis=0)])
    index = np.searchsorted(command_time, time, side="right") - 1
    at_samples = integral[index] + (time - command_time[index])[:, None] * command[index]
    return np.diff(at_samples, axis=0) / np.diff(time)[:, None]


def read_recording(
    path: Path | str,
    joint_names: Sequence[str],
    *,
    namespace: str | None = None,
) -> Recording:
    """Read joint states, position commands and, where there are any, targets from a bag.

    Joint states are stamped by their headers; where these are zero, go backwards or are of another clock, by the
    time of reception. Commands and targets have the time of reception. Messages that name none of the robot's joints
    are those of another device and are passed over; missing velocities are replaced by filtered differences.

    Args:
        path: a bag's folder, or an .mcap or .db3 file.
        joint_names: the order of the arrays and of the commands.
        namespace: of the robot; None takes the topics from whichever namespace has them.

    Raises:
        RealityGradError: the bag is missing, damaged, lacks a topic or a joint, or holds values that are not finite;
            the message names the thing.
    """
    path = Path(path)
    with Bag(path) as bag:
        states_topic = _require(bag, "joint_states", "sensor_msgs/msg/JointState", namespace)
        commands_topic = _require(bag, COMMANDS, "std_msgs/msg/Float64MultiArray", namespace)
        targets_topic = bag.find("target", "geometry_msgs/msg/PointStamped", namespace)
        states = _read_joint_states(bag, states_topic, JointMap(tuple(joint_names)))
        command_time, command = _read_commands(bag, commands_topic, tuple(joint_names))
        target_time, target = _read_targets(bag, targets_topic)
    stamps, warnings = choose_clock(states.received, states.stamped, states_topic)
    order = np.concatenate([[True], np.diff(stamps) > 0])
    if not order.all():
        warnings.append(f"{(~order).sum()} of {len(order)} messages on '{states_topic}' repeat a stamp; left out")
    if order.sum() < 2:
        raise RealityGradError(
            f"topic '{states_topic}' in bag '{path}' holds fewer than two joint states; record it again"
        )
    origin = int(stamps[order][0])

    def seconds(time: np.ndarray) -> Float[np.ndarray, "sample"]:
        return (time - origin) * 1e-9

    time, position = seconds(stamps[order]), states.position[order]
    velocity, mended = _mend_velocity(time, position, states.velocity[order], tuple(joint_names))
    return Recording(
        source=str(path),
        joint_names=tuple(joint_names),
        time=time,
        position=position,
        velocity=velocity,
        command_time=seconds(command_time),
        command=command,
        target_time=seconds(target_time),
        target=target,
        warnings=(*warnings, *mended),
        origin=origin,
    )


def _require(bag: Bag, name: str, message_type: str, namespace: str | None) -> str:
    topic = bag.find(name, message_type, namespace)
    if topic is None:
        where = "" if namespace is None else f" in namespace '{namespace}'"
        known = ", ".join(sorted(bag.topics)) or "none at all"
        raise RealityGradError(f"bag '{bag.path}' has no topic '{name}'{where}; its topics are: {known}")
    return topic


@dataclass(frozen=True, eq=False)
class _JointStates:
    received: np.ndarray
    stamped: np.ndarray
    position: np.ndarray
    velocity: np.ndarray


def _read_joint_states(bag: Bag, topic: str, joints: JointMap) -> _JointStates:
    """Rows in the order of reception; times in ns; a missing velocity is NaN."""
    received, stamped, positions, velocities = [], [], [], []
    start, seen = None, set()
    for time, message in bag.messages(topic):
        start = time if start is None else start
        names = tuple(message.name)
        if names and not set(names) & set(joints.names):
            seen |= set(names)
            continue
        where = f"topic '{topic}' in bag '{bag.path}', message at {(time - start) * 1e-9:.3f} s"
        position, velocity = _joint_state(message, names, joints, where)
        received.append(time)
        stamped.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
        positions.append(position)
        velocities.append(velocity)
    if not received:
        holds = f"names only other joints: {', '.join(sorted(seen))}" if seen else "holds no message"
        raise RealityGradError(f"topic '{topic}' in bag '{bag.path}' {holds}; record the robot's joint states")
    times = np.array([received, stamped], dtype=np.int64)
    return _JointStates(times[0], times[1], np.stack(positions), np.stack(velocities))


def _joint_state(message: Any, names: tuple[str, ...], joints: JointMap, where: str) -> tuple[np.ndarray, np.ndarray]:
    for field in ("position", "velocity", "effort"):
        count = len(getattr(message, field))
        if count != len(names) and (count or field == "position"):
            raise RealityGradError(f"{where}: {len(names)} names but {count} values in '{field}'")
    try:
        position = joints.take(names, message.position)
    except RealityGradError as error:
        raise RealityGradError(f"{where}: {error}") from error
    if not np.isfinite(position).all():
        joint = joints.names[int(np.argmin(np.isfinite(position)))]
        raise RealityGradError(f"{where}: the position of joint '{joint}' is not finite")
    velocity = joints.take(names, message.velocity) if len(message.velocity) else np.full(len(joints.names), np.nan)
    return position, np.where(np.isfinite(velocity), velocity, np.nan)


def _read_commands(bag: Bag, topic: str, joint_names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    times: list[int] = []
    values: list[np.ndarray] = []
    for time, message in bag.messages(topic):
        value = np.asarray(message.data, dtype=float)
        if len(value) != len(joint_names) or not np.isfinite(value).all():
            fault = f"{len(value)} values, not {len(joint_names)}"
            if len(value) == len(joint_names):
                fault = f"a value for joint '{joint_names[int(np.argmin(np.isfinite(value)))]}' that is not finite"
            raise RealityGradError(f"topic '{topic}' in bag '{bag.path}': command {len(values)} has {fault}")
        times.append(time)
        values.append(value)
    if not times:
        raise RealityGradError(f"topic '{topic}' in bag '{bag.path}' holds no message; record the robot's commands")
    return np.array(times, dtype=np.int64), np.stack(values)


def _read_targets(bag: Bag, topic: str | None) -> tuple[np.ndarray, np.ndarray]:
    messages = [] if topic is None else list(bag.messages(topic))
    values = np.array([[message.point.x, message.point.y, message.point.z] for _, message in messages], dtype=float)
    if not np.isfinite(values).all():
        raise RealityGradError(f"topic '{topic}' in bag '{bag.path}': a target is not finite")
    return np.array([time for time, _ in messages], dtype=np.int64), values.reshape(len(messages), 3)


def choose_clock(received: np.ndarray, stamped: np.ndarray, topic: str) -> tuple[np.ndarray, list[str]]:
    """The times of messages: their header stamps, or the times of reception where the stamps are none.

    Args:
        received, stamped: [ns].
        topic: for the warning.

    Returns:
        Times [ns], and a warning where the stamps are not used.
    """
    fault = None
    offset = float(np.median(received - stamped)) * 1e-9
    if (stamped == 0).any():
        fault = "zero"
    elif (np.diff(stamped) < 0).any():
        fault = "not in order"
    elif abs(offset) > CLOCK_TOLERANCE:
        fault = f"{offset:.3f} s away from the times of reception"
    if fault is None:
        return stamped, []
    return received, [f"header stamps on '{topic}' are {fault}; the times of reception are used"]


def _mend_velocity(
    time: Float[np.ndarray, "sample"],
    position: Float[np.ndarray, "sample joint"],
    velocity: Float[np.ndarray, "sample joint"],
    joint_names: tuple[str, ...],
) -> tuple[Float[np.ndarray, "sample joint"], list[str]]:
    """Replace missing velocities, and whole signals that are no velocities, by the positions' filtered difference."""
    warnings = []
    _, difference = local_polynomial(time, position)
    missing = np.isnan(velocity)
    error = np.where(missing, 0.0, velocity - difference)
    limit = np.maximum(VELOCITY_TOLERANCE, 0.5 * np.sqrt(np.mean(difference**2, axis=0)))
    wrong = np.sqrt(np.mean(error**2, axis=0)) > limit
    for j, joint in enumerate(joint_names):
        if missing[:, j].any():
            warnings.append(
                f"joint '{joint}' has no velocity in {missing[:, j].sum()} of {len(time)} joint states; "
                "filtered differences of its positions are used"
            )
        if wrong[j]:
            warnings.append(f"the velocity of joint '{joint}' contradicts its positions; filtered differences are used")
    return np.where(missing | wrong, difference, velocity), warnings
