"""What need not be made again, what must be, and what is refused."""

import pytest

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.iteration.run_folder import RunFolder, digest, newest_policy, read_record, run_stage
from realitygrad_ros.robot.configuration import load_configuration


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "iteration_0"


class Baker:
    """A stage that counts how often it was done."""

    def __init__(self, directory):
        self.directory = directory
        self.done = 0
        self.told = []

    def bake(self, flour="rye"):
        """Do the stage, or not."""

        def work():
            self.done += 1
            (self.directory / "bread").mkdir(exist_ok=True)
            (self.directory / "bread" / "crumb").write_text(flour)
            return {"weight": 1.5}

        return run_stage(self.directory, "bake", {"flour": flour}, ["bread"], work, self.told.append)


def test_a_stage_is_done_once_for_the_same_inputs(directory):
    baker = Baker(directory)
    first = baker.bake()
    assert baker.bake() == first == read_record(directory, "bake")
    assert first.figures == {"weight": 1.5}
    assert baker.done == 1
    assert baker.told == ["iteration_0: bake is done already"]


def test_a_stage_is_done_again_for_other_inputs_or_a_missing_output_and_says_so(directory):
    baker = Baker(directory)
    baker.bake()
    baker.bake("wheat")
    (directory / "bread" / "crumb").unlink()
    (directory / "bread").rmdir()
    baker.bake("wheat")
    assert baker.done == 3
    assert baker.told == [
        "iteration_0: bake is done again, for its flour changed",
        "iteration_0: bake is done again, for bread is missing",
    ]


def test_a_changed_output_is_refused_by_name_and_nothing_is_done(directory):
    baker = Baker(directory)
    baker.bake()
    (directory / "bread" / "crumb").write_text("stone")
    with pytest.raises(RealityGradError, match="bread' is not what stage 'bake' wrote"):
        baker.bake()
    assert baker.done == 1
    assert (directory / "bread" / "crumb").read_text() == "stone"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"stage": "bake"}'])
def test_a_damaged_record_is_refused_by_name(directory, content):
    Baker(directory).bake()
    (directory / "stages" / "bake.json").write_text(content)
    with pytest.raises(RealityGradError, match=r"stages/bake.json'.*delete it"):
        Baker(directory).bake()


def test_a_stage_that_was_interrupted_left_no_record(directory):
    def work():
        (directory / "bread").write_text("dough")
        raise Cancelled

    with pytest.raises(Cancelled):
        run_stage(directory, "bake", {"flour": "rye"}, ["bread"], work, print)
    assert read_record(directory, "bake") is None


def test_the_digest_of_a_folder_sees_names_and_contents(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("same")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    (tmp_path / "b" / "file").rename(tmp_path / "b" / "other")
    assert digest(tmp_path / "a") != digest(tmp_path / "b")


def test_a_run_knows_what_is_finished_and_checks_what_it_builds_upon(tmp_path):
    run = RunFolder(tmp_path)
    assert run.finished() == 0
    for k in range(3):
        Baker(run.directory(k)).bake()
        run.write_metrics(k, {"k": k})
    assert run.finished() == 3
    assert run.metrics(2) == {"k": 2}
    (run.directory(2) / "metrics.json").write_text('{"k": 2}')
    with pytest.raises(RealityGradError, match=r"iteration_2/metrics.json' is damaged"):
        run.metrics(2)
    (run.directory(1) / "metrics.json").unlink()
    assert run.finished() == 1
    (run.directory(1) / "metrics.json").write_text('{"k": 0}')
    with pytest.raises(RealityGradError, match=r"iteration_1/metrics.json' holds no metrics of iteration 1"):
        run.metrics(1)
    assert run.output(0, "bake") == run.directory(0) / "bread"
    (run.directory(0) / "bread" / "crumb").write_text("stone")
    with pytest.raises(RealityGradError, match="iteration_0/bread' is not what"):
        run.output(0, "bake")
    with pytest.raises(RealityGradError, match=r"iteration_0/stages/fry.json' is missing"):
        run.output(0, "fry")
    nominal = load_configuration("ur5").nominal
    assert run.calibration(0, nominal) is nominal


def test_the_newest_policy_is_that_of_the_highest_iteration(tmp_path):
    assert newest_policy(tmp_path) is None
    for k in (0, 2, 10):
        (tmp_path / f"iteration_{k}").mkdir()
        (tmp_path / f"iteration_{k}" / "policy.safetensors").touch()
    assert newest_policy(tmp_path) == tmp_path / "iteration_10" / "policy.safetensors"
    assert newest_policy(tmp_path / "iteration_2") == tmp_path / "iteration_2" / "policy.safetensors"
