"""How well the policy node keeps its rate, and how fast it starts, over real DDS with joint states at full rate."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from realitygrad_ros.control.bundle import OBSERVATION_TERMS, PolicyBundle
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.progress import Progress, silent
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration

HIDDEN = (128, 128)
"""Neurons in the layers of the synthetic policy: the size of a real one."""

PATIENCE = 20.0
"""Longest wait for another process [s]."""


def synthetic_bundle(configuration: RobotConfiguration, seed: int = 0, epoch: int = 0) -> PolicyBundle:
    """A policy of production size with random weights, which moves the robot a little around its home."""
    random = np.random.default_rng(seed)
    count = len(configuration.joint_names)
    sizes = (2 * count + 3, *HIDDEN, count)
    return PolicyBundle(
        robot=configuration.name,
        joint_names=configuration.joint_names,
        layers=tuple(
            (random.normal(scale=1.0 / np.sqrt(inputs), size=(outputs, inputs)), np.zeros(outputs))
            for inputs, outputs in pairwise(sizes)
        ),
        activation="tanh",
        observation_terms=OBSERVATION_TERMS,
        observation_mean=np.concatenate([configuration.home, np.zeros(count + 3)]),
        observation_scale=np.ones(sizes[0]),
        action_offset=configuration.home,
        action_scale=np.full(count, 0.1),
        kp=configuration.nominal.kp,
        kd=configuration.nominal.kd,
        lower=np.full(count, -np.pi),
        upper=np.full(count, np.pi),
        velocity_limit=np.full(count, np.pi),
        effort_limit=np.full(count, 150.0),
        policy_rate=configuration.policy_rate,
        epoch=epoch,
    )
