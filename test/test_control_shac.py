"""The short-horizon actor-critic: its formulas, its gradient, and what seeds, stops and sharing must not change."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from realitygrad_ros.control.shac import Shac, ShacSettings, actor_loss, td_lambda
from realitygrad_ros.control.tasks.walking import VELOCITY, WALK
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.load import load_robot

SHORT = ShacSettings(horizon=4, iterations=8, critic_epochs=2)


@pytest.fixture(scope="module")
def anymal():
    """Configuration, model and the robot in smoothed contact."""
    configuration, model = load_robot("anymal_c")
    return configuration, model, legged_robot(model, configuration, configuration.nominal, "smooth")


def trainer(anymal, task=VELOCITY, settings=SHORT, seed=3) -> Shac:
    configuration, _, robot = anymal
    return Shac(Worlds(robot, configuration.nominal, task, Share(0, 4, 4), seed), settings, seed)


def test_the_actors_loss_is_the_discounted_return_with_the_critic_behind_it():
    reward = torch.tensor([[1.0], [2.0], [3.0]])
    value = torch.tensor([[10.0], [20.0], [30.0]])
    never = torch.zeros(3, 1, dtype=torch.bool)
    g = 0.5
    expected = -(1.0 + g * 2.0 + g**2 * 3.0 + g**3 * 30.0) / 3.0
    assert float(actor_loss(reward, value, never, g)) == pytest.approx(expected)


def test_the_discount_begins_anew_where_an_episode_ends_within_the_window():
    reward = torch.tensor([[1.0], [2.0], [3.0]])
    value = torch.tensor([[10.0], [20.0], [30.0]])
    g = 0.5
    late = torch.tensor([[False], [True], [False]])
    expected = -(1.0 + g * 2.0 + g**2 * 20.0 + 3.0 + g * 30.0) / 3.0
    assert float(actor_loss(reward, value, late, g)) == pytest.approx(expected)
    fallen = value * torch.tensor([[1.0], [0.0], [1.0]])  # V' is zero after a fall
    expected = -(1.0 + g * 2.0 + 3.0 + g * 30.0) / 3.0
    assert float(actor_loss(reward, fallen, late, g)) == pytest.approx(expected)


def test_td_lambda_lies_between_one_step_and_all_steps():
    reward = torch.tensor([[1.0], [2.0], [3.0]])
    value = torch.tensor([[10.0], [20.0], [30.0]])
    never = torch.zeros(3, 1, dtype=torch.bool)
    g = 0.5
    one_step = td_lambda(reward, value, never, g, 0.0)
    torch.testing.assert_close(one_step, reward + g * value)
    all_steps = td_lambda(reward, value, never, g, 1.0)
    assert float(all_steps[0]) == pytest.approx(1.0 + g * 2.0 + g**2 * 3.0 + g**3 * 30.0)
    half = td_lambda(reward, value, never, g, 0.5)
    last = 3.0 + g * 30.0
    middle = 2.0 + g * (0.5 * 20.0 + 0.5 * last)
    assert float(half[0]) == pytest.approx(1.0 + g * (0.5 * 10.0 + 0.5 * middle))


def test_an_episodes_end_cuts_td_lambda():
    reward, value = torch.ones(3, 1), torch.tensor([[10.0], [0.0], [30.0]])
    fallen = torch.tensor([[False], [True], [False]])
    estimates = td_lambda(reward, value, fallen, 0.5, 1.0)
    assert float(estimates[1]) == 1.0
    assert float(estimates[0]) == 1.5


def test_the_same_seed_gives_the_same_run_and_another_seed_another(anymal):
    def reward(seed: int) -> list[float]:
        one = trainer(anymal, seed=seed)
        return [one.learn()["reward"] for _ in range(3)]

    assert reward(3) == reward(3)
    assert reward(3) != reward(4)


def test_training_goes_on_from_its_state_as_if_it_had_not_stopped(anymal):
    whole, begun = trainer(anymal), trainer(anymal)
    for _ in range(2):
        whole.learn()
        begun.learn()
    resumed = trainer(anymal, seed=3)
    resumed.load({name: tensor.clone() for name, tensor in begun.state().items()})
    for _ in range(2):
        a, b = whole.learn(), resumed.learn()
        assert {k: v for k, v in a.items() if "second" not in k} == {k: v for k, v in b.items() if "second" not in k}
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, resumed.state()[name]), name


def test_a_gradient_that_cannot_be_right_ends_the_training_and_leaves_the_policy(anymal):
    one = trainer(anymal, settings=replace(SHORT, refused_gradient=1e-9))
    before = {name: tensor.clone() for name, tensor in one.policy.state_dict().items()}
    with pytest.raises(RealityGradError, match="training diverged in iteration 0"):
        one.learn()
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.policy.state_dict().items())


def test_the_actors_gradient_agrees_with_a_difference_of_its_loss(anymal):
    """Through the policy, four commands of the simulator, the rewards and the critic; float32, hence the tolerance."""
    one = trainer(anymal, WALK)
    state = {name: tensor.clone() for name, tensor in one.state().items()}
    parameters = [*one.policy.network.parameters(), one.policy.log_deviation]
    random = torch.Generator().manual_seed(0)
    direction = [torch.randn(p.shape, generator=random) * p.detach().abs().mean() for p in parameters]

    def loss(step: float) -> torch.Tensor:
        one.load(state)
        with torch.no_grad():
            for parameter, change in zip(parameters, direction, strict=True):
                parameter.add_(step * change)
        return one.loss_of(one.roll_out())[0]

    one.actor_optimizer.zero_grad()
    loss(0.0).backward()
    analytic = sum(float((p.grad * d).sum()) for p, d in zip(parameters, direction, strict=True))
    step = 3e-3
    with torch.no_grad():
        difference = float(loss(step) - loss(-step)) / (2.0 * step)
    assert analytic == pytest.approx(difference, rel=0.02)


def test_a_worlds_fate_does_not_depend_on_how_worlds_are_shared(anymal):
    configuration, _, robot = anymal
    together = Worlds(robot, configuration.nominal, VELOCITY, Share(0, 4, 4), 1)
    half = Worlds(robot, configuration.nominal, VELOCITY, Share(2, 2, 4), 1)
    for _ in range(3):
        for worlds in (together, half):
            action = 0.3 * worlds.normal(12)
            worlds.situation = worlds.go_on(worlds.advance(worlds.situation, action))
    torch.testing.assert_close(together.situation.state.position[2:], half.situation.state.position)
    torch.testing.assert_close(together.observe(together.situation)[2:], half.observe(half.situation))


RANK = """
import sys, torch, torch.distributed
from realitygrad_ros.control.shac import Shac, ShacSettings
from realitygrad_ros.control.tasks.walking import VELOCITY
from realitygrad_ros.control.tasks.worlds import Worlds, legged_robot
from realitygrad_ros.control.training import own_share
from realitygrad_ros.robot.load import load_robot
torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
configuration, model = load_robot("anymal_c")
robot = legged_robot(model, configuration, configuration.nominal, "smooth")
worlds = Worlds(robot, configuration.nominal, VELOCITY, own_share(4), 3)
one = Shac(worlds, ShacSettings(horizon=4, iterations=8, critic_epochs=2), 3)
figures = one.learn()
if torch.distributed.get_rank() == 0:
    torch.set_printoptions(precision=9)
    print("RESULT", repr(figures["gradient_norm"]), repr(float(one.policy.normalizer.mean.norm())))
torch.distributed.destroy_process_group()
"""


def test_two_ranks_give_the_gradient_of_one(anymal, tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(script)]
    command.insert(3, "--standalone")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))
    norm, mean = map(float, line.split()[1:])
    one = trainer(anymal)
    assert norm == pytest.approx(one.learn()["gradient_norm"], rel=1e-4)
    assert mean == pytest.approx(float(one.policy.normalizer.mean.norm()), rel=1e-5)
