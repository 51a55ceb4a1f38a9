"""The joint's actuator and its losses, written once for any kind of scalar.

    tau = clip(kp (q* - q) + kd (qd* - qd), tau_max)
    tau_loss = damping qd + friction tanh(qd / v_s)

tau drives the joint and tau_loss opposes it. The servo and both losses stiffen with velocity, so a step takes them at
the velocity that it ends with, to first order: tau(qd + h qdd) = tau(qd) + h qdd dtau/dqd. `velocity_stiffness` is
that derivative, negated.

The clip is smooth: exact up to (1 - w) tau_max, constant from (1 + w) tau_max on, and a parabola between, w =
`CLIP_WIDTH`. With a sharp corner dtau/dqd would jump there, and the step with it.
"""

import math
from typing import Any

from realitygrad_ros.physics.trace import clamp, tanh

CLIP_WIDTH = 0.05
"""Half of the width of the torque limit's corner, relative to the limit."""


def _corners(torque: Any, limit: Any) -> tuple[Any, Any]:
    """How far a torque has gone into the upper and the lower corner of its limit, each from 0 to 2 w tau_max."""
    start, end = (1.0 - CLIP_WIDTH) * limit, (1.0 + CLIP_WIDTH) * limit
    return clamp(torque, start, end) - start, -start - clamp(torque, -end, -start)


def _clip(torque: Any, limit: Any) -> Any:
    start, curvature = (1.0 - CLIP_WIDTH) * limit, 0.25 / (CLIP_WIDTH * limit)
    upper, lower = _corners(torque, limit)
    return clamp(torque, -start, start) + (upper - upper * upper * curvature) - (lower - lower * lower * curvature)


def _clip_slope(torque: Any, limit: Any) -> Any:
    upper, lower = _corners(torque, limit)
    return 1.0 - (upper + lower) * (0.5 / (CLIP_WIDTH * limit))


def _unlimited(limit: Any) -> bool:
    return isinstance(limit, float) and math.isinf(limit)


def servo_torque(kp: Any, kd: Any, target: Any, target_rate: Any, q: Any, qd: Any, limit: Any) -> Any:
    """Torque of the servo after its limit [N m].

    Args:
        kp: position gain [N m/rad].
        kd: velocity gain [N m s/rad].
        target: position target q* [rad].
        target_rate: velocity target qd* [rad/s].
        q: position [rad].
        qd: velocity [rad/s].
        limit: magnitude tau_max [N m]; a float may be infinite.
    """
    torque = kp * (target - q) + kd * (target_rate - qd)
    return torque if _unlimited(limit) else _clip(torque, limit)


def loss_torque(damping: Any, friction: Any, qd: Any, friction_velocity: float) -> Any:
    """Viscous and smooth Coulomb friction [N m]; v_s is `friction_velocity` [rad/s]."""
    return damping * qd + friction * tanh(qd / friction_velocity)


def velocity_stiffness(
    kp: Any, kd: Any, damping: Any, friction: Any, target: Any, q: Any, qd: Any, limit: float, friction_velocity: float
) -> Any:
    """d(tau_loss - tau)/dqd [N m s/rad]: how fast the net torque falls as the velocity rises; arguments as above."""
    slope = tanh(qd / friction_velocity)
    stiffness = damping + friction * ((1.0 - slope * slope) / friction_velocity)
    if _unlimited(limit):
        return stiffness + kd
    return stiffness + kd * _clip_slope(kp * (target - q) - kd * qd, limit)
