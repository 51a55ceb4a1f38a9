"""The tasks of walking robots, as lists of terms with their weights.

Where a number comes from: (a) the paper, Schwarke et al., arXiv 2404.02887, as its summaries give it; (b) second-hand,
as a public re-implementation attributes it to the paper's appendix; (c) ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from realitygrad_ros.control.tasks.legged import OBSERVATIONS

Range = tuple[float, float]


@dataclass(frozen=True)
class Randomisation:
    """What differs between worlds and episodes, drawn uniformly."""

    friction_coefficient: Range | None = None
    """Of all feet of a robot; none: the configuration's."""
    added_base_mass: Range = (0.0, 0.0)
    """[kg]"""
    damping: Range | None = None
    """Of every joint by itself [N m s/rad]; none: the robot's parameters."""
    friction: Range | None = None
    """Of every joint by itself [N m]; none: the robot's parameters."""
    delay: Range = (0.0, 0.0)
    """From an observation to the command that it leads to, of an episode [s]; less than a control step."""
    kick: float = 0.0
    """Largest sudden change of the base's horizontal velocity, by component [m/s]."""
    kick_interval: Range = (10.0, 15.0)
    """Time between two kicks, and between two commands [s]."""
    observation_noise: Mapping[str, float] = field(default_factory=dict)
    """Largest error of each number of an observation, by term."""


@dataclass(frozen=True)
class WalkingTask:
    """A task of a walking robot."""

    name: str
    observations: tuple[str, ...]
    """Names of `legged.OBSERVATIONS`, in the order of the policy's input."""
    rewards: Mapping[str, float]
    """Weight of each of `legged.REWARDS` that counts."""
    command_lower: tuple[float, float, float]
    """Of the commands: forward, left [m/s], turning left [rad/s]."""
    command_upper: tuple[float, float, float]
    duration: float
    """Of an episode [s]."""
    least_base_height: float
    """An episode ends as a fall when the base's origin is lower [m]."""
    randomisation: Randomisation = Randomisation()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", MappingProxyType(dict(self.rewards)))


_REWARDS = {
    "linear_velocity": 1.0,  # (b)
    "turning": 0.5,  # (b)
    "foot_height": 0.3,  # (c): (b) has 3.0, by which standing on the spot and stepping high pays more than walking
    "vertical_velocity": 2.0,  # (b)
    "rolling": 0.05,  # (b)
    "base_height": 1.0,  # (b), around the robot's own height
    "upright": 0.5,  # (b)
    "action": 0.005,  # (c): (b) has 0.05
    "action_rate": 0.01,  # (b)
    "joint_acceleration": 2.5e-7,  # (b)
    "torque": 2.5e-5,  # (b)
}

WALK = WalkingTask(
    name="walk",
    observations=tuple(OBSERVATIONS),  # (c): the same as for `velocity`, so that the robot runs both
    rewards=_REWARDS,  # (c): those of the paper's Warp quadruped are not public
    command_lower=(1.0, 0.0, 0.0),  # (a)
    command_upper=(1.0, 0.0, 0.0),
    duration=10.0,  # (a)
    least_base_height=0.25,  # (a)
)
"""Walk forward at 1 m/s."""

VELOCITY = WalkingTask(
    name="velocity",
    observations=tuple(OBSERVATIONS),  # (b), with the gait's phase as sine and cosine
    # (c): twice the weights of (b); with those, standing on the spot is a trap
    rewards=_REWARDS | {"linear_velocity": 2.0, "turning": 1.0},
    command_lower=(-1.0, -1.0, -1.0),  # (b)
    command_upper=(1.0, 1.0, 1.0),
    duration=20.0,  # (c)
    least_base_height=0.25,  # (b)
    randomisation=Randomisation(
        friction_coefficient=(0.5, 1.25),  # (b)
        added_base_mass=(-5.0, 5.0),  # (b)
        damping=(0.0, 3.0),  # (c): what an identification may find
        friction=(0.0, 3.0),  # (c)
        delay=(0.0, 0.015),  # (c): of messages, and of the policy's own computation
        kick=0.5,  # (b)
        kick_interval=(10.0, 15.0),  # (b)
        observation_noise={  # (c): what good encoders, an IMU and a state estimator leave
            "linear_velocity": 0.1,
            "angular_velocity": 0.1,
            "gravity_direction": 0.02,
            "joint_position": 0.01,
            "joint_velocity": 0.5,
        },
    ),
)
"""Follow commanded velocities, pushed about, with an unknown load, on ground of unknown grip."""

TASKS = {task.name: task for task in (WALK, VELOCITY)}
"""By name."""
