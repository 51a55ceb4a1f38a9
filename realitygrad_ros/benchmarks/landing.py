"""The landing of a foot that moves sideways, and its gradient by the height from which it falls.

After figure 3 of Schwarke et al. (arXiv 2404.02887). A point of mass m falls from the height z_0 with the horizontal
speed v_x; on the ground friction stops it, so that the place where it ends depends on when it lands. The objective is
the squared distance of that place to a goal. For a rigid foot in continuous time,

    t = sqrt(2 z_0 / g),    v = max(v_x - mu g t, 0),    x = v_x t + v^2 / (2 mu g)

are the time of the fall, the speed that the impulse of the landing leaves, and the place after slipping to rest.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.stochastic import contact_simulator
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.contact import ContactConfiguration, ContactSphere
from realitygrad_ros.robot.model import BASE, Body, Frame, RobotModel, Transform
from realitygrad_ros.robot.parameters import PARAMETER_NAMES

HEIGHTS = np.linspace(0.02, 0.15, 261)
"""z_0 [m]"""
SPEEDS = np.array([0.4, 0.7, 1.0])
"""v_x [m/s]"""
GOAL = 0.1
"""[m]"""
GRAVITY = 9.81
"""g [m/s^2]"""
MASS = 1.5
"""m [kg]: a quarter of ANYmal C, whose contact the foot has."""
DURATION = 0.4
"""Of a rollout [s]: the longest fall, and enough to come to rest."""

FOOT = "foot"


@dataclass(frozen=True, eq=False)
class Landing:
    """Where the foot ends, by its speed and the height from which it falls."""

    place: Float[np.ndarray, "speed height"]
    """x [m]"""
    gradient: Float[np.ndarray, "speed height"]
    """Derivative of the objective by z_0 [m]."""

    @property
    def objective(self) -> Float[np.ndarray, "speed height"]:
        """(x - goal)^2 [m^2]."""
        return (self.place - GOAL) ** 2


def foot_contact() -> ContactConfiguration:
    """Contact as that of ANYmal C, in one point."""
    contact = load_configuration("anymal_c").contact
    assert contact is not None
    return replace(contact, spheres=(ContactSphere(FOOT, np.zeros(3), 0.0),))


def rigid_landing(friction_coefficient: float) -> Landing:
    """The rigid foot in continuous time."""
    mu, v_x = friction_coefficient, SPEEDS[:, None]
    t = np.sqrt(2.0 * HEIGHTS / GRAVITY)
    v = np.maximum(v_x - mu * GRAVITY * t, 0.0)
    place = v_x * t + v * v / (2.0 * mu * GRAVITY)
    dt = 1.0 / (GRAVITY * t)  # of the time of the fall by z_0
    return Landing(place, 2.0 * (place - GOAL) * (v_x - v) * dt)


def simulated_landing(mode: str, contact: ContactConfiguration) -> Landing:
    """The foot in the simulator, in one of `GRADIENT_MODES`; every speed and height is a world."""
    model = _foot()
    simulator = contact_simulator(
        model, mode, contact=contact, time_step=contact.time_step, gravity=(0.0, 0.0, -GRAVITY), dtype=torch.float64
    )
    speed, height = (torch.tensor(values).flatten() for values in np.meshgrid(SPEEDS, HEIGHTS, indexing="ij"))
    height.requires_grad_()
    zero = torch.zeros_like(speed)
    position = torch.stack([zero, zero, height, zero, zero, zero, torch.ones_like(zero)], -1)
    velocity = torch.stack([speed, *[zero] * 5], -1)
    steps = round(DURATION / contact.time_step)
    command = torch.zeros(steps, len(speed), 0, dtype=torch.float64)
    parameters = {name: torch.zeros(1, 0, dtype=torch.float64) for name in PARAMETER_NAMES}
    place = simulator.rollout(State(position, velocity), command, parameters).position[-1, :, 0]
    (gradient,) = torch.autograd.grad((place - GOAL).square().sum(), height)
    shape = (len(SPEEDS), len(HEIGHTS))
    return Landing(place.detach().numpy().reshape(shape), gradient.numpy().reshape(shape))


def _foot() -> RobotModel:
    """A floating point of mass; it never turns, for every force acts on its centre of mass."""
    body = Body(MASS, np.zeros(3), np.eye(3), (FOOT,))
    return RobotModel(FOOT, (), {FOOT: Frame(FOOT, BASE, Transform.identity())}, base_link=FOOT, base=body)
