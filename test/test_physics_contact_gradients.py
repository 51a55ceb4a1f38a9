"""Gradients through contact against central differences in float64, over whole rollouts.

Landing, slipping and lifting off bend a trajectory, in a smoothed contact, too: the friction cone has an edge, and a
penetration is only mended below the ground. In a hard or soft contact it may even jump. The seeds are such that no
difference of 2e-6 straddles such a point.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from legged_robots import (
    FLOAT,
    LeggedRobot,
    anymal,
    held,
    parameters,
    simulator,
    standing,
    tree,
)

from realitygrad_ros.physics.simulator import State

WORLDS, STEPS, DIRECTIONS = 4, 50, 10
DIFFERENCE = 1e-6

Inputs = dict[str, torch.Tensor]


class Case:
    """Worlds in which feet land, slip and lift off, and a random linear functional of their trajectories.

    Every input has worlds first, so that a changed input is another world.
    """

    def __init__(self, robot: LeggedRobot, mode: str, seed: int = 0, **options) -> None:
        self.simulator = simulator(robot, mode, **options)
        self.random = torch.Generator().manual_seed(seed)
        n, dof, contacts = robot.model.joint_count, robot.model.velocity_count, len(robot.contact.spheres)
        start = standing(robot, WORLDS, height=0.005)
        position = start.position + 0.02 * self.normal(WORLDS, 7 + n)
        position[:, 3:7] /= position[:, 3:7].norm(dim=1, keepdim=True)
        velocity = 0.3 * self.normal(WORLDS, dof)
        velocity[:, 2] -= 0.5
        wander = 0.05 * self.normal(STEPS, WORLDS, n).cumsum(0)
        self.inputs: Inputs = {
            "position": position,
            "velocity": velocity,
            "command": (held(robot, STEPS, WORLDS) + wander).transpose(0, 1).contiguous(),
            "push": 0.02 * robot.mass * 9.81 * self.normal(WORLDS, STEPS, 3),
            "friction_coefficient": 0.5 + 0.1 * self.normal(WORLDS, contacts).tanh(),
            "added_base_mass": 0.1 * robot.mass * self.normal(WORLDS, 1).tanh(),
        }
        gains = parameters(robot, WORLDS)
        self.inputs |= {name: (v + 0.01) * (1.0 + 0.2 * self.normal(WORLDS, n).tanh()) for name, v in gains.items()}
        self.weights = [self.normal(STEPS + 1, 1, 7 + n), 0.1 * self.normal(STEPS + 1, 1, dof)]

    def normal(self, *shape: int) -> torch.Tensor:
        """Random numbers."""
        return torch.randn(*shape, generator=self.random, dtype=FLOAT)

    def arguments(self, inputs: Inputs) -> tuple[State, torch.Tensor, Inputs, torch.Tensor]:
        """Those of a rollout."""
        given = dict(inputs)
        initial = State(given.pop("position"), given.pop("velocity"))
        command, push = (given.pop(name).transpose(0, 1) for name in ("command", "push"))
        return initial, command, given, push

    def loss(self, inputs: Inputs) -> torch.Tensor:
        """[world]"""
        states = self.simulator.rollout(*self.arguments(inputs))
        return sum((weight * value).sum((0, 2)) for weight, value in zip(self.weights, states, strict=True))

    def derivatives(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By input: analytic derivatives and differences along random directions, [direction, world]."""
        leaves = {name: value.clone().requires_grad_() for name, value in self.inputs.items()}
        self.loss(leaves).sum().backward()
        found = {}
        for name, value in self.inputs.items():
            direction = self.normal(DIRECTIONS, *value.shape) * value.abs().mean()
            analytic = (leaves[name].grad * direction).flatten(2).sum(2)
            changed = [(value + sign * DIFFERENCE * direction).flatten(0, 1) for sign in (1.0, -1.0)]
            copies = {other: torch.cat([tensor] * 2 * DIRECTIONS) for other, tensor in self.inputs.items()}
            ahead, behind = self.loss(copies | {name: torch.cat(changed)}).reshape(2, DIRECTIONS, WORLDS)
            found[name] = (analytic.numpy(), ((ahead - behind) / (2.0 * DIFFERENCE)).numpy())
        return found


def check(case: Case) -> None:
    """Each input's gradient: 1e-4 relative, and the cosine over directions in every world where the input matters.

    Where it does not, as the friction of a foot that never slips, a difference is mostly rounding.
    """
    impulses = case.simulator.contact_impulses(*case.arguments(case.inputs))
    assert (impulses[..., 2] > 1e-3).double().mean() > 0.3
    for name, (analytic, difference) in case.derivatives().items():
        size = np.linalg.norm(difference, axis=0)
        matters = size > 1e-3 * size.max()
        assert matters.any(), name
        error = np.abs(analytic - difference).max(0)
        assert (error < 1e-4 * np.where(matters, size, size.max())).all(), name
        product = (analytic * difference).sum(0)[matters]
        assert (product > 0.999 * (size * np.linalg.norm(analytic, axis=0))[matters]).all(), name


@pytest.mark.parametrize(("robot", "step_size"), [(anymal, "spectral"), (tree, "paper")])
def test_gradients_of_a_smooth_contact_agree_with_differences(robot, step_size):
    """Also the re-implementation on MJX that reports a cosine of 0.374 had this one to reach."""
    check(Case(robot(), "smooth", seed=1, step_size=step_size))


@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_gradients_of_the_other_contacts_agree_with_differences_where_nothing_jumps(mode):
    robot = tree()
    check(Case(robot, mode, seed=3))


@pytest.mark.parametrize("mode", ["hard", "smooth", "soft"])
def test_every_column_of_a_steps_jacobian_agrees_with_differences(mode):
    """Through A^-1 J^T, which a solver of all right-hand sides at once has differentiated wrongly."""
    robot = tree()
    world = simulator(robot, mode)
    start = standing(robot, height=-0.002)
    start.velocity[0] = torch.tensor(np.random.default_rng(3).normal(0.0, 0.3, robot.model.velocity_count))
    fixed = (held(robot, 1) + 0.1, parameters(robot))

    def step(position: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        states = world.rollout(State(position[None], velocity[None]), *fixed)
        return torch.cat([states.position[1, 0], states.velocity[1, 0]])

    check_jacobian(step, start.position[0], start.velocity[0])


def check_jacobian(step: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Every element, relative to the largest of its block."""
    jacobians = torch.autograd.functional.jacobian(step, inputs)
    for which, jacobian in enumerate(jacobians):
        for k in range(jacobian.shape[1]):
            ahead, behind = ([value.clone() for value in inputs] for _ in range(2))
            ahead[which][k] += DIFFERENCE
            behind[which][k] -= DIFFERENCE
            column = (step(*ahead) - step(*behind)) / (2.0 * DIFFERENCE)
            torch.testing.assert_close(jacobian[:, k], column, rtol=0.0, atol=1e-7 * float(jacobian.abs().max()))
