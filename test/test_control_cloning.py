"""Cloning: a policy that reaches unseen targets in closed loop, safely even on an arm with other gains."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from realitygrad_ros.control import cloning
from realitygrad_ros.control.cloning import (
    LARGEST_FIGURES,
    CloneResult,
    Samples,
    clone,
    closed_loop,
    motion_samples,
    refuse_unfit,
    rest_samples,
)
from realitygrad_ros.control.policy import ReachPolicy
from realitygrad_ros.control.tasks.reach import ReachProblem, sample_targets
from realitygrad_ros.control.trajectory_optimization import Trajectories, optimise
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("ur5")
NOMINAL = CONFIGURATION.nominal


@pytest.fixture(scope="module")
def trajectories() -> Trajectories:
    return optimise(MODEL, CONFIGURATION, NOMINAL, seed=0)


@pytest.fixture(scope="module")
def result(trajectories: Trajectories) -> CloneResult:
    return clone(MODEL, CONFIGURATION, NOMINAL, trajectories, seed=0, epoch=2, parent="cd" * 32)


def policy_of(result: CloneResult) -> ReachPolicy:
    """The bundle's network, for many worlds at once."""
    bundle = result.bundle

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32)

    policy = ReachPolicy(
        tensor(bundle.observation_mean),
        tensor(bundle.observation_scale),
        tensor(bundle.action_offset),
        tensor(bundle.action_scale),
        lower=tensor(bundle.lower),
        upper=tensor(bundle.upper),
        longest_step=tensor(bundle.velocity_limit) / bundle.policy_rate,
        hidden=[len(bias) for _, bias in bundle.layers[:-1]],
        seed=0,
    )
    with torch.no_grad():
        for layer, (weight, bias) in zip(policy.layers, bundle.layers, strict=True):
            layer.weight.copy_(tensor(weight))
            layer.bias.copy_(tensor(bias))
    return policy


def test_the_closed_loop_reaches_unseen_targets_within_the_limits(result: CloneResult):
    figures = result.figures
    assert figures["hold_error_mean_m"] < 0.008
    assert figures["hold_error_max_m"] < 0.03
    assert figures["hold_speed_max"] < 0.1
    for name in ("torque", "velocity", "command_rate"):
        assert figures[f"{name}_ratio_max"] < 1.0, name
    assert figures["position_limit_excess_max"] < 0.0


def test_the_bundle_says_what_it_was_made_for(result: CloneResult):
    bundle = result.bundle
    assert (bundle.robot, bundle.epoch, bundle.parent) == ("ur5", 2, "cd" * 32)
    assert bundle.joint_names == MODEL.joint_names
    assert bundle.policy_rate == CONFIGURATION.policy_rate


@pytest.mark.parametrize(("kp", "kd", "damping"), [(0.5, 1.0, 0.0), (1.5, 0.5, 0.0), (1.0, 1.5, 30.0), (0.5, 0.5, 0.0)])
def test_an_arm_with_other_gains_comes_to_rest_near_its_target(
    result: CloneResult, kp: float, kd: float, damping: float
):
    other = replace(NOMINAL, kp=kp * NOMINAL.kp, kd=kd * NOMINAL.kd, damping=np.full(MODEL.joint_count, damping))
    problem = ReachProblem(MODEL, CONFIGURATION, other)
    initial = State(problem.home.expand(8, -1), torch.zeros(8, MODEL.joint_count))
    target = torch.tensor(sample_targets(CONFIGURATION, 8, 99), dtype=torch.float32)
    steps = problem.steps
    in_time = target.expand(2 * steps, -1, -1)
    states, _ = closed_loop(policy_of(result), problem, initial, problem.rest_command(initial.position), in_time)
    distance = (problem.kinematics(states.position[-1]) - target).norm(dim=-1)
    # What is left is the arm's other sag.
    assert distance.max() < 0.12
    assert states.velocity[steps:].abs().max() < 1.0
    assert states.velocity[-1].abs().max() < 0.05
    assert ((states.position > problem.lower) & (states.position < problem.upper)).all()


