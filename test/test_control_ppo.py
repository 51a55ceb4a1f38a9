"""Proximal policy optimisation: how the library meets our worlds and our policy, what seeds and stops must not change.

The library's own formulas are its authors' to test.
"""

import importlib
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from realitygrad_ros.control.ppo import Ppo, PpoSettings
from realitygrad_ros.control.shac import Shac, ShacSettings
from realitygrad_ros.control.tasks.legged import OBSERVATIONS
from realitygrad_ros.control.tasks.walking import VELOCITY, WALK
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.load import load_robot

WORLDS = 8
SHORT = PpoSettings(steps=4, epochs=2, minibatches=2)


@pytest.fixture(scope="module")
def anymal():
    """Configuration, model and the robot in smoothed contact."""
    configuration, model = load_robot("anymal_c")
    return configuration, model, legged_robot(model, configuration, configuration.nominal, "smooth")


def worlds_of(anymal, task=VELOCITY, seed=3) -> Worlds:
    configuration, _, robot = anymal
    return Worlds(robot, configuration.nominal, task, Share(0, WORLDS, WORLDS), seed)


def trainer(anymal, task=VELOCITY, settings=SHORT, seed=3) -> Ppo:
    return Ppo(worlds_of(anymal, task, seed), settings, seed)


def untimed(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if "second" not in name}


def test_an_iteration_tells_what_the_other_algorithms_does(anymal):
    figures = trainer(anymal).learn()
    shac = Shac(worlds_of(anymal), ShacSettings(horizon=1), 3).learn()
    assert set(shac) <= set(figures)
    assert all(math.isfinite(value) for value in figures.values())
    terms = [value for name, value in figures.items() if name.startswith("reward_")]
    assert figures["reward"] == pytest.approx(sum(terms))
    assert figures["samples"] == SHORT.steps * WORLDS


def test_the_same_seed_gives_the_same_run_and_another_seed_another(anymal):
    def run(seed: int) -> list[dict[str, float]]:
        one = trainer(anymal, seed=seed)
        return [untimed(one.learn()) for _ in range(2)]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_training_leaves_torchs_own_random_numbers_alone(anymal):
    one = trainer(anymal)
    before = torch.random.get_rng_state()
    one.learn()
    assert torch.equal(before, torch.random.get_rng_state())


def test_training_goes_on_from_its_state_as_if_it_had_not_stopped(anymal):
    whole, begun = trainer(anymal), trainer(anymal)
    for _ in range(2):
        whole.learn()
        begun.learn()
    resumed = trainer(anymal, seed=4)
    resumed.load({name: tensor.clone() for name, tensor in begun.state().items()})
    for _ in range(2):
        assert untimed(whole.learn()) == untimed(resumed.learn())
    assert resumed.iteration == 4
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, resumed.state()[name]), name


def test_the_library_acts_and_learns_with_our_policy(anymal):
    one = trainer(anymal)
    before = {name: tensor.clone() for name, tensor in one.policy.state_dict().items()}
    one.learn()
    assert not any(torch.equal(tensor, before[name]) for name, tensor in one.policy.state_dict().items())
    seen = one.worlds.observe(one.worlds.situation)
    model = one.algorithm.get_policy()
    with torch.no_grad():
        torch.testing.assert_close(model(TensorDict({"observation": seen})), one.policy(seen), rtol=0.0, atol=0.0)
        one.algorithm.act(TensorDict({"observation": seen}))
    torch.testing.assert_close(model.output_std, one.policy.log_deviation.exp().expand(WORLDS, -1))


def test_the_bundle_acts_as_the_policy_on_average(anymal):
    configuration, model, robot = anymal
    one = trainer(anymal, WALK)
    for _ in range(3):
        one.learn()
    bundle = one.policy.to_bundle(WALK, model, configuration, configuration.nominal, epoch=0, parent="")
    situation = one.worlds.situation
    action = one.policy(one.worlds.observe(situation)).detach()
    assert float(action.abs().max()) > 1e-3
    for world in range(WORLDS):
        terms = {name: OBSERVATIONS[name](robot, situation)[world].numpy() for name in WALK.observations}
        previous = bundle.action_offset + bundle.action_scale * situation.previous_action[world].numpy()
        command = bundle.action_offset + bundle.action_scale * action[world].numpy()
        expected = np.clip(command, bundle.lower, bundle.upper)
        np.testing.assert_allclose(bundle.act(terms, previous), expected, atol=1e-5)


def test_an_episode_out_of_time_goes_on_in_the_critic_and_a_fall_does_not(anymal):
    """The library adds the discounted value of a state to the reward of a step that ends by its time alone."""
    one = trainer(anymal, WALK, replace(SHORT, steps=1))
    torch.nn.init.constant_(one.critic[-1].bias, 5.0)
    state = one.worlds.situation.state
    position = state.position.clone()
    position[:2, 2] = 0.1  # two have fallen, two more are late
    time = torch.tensor([0.0, WALK.duration, WALK.duration, WALK.duration, *([0.0] * (WORLDS - 4))])
    one.worlds.situation = one.worlds.situation._replace(state=State(position, state.velocity), time=time)
    figures = one.roll_out()
    storage = one.algorithm.storage
    assert storage.dones[0, :, 0].tolist() == [1] * 4 + [0] * (WORLDS - 4)
    assert figures["falls"] == 2
    value = storage.values[0, 2:4].sum()
    assert float(value) != 0.0
    plain = one.worlds.robot.period * WORLDS * figures["reward"]
    assert float(storage.rewards.sum()) == pytest.approx(plain + SHORT.discount * float(value), rel=1e-4)


def test_what_is_no_number_ends_the_training(anymal):
    one = trainer(anymal, replace(VELOCITY, rewards={**VELOCITY.rewards, "upright": math.inf}))
    before = {name: tensor.clone() for name, tensor in one.policy.state_dict().items()}
    with pytest.raises(RealityGradError, match="training diverged in iteration 0: the reward is -inf"):
        one.learn()
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.policy.state_dict().items())
    one = trainer(anymal)
    torch.nn.init.constant_(one.critic[-1].bias, math.nan)
    with pytest.raises(
        RealityGradError, match=r"training diverged in iteration 0: the (actor|critic)'s gradient is nan"
    ):
        one.learn()
    assert all(torch.equal(tensor, before[name]) for name, tensor in one.policy.state_dict().items())
    assert one.iteration == 0


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rsl_rl.algorithms", None)
    monkeypatch.delitem(sys.modules, "realitygrad_ros.control.ppo")
    with pytest.raises(RealityGradError, match="install it with pip install 'rsl-rl-lib"):
        importlib.import_module("realitygrad_ros.control.ppo")
