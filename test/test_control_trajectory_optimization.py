"""Trajectory optimisation: motions that reach, stop and hold within the limits, the same for the same seed."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from realitygrad_ros.control.tasks.reach import ReachProblem
from realitygrad_ros.control.trajectory_optimization import ITERATIONS, Trajectories, interpolation, optimise
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("ur5")
COUNT = 6


@pytest.fixture(scope="module")
def trajectories() -> Trajectories:
    return optimise(MODEL, CONFIGURATION, CONFIGURATION.nominal, count=COUNT, seed=0)


def test_motions_reach_and_hold_their_targets(trajectories: Trajectories):
    figures = trajectories.figures
    assert figures["cost_mean"] < 0.8 * figures["cost_mean_before"]
    assert figures["hold_error_mean_m"] < 1e-3
    assert figures["hold_error_max_m"] < 0.01


def test_motions_keep_the_limits(trajectories: Trajectories):
    figures = trajectories.figures
    for name in ("torque", "velocity", "command_rate"):
        assert 0.1 < figures[f"{name}_ratio_max"] < 0.85, name
    assert figures["position_limit_excess_max"] < 0.0


def test_motions_are_what_the_simulator_does_under_their_commands(trajectories: Trajectories):
    problem = ReachProblem(MODEL, CONFIGURATION, trajectories.parameters)
    initial = State(trajectories.position[0], trajectories.velocity[0])
    states = problem.simulator.rollout(initial, trajectories.command, problem.parameters)
    torch.testing.assert_close(states.position, trajectories.position)
    torch.testing.assert_close(states.velocity, trajectories.velocity)


def test_the_gradient_by_the_knots_is_that_of_the_cost():
    problem = ReachProblem(MODEL, CONFIGURATION, CONFIGURATION.nominal)
    goal = problem.goal(torch.tensor([[0.5, 0.1, 0.4]]))
    initial = State(problem.home[None], torch.zeros(1, MODEL.joint_count))
    previous = problem.rest_command(initial.position)
    hat = interpolation(40, 5)
    knots = (previous + torch.linspace(0.0, 0.3, 5)[:, None, None] * torch.randn(6)).requires_grad_()

    def cost(at: torch.Tensor) -> torch.Tensor:
        command = torch.einsum("tk,kmj->tmj", hat, at)
        states = problem.simulator.rollout(initial, command, problem.parameters)
        return torch.stack(list(problem.cost(states, command, goal, previous).values())).sum()

    (gradient,) = torch.autograd.grad(cost(knots), knots)
    direction = gradient / gradient.norm()
    step = 3e-3
    with torch.no_grad():
        difference = (cost(knots + step * direction) - cost(knots - step * direction)) / (2.0 * step)
    assert float(difference) == pytest.approx(float(gradient.norm()), rel=0.02)


def test_the_same_seed_gives_the_same_motions(trajectories: Trajectories):
    again = optimise(MODEL, CONFIGURATION, CONFIGURATION.nominal, count=COUNT, seed=0)
    assert again.digest == trajectories.digest
    other = optimise(MODEL, CONFIGURATION, CONFIGURATION.nominal, count=COUNT, seed=1)
    assert other.digest != trajectories.digest
    assert not torch.allclose(other.target, trajectories.target)


def test_progress_is_told_and_the_number_of_torch_threads_left():
    threads = torch.get_num_threads()
    told: list[tuple[str, float, float]] = []

    def progress(stage: str, fraction: float, figures: Mapping[str, float]) -> None:
        told.append((stage, fraction, figures["cost"]))

    optimise(MODEL, CONFIGURATION, CONFIGURATION.nominal, count=1, seed=0, progress=progress)
    stages, fractions, costs = zip(*told, strict=True)
    assert set(stages) == {"optimise"}
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert all(a < b for a, b in itertools.pairwise(fractions))
    assert costs[-1] < costs[0]
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("asked_before", [0, 3, ITERATIONS])
def test_a_cancelled_optimisation_ends_at_the_next_step(asked_before: int):
    asked = itertools.count()
    with pytest.raises(Cancelled):
        optimise(
            MODEL,
            CONFIGURATION,
            CONFIGURATION.nominal,
            count=1,
            seed=0,
            cancelled=lambda: next(asked) >= asked_before,
        )
    assert next(asked) == asked_before + 1


def test_parameters_without_a_motion_are_refused():
    loose = replace(CONFIGURATION.nominal, kp=np.zeros(MODEL.joint_count))
    with pytest.raises(RealityGradError, match="not finite; check the calibration"):
        optimise(MODEL, CONFIGURATION, loose, count=1, seed=0)


def test_knots_are_joined_by_lines():
    hat = interpolation(11, 3)
    torch.testing.assert_close(hat.sum(1), torch.ones(11))
    torch.testing.assert_close(hat @ torch.tensor([0.0, 1.0, 0.0]), 1.0 - torch.linspace(-1.0, 1.0, 11).abs())


def test_a_file_holds_everything(trajectories: Trajectories, tmp_path: Path):
    path = tmp_path / "trajectories.safetensors"
    trajectories.write(path)
    back = Trajectories.read(path)
    assert back.digest == trajectories.digest
    assert back.parameters.as_mapping() == trajectories.parameters.as_mapping()
    assert back.figures == trajectories.figures
    torch.testing.assert_close(back.command, trajectories.command)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_wrong_byte_is_found(trajectories: Trajectories, tmp_path: Path, data: st.DataObject):
    path = tmp_path / "trajectories.safetensors"
    trajectories.write(path)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1) | st.integers(0, 2000))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(content))
    try:
        outcome = Trajectories.read(path).digest
    except RealityGradError as error:
        outcome = str(error)
    # A blank of the header may have become another blank, or the like: then the content is the same.
    named = str(path) in outcome and "optimise the trajectories again" in outcome
    assert named or outcome == trajectories.digest


@pytest.mark.parametrize("content", [b"", b"no tensors", save({"target": torch.zeros(1, 3)})])
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes):
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    with pytest.raises(RealityGradError, match=r"other\.safetensors.*cannot be read"):
        Trajectories.read(path)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(RealityGradError, match=r"missing\.safetensors.*optimise"):
        Trajectories.read(tmp_path / "missing.safetensors")


def test_another_schema_is_refused(trajectories: Trajectories, tmp_path: Path):
    path = tmp_path / "trajectories.safetensors"
    trajectories.write(path)
    path.write_bytes(path.read_bytes().replace(b'\\"schema\\": 1', b'\\"schema\\": 7'))
    with pytest.raises(RealityGradError, match="schema 7, not 1"):
        Trajectories.read(path)
