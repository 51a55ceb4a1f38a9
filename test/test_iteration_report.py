"""The figures of the gap, and the report that shows them."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from realitygrad_ros.commands import report as report_command
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.iteration.comparison import Comparison
from realitygrad_ros.iteration.report import summarise, write_report
from realitygrad_ros.iteration.run_folder import RunFolder, run_stage
from realitygrad_ros.main import make_parser
from realitygrad_ros.robot.configuration import load_configuration

UR5 = load_configuration("ur5")


def comparison(error: float, segments: int = 3) -> Comparison:
    """Motions whose simulated end effector is `error` metres beside the real one, at rest 20 mm above the target."""
    random = np.random.default_rng(0)
    time = np.arange(0.0, 1.5, 0.005)
    position = random.normal(size=(segments, len(time), 6))
    end_effector = random.normal(size=(segments, len(time), 3))
    target = random.normal(size=(segments, 3))
    end_effector[:, time > 0.9] = target[:, None] + [0.0, 0.0, 0.02]
    beside = end_effector + np.array([error, 0.0, 0.0])
    return Comparison(UR5.joint_names, time, target, position, position + error, end_effector, beside)


@pytest.fixture
def run(tmp_path):
    """Three finished iterations, as an iteration leaves them."""
    folder = RunFolder(tmp_path)
    for k, error in enumerate((0.05, 0.004, 0.001)):
        directory = folder.directory(k)
        directory.mkdir()
        compared = comparison(error)

        def measure(compared=compared, path=directory / "comparison.safetensors"):
            compared.write(path)
            return {}

        run_stage(directory, "measure", {}, ["comparison.safetensors"], measure, print)
        metrics = {
            "k": k,
            "robot": "<ur5>",
            "seed": 0,
            "finished": "2026-01-01 12:00:00 +0000",
            "seconds": dict.fromkeys(("identify", "optimise", "train", "rollout", "measure"), 5.0) | {"total": 26.0},
            "gap_mean_m": compared.gap_mean(),
            "gap_accumulated_m": compared.gap_accumulated(),
            "target_error_mean_m": float(compared.target_error(0.5).mean()),
            "residuals": [9.0, 0.5, 0.25][: k + 1],
            "parameters": UR5.nominal.as_mapping(),
            "verdicts": {} if k == 0 else {"kd": {"elbow_joint": "held: the data cannot separate it from damping"}},
            "truth": UR5.nominal.as_mapping() if k else None,
        }
        folder.write_metrics(k, metrics)
    return folder


def test_figures_are_what_their_names_say():
    compared = comparison(0.05)
    assert compared.gap_mean() == pytest.approx(0.05)
    assert compared.gap_accumulated() == pytest.approx(0.05 * 3 * 300)
    assert compared.target_error(0.5) == pytest.approx([0.02] * 3)


def test_a_comparison_survives_the_disk_and_a_damaged_one_is_refused_by_name(tmp_path):
    path = tmp_path / "comparison.safetensors"
    compared = comparison(0.05)
    compared.write(path)
    again = Comparison.read(path)
    assert again.joint_names == compared.joint_names
    assert all(np.array_equal(value, getattr(again, name)) for name, value in vars(compared).items())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RealityGradError, match=r"comparison.safetensors' cannot be read"):
        Comparison.read(path)


def test_the_report_is_one_sound_page_that_needs_nothing_else(run):
    page = write_report(run).read_text()
    open_tags = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "br"):
                open_tags.append(tag)
            named = dict(attributes)
            assert not {"src", "srcset"} & set(named)
            assert named.get("href", named.get("xlink:href", "#")).startswith("#")

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Checker().feed(page)
    assert open_tags == []
    assert not re.search(r"url\((?!#)", page)
    assert page.count("<svg") == 7
    assert "<ur5>" not in page
    for text in (
        "50 → 1 mm",
        "−98.0 %",
        "held: the data cannot separate it from damping",
        "shoulder_pan_joint",
        "truth",
    ):
        assert text in page


def test_a_report_of_iteration_0_alone_is_possible(run):
    for k in (1, 2):
        (run.directory(k) / "metrics.json").unlink()
    page = write_report(run).read_text()
    assert page.count("<svg") == 7
    assert "truth" not in page


def test_residuals_are_those_on_the_newest_data(run):
    assert [row["residual"] for row in summarise(run)] == [9.0, 0.5, 0.25]


def test_the_command_writes_the_report_and_refuses_an_empty_run(run, tmp_path, capsys):
    parser = make_parser(["report"])
    assert report_command.run(parser.parse_args(["report", str(tmp_path)])) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"
    with pytest.raises(RealityGradError, match="has no finished iteration"):
        report_command.run(parser.parse_args(["report", str(tmp_path / "nothing")]))


@pytest.mark.parametrize("name", ["metrics.json", "comparison.safetensors"])
def test_a_wrong_byte_anywhere_is_refused_with_the_name_of_the_file(run, name):
    path = run.directory(2) / name
    sound = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(sound), 20):
        wrong = bytearray(sound)
        # Another digit, letter or bit, so that also what still reads as JSON is tried.
        wrong[place] ^= 1
        if name == "metrics.json" and bytes([wrong[place], sound[place]]).isspace():
            continue
        path.write_bytes(wrong)
        with pytest.raises(RealityGradError, match=name):
            write_report(run)
    assert not (run.path / "report.html").exists()


def test_a_report_that_cannot_be_written_is_told_by_name(run):
    (run.path / "report.html").mkdir()
    with pytest.raises(RealityGradError, match=r"report.html' cannot be written: Is a directory"):
        write_report(run)
