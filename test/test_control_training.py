"""Training folders: checkpoints, what resumes from them, and what is refused."""

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from realitygrad_ros.control import training
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.ppo import PpoSettings
from realitygrad_ros.control.shac import Shac, ShacSettings
from realitygrad_ros.control.tasks.walking import TASKS, WALK
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.control.training import CHECKPOINT, CURVE, POLICY, Plan, read_checkpoint, train
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.main import main
from realitygrad_ros.robot.load import load_robot

PLAN = Plan("anymal_c", "walk", "shac", "smooth", worlds=2, horizon=8, iterations=3, seed=0)


@pytest.fixture(scope="module")
def anymal():
    return load_robot("anymal_c")


@pytest.fixture(scope="module")
def trained(anymal, tmp_path_factory):
    """A whole training: its folder and what it returned."""
    folder = tmp_path_factory.mktemp("training")
    configuration, model = anymal
    return folder, train(PLAN, configuration, model, configuration.nominal, folder)


def test_a_training_leaves_its_checkpoint_its_curve_and_the_policy(trained):
    folder, result = trained
    assert {path.name for path in folder.iterdir()} == {CHECKPOINT, CURVE, POLICY}
    curve = json.loads((folder / CURVE).read_text())["curve"]
    assert [point["samples"] for point in curve] == [16.0, 32.0, 48.0]
    assert PolicyBundle.read(folder / POLICY).digest == result.bundle.digest


def test_the_command_line_trains_with_the_horizon_that_it_was_told(anymal, tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "walk", replace(WALK, duration=2.2))
    size = ["--worlds", "2", "--iterations", "1"]
    assert main(["train", *size, "--horizon", "4", "--out", str(tmp_path / "told")]) == 0
    _, curve = read_checkpoint(tmp_path / "told" / CHECKPOINT, replace(PLAN, horizon=4, iterations=1))
    assert curve[-1]["samples"] == 8.0
    for algorithm, settings in (("shac", ShacSettings().horizon), ("ppo", PpoSettings().steps)):
        assert main(["train", *size, "--algorithm", algorithm, "--out", str(tmp_path / algorithm)]) == 0
        plan = replace(PLAN, algorithm=algorithm, horizon=settings, iterations=1)
        _, curve = read_checkpoint(tmp_path / algorithm / CHECKPOINT, plan)
        assert curve[-1]["samples"] == 2.0 * settings


def test_a_finished_training_is_found_and_not_repeated(trained, anymal):
    folder, result = trained
    configuration, model = anymal

    def told(*_):
        raise AssertionError("it trained again")

    again = train(PLAN, configuration, model, configuration.nominal, folder, progress=told)
    assert again.bundle.digest == result.bundle.digest


def test_a_training_that_was_cancelled_goes_on_to_the_same_policy(trained, anymal, tmp_path):
    configuration, model = anymal
    asked = iter([False, True])
    with pytest.raises(Cancelled):
        train(PLAN, configuration, model, configuration.nominal, tmp_path, cancelled=lambda: next(asked))
    assert not (tmp_path / POLICY).exists()
    resumed = train(PLAN, configuration, model, configuration.nominal, tmp_path)
    assert resumed.bundle.digest == trained[1].bundle.digest
    assert len(resumed.curve) == PLAN.iterations


