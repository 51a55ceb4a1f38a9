"""When a policy may command the robot, and what: the rules of the policy node, without ROS."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import gait_phase, gravity_direction
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import RobotConfiguration

STALE_AFTER = 0.1
"""Age of what the robot's sensors tell beyond which nothing is commanded [s]."""

VELOCITY_HOLD = 0.5
"""How long a velocity is wanted that was commanded once; after that the robot shall stand [s]."""

MOST_LEAN = np.deg2rad(60.0)
"""A robot on legs that leans by more has fallen [rad]."""

MOST_SINKING = 0.5
"""A robot on legs that has sunk by this share of its standing height since it was engaged has fallen."""

_TERMS = {
    "joint_states": ("joint_position", "joint_velocity"),
    "imu": ("angular_velocity", "gravity_direction"),
    "odom": ("linear_velocity",),
    "cmd_vel": ("velocity_command",),
    "target": ("target_position",),
}
"""Which topic tells which terms of an observation."""

_WORDS = {"joint_states": "joint states", "imu": "IMU messages", "odom": "odometry messages", "target": "target"}
_UPRIGHT = np.array([0.0, 0.0, -1.0])
_STANDING = np.zeros(3)


class _News(NamedTuple):
    """What came last on a topic."""

    time: float
    terms: Mapping[str, np.ndarray]


class _Engagement(NamedTuple):
    """Since when, and from which height of the base, the policy commands."""

    time: float
    height: float


class _Fallen(RealityGradError):
    """A robot on legs does not stand any more."""


