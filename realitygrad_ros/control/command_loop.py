"""When a policy may command the robot, and what: the rules of the policy node, without ROS."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import RealityGradError

STALE_AFTER = 0.1
"""Age of joint states beyond which nothing is commanded [s]."""


class _State(NamedTuple):
    time: float
    position: Float[np.ndarray, "joint"]
    velocity: Float[np.ndarray, "joint"]


class CommandLoop:
    """Holds the policy, the robot's state and the target, and gives a command at every tick while it is engaged.

    It is engaged on demand alone, from the measured pose, and disengages by itself when joint states are missing or
    the policy fails; `stopped_because` then says why. One thread may give it news while another one ticks. Times are
    of a steady clock [s].
    """

    def __init__(self, robot: str, joint_names: Sequence[str]) -> None:
        self.bundle: PolicyBundle | None = None
        """The policy, replaced between two ticks."""
        self.stopped_because = ""
        self._robot = robot
        self._joint_names = tuple(joint_names)
        self._state: _State | None = None
        self._target: np.ndarray | None = None
        self._previous: np.ndarray | None = None
        self._lock = threading.Lock()

    @property
    def engaged(self) -> bool:
        """Whether ticks give commands."""
        return self._previous is not None

    def accept(self, bundle: PolicyBundle) -> None:
        """Make `bundle` the policy from the next tick on.

        Raises:
            RealityGradError: it is for another robot or other joints, or older than the present one, which stays.
        """
        if bundle.robot != self._robot:
            raise RealityGradError(f"policy bundle is for robot '{bundle.robot}', this one is '{self._robot}'")
        if bundle.joint_names != self._joint_names:
            raise RealityGradError(
                f"policy bundle is for the joints {', '.join(bundle.joint_names)}; "
                f"this robot's are {', '.join(self._joint_names)}, in this order"
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
        """Take the robot's state and the time at which it came."""
        self._state = _State(time, position, velocity)

    def set_target(self, target: Float[np.ndarray, "3"]) -> None:
        """Take the end effector's target in the base frame [m].

        Raises:
            RealityGradError: it is not finite.
        """
        if not np.isfinite(target).all():
            raise RealityGradError("target is not finite")
        self._target = target

    def state_age(self, time: float) -> float:
        """Age of the joint states [s], infinite before the first."""
        return np.inf if self._state is None else time - self._state.time

    def deviation(self) -> float:
        """Largest distance of the present observation from its mean in training, in standard deviations there."""
        bundle, state, target = self.bundle, self._state, self._target
        if bundle is None or state is None or target is None:
            return float("nan")
        return float(np.abs(bundle.observe(state.position, state.velocity, target)).max())

    def engage(self, time: float) -> None:
        """Command from the next tick on, beginning at the measured pose.

        Raises:
            RealityGradError: policy, fresh joint states or target are missing.
        """
        if self.bundle is None:
            raise RealityGradError("no policy: nothing acceptable has come on 'policy/bundle' yet")
        if self._state is None:
            raise RealityGradError("no joint states: nothing acceptable has come on 'joint_states' yet")
        if self.state_age(time) > STALE_AFTER:
            raise RealityGradError(self._stale(time))
        if self._target is None:
            raise RealityGradError("no target: nothing acceptable has come on 'target' yet")
        with self._lock:
            if self._previous is None:
                self._previous = self._state.position
                self.stopped_because = ""

    def disengage(self, reason: str) -> None:
        """Command no more."""
        with self._lock:
            self._stop(reason)

    def command(self, time: float) -> Float[np.ndarray, "joint"] | None:
        """The command of this tick, always finite; None where there is none to give."""
        with self._lock:
            previous, bundle, state, target = self._previous, self.bundle, self._state, self._target
            if previous is None or bundle is None or state is None or target is None:
                return None
            if self.state_age(time) > STALE_AFTER:
                self._stop(self._stale(time))
                return None
            try:
                self._previous = bundle.act(state.position, state.velocity, target, previous)
            except RealityGradError as error:
                self._stop(str(error))
            return self._previous

    def _stop(self, reason: str) -> None:
        if self._previous is not None:
            self._previous = None
            self.stopped_because = reason

    def _stale(self, time: float) -> str:
        return f"joint states are {self.state_age(time) * 1e3:.0f} ms old, more than {STALE_AFTER * 1e3:.0f} ms"
