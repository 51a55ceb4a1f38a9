"""Contact smoothed by chance: the mean of rollouts from perturbed initial states.

The baseline that Schwarke et al. (arXiv 2404.02887) hold analytic smoothing against: contact stays hard,
and what jumps in one rollout is softened in the mean of many. The gradient of that mean, for samples that are fixed, is
the mean of the rollouts' gradients. It is no gradient of the expected value: a rollout that jumps between two states
adds the size of the jump to the slope of the expected value, but nothing to the mean of the slopes. The more the jumps
matter, as the step in which a foot lands, the more this gradient is biased, and no number of samples mends it.

The number of samples and their deviations are ours.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics.simulator import Simulator, State
from realitygrad_ros.physics.state_space import changed, mean_state
from realitygrad_ros.robot.contact import CONTACT_MODES
from realitygrad_ros.robot.model import RobotModel

STOCHASTIC = "stochastic"
GRADIENT_MODES = (*CONTACT_MODES, STOCHASTIC)
"""The modes of contact whose gradients are compared."""


class Rollouts(Protocol):
    """What rolls worlds out as `Simulator` does."""

    model: RobotModel
    dtype: torch.dtype

    def rollout(
        self, initial: State, command: Tensor, parameters: Mapping[str, Tensor], push: Tensor | None = None
    ) -> State:
        """As `Simulator.rollout`."""
        ...


class StochasticSimulator:
    """Rolls out the mean of perturbed copies of every world."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        samples: int = 32,
        position_deviation: float = 0.01,
        velocity_deviation: float = 0.05,
        seed: int = 0,
    ) -> None:
        """Draw the perturbations, which then stay: Gaussian samples, and their mirror images, so that their mean is 0.

        Args:
            simulator: rolls out each copy, with hard contact.
            samples: copies of a world; even.
            position_deviation: standard deviation of the base's position, its rotation vector and the joints' positions
                [m or rad].
            velocity_deviation: standard deviation of every velocity [m/s or rad/s].
            seed: of the samples.

        Raises:
            ValueError: `samples` is not even and positive.
        """
        if samples < 2 or samples % 2:
            raise ValueError(f"samples must be even and positive, not {samples}")
        self.simulator = simulator
        self.model = simulator.model
        self.dtype = simulator.dtype
        random = torch.Generator().manual_seed(seed)
        half = torch.randn(2, samples // 2, 1, self.model.velocity_count, generator=random, dtype=torch.float64)
        both = torch.cat([half, -half], 1).to(self.dtype)
        self._position_change, self._velocity_change = position_deviation * both[0], velocity_deviation * both[1]

    def rollout(
        self,
        initial: State,
        command: Float[Tensor, "time world joint"],
        parameters: Mapping[str, Float[Tensor, "world_or_1 value"]],
        push: Float[Tensor, "time world 3"] | None = None,
    ) -> State:
        """The mean of the copies' states at every time; arguments, shapes and errors as for `Simulator.rollout`."""
        copies = len(self._position_change)
        position = changed(self.model, initial.position[None], self._position_change)
        velocity = initial.velocity + self._velocity_change
        states = self.simulator.rollout(
            State(position.flatten(0, 1), velocity.flatten(0, 1)),
            command.repeat(1, copies, 1),
            {name: value if len(value) == 1 else value.repeat(copies, 1) for name, value in parameters.items()},
            None if push is None else push.repeat(1, copies, 1),
        )
        apart = State(*(value.unflatten(1, (copies, -1)) for value in states))
        return mean_state(self.model, apart, 1)


def contact_simulator(model: RobotModel, mode: str, **options: Any) -> Rollouts:
    """A simulator of one of `GRADIENT_MODES`; options are those of `Simulator`, but for its contact mode."""
    simulator = Simulator(model, contact_mode="hard" if mode == STOCHASTIC else mode, **options)
    return StochasticSimulator(simulator) if mode == STOCHASTIC else simulator
