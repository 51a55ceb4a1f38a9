"""How far the gradients of whole rollouts agree with central differences.

A rollout's loss is a weighted sum of all its states, L(x) = sum_i w_i s_i(x), with random weights w and the inputs x:
initial state, commands, parameters. Along a random direction v the analytic derivative is v . dL/dx, and the difference

    D(h) = (L(x + h v) - L(x - h v)) / 2h,    D = (4 D(h) - D(2h)) / 3

whose error is of fourth order in h (Richardson's extrapolation). h is the same for all directions.

Contact bends L: where a foot lands in another step or begins to slip, L has a kink or jumps, and there is no
derivative. A direction is taken to straddle such a point if the differences contradict one another, whatever the
analytic derivative says. For a smooth L, D(2h) = D(h), and S(h) = (L(x + h v) - 2 L(x) + L(x - h v)) / h, which is the
forward less the backward difference, is proportional to h. So

    max(|D(2h) - D(h)|, |S(2h) - 2 S(h)| / 2)

is nearly 0 then. Where a kink lies between -h and h, the error of D is at most 1.7 times this measure, so directions
of which it exceeds a quarter of the tolerance are counted apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.state_space import changed
from realitygrad_ros.physics.stochastic import Rollouts
from realitygrad_ros.progress import Progress, silent

STEP = 1e-5
"""h, in the unit of a direction."""

ROUNDING = 10.0 * torch.finfo(torch.float64).eps
"""How far L is known, relative to the sum of its terms' magnitudes: each step adds to what is rounded before."""

TOLERANCE, LEAST_COSINE, MOST_KINKS = 1e-4, 0.999, 0.01
"""What a gradient that is right holds: the error of every direction that has a derivative, the cosine over directions,
and the share of directions that straddle a point without a derivative."""

STATE_CHANGES, COMMAND, PUSH = ("position", "velocity"), "command", "push"

Inputs = Mapping[str, Tensor]
"""What rollouts are differentiated by, each with worlds in its first dimension."""


@dataclass(frozen=True)
class Part:
    """A part of one input: some of its last dimension."""

    input: str
    elements: slice
    unit: float
    """The size of its random changes."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """Rollouts to differentiate, in float64."""

    initial: State
    """[world, ...]"""
    inputs: Inputs
    """`position` and `velocity`: changes of the initial state [world, dof], here zero; `command` [world, time, joint];
    each parameter [world, value]; with a floating base also `push` [world, time, 3]."""
    blocks: Mapping[str, Sequence[Part]]
    """The parts of the inputs along which to differentiate, by a name to show."""


@dataclass(frozen=True, eq=False)
class BlockCheck:
    """Derivatives along directions in one block of the inputs."""

    analytic: Float[Tensor, "direction world"]
    difference: Float[Tensor, "direction world"]
    straddles: Bool[Tensor, "direction world"]
    """Where the difference straddles a kink or a jump."""
    resolution: float
    """The least derivative that the difference can tell to within `TOLERANCE`, for L is known to rounding only."""

    @property
    def error(self) -> Float[Tensor, "direction world"]:
        """|analytic - difference|, relative to the larger of the two or to the resolution."""
        larger = torch.maximum(self.analytic.abs(), self.difference.abs()).clamp(min=self.resolution)
        return (self.analytic - self.difference).abs() / larger

    @property
    def cosine(self) -> float:
        """Least of the worlds' cosines between analytic derivatives and differences, without those that straddle."""
        both = torch.stack([self.analytic, self.difference])
        seen = (both.abs().amax(0) >= self.resolution) & ~self.straddles
        a, d = torch.where(seen, both, 0.0)
        lengths = a.norm(dim=0) * d.norm(dim=0)
        cosines = (a * d).sum(0) / torch.where(lengths > 0.0, lengths, 1.0)
        return float(torch.where(seen.any(0), cosines, 1.0).min())

    def errors(self, *, straddling: bool) -> Tensor:
        """Errors of the directions that straddle, or of the others."""
        return self.error[self.straddles == straddling]


def check_gradients(
    rollouts: Rollouts, scenario: Scenario, *, directions: int, seed: int = 0, progress: Progress = silent
) -> dict[str, BlockCheck]:
    """Compare gradients with differences, block by block.

    Args:
        rollouts: of float64.
        scenario: whose worlds are compared, each on its own.
        directions: random directions for each block and world.
        seed: of the weights and directions.
        progress: told of each block.

    Returns:
        What was found, by the block's name.
    """
    random = torch.Generator().manual_seed(seed)
    inputs = scenario.inputs
    worlds, time, _ = inputs[COMMAND].shape
    shapes = [(time + 1, worlds, state.shape[-1]) for state in scenario.initial]
    weights = State(*(torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes))
    leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    loss, size = _loss(rollouts, scenario, leaves, weights)
    gradients = dict(zip(leaves, torch.autograd.grad(loss.sum(), list(leaves.values())), strict=True))
    resolution = ROUNDING * float(size.max()) / STEP / TOLERANCE
    checks = {}
    for name, parts in scenario.blocks.items():
        along = {part.input: torch.zeros(directions, *inputs[part.input].shape, dtype=torch.float64) for part in parts}
        for part in parts:
            block = along[part.input][..., part.elements]
            block += part.unit * torch.randn(block.shape, generator=random, dtype=torch.float64)
        analytic = torch.stack([(gradients[key] * v).flatten(2).sum(-1) for key, v in along.items()]).sum(0)
        difference, contradiction = _differences(rollouts, scenario, weights, along, loss.detach())
        straddles = contradiction > 0.25 * TOLERANCE * difference.abs().clamp(min=resolution)
        checks[name] = BlockCheck(analytic, difference, straddles, resolution)
        progress("gradients", len(checks) / len(scenario.blocks), {"cosine": checks[name].cosine})
    return checks


