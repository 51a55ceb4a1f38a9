"""Policies of a robot on legs that show in their commands what they observe."""

import numpy as np

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import WALKING_TERMS, components
from realitygrad_ros.robot.configuration import RobotConfiguration

SHOWN = ("velocity_command", "gait_phase", "gravity_direction", "previous_action")
"""Of which the first joints show a number each, half of it above their home: velocity forward, sine of the gait,
gravity along z, and the first joint's action before."""


def showing_bundle(configuration: RobotConfiguration, slowest: float = -1.0, **changes) -> PolicyBundle:
    """A policy that commands home, and on top of it half of what `SHOWN` says.

    It knows velocities forward from `slowest` to 1 m/s, and the others from -1 to 1.
    """
    names = [(term, name) for term in WALKING_TERMS for name in components(term, configuration.joint_names)]
    count = len(configuration.joint_names)
    mean, scale = np.zeros(len(names)), np.ones(len(names))
    for index, (term, name) in enumerate(names):
        if term == "velocity_command":
            lower = slowest if name == "x" else -1.0
            mean[index], scale[index] = 0.5 * (1.0 + lower), 0.5 * (1.0 - lower) / np.sqrt(3.0)
    weight, bias = np.zeros((count, len(names))), np.zeros(count)
    for joint, term in enumerate(SHOWN):
        index = names.index(
            (term, components(term, configuration.joint_names)[2 if term == "gravity_direction" else 0])
        )
        weight[joint, index], bias[joint] = scale[index], mean[index]
    entries = {
        "robot": configuration.name,
        "joint_names": configuration.joint_names,
        "layers": ((weight, bias),),
        "activation": "elu",
        "observation_terms": WALKING_TERMS,
        "observation_mean": mean,
        "observation_scale": scale,
        "action_offset": configuration.home,
        "action_scale": np.full(count, 0.5),
        "kp": configuration.nominal.kp,
        "kd": configuration.nominal.kd,
        "lower": np.full(count, -np.inf),
        "upper": np.full(count, np.inf),
        "velocity_limit": np.full(count, np.inf),
        "effort_limit": np.full(count, 80.0),
        "policy_rate": configuration.policy_rate,
        "epoch": 0,
    }
    return PolicyBundle(**(entries | changes))
