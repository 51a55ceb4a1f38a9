"""Training folders: checkpoints, what resumes from them, and what is refused."""

import errno
import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from realitygrad_ros.control import training
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.ppo import PpoSettings
from realitygrad_ros.control.shac import ShacSettings
from realitygrad_ros.control.tasks.walking import TASKS, WALK
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
    save_file(tensors, path, {"version": "0", "plan": json.dumps({}), "curve": "[]"})
    with pytest.raises(RealityGradError, match="is of version 0"):
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


def test_a_full_disk_leaves_the_last_good_checkpoint(trained, anymal, tmp_path, monkeypatch):
    configuration, model = anymal
    asked = iter([False, True])
    with pytest.raises(Cancelled):
        train(PLAN, configuration, model, configuration.nominal, tmp_path, cancelled=lambda: next(asked))
    good = (tmp_path / CHECKPOINT).read_bytes()

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(training, "write_whole", full)
        with pytest.raises(OSError, match="No space left"):
            train(PLAN, configuration, model, configuration.nominal, tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == good
    assert train(PLAN, configuration, model, configuration.nominal, tmp_path).bundle.digest == trained[1].bundle.digest


def test_worlds_that_processes_cannot_share_evenly_are_refused(monkeypatch):
    monkeypatch.setattr(training, "processes", lambda: 3)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    with pytest.raises(RealityGradError, match="4 worlds cannot be shared evenly among 3"):
        training.own_share(4)
