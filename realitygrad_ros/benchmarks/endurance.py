"""A long walk on the twin over ROS, at random velocities and with random pushes: does the robot stay on its feet?

The twin and the policy node are processes of their own in a ROS domain of their own, and the twin runs in real time.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from geometry_msgs.msg import TwistStamped
from jaxtyping import Bool, Float
from nav_msgs.msg import Odometry

from realitygrad_ros.benchmarks.own_graph import OwnGraph, own_graph
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.iteration.legged_comparison import SETTLING
from realitygrad_ros.nodes.bringup import NodeSpec
from realitygrad_ros.nodes.graph_robot import GraphRobot
from realitygrad_ros.nodes.qos import SENSOR_DATA, TARGET
from realitygrad_ros.nodes.walking_twin import Stop, WalkingTwin
from realitygrad_ros.progress import Progress

SECONDS = 600.0
"""Of the walk that `realitygrad bench learning` does."""

COMMAND_GAP, PUSH_GAP = (2.0, 6.0), (3.0, 8.0)
"""Least and most time from one command, and from one push, to the next [s]."""

STANDING_SHARE = 0.2
"""How many of the commands are to stand."""

PUSH_SPEED = 0.5
"""By which the velocity of the base changes at once [m/s]."""

REPORT_TIME = 2.5
"""How long after the policy has stopped it is heard of at the latest [s]: its node reports once a second, and the
first report after it was engaged tells nothing yet."""

Twist = tuple[float, float, float]
"""Forward, left [m/s], turning left [rad/s]; in the base frame."""


class Event(NamedTuple):
    """What the robot is told, or what befalls it."""

    time: float
    """Since the walk began [s]."""
    kind: Literal["command", "push"]
    twist: Twist
    """The velocity wanted, or the velocity that is added to that of the base."""


class Pause(NamedTuple):
    """From when it was heard that the policy had stopped until it was engaged again."""

    start: float
    """Since the walk began [s]."""
    end: float
    stop: Stop


def draw_events(
    seconds: float, lower: Float[np.ndarray, "3"], upper: Float[np.ndarray, "3"], seed: int
) -> tuple[Event, ...]:
    """Commands and pushes in the order of their times; the first is a command, at the very beginning.

    Commands are uniform between `lower` and `upper`, but for the share that lets the robot stand; pushes are
    horizontal, in any direction.
    """
    random = np.random.default_rng(seed)

    def times(gap: tuple[float, float]) -> list[float]:
        gaps = random.uniform(*gap, size=int(seconds / gap[0]) + 1)
        return [time for time in np.cumsum(gaps).tolist() if time < seconds]

    def command() -> Twist:
        stands, (forward, left, turning) = random.random() < STANDING_SHARE, random.uniform(lower, upper).tolist()
        return (0.0, 0.0, 0.0) if stands else (forward, left, turning)

    def push() -> Twist:
        direction = random.uniform(0.0, 2.0 * np.pi)
        return (PUSH_SPEED * float(np.cos(direction)), PUSH_SPEED * float(np.sin(direction)), 0.0)

    commands = [Event(time, "command", command()) for time in (0.0, *times(COMMAND_GAP))]
    pushes = [Event(time, "push", push()) for time in times(PUSH_GAP)]
    return tuple(sorted(commands + pushes))


@dataclass(frozen=True, eq=False)
class EnduranceWalk:
    """What came of a walk. Times are since it began, of a steady clock [s]."""

    end: float
    time: Float[np.ndarray, "sample"]
    """When the message of the odometry came."""
    measured: Float[np.ndarray, "sample 3"]
    """Velocity of the base by the odometry: forward, left [m/s], turning left [rad/s]; in the base frame."""
    events: tuple[Event, ...]
    """At the times at which they were sent."""
    pauses: tuple[Pause, ...]

    def of_kind(self, kind: str) -> list[Event]:
        """All commands, or all pushes."""
        return [event for event in self.events if event.kind == kind]

    @property
    def wanted(self) -> Float[np.ndarray, "sample 3"]:
        """The velocity that was commanded last, in every instant of `measured`."""
        commands = self.of_kind("command")
        twists: np.ndarray = np.array([command.twist for command in commands])
        return twists[_newest(self.time, [command.time for command in commands])]

    @property
    def settled(self) -> Bool[np.ndarray, "sample"]:
        """Where the policy walks, and no command, push or engagement is newer than `SETTLING`.

        When the policy stopped is known from its node's reports alone, and so the time before each is left out, too.
        """
        news = np.sort([0.0, *(event.time for event in self.events), *(pause.end for pause in self.pauses)])
        settled = self.time - news[_newest(self.time, news)] >= SETTLING
        for pause in self.pauses:
            settled &= (self.time < pause.start - REPORT_TIME) | (self.time > pause.end)
        return settled

    def figures(self) -> dict[str, Any]:
        """`seconds` of walking, `commands`, `pushes`, `falls`; `interruptions`: stops for another reason than a fall.

        `tracking_error_mps`: mean distance of the horizontal velocity from the one wanted over all `settled` instants,
        nan without any. `stops`: by their time, what the policy node said of each fall and interruption.
        """
        settled = self.settled
        error = np.linalg.norm((self.measured - self.wanted)[settled, :2], axis=1)
        falls = sum(pause.stop.fallen for pause in self.pauses)
        return {
            "seconds": self.end - sum(pause.end - pause.start for pause in self.pauses),
            "commands": len(self.of_kind("command")),
            "pushes": len(self.of_kind("push")),
            "falls": falls,
            "interruptions": len(self.pauses) - falls,
            "tracking_error_mps": float(error.mean()) if settled.any() else float("nan"),
            "stops": {f"{pause.start:.1f} s": pause.stop.reason for pause in self.pauses},
        }


def walk(robot: str, bundle: PolicyBundle, seconds: float, progress: Progress, seed: int = 0) -> EnduranceWalk:
    """Walk on the twin by a policy, at velocities that it knows, as `draw_events` says.

    A robot that fell is stood up and goes on, and so does one whose policy stopped for another reason. After `seconds`
    the walk lasts `REPORT_TIME` more, so that a stop at its very end is heard of.

    Args:
        robot: its name in `config/`.
        bundle: the policy.
        seconds: how long it walks, in real time.
        progress: told of each command and push.
        seed: of commands and pushes.

    Raises:
        RealityGradError: a node ends or does not come up, or the policy does not engage.
    """
    with own_graph() as graph:
        progress("endurance: start", 0.0, {})
        path = graph.directory / "policy.safetensors"
        bundle.write(path)
        graph.start(NodeSpec("twin_node", {"robot": robot}))
        graph.start(NodeSpec("policy_node", {"robot": robot, "bundle": str(path)}))
        # Nodes that were just started may take seconds to find each other.
        graph.wait(lambda: _hears_twin(graph), "the policy node to hear of the robot")
        events = draw_events(seconds, *bundle.uniform_range("velocity_command"), seed)
        return _Walker(graph).walk(events, seconds, progress)


def _hears_twin(graph: OwnGraph) -> bool:
    news = graph.diagnostics.get("policy_node", {})
    return all(news.get(f"{topic} age [ms]", "inf") != "inf" for topic in ("joint_states", "imu", "odom"))


class _Walker:
    """Walks once, and notes what happens."""

    def __init__(self, graph: OwnGraph) -> None:
        self._graph = graph
        self._twin = WalkingTwin(graph.node, GraphRobot(graph.node))
        self._begin = 0.0
        self._samples: list[tuple[float, ...]] = []
        self._events: list[Event] = []
        self._pauses: list[Pause] = []
        self._push = graph.node.create_publisher(TwistStamped, "twin/push", TARGET)
        graph.wait(self._push.get_subscription_count, "the twin to take pushes")

    def walk(self, events: Sequence[Event], seconds: float, progress: Progress) -> EnduranceWalk:
        wanted = events[0].twist
        self._stand_up(wanted)
        self._begin = time.monotonic()
        self._graph.node.create_subscription(Odometry, "odom", self._on_odometry, SENSOR_DATA)
        ends = [*(event.time for event in events[1:]), seconds + REPORT_TIME]
        for event, end in zip(events, ends, strict=True):
            progress("endurance", event.time / seconds, self._counts())
            if event.kind == "push":
                self._send_push(event.twist)
            else:
                wanted = event.twist
            self._events.append(event._replace(time=self._now()))
            self._hold(wanted, end - event.time)
        samples = np.array(list(self._samples))  # more come meanwhile
        return EnduranceWalk(self._now(), samples[:, 0], samples[:, 1:], tuple(self._events), tuple(self._pauses))

    def _hold(self, wanted: Twist, duration: float) -> None:
        """Walk at one velocity; what the robot does not walk meanwhile comes on top."""
        while duration > 0.0:
            begin = self._now()
            stop = self._twin.follow(wanted, duration, self._graph.interrupted)
            end = self._now()
            duration -= end - begin
            if stop is not None:
                self._stand_up(wanted)
                self._pauses.append(Pause(end, self._now(), stop))

    def _stand_up(self, wanted: Twist) -> None:
        self._twin.place(hung=False)
        self._twin.engage(wanted)

    def _send_push(self, twist: Twist) -> None:
        message = TwistStamped()
        message.header.stamp = self._graph.node.get_clock().now().to_msg()
        message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = twist
        self._push.publish(message)

    def _counts(self) -> Mapping[str, float]:
        falls = sum(pause.stop.fallen for pause in self._pauses)
        return {"falls": falls, "interruptions": len(self._pauses) - falls}

    def _on_odometry(self, message: Odometry) -> None:
        v, omega = message.twist.twist.linear, message.twist.twist.angular
        self._samples.append((self._now(), v.x, v.y, omega.z))

    def _now(self) -> float:
        return time.monotonic() - self._begin


def _newest(time: Float[np.ndarray, "sample"], news: Sequence[float] | np.ndarray) -> np.ndarray:
    """Index of the newest of some times, in order, that is not after each time; the first where all are."""
    return np.maximum(np.searchsorted(news, time, side="right") - 1, 0)