class CommandLoop:
    """Holds the policy and what the robot and its operator told, and gives a command at every tick while it is engaged.

    It is engaged on demand alone, from the measured pose, and disengages by itself when what it observes is missing or
    old, the policy fails, or a robot on legs has fallen; `stopped_because` then says why. The last command to a robot
    on legs that has not fallen is to stand at home: to hold a pose from the middle of a step would topple it.

    One thread may give it news while another one ticks. Times are of a steady clock [s].
    """

    def __init__(self, robot: RobotConfiguration) -> None:
        self.bundle: PolicyBundle | None = None
        """The policy, replaced between two ticks."""
        self.stopped_because = ""
        self.topics = ("joint_states", "imu", "odom", "cmd_vel") if robot.floating else ("joint_states", "target")
        """What there is to tell of such a robot."""
        self._robot = robot
        # Keys are all there from the beginning: one thread looks through them while another one replaces a value.
        self._news: dict[str, _News | None] = dict.fromkeys(self.topics)
        self._height = 0.0
        self._previous: np.ndarray | None = None
        self._parting: np.ndarray | None = None
        self._engagement = _Engagement(0.0, 0.0)
        self._lock = threading.Lock()

    @property
    def engaged(self) -> bool:
        """Whether ticks give commands."""
        return self._previous is not None

    def accept(self, bundle: PolicyBundle) -> None:
        """Make `bundle` the policy from the next tick on.

        Raises:
            RealityGradError: it is for another robot, other joints or another kind of task, or older than the present
                one, which stays.
        """
        if bundle.robot != self._robot.name:
            raise RealityGradError(f"policy bundle is for robot '{bundle.robot}', this one is '{self._robot.name}'")
        if bundle.joint_names != self._robot.joint_names:
            raise RealityGradError(
                f"policy bundle is for the joints {', '.join(bundle.joint_names)}; "
                f"this robot's are {', '.join(self._robot.joint_names)}, in this order"
            )
        strange = [topic for topic in _observed(bundle) if topic not in self.topics]
        if strange:
            raise RealityGradError(
                f"policy bundle observes {', '.join(strange)}; a robot with a "
                f"{'floating' if self._robot.floating else 'fixed'} base has {', '.join(self.topics)} alone"
            )
        if self.bundle is not None and bundle.epoch < self.bundle.epoch:
            raise RealityGradError(
                f"policy bundle has epoch {bundle.epoch}, the present policy has {self.bundle.epoch}; "
                "restart the policy node to go back"
            )
        self.bundle = bundle

    def set_state(
        self, time: float, position: Float[np.ndarray, "joint"], velocity: Float[np.ndarray, "joint"]
    ) -> None:
        """Take the state of the joints and the time at which it came."""
        self._news["joint_states"] = _News(time, {"joint_position": position, "joint_velocity": velocity})

    def set_imu(self, time: float, quat_xyzw: Float[np.ndarray, "4"], angular_velocity: Float[np.ndarray, "3"]) -> None:
        """Take orientation and angular velocity of the base, in its frame [rad/s], and the time at which they came.

        Raises:
            RealityGradError: a value is not finite, or the quaternion is none.
        """
        _require_finite("imu", quat_xyzw, angular_velocity)
        length = float(np.linalg.norm(quat_xyzw))
        if abs(length - 1.0) > 0.01:
            raise RealityGradError(f"imu: the orientation's quaternion has length {length:.3f} instead of 1")
        down = gravity_direction(quat_xyzw / length)
        self._news["imu"] = _News(time, {"gravity_direction": down, "angular_velocity": angular_velocity})

    def set_odometry(self, time: float, height: float, linear_velocity: Float[np.ndarray, "3"]) -> None:
        """Take height [m] and velocity of the base, in its frame [m/s], and the time at which they came.

        Raises:
            RealityGradError: a value is not finite.
        """
        _require_finite("odom", np.array([height]), linear_velocity)
        self._height = height
        self._news["odom"] = _News(time, {"linear_velocity": linear_velocity})

    def set_velocity_command(self, time: float, velocity: Float[np.ndarray, "3"]) -> None:
        """Take the velocity wanted: forward, left [m/s], turning left [rad/s]; it holds for `VELOCITY_HOLD`.

        Raises:
            RealityGradError: it is not finite.
        """
        _require_finite("cmd_vel", velocity)
        self._news["cmd_vel"] = _News(time, {"velocity_command": velocity})

    def set_target(self, target: Float[np.ndarray, "3"]) -> None:
        """Take the end effector's target in the base frame [m].

        Raises:
            RealityGradError: it is not finite.
        """
        _require_finite("target", target)
        self._news["target"] = _News(np.inf, {"target_position": target})  # it holds until the next

    def age(self, topic: str, time: float) -> float:
        """Age of what came last on a topic [s], infinite before the first."""
        news = self._news[topic]
        return np.inf if news is None else time - news.time

    def velocity_command(self, time: float) -> Float[np.ndarray, "3"]:
        """The velocity that the policy is told: the one wanted, reduced to what it knows from its training.

        Raises:
            RealityGradError: the policy knows only faster ones.
        """
        news = self._news.get("cmd_vel")
        held = news is not None and time - news.time <= VELOCITY_HOLD
        wanted = news.terms["velocity_command"] if held and news is not None else _STANDING
        if self.bundle is None or "velocity_command" not in self.bundle.observation_terms:
            return wanted
        lower, upper = self.bundle.uniform_range("velocity_command")
        told: np.ndarray = np.clip(wanted, lower, upper)
        if (np.abs(told) > np.abs(wanted)).any():
            known = ", ".join(
                f"{name} {low:.2f} to {high:.2f}"
                for name, low, high in zip(("x", "y", "yaw"), lower, upper, strict=True)
            )
            raise RealityGradError(
                f"the policy knows no velocity ({', '.join(f'{value:.2f}' for value in wanted)}), which is wanted; "
                f"publish one on 'cmd_vel' that it knows: {known}"
            )
        return told

    def deviation(self, time: float) -> float:
        """Largest distance of the present observation from its mean in training, in standard deviations there."""
        bundle, previous = self.bundle, self._previous
        if bundle is None:
            return float("nan")
        try:
            self._check_news(bundle, time)
            terms = self._terms(bundle, time)
        except RealityGradError:
            return float("nan")
        return float(np.abs(bundle.observe(terms, terms["joint_position"] if previous is None else previous)).max())

    def engage(self, time: float) -> None:
        """Command from the next tick on, beginning at the measured pose.

        Raises:
            RealityGradError: there is no policy, something that it observes is missing or old, it does not know the
                velocity that is wanted, or the robot has fallen.
        """
        if self.bundle is None:
            raise RealityGradError("no policy: nothing acceptable has come on 'policy/bundle' yet")
        self._check_news(self.bundle, time)
        self._check_upright()
        terms = self._terms(self.bundle, time)
        with self._lock:
            if self._previous is None:
                self._engagement = _Engagement(time, self._height)
                self._previous = terms["joint_position"]
                self._parting = None
                self.stopped_because = ""

    def disengage(self, reason: str) -> None:
        """Command no more, but for the last command to a robot on legs."""
        with self._lock:
            self._stop(reason, self._robot.floating)

    def command(self, time: float) -> Float[np.ndarray, "joint"] | None:
        """The command of this tick, always finite; None where there is none to give."""
        with self._lock:
            previous, bundle = self._previous, self.bundle
            if previous is not None and bundle is not None:
                try:
                    self._check_news(bundle, time)
                    self._check_upright()
                    self._check_height()
                    self._previous = bundle.act(self._terms(bundle, time), previous)
                except _Fallen as error:
                    self._stop(str(error), stand=False)
                except RealityGradError as error:
                    self._stop(str(error), self._robot.floating)
            if self._previous is not None:
                return self._previous
            parting, self._parting = self._parting, None
            return parting

    def _terms(self, bundle: PolicyBundle, time: float) -> dict[str, np.ndarray]:
        """Everything that is known, by the name of its term."""
        terms = {name: value for news in self._news.values() if news for name, value in news.terms.items()}
        terms["gait_phase"] = gait_phase(time - self._engagement.time)
        if "velocity_command" in bundle.observation_terms:
            terms["velocity_command"] = self.velocity_command(time)
        return terms

    def _check_news(self, bundle: PolicyBundle, time: float) -> None:
        """Refuse where something that the policy observes is missing or old."""
        for topic in _observed(bundle):
            if topic == "cmd_vel":
                continue
            age, words = self.age(topic, time), _WORDS[topic]
            if age == np.inf:
                raise RealityGradError(f"no {words}: nothing acceptable has come on '{topic}' yet")
            if age > STALE_AFTER:
                raise RealityGradError(f"{words} are {age * 1e3:.0f} ms old, more than {STALE_AFTER * 1e3:.0f} ms")

    def _check_upright(self) -> None:
        news = self._news.get("imu")
        if news is None:
            return
        lean = float(np.arccos(np.clip(news.terms["gravity_direction"] @ _UPRIGHT, -1.0, 1.0)))
        if lean > MOST_LEAN:
            raise _Fallen(f"the robot has fallen: it leans by {np.rad2deg(lean):.0f} degrees")

    def _check_height(self) -> None:
        standing, sunk = self._robot.home_height, self._engagement.height - self._height
        if standing is not None and sunk > MOST_SINKING * standing:
            raise _Fallen(f"the robot has fallen: its base is {sunk:.2f} m lower than when it was engaged")

    def _stop(self, reason: str, stand: bool) -> None:
        if self._previous is not None:
            self._previous = None
            self._parting = self._robot.home if stand else None
            self.stopped_because = reason


def _observed(bundle: PolicyBundle) -> list[str]:
    """Topics without which the policy is blind; the first command needs the measured pose in any case."""
    terms = bundle.observation_terms
    return [topic for topic, told in _TERMS.items() if topic == "joint_states" or set(told) & set(terms)]


def _require_finite(topic: str, *values: np.ndarray) -> None:
    if not all(np.isfinite(value).all() for value in values):
        raise RealityGradError(f"{topic} is not finite")