def test_what_interrupts_an_iteration_leaves_the_one_before_it(trained, anymal, tmp_path, monkeypatch):
    configuration, model = anymal
    learn_values = Shac._learn_values

    def interrupted(self, *window):
        if self.iteration == 1:
            raise KeyboardInterrupt  # the actor has learned and the worlds have moved
        return learn_values(self, *window)

    with monkeypatch.context() as patched:
        patched.setattr(Shac, "_learn_values", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(PLAN, configuration, model, configuration.nominal, tmp_path)
    resumed = train(PLAN, configuration, model, configuration.nominal, tmp_path)
    assert resumed.bundle.digest == trained[1].bundle.digest


def test_a_training_that_diverged_leaves_the_last_good_checkpoint(trained, anymal, tmp_path, monkeypatch):
    configuration, model = anymal
    monkeypatch.setattr(training, "ITERATIONS_BETWEEN_CHECKPOINTS", 2)
    advance = Worlds.advance

    def wild(self, situation, action):
        step = advance(self, situation, action)
        return step._replace(motion=step.motion._replace(action=step.motion.action * 1e6))

    def told(_, fraction, __):
        if fraction > 0.5:
            patched.setattr(Worlds, "advance", wild)

    diverged = pytest.raises(RealityGradError, match="training diverged in iteration 2")
    with monkeypatch.context() as patched, diverged:
        train(PLAN, configuration, model, configuration.nominal, tmp_path, progress=told)
    state, curve = read_checkpoint(tmp_path / CHECKPOINT, PLAN)
    assert len(curve) == int(state["iteration"]) == 2
    assert not (tmp_path / POLICY).exists()
    resumed = train(PLAN, configuration, model, configuration.nominal, tmp_path)
    assert resumed.bundle.digest == trained[1].bundle.digest


@pytest.mark.parametrize(
    ("entry", "value"),
    [("robot", "go2"), ("task", "velocity"), ("algorithm", "ppo"), ("contact", "hard"), ("horizon", 32), ("seed", 1)],
)
def test_a_checkpoint_of_another_plan_is_refused_by_name(trained, entry, value):
    with pytest.raises(RealityGradError, match=f"is of {entry} .*, not {value}"):
        read_checkpoint(trained[0] / CHECKPOINT, replace(PLAN, **{entry: value}))


def test_a_checkpoint_of_another_version_or_without_a_plan_is_refused(trained, tmp_path):
    tensors = load_file(trained[0] / CHECKPOINT)
    path = tmp_path / CHECKPOINT
    save_file(tensors, path, {"version": "1", "plan": json.dumps({}), "curve": "[]"})
    with pytest.raises(RealityGradError, match="is of version 1, not 2"):
        read_checkpoint(path, PLAN)
    save_file(tensors, path)
    with pytest.raises(RealityGradError, match="is damaged"):
        read_checkpoint(path, PLAN)


@pytest.mark.parametrize("change", ["lacks a tensor", "has another shape"])
def test_a_checkpoint_of_another_network_is_refused_by_name(trained, anymal, tmp_path, change):
    configuration, model = anymal
    state, curve = read_checkpoint(trained[0] / CHECKPOINT, PLAN)
    if change == "lacks a tensor":
        del state["worlds.command"]
    else:
        state["policy.network.0.weight"] = torch.zeros(3, 3)
    training.write_checkpoint(tmp_path / CHECKPOINT, PLAN, state, curve)
    with pytest.raises(RealityGradError, match=f"checkpoint '{tmp_path / CHECKPOINT}' was written by another version"):
        train(PLAN, configuration, model, configuration.nominal, tmp_path)


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: whole[8:]])
def test_a_damaged_checkpoint_is_refused_by_name(trained, tmp_path, damage):
    path = tmp_path / CHECKPOINT
    path.write_bytes(damage((trained[0] / CHECKPOINT).read_bytes()))
    with pytest.raises(RealityGradError, match=f"checkpoint '{path}' is damaged"):
        read_checkpoint(path, PLAN)