def test_the_same_seed_gives_the_same_policy(trajectories: Trajectories, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cloning, "STEPS", 20)
    monkeypatch.setattr(cloning, "CHECK_MOTIONS", 1)

    def digest(seed: int) -> str:
        return clone(MODEL, CONFIGURATION, NOMINAL, trajectories, seed=seed, epoch=0, parent="").bundle.digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_progress_is_told(trajectories: Trajectories, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cloning, "STEPS", 60)
    monkeypatch.setattr(cloning, "CHECK_MOTIONS", 1)
    told: list[tuple[str, float, float]] = []

    def progress(stage: str, fraction: float, figures: Mapping[str, float]) -> None:
        told.append((stage, fraction, figures["loss"]))

    clone(MODEL, CONFIGURATION, NOMINAL, trajectories, seed=0, epoch=0, parent="", progress=progress)
    assert {stage for stage, _, _ in told} == {"train"}
    assert told[-1][1] == 1.0
    assert told[-1][2] < 0.2 * told[0][2]


@pytest.mark.parametrize("asked_before", [0, 10, 25])
def test_a_cancelled_cloning_ends_at_the_next_step(
    trajectories: Trajectories, monkeypatch: pytest.MonkeyPatch, asked_before: int
):
    monkeypatch.setattr(cloning, "STEPS", 20)  # so that the last of the three is asked during the check
    asked = itertools.count()
    with pytest.raises(Cancelled):
        clone(
            MODEL,
            CONFIGURATION,
            NOMINAL,
            trajectories,
            seed=0,
            epoch=0,
            parent="",
            cancelled=lambda: next(asked) >= asked_before,
        )
    assert next(asked) == asked_before + 1


def test_trajectories_of_other_parameters_or_another_robot_are_refused(trajectories: Trajectories):
    damped = replace(NOMINAL, damping=np.ones(MODEL.joint_count))
    with pytest.raises(
        RealityGradError, match=r"'damping' of joint 'shoulder_pan_joint' is 0\.0 there and 1\.0 here; optimise"
    ):
        clone(MODEL, CONFIGURATION, damped, trajectories, seed=0, epoch=0, parent="")
    foreign = replace(trajectories, robot="ur10")
    with pytest.raises(RealityGradError, match="for robot 'ur10', not 'ur5'"):
        clone(MODEL, CONFIGURATION, NOMINAL, foreign, seed=0, epoch=0, parent="")


def test_a_deviation_is_answered_as_the_servo_demands():
    one = torch.ones(1, 2)
    samples = Samples(one, one, torch.ones(1, 3), 5.0 * one)
    drawn = samples.drawn(1000, torch.Generator().manual_seed(0), torch.tensor([0.0, 0.25]))
    torch.testing.assert_close(drawn.command[:, 0], torch.full((1000,), 5.0))
    torch.testing.assert_close(drawn.command[:, 1] - 5.0, 0.25 * (drawn.position[:, 1] - 1.0))
    assert float(drawn.position.std()) == pytest.approx(cloning.POSITION_NOISE, rel=0.1)
    assert float(drawn.velocity.std()) == pytest.approx(cloning.VELOCITY_NOISE, rel=0.1)


def test_samples_pair_each_state_with_its_own_target_and_command(trajectories: Trajectories):
    samples = motion_samples(trajectories)
    steps, motions = trajectories.command.shape[:2]
    skipped = steps - len(samples.target) // motions
    assert skipped == 10
    step, motion = 123, 17
    place = (step - skipped) * motions + motion
    torch.testing.assert_close(samples.position[place], trajectories.position[step, motion])
    torch.testing.assert_close(samples.velocity[place], trajectories.velocity[step, motion])
    torch.testing.assert_close(samples.target[place], trajectories.target[motion])
    torch.testing.assert_close(samples.command[place], trajectories.command[step, motion])


def test_rest_is_sampled_from_the_whole_box_and_from_no_target_of_the_motions(trajectories: Trajectories):
    problem = ReachProblem(MODEL, CONFIGURATION, NOMINAL)
    rest = rest_samples(problem, CONFIGURATION, seed=0)
    assert torch.allclose(problem.kinematics(rest.position), rest.target, atol=1e-3)
    assert float(rest.velocity.abs().max()) == 0.0
    assert torch.cdist(rest.target, trajectories.target).min() > 0.0


@pytest.mark.parametrize("name", LARGEST_FIGURES)
@pytest.mark.parametrize("value", [10.0, float("nan"), float("inf")])
def test_a_policy_that_fails_in_the_simulator_is_not_given_to_the_robot(result: CloneResult, name: str, value: float):
    refuse_unfit(result.figures)
    with pytest.raises(RealityGradError, match=name):
        refuse_unfit({**result.figures, name: value})
