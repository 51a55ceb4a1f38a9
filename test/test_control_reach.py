"""The reaching task: targets, goal postures, and a cost that is zero at rest on the target and nowhere less."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.control.tasks.reach import (
    ReachProblem,
    distance_cost,
    limit_cost,
    position_limit_cost,
    sample_targets,
)
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("ur5")


@pytest.fixture(scope="module")
def problem() -> ReachProblem:
    return ReachProblem(MODEL, CONFIGURATION, CONFIGURATION.nominal)


def targets(count: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor(sample_targets(CONFIGURATION, count, seed), dtype=torch.float32)


def test_targets_lie_in_the_box_and_are_the_same_for_the_same_seed():
    drawn = sample_targets(CONFIGURATION, 500, 3)
    reach = CONFIGURATION.reach
    assert ((drawn >= reach.target_lower) & (drawn <= reach.target_upper)).all()
    assert np.ptp(drawn, axis=0) == pytest.approx(reach.target_upper - reach.target_lower, rel=0.05)
    np.testing.assert_array_equal(drawn, sample_targets(CONFIGURATION, 500, 3))
    assert not np.allclose(drawn, sample_targets(CONFIGURATION, 500, 4))


def test_a_goal_posture_reaches_its_target_and_is_the_nearest_to_home(problem: ReachProblem):
    goal = problem.goal(targets(32))
    assert torch.allclose(problem.kinematics(goal.position), goal.target, atol=1e-4)
    # The nearest point of a curve: a small step along the curve, at right angles to the rows of J, gains nothing.
    position = goal.position.clone().requires_grad_()
    place = problem.kinematics(position)
    rows = [torch.autograd.grad(place[:, i].sum(), position, retain_graph=True)[0] for i in range(3)]
    J = torch.stack(rows, dim=1)
    to_home = (problem.home - goal.position)[..., None]
    along = to_home - torch.linalg.pinv(J) @ (J @ to_home)
    assert along.abs().max() < 1e-3


def test_a_target_out_of_reach_is_named(problem: ReachProblem):
    with pytest.raises(RealityGradError, match=r"target \(2\.000, 0\.000, 0\.300\) m is out of the arm's reach by 1\."):
        problem.goal(torch.tensor([[0.5, 0.0, 0.3], [2.0, 0.0, 0.3]]))


def test_the_rest_command_holds_the_arm(problem: ReachProblem):
    goal = problem.goal(targets(8))
    initial = State(goal.position, torch.zeros_like(goal.position))
    command = goal.command.expand(problem.steps, -1, -1).contiguous()
    states = problem.simulator.rollout(initial, command, problem.parameters)
    assert (states.position - goal.position).abs().max() < 1e-4


def test_rest_on_the_target_costs_nothing(problem: ReachProblem):
    goal = problem.goal(targets(8))
    states = State(goal.position.expand(11, -1, -1), torch.zeros(11, 8, MODEL.joint_count))
    terms = problem.cost(states, goal.command.expand(10, -1, -1), goal, goal.command)
    for name, term in terms.items():
        assert term.shape == (8,)
        assert term.abs().max() < 1e-6, name


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 3.0))
def test_no_term_is_ever_negative_or_infinite(problem: ReachProblem, seed: int, size: float):
    generator = torch.Generator().manual_seed(seed)
    goal = problem.goal(targets(2))
    noise = size * torch.randn(3, 6, 2, MODEL.joint_count, generator=generator)
    states = State(goal.position + noise[0], noise[1])
    for name, term in problem.cost(states, goal.command + noise[2, 1:], goal, goal.command).items():
        assert torch.isfinite(term).all(), name
        assert (term >= 0.0).all(), name


@given(ratio=st.floats(-5.0, 5.0), margin=st.floats(0.1, 1.0))
def test_a_limit_costs_only_beyond_its_margin(ratio: float, margin: float):
    cost = float(limit_cost(torch.tensor([ratio], dtype=torch.float64), margin))
    assert (cost > 0.0) == (abs(ratio) > margin and (abs(ratio) - margin) ** 2 > 0.0)


def test_a_joint_without_limits_costs_nothing():
    infinite = torch.tensor([float("inf")])
    position = torch.tensor([[100.0]], requires_grad=True)
    cost = position_limit_cost(position, -infinite, infinite, 0.1) + limit_cost(position / infinite, 0.8)
    cost.sum().backward()
    assert cost.item() == 0.0
    assert position.grad.item() == 0.0


def test_far_targets_pull_no_harder_than_near_ones():
    end_effector = torch.tensor([[0.5, 0.0, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    distance_cost(end_effector, torch.zeros(2, 3), 0.05).sum().backward()
    pull = end_effector.grad.norm(dim=-1)
    assert pull[0] == pytest.approx(1.0, abs=0.01)
    assert pull[1] == pytest.approx(1.0, abs=0.01)


def test_parameters_change_the_rest_command_as_gravity_over_kp(problem: ReachProblem):
    stiff = replace(CONFIGURATION.nominal, kp=2.0 * CONFIGURATION.nominal.kp)
    position = problem.home[None]
    sag = problem.rest_command(position) - position
    stiff_sag = ReachProblem(MODEL, CONFIGURATION, stiff).rest_command(position) - position
    assert torch.allclose(sag, 2.0 * stiff_sag, atol=1e-6)
    assert sag.abs().max() > 0.01