@pytest.mark.parametrize("full", [CURVE, CHECKPOINT, POLICY])
def test_a_full_disk_leaves_the_last_good_checkpoint(trained, anymal, tmp_path, monkeypatch, full):
    configuration, model = anymal
    asked = iter([False, True])
    with pytest.raises(Cancelled):
        train(PLAN, configuration, model, configuration.nominal, tmp_path, cancelled=lambda: next(asked))
    good = (tmp_path / CHECKPOINT).read_bytes()

    def sync(descriptor):
        if full in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        with pytest.raises(OSError, match="No space left"):
            train(PLAN, configuration, model, configuration.nominal, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {CHECKPOINT, CURVE}
    assert ((tmp_path / CHECKPOINT).read_bytes() == good) == (full != POLICY)
    assert train(PLAN, configuration, model, configuration.nominal, tmp_path).bundle.digest == trained[1].bundle.digest


def test_worlds_that_processes_cannot_share_evenly_are_refused(monkeypatch):
    monkeypatch.setattr(training, "processes", lambda: 3)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    with pytest.raises(RealityGradError, match="4 worlds cannot be shared evenly among 3"):
        training.own_share(4)


RANK = """
import sys
from dataclasses import replace
from pathlib import Path
import torch.distributed
from safetensors.torch import save_file
from realitygrad_ros.control.tasks.walking import TASKS, WALK
from realitygrad_ros.control.training import Plan, train
from realitygrad_ros.errors import Cancelled
from realitygrad_ros.robot.load import load_robot

def run(plan, folder, cancelled=lambda: False):
    folder.mkdir(parents=True, exist_ok=True)
    policy = train(plan, configuration, model, configuration.nominal, folder, cancelled=cancelled).policy
    save_file(policy.state_dict(), folder / f"rank_{torch.distributed.get_rank()}.safetensors")

torch.distributed.init_process_group("gloo")
configuration, model = load_robot("anymal_c")
TASKS["walk"] = replace(WALK, duration=0.2)
for algorithm in ("shac", "ppo"):
    plan = Plan("anymal_c", "walk", algorithm, "smooth", worlds=4, horizon=4, iterations=4, seed=5)
    folder = Path(sys.argv[1]) / algorithm
    run(plan, folder / "whole")
    asked = iter([False, False, True])
    try:
        run(plan, folder / "resumed", lambda: next(asked))
    except Cancelled:
        torch.distributed.barrier()
    if torch.distributed.get_rank() == 0:
        (folder / "half").mkdir()
        (folder / "half/checkpoint.safetensors").write_bytes((folder / "resumed/checkpoint.safetensors").read_bytes())
    run(plan, folder / "resumed")
torch.distributed.destroy_process_group()
"""
SHARED = Plan("anymal_c", "walk", "shac", "smooth", worlds=4, horizon=4, iterations=4, seed=5)
"""What two ranks trained, by either algorithm."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Trainings of two ranks: a whole one, one that was cancelled half way, and how it went on."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "rank.py").write_text(RANK)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(folder / "rank.py"), str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.parametrize("algorithm", ["shac", "ppo"])
def test_two_ranks_go_on_as_if_they_had_not_stopped(shared, algorithm):
    whole, resumed = (load_file(shared / algorithm / name / CHECKPOINT) for name in ("whole", "resumed"))
    assert whole.keys() == resumed.keys()
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name
    # Ranks draw when one of their own worlds begins anew; the test would be void if they had not drawn differently.
    assert not torch.equal(whole["worlds.position"][:2], whole["worlds.position"][2:])
    assert not torch.equal(*whole["worlds.random"])


@pytest.mark.parametrize("algorithm", ["shac", "ppo"])
def test_two_ranks_learn_the_same_policy(shared, algorithm):
    """By PPO not that of one process: its library scales the advantages of each rank by themselves."""
    for run in ("whole", "resumed"):
        first, second = (load_file(shared / algorithm / run / f"rank_{rank}.safetensors") for rank in (0, 1))
        for name, tensor in first.items():
            assert torch.equal(tensor, second[name]), name


@pytest.mark.parametrize("algorithm", ["shac", "ppo"])
def test_one_process_goes_on_where_two_stopped(shared, anymal, tmp_path, algorithm):
    configuration, model = anymal
    plan = replace(SHARED, algorithm=algorithm)
    shutil.copy(shared / algorithm / "half" / CHECKPOINT, tmp_path)
    result = train(plan, configuration, model, configuration.nominal, tmp_path)
    assert [row["samples"] for row in result.curve] == [16.0, 32.0, 48.0, 64.0]
    state = load_file(tmp_path / CHECKPOINT)
    assert len(state["worlds.position"]) == 4
    assert len(state["worlds.random"]) == 1


@pytest.mark.parametrize(("before", "after", "random"), [(1, 2, [0, 0]), (2, 1, [0]), (2, 2, [0, 1])])
def test_worlds_go_on_whoever_had_them(anymal, before, after, random):
    """`random`: whose generator each process goes on with."""
    configuration, model = anymal
    robot = legged_robot(model, configuration, configuration.nominal, "smooth")

    def shares(count, seed):
        size = 4 // count
        return [Worlds(robot, configuration.nominal, WALK, Share(i * size, size, 4), seed + i) for i in range(count)]

    def rows(several):
        states = [worlds.state() for worlds in several]
        return {name: torch.cat([state[name] for state in states]) for name in states[0]}

    written = rows(shares(before, seed=1))
    others = shares(after, seed=7)
    for worlds in others:
        worlds.load(written)
    found = rows(others)
    assert torch.equal(found.pop("random"), written["random"][random])
    for name, tensor in found.items():
        assert torch.equal(tensor, written[name]), name
