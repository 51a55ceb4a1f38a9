"""The loop in this process: killed at every stage it goes on, and bad files are named."""

import dataclasses
import shutil

import pytest
from local_crew import LocalCrew

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.identification.recording import read_recording
from realitygrad_ros.iteration.loop import STAGES, Task, run_iteration
from realitygrad_ros.iteration.plan import Plan
from realitygrad_ros.iteration.run_folder import RunFolder, read_record
from realitygrad_ros.progress import never, silent


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(scope="module")
def crew():
    return LocalCrew("ur5", motions=2)


@pytest.fixture(scope="module")
def task(crew):
    return Task(crew.configuration, crew.model, seed=0, identification_targets=1, evaluation_targets=1, truth=None)


@pytest.fixture(scope="module")
def finished(crew, task, tmp_path_factory):
    """A run with iterations 0 and 1, killed once in each of their stages, and what was told meanwhile."""
    run = RunFolder(tmp_path_factory.mktemp("run"))
    told = []
    with pytest.MonkeyPatch.context() as patch:
        # A policy that hardly reaches its targets serves here.
        patch.setattr("realitygrad_ros.control.trajectory_optimization.ITERATIONS", 5)
        patch.setattr("realitygrad_ros.control.cloning.STEPS", 200)
        for k in (0, 1):
            for stage in STAGES[k == 0 :]:

                def kill(now, fraction, figures, k=k, stage=stage):
                    if (now, figures["iteration"]) == (stage, k):
                        raise Killed

                with pytest.raises(Killed):
                    run_iteration(run, task, crew, kill, never, told.append)
                assert read_record(run.directory(k), stage) is None
        metrics = run_iteration(run, task, crew, silent, never, told.append)
    return run, metrics, told + crew.told


def test_a_run_that_was_killed_at_every_stage_is_whole_and_nothing_was_done_twice(finished):
    run, metrics, told = finished
    assert metrics == run.metrics(1)
    assert not [line for line in told if "is done again" in line]
    for k in (0, 1):
        directory = run.directory(k)
        records = {stage: read_record(directory, stage) for stage in STAGES[k == 0 :]}
        assert all(records.values())
        # Each stage was made from what the one before had made.
        made = {name: value for record in records.values() for name, value in record.outputs.items()}
        assert records["rollout"].inputs["policy.safetensors"] == made["policy.safetensors"]
        assert records["measure"].inputs["bag"] == made["bag"]
        assert run.metrics(k)["seconds"]["total"] >= sum(record.seconds for record in records.values())
        assert not list(directory.rglob(".*"))
    residuals = metrics["residuals"]
    assert len(residuals) == 2
    assert residuals[1] <= residuals[0]
    assert (run.path / "report.html").is_file()


def test_the_rollout_is_that_of_its_plan(finished, crew):
    run, _, _ = finished
    plans = [Plan.read(run.directory(k) / "targets.json") for k in (0, 1)]
    assert (plans[0].evaluation == plans[1].evaluation).all()
    assert (plans[0].identification != plans[1].identification).all()
    recording = read_recording(run.directory(1) / "bag", crew.configuration.joint_names)
    with pytest.raises(RealityGradError, match="iteration_1/bag' lacks target 1 of 2"):
        plans[0].segments(recording)


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run to be damaged."""
    return RunFolder(shutil.copytree(finished[0].path, tmp_path / "run"))


def test_what_an_iteration_builds_upon_is_checked(copy, task, crew):
    (copy.directory(0) / "bag" / "metadata.yaml").write_text("")
    with pytest.raises(RealityGradError, match=r"iteration_0/bag' is not what stage 'rollout' wrote"):
        run_iteration(copy, task, crew, silent, never, print)
    assert copy.finished() == 2
    assert not list(copy.directory(2).iterdir())


def test_metrics_that_are_lost_are_taken_again_without_moving_the_robot(copy, task, crew):
    before = copy.metrics(1)
    (copy.directory(1) / "metrics.json").unlink()
    told = []
    after = run_iteration(copy, task, crew, silent, never, told.append)
    assert "iteration_1: rollout is done already" in told
    for metrics in (before, after):
        metrics.pop("finished")
        metrics["seconds"].pop("total")
    assert after == before


def test_a_cancelled_iteration_leaves_no_half_recording(copy, task, crew):
    shutil.rmtree(copy.directory(1) / "bag")
    (copy.directory(1) / "metrics.json").unlink()
    moving = []
    with pytest.raises(Cancelled):
        run_iteration(copy, task, crew, lambda stage, *_: moving.append(stage), lambda: "rollout" in moving, print)
    assert not list(copy.directory(1).glob("bag*"))


def test_a_run_of_another_configuration_is_refused(copy, task, crew):
    copy.write_metrics(0, copy.metrics(0) | {"robot_digest": "0"})
    with pytest.raises(RealityGradError, match="start a new run folder"):
        run_iteration(copy, task, crew, silent, never, print)


def test_a_run_of_another_seed_is_refused(copy, task, crew):
    with pytest.raises(RealityGradError, match=r"was begun with seed 0, not 1; give that one"):
        run_iteration(copy, dataclasses.replace(task, seed=1), crew, silent, never, print)
