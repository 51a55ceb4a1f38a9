"""What a robot on legs does in an iteration: the velocities it walks at, and the chirp by which it is identified."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel


class Stretch(NamedTuple):
    """A part of a walk at one commanded velocity."""

    name: str
    velocity: tuple[float, float, float]
    """Forward, left [m/s], turning left [rad/s]; in the base frame."""
    duration: float
    """[s]"""


SCHEDULE = (
    Stretch("stand", (0.0, 0.0, 0.0), 2.0),
    Stretch("forward", (0.5, 0.0, 0.0), 5.0),
    Stretch("faster", (0.8, 0.0, 0.0), 5.0),
    Stretch("left", (0.0, 0.4, 0.0), 4.0),
    Stretch("right", (0.0, -0.4, 0.0), 4.0),
    Stretch("turn left", (0.0, 0.0, 0.6), 4.0),
    Stretch("right curve", (0.5, 0.0, -0.5), 4.0),
    Stretch("back", (-0.4, 0.0, 0.0), 4.0),
    Stretch("stop", (0.0, 0.0, 0.0), 2.0),
)
"""The walk of every iteration."""


SHARE = 0.25
"""Of the way to a limit that a chirp commands: at its resonance a leg swings wider than its commands."""


class Chirp(NamedTuple):
    """A sine whose frequency sweeps, in every joint at once, about the home pose.

    The frequency f grows exponentially with the time. Each joint is at another place of the sweep, so that no two move
    alike; at the end of the sweep it begins again, with the same phase.
    """

    duration: float = 20.0
    """[s]"""
    lowest: float = 0.1
    """Frequency at which the sweep begins [Hz]; slow motions tell friction from damping."""
    highest: float = 4.0
    """Frequency at which it ends [Hz]; above the resonance of a leg on its servos, which tells of inertia."""
    amplitude: float = 0.15
    """[rad], less in a joint whose limit is near."""
    ramp: float = 1.0
    """How long it takes to swell, and to fade [s]."""

    def commands(
        self, configuration: RobotConfiguration, model: RobotModel, rate: float
    ) -> Float[np.ndarray, "time joint"]:
        """Position targets [rad], `rate` a second, within the limits."""
        time = np.arange(round(self.duration * rate)) / rate
        n = len(configuration.joint_names)
        place = (time[:, None] / self.duration + np.arange(n) / n) % 1.0
        frequency = self.lowest * (self.highest / self.lowest) ** place
        phase = 2.0 * np.pi * np.cumsum(frequency, axis=0) / rate
        swell = np.clip(np.minimum(time, self.duration - time) / self.ramp, 0.0, 1.0)
        home, lower, upper = configuration.home, model.limit_array("lower"), model.limit_array("upper")
        amplitude = np.minimum(self.amplitude, SHARE * np.minimum(home - lower, upper - home))
        commands: np.ndarray = home + amplitude * swell[:, None] * np.sin(phase - phase[0])
        return commands


CHIRP = Chirp()
"""That of every iteration."""