def _differences(
    rollouts: Rollouts, scenario: Scenario, weights: State, along: Inputs, middle: Tensor
) -> tuple[Tensor, Tensor]:
    """D, and how far the differences contradict one another, both [direction, world]."""
    multiples = torch.tensor([-2.0, -1.0, 1.0, 2.0], dtype=torch.float64) * STEP
    directions, worlds = next(iter(along.values())).shape[:2]
    inputs = {}
    for name, value in scenario.inputs.items():
        # [multiple, direction, world, ...]: every point is a world of one rollout.
        steps = torch.tensordot(multiples, along[name], 0) if name in along else torch.zeros(4, directions, 1)
        inputs[name] = (value + steps.reshape(*steps.shape, *[1] * (value.ndim + 2 - steps.ndim))).flatten(0, 2)
    with torch.no_grad():
        points, _ = _loss(rollouts, scenario, inputs, weights)
    far_behind, behind, ahead, far_ahead = points.unflatten(0, (4, directions, worlds))
    D_h, D_2h = (ahead - behind) / (2.0 * STEP), (far_ahead - far_behind) / (4.0 * STEP)
    S_h = (ahead - 2.0 * middle + behind) / STEP
    S_2h = (far_ahead - 2.0 * middle + far_behind) / (2.0 * STEP)
    return (4.0 * D_h - D_2h) / 3.0, torch.maximum((D_2h - D_h).abs(), (S_2h - 2.0 * S_h).abs() / 2.0)


def _loss(rollouts: Rollouts, scenario: Scenario, inputs: Inputs, weights: State) -> tuple[Tensor, Tensor]:
    """L of each world, and the sum of its terms' magnitudes; there may be several times the worlds of the scenario."""
    copies = len(inputs[COMMAND]) // len(scenario.initial.position)
    position, velocity = (value.repeat(copies, 1) for value in scenario.initial)
    initial = State(changed(rollouts.model, position, inputs["position"]), velocity + inputs["velocity"])
    push = inputs[PUSH].transpose(0, 1) if PUSH in inputs else None
    parameters = {name: value for name, value in inputs.items() if name not in (*STATE_CHANGES, COMMAND, PUSH)}
    states = rollouts.rollout(initial, inputs[COMMAND].transpose(0, 1), parameters, push)
    terms = torch.cat([w.repeat(1, copies, 1) * s for w, s in zip(weights, states, strict=True)], -1)
    return terms.sum((0, 2)), terms.detach().abs().sum((0, 2))


def figures(checks: Mapping[str, BlockCheck]) -> dict[str, Any]:
    """What was found, ready for JSON: cosine and errors of each block, the worst case, and whether the gradient holds.

    Errors are of the directions without a kink; `kinks` counts the others, and `worst_error_at_kinks` is theirs.
    """
    blocks: dict[str, dict[str, Any]] = {}
    for name, check in checks.items():
        smooth, kinked = check.errors(straddling=False), check.errors(straddling=True)
        blocks[name] = {
            "directions": check.error.numel(),
            "cosine": check.cosine,
            "median_error": float(smooth.median()) if len(smooth) else None,
            "worst_error": float(smooth.max()) if len(smooth) else None,
            "kinks": len(kinked),
            "worst_error_at_kinks": float(kinked.max()) if len(kinked) else None,
        }
    worst = max(checks, key=lambda name: blocks[name]["worst_error"] or 0.0)
    least = min(checks, key=lambda name: blocks[name]["cosine"])
    share = sum(block["kinks"] for block in blocks.values()) / sum(block["directions"] for block in blocks.values())
    case = _worst_case(checks[worst])
    return {
        "blocks": blocks,
        "worst": {"input": worst, **case},
        "least_cosine": {"input": least, "cosine": blocks[least]["cosine"]},
        "kinks": share,
        "holds": case["error"] <= TOLERANCE and blocks[least]["cosine"] >= LEAST_COSINE and share <= MOST_KINKS,
    }


def _worst_case(check: BlockCheck) -> dict[str, Any]:
    """The direction without a kink that has the largest error."""
    error = torch.where(check.straddles, -1.0, check.error)
    direction, world = divmod(int(error.argmax()), error.shape[1])
    return {
        "direction": direction,
        "world": world,
        "analytic": float(check.analytic[direction, world]),
        "difference": float(check.difference[direction, world]),
        "error": float(check.error[direction, world]),
    }
