"""Changes and means of states, and the mean of perturbed rollouts."""

import numpy as np
import pytest
import torch
from legged_robots import FLOAT, block, held, parameters, simulator, standing, thrown

from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.state_space import changed, mean_state
from realitygrad_ros.physics.stochastic import StochasticSimulator

ROBOT = block()
WORLDS, TIME = 3, 40


def test_a_change_turns_the_base_about_its_own_axes_and_moves_it_along_the_worlds():
    half = np.sqrt(0.5)
    position = torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0, half, half], dtype=FLOAT)  # turned left by 90 degrees
    change = torch.tensor([0.1, 0.0, 0.0, 0.02, 0.0, 0.0], dtype=FLOAT)  # about its own x, the world's y
    result = changed(ROBOT.model, position, change)
    torch.testing.assert_close(result[:3], torch.tensor([1.1, 2.0, 3.0], dtype=FLOAT))
    angle = np.arctan(0.01)
    about_y = [half * np.sin(angle), half * np.sin(angle), half * np.cos(angle), half * np.cos(angle)]
    np.testing.assert_allclose(result[3:], about_y, rtol=1e-14)


def test_a_change_is_differentiable_at_none():
    start = thrown(ROBOT, WORLDS, seed=1, height=0.1)
    none = torch.zeros(WORLDS, 6, dtype=FLOAT, requires_grad=True)
    torch.testing.assert_close(changed(ROBOT.model, start.position, none), start.position)
    assert torch.autograd.gradcheck(lambda change: changed(ROBOT.model, start.position, change), none)


def test_a_mean_does_not_care_for_the_sign_of_a_quaternion():
    start = thrown(ROBOT, WORLDS, seed=2, height=0.1)
    turned = changed(ROBOT.model, start.position, 0.1 * torch.ones(6, dtype=FLOAT))
    flipped = turned.clone()
    flipped[:, 3:7] *= -1.0
    means = []
    for other in (turned, flipped):
        states = State(torch.stack([start.position, other]), torch.stack([start.velocity] * 2))
        means.append(mean_state(ROBOT.model, states, 0))
    torch.testing.assert_close(means[0].position, means[1].position)
    halfway = changed(ROBOT.model, start.position, 0.05 * torch.ones(6, dtype=FLOAT))
    torch.testing.assert_close(means[0].position, halfway, rtol=0.0, atol=1e-4)
    torch.testing.assert_close(means[0].velocity, start.velocity)


@pytest.fixture(scope="module")
def hard():
    return simulator(ROBOT, "hard")


def inputs() -> tuple[State, torch.Tensor, dict[str, torch.Tensor]]:
    start = standing(ROBOT, WORLDS, height=0.02)
    start.velocity[:, 0] = torch.tensor([0.2, 0.5, 1.0])
    return start, held(ROBOT, TIME, WORLDS), parameters(ROBOT)


def test_without_perturbations_it_is_the_hard_simulator(hard):
    still = StochasticSimulator(hard, samples=2, position_deviation=0.0, velocity_deviation=0.0)
    for ours, theirs in zip(still.rollout(*inputs()), hard.rollout(*inputs()), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_perturbations_have_no_mean_and_stay_the_same(hard):
    first, again, other = (StochasticSimulator(hard, seed=seed).rollout(*inputs()) for seed in (0, 0, 1))
    start = inputs()[0]
    torch.testing.assert_close(first.position[0], start.position, rtol=0.0, atol=1e-3)
    torch.testing.assert_close(first.velocity[0], start.velocity)
    assert torch.equal(first.position, again.position)
    assert not torch.equal(first.position, other.position)


def test_worlds_are_averaged_each_on_its_own(hard):
    stochastic = StochasticSimulator(hard, samples=8)
    start, command, gains = inputs()
    push = torch.zeros(TIME, WORLDS, 3, dtype=FLOAT)
    push[:, 1, 1] = 5.0
    gains["added_base_mass"] = torch.tensor([[0.0], [1.0], [2.0]], dtype=FLOAT)
    together = stochastic.rollout(start, command, gains, push)
    for w in range(WORLDS):
        own = gains | {"added_base_mass": gains["added_base_mass"][w : w + 1]}
        one = State(*(value[w : w + 1] for value in start))
        alone = stochastic.rollout(one, command[:, w : w + 1], own, push[:, w : w + 1])
        torch.testing.assert_close(alone.position[:, 0], together.position[:, w])


def test_its_gradient_is_the_mean_of_gradients_and_misses_the_jumps(hard):
    """The place where a foot lands moves with the height that it falls from; but no single landing knows."""
    start, command, gains = inputs()
    height = torch.linspace(0.02, 0.06, 81, dtype=FLOAT, requires_grad=True)
    position = start.position[:1].repeat(len(height), 1)
    position = torch.cat([position[:, :2], position[:, 2:3] + height[:, None], position[:, 3:]], 1)
    velocity = start.velocity[1:2].repeat(len(height), 1)
    states = StochasticSimulator(hard, samples=64).rollout(
        State(position, velocity), command[:, :1].repeat(1, len(height), 1), gains
    )
    place = states.position[-1, :, 0]
    (gradient,) = torch.autograd.grad(place.sum(), height)
    first, last = place.detach()[[0, -1]]
    slope = float(last - first) / (0.06 - 0.02)
    assert slope > 0.4
    assert abs(float(gradient.mean())) < 0.2 * slope


def test_an_odd_number_of_samples_is_refused(hard):
    with pytest.raises(ValueError, match="samples"):
        StochasticSimulator(hard, samples=3)
