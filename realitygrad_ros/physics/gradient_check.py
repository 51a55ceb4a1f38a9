"""How far the gradients of whole rollouts agree with central differences.

A rollout's loss is a weighted sum of all its states, L(x) = sum_i w_i s_i(x), with random weights w and the inputs x:
initial state, commands, parameters. Along a random direction v the analytic derivative is v . dL/dx, and the difference

    D(h) = (L(x + h v) - L(x - h v)) / 2h,    D = (4 D(h) - D(2 h)) / 3

whose error is of fourth order in h (Richardson, 1911). h is the same for all directions, and v in units of the input.

Contact bends L: where a foot lands in another step or begins to slip, L has a kink or jumps, and there is no derivative.
A direction is taken to straddle such a point if the differences contradict one another, whatever the analytic
derivative says: a smooth L has D(2h) = D(h), and the second difference S(h) = L(x + h v) - 2 L(x) + L(x - h v), which is
h times the forward less the backward difference, grows as h^2. The measure

    max(|D(2h) - D(h)|, |S(2h) - 4 S(h)| / 4h)

is nearly 0 then, but of the size of the kink where one lies between -2h and 2h. Such directions are counted apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.state_space import changed
from realitygrad_ros.physics.stochastic import Rollouts

STEP = 1e-6
"""h, in the unit of the direction."""

TOLERANCE, LEAST_COSINE = 1e-4, 0.999
"""What a gradient must hold to be called right: error of every direction, and cosine."""

Inputs = dict[str, Tensor]
"""Inputs of rollouts by name, each with worlds first."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """Rollouts to differentiate. Every tensor is float64 and has worlds first."""

    initial: State
    """[world, ...]"""
    inputs: Inputs
    """What is differentiated by, at the values of the rollouts: the changes `position` and `velocity` of the initial
    state [world, dof], zero; `command` [world, time, joint]; each parameter [world, value]; `push` [world, time, 3]
    where there are pushes."""
    blocks: dict[str, tuple[str, slice]]
    """Names of parts of the inputs: which input, and which of its last dimension."""
    units: dict[str, float]
    """By block: the size of a change that matters as much as the others', by which directions are scaled."""


@dataclass(frozen=True, eq=False)
class Block:
    """What was found along directions in one part of the inputs; arrays are [direction, world]."""

    name: str
    analytic: Float[Tensor, "direction world"]
    difference: Float[Tensor, "direction world"]
    straddles: Bool[Tensor, "direction world"]
    """Where the difference straddles a kink or a jump."""
    error: Float[Tensor, "direction world"]
    """|analytic - difference|, relative to the larger of the two, or to what a difference in float64 can resolve to
    within `TOLERANCE`."""

    @property
    def cosine(self) -> float:
        """Least of the worlds' cosines between the derivatives along all directions; those that straddle left out."""
        a, d = (torch.where(self.straddles, 0.0, value) for value in (self.analytic, self.difference))
        lengths = a.norm(dim=0) * d.norm(dim=0)
        return float(torch.where(lengths > 0.0, (a * d).sum(0) / lengths, 1.0).min())

    def errors(self, straddling: bool) -> Tensor:
        """Errors of the directions that straddle, or of the others."""
        return self.error[self.straddles == straddling]
