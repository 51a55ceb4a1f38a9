"""What `realitygrad bench learning` claims, on trainings of a few iterations."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from realitygrad_ros.benchmarks import endurance, learning, tracking, trainings
from realitygrad_ros.benchmarks.learning_curves import learning_curve
from realitygrad_ros.benchmarks.twin_walk import evaluate_on_twin
from realitygrad_ros.commands.bench import LEARNING_PARTS
from realitygrad_ros.control import training
from realitygrad_ros.control.shac import Shac
from realitygrad_ros.control.tasks.legged import REWARDS
from realitygrad_ros.control.tasks.walking import TASKS, VELOCITY, WALK
from realitygrad_ros.control.tasks.worlds import legged_robot
from realitygrad_ros.control.training import Plan, read_checkpoint
from realitygrad_ros.control.walking_evaluation import evaluate
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.main import main
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.twin.configuration import load_twin_configuration

CONFIGURATION, MODEL = load_robot("anymal_c")
SHORT = 2.2
"""Of an episode; longer than the settling [s]."""


@pytest.fixture(scope="module")
def robot():
    return legged_robot(MODEL, CONFIGURATION, CONFIGURATION.nominal, "smooth")


def untrained_bundle():
    """A policy that hardly moves."""
    width = 12 + 2 + 3 * len(MODEL.joint_names)
    policy = WalkingPolicy(width, len(MODEL.joint_names), torch.Generator().manual_seed(0))
    return policy.to_bundle(VELOCITY, MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=0, parent="")


def rows(rewards, samples=1000.0):
    """Figures of iterations."""
    return [
        {"reward": reward, "samples": samples * (i + 1), "seconds": 0.5 * (i + 1)} for i, reward in enumerate(rewards)
    ]


def test_a_curve_is_the_mean_over_the_same_samples_whatever_an_iteration_has():
    rewards = np.arange(100.0)
    fine, coarse = learning_curve(rows(rewards, 4096.0)), learning_curve(rows(rewards[9::10], 40_960.0))
    np.testing.assert_allclose(fine.reward, rewards[9:] - 4.5)
    np.testing.assert_allclose(coarse.reward, rewards[9::10])
    assert fine.samples[0] == coarse.samples[0] == 40_960.0
    assert fine.seconds[0] == 5.0


def test_a_reward_is_reached_when_the_curve_first_has_it_and_never_beyond_its_end():
    curve = learning_curve(rows([0.0, 2.0, 1.0, 3.0], 50_000.0))
    assert curve.samples_to(2.0) == 100_000.0
    assert curve.samples_to(2.5) == 200_000.0
    assert curve.samples_to(3.1) is None


def test_no_median_stands_for_seeds_of_which_one_has_nothing():
    assert learning._medians({"a": [3.0, 1.0, 2.0], "b": {"c": [1.0, None]}}) == {"a": 2.0, "b": {"c": None}}


def test_the_networks_of_simulator_and_robot_are_the_same():
    bundle = untrained_bundle()
    random = np.random.default_rng(0)
    bundle = replace(bundle, observation_mean=random.normal(size=50), observation_scale=random.uniform(0.5, 2.0, 50))
    previous = CONFIGURATION.home + 0.1
    terms = {name: random.normal(size=3) for name in ("linear_velocity", "angular_velocity", "gravity_direction")}
    terms |= {"velocity_command": random.normal(size=3), "gait_phase": random.normal(size=2)}
    terms |= {name: random.normal(size=12) for name in ("joint_position", "joint_velocity")}
    terms["previous_action"] = (previous - bundle.action_offset) / bundle.action_scale
    observation = np.concatenate([terms[name] for name in bundle.observation_terms])
    action = tracking._network(bundle)(torch.tensor(observation[None], dtype=torch.float32)).numpy()[0]
    command = bundle.act(terms, previous)
    np.testing.assert_allclose(bundle.action_offset + bundle.action_scale * action, command, atol=1e-6)


def judged_on_twin(robot, task, bundle, seed=5):
    hidden = load_twin_configuration("anymal_c")
    return evaluate_on_twin(robot, CONFIGURATION, hidden, task, bundle, episodes=2, seed=seed)


def test_episodes_on_the_twin_are_those_of_the_simulator(robot):
    task = replace(VELOCITY, duration=0.4)
    bundle = untrained_bundle()
    episodes = judged_on_twin(robot, task, bundle)
    act = tracking._network(bundle)
    others = evaluate(robot, CONFIGURATION.nominal, task, act, worlds=2, seed=5)
    motion, simulated = episodes.motion, others.motion
    torch.testing.assert_close(motion.before.command, simulated.before.command)
    torch.testing.assert_close(motion.before.time, simulated.before.time)
    began, there = motion.before.state.velocity[0, :, :6], simulated.before.state.velocity[0, :, :6]
    torch.testing.assert_close(began, there, atol=0.1, rtol=0.0)  # the sensors' noise
    torch.testing.assert_close(motion.before.previous_action[1:], motion.action[:-1])
    torch.testing.assert_close(motion.before.state.position[1:], motion.after.position[:-1])
    assert episodes.standing.all()
    rewards = sum(weight * REWARDS[name](robot, motion) for name, weight in task.rewards.items())
    torch.testing.assert_close(episodes.returns, rewards.sum(0))
    same = judged_on_twin(robot, task, bundle)
    torch.testing.assert_close(same.returns, episodes.returns, rtol=0.0, atol=0.0)
    assert not torch.equal(judged_on_twin(robot, task, bundle, seed=6).returns, episodes.returns)


def test_a_fall_on_the_twin_ends_its_episode(robot):
    folded = CONFIGURATION.home * 3.2
    bundle = replace(untrained_bundle(), action_offset=folded)
    episodes = judged_on_twin(robot, replace(WALK, duration=3.0), bundle)
    assert not episodes.standing[-1].any()
    stood = episodes.standing.sum(0)
    assert (stood > 5).all()
    assert (stood < 100).all()
    assert episodes.figures()["falls"] == 2
    position = episodes.motion.after.position
    for world, steps in enumerate(stood.tolist()):
        torch.testing.assert_close(position[steps + 1 :, world], position[steps, world].expand(149 - steps, -1))
    assert episodes.returns.isfinite().all()


@pytest.fixture
def _small(monkeypatch, tmp_path):
    """Trainings and judgements that take no time, in smooth contact, of which the kernels are there."""
    small = {"WORLDS": 2, "ITERATIONS": 2, "PPO_WORLDS": 2, "PPO_ITERATIONS": 2, "HORIZONS": (32, 64), "EPISODES": 2}
    small |= {"TIMED_ITERATIONS": 1, "TARGETS": np.array([-0.5, 1.0]), "TARGET_EPISODES": 1, "CONTACTS": ("smooth",)}
    for name, value in small.items():
        monkeypatch.setattr(learning, name, value)
    monkeypatch.setattr(learning, "legged_robot", lambda *parts: legged_robot(*parts[:3], "smooth"))
    monkeypatch.setitem(TASKS, "walk", replace(WALK, duration=SHORT))
    monkeypatch.setattr(tracking, "DURATION", SHORT)
    monkeypatch.setattr(endurance, "SECONDS", 0.5)
    untrained_bundle().write(tmp_path / "velocity.safetensors")
    monkeypatch.setattr(learning, "BUNDLE", tmp_path / "velocity.safetensors")


@pytest.mark.usefixtures("_small", "ros_domain")
def test_all_that_is_promised_is_written_and_nothing_trained_twice(tmp_path, monkeypatch, capsys):
    file, folder = tmp_path / "figures.json", tmp_path / "bench"
    command = ["bench", "learning", "--seeds", "2", "--json", str(file), "--out", str(folder)]
    assert main(command) == 0
    figures = json.loads(file.read_text())
    assert set(figures["walk"]) == {"seconds", "speed_mean_mps", "falls"}
    assert set(figures["iteration_seconds"]) == set(figures["samples_to_equal_reward"]) == {"shac", "ppo"}
    assert set(figures["transfer"]["smooth"]) == {"own", "hard", "twin"}
    assert set(figures["horizon"]) == {"32", "64"}
    assert figures["tracking_error_twin_mps"] > 0.3  # it stands
    assert figures["falls_twin"] == 0
    assert figures["endurance"]["commands"] == 1
    assert figures["diverged"] == {}
    values = figures["by_seed"]["walk"]["seconds"]
    assert figures["walk"]["seconds"] == pytest.approx(sum(values) / 2)
    # Two iterations teach PPO nothing, which begins with a wide spread.
    assert figures["samples_to_shac_reward"] == {"shac": 128.0, "ppo": None}
    assert figures["ppo_reward_reached"] < figures["final_reward"]["shac"]
    for name in ("learning_curves", "transfer", "gradient_norms", "horizon", "tracking", "endurance"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads((folder / "tracking.json").read_text())["twin"]["speed"]) == 2
    assert "transfer.smooth.twin" in capsys.readouterr().out

    def learn(_):
        raise AssertionError("it trains")

    monkeypatch.setattr(Shac, "learn", learn)
    for part in ("walk", "horizon"):
        assert main([*command, "--part", part]) == 0
        again = json.loads(file.read_text())
        assert again[part] == figures[part]
        assert list(again["by_seed"]) == [part]


def diverging(iterations):
    """Of `Shac.learn`: diverges after some iterations."""
    learn = Shac.learn

    def one(self):
        if self.iteration == iterations:
            raise RealityGradError("training diverged")
        return learn(self)

    return one


@pytest.mark.parametrize("good", [0, 2])
def test_of_a_training_that_diverged_the_last_good_policy_is_judged(good, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "ITERATIONS_BETWEEN_CHECKPOINTS", 1)
    monkeypatch.setattr(Shac, "learn", diverging(good))
    plan = Plan("anymal_c", "walk", "shac", "smooth", worlds=2, horizon=4, iterations=3, seed=1)
    found = trainings.Trainings(tmp_path, CONFIGURATION, MODEL, lambda *_: None).of(plan)
    assert found.diverged == "training diverged"
    assert len(found.curve) == good
    if good:
        state, _ = read_checkpoint(next(tmp_path.iterdir()) / training.CHECKPOINT, plan)
        for name, tensor in found.policy.state_dict().items():
            torch.testing.assert_close(tensor, state[f"policy.{name}"])


def test_a_damaged_or_strange_training_is_refused(tmp_path):
    plan = Plan("anymal_c", "walk", "shac", "smooth", worlds=2, horizon=4, iterations=1, seed=1)
    several = trainings.Trainings(tmp_path, CONFIGURATION, MODEL, lambda *_: None)
    several.of(plan)
    with pytest.raises(RealityGradError, match="is of robot anymal_c, not go2"):
        several.of(replace(plan, robot="go2"))
    (next(tmp_path.iterdir()) / training.CHECKPOINT).write_bytes(b"nothing")
    with pytest.raises(RealityGradError, match="is damaged"):
        several.of(plan)


def test_trainings_that_differ_in_size_do_not_meet_in_a_folder():
    plan = Plan("anymal_c", "walk", "ppo", "smooth", worlds=2, horizon=4, iterations=1, seed=1)
    others = [replace(plan, **{size: 8}) for size in ("worlds", "horizon", "iterations", "seed")]
    assert len({trainings._name(one) for one in (plan, *others)}) == 5


def test_what_is_not_there_is_found_out_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning, "BUNDLE", tmp_path / "nobody.safetensors")
    assert main(["bench", "learning", "--out", str(tmp_path / "bench")]) == 2
    assert "nobody.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize("arguments", [[], ["--out", ".", "--seeds", "0"], ["--out", ".", "--part", "dance"]])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "learning", *arguments])


def test_the_command_line_knows_every_part():
    assert tuple(learning.PARTS) == LEARNING_PARTS
