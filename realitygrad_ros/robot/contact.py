"""Where a robot may touch the ground, and how the simulator computes the contact.

The ground is the plane z = 0 of the world. An incline is a ground under a tilted gravity.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

CONTACT_MODES = ("hard", "smooth", "soft")
"""`hard`: impulses of a rigid contact; `smooth`: these scaled by a sigmoid of the height; `soft`: springs, dampers."""

STEP_SIZES = ("paper", "spectral")
"""Rules for the step size of the projected Gauss-Seidel sweeps."""


@dataclass(frozen=True, eq=False)
class ContactSphere:
    """A sphere that may touch the ground, such as a foot."""

    link: str
    """The link that it is fixed to, which also names it; a link has one sphere at most."""
    center: Float[np.ndarray, "3"]
    """In the link's frame [m]."""
    radius: float
    """[m]"""


@dataclass(frozen=True)
class SoftContact:
    """Gains of the penalty contact, for the mode `soft`."""

    stiffness: float
    """Normal force by penetration [N/m]."""
    damping: float
    """Normal force by speed of approach [N s/m]."""
    tangential_damping: float
    """Friction force by slip, as long as it stays inside the friction cone [N s/m]."""


@dataclass(frozen=True, eq=False)
class ContactConfiguration:
    """Contact of one robot with the ground."""

    spheres: tuple[ContactSphere, ...]
    time_step: float
    """Length of a physics step with contact [s]."""
    friction_coefficient: float
    """mu, of every sphere, unless a world has its own."""
    kappa: float
    """Sharpness of the sigmoid in the mode `smooth` [1/m]."""
    recovery_rate: float
    """Rate at which a penetration decays [1/s]."""
    sweeps: int
    """Number of Gauss-Seidel sweeps, N."""
    step_size: str
    """One of `STEP_SIZES`."""
    soft: SoftContact
