"""The command line as a user meets it: help, versions, errors and exit codes."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from realitygrad_ros import main as command_line
from realitygrad_ros.commands import check
from realitygrad_ros.errors import Cancelled
from realitygrad_ros.iteration.run_folder import RunFolder, digest_of_robot
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import load_configuration


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    script = """
import sys
from realitygrad_ros.main import main
try:
    main(["--help"])
finally:
    print(sorted({"rclpy", "torch", "warp", "mujoco", "matplotlib"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in command_line.COMMANDS:
        assert re.search(rf"^ +{name}\s+\S", done.stdout, re.MULTILINE), name


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command_line.main([command, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: realitygrad {command}")


def test_version_is_that_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["--version"])
    assert re.fullmatch(r"realitygrad \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_unknown_command_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command_line.main(["dance"])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert "dance" in message
    assert all(name in message for name in command_line.COMMANDS)


def test_bad_input_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["check", "nowhere.urdf"]) == 2
    message = capsys.readouterr().err
    assert re.fullmatch(r"error: .*nowhere\.urdf.*\n", message)


@pytest.mark.parametrize("reason", [KeyboardInterrupt, Cancelled])
def test_interruption_is_exit_code_130(reason: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_arguments: object) -> int:
        raise reason

    monkeypatch.setattr(check, "run", interrupted)
    assert command_line.main(["check", "ur5"]) == 130


FIGURES = {"forward": 123456.7, "period": {"p99_ms": 0.25, "half": [0.5, 2.0]}, "robot": "ur5"}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that takes no time."""
    module = ModuleType("realitygrad_ros.benchmarks.physics")
    module.run = lambda robot, progress: FIGURES  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("benchmark")
def test_bench_prints_a_table_and_writes_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert command_line.main(["bench", "physics", "--robot", "ur5", "--json", str(file)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[:2] == [["forward", "1.2346e+05"], ["period.p99_ms", "0.25"]]
    assert rows[2:] == [["period.half", "0.5", "to", "2"], ["robot", "ur5"]]
    assert json.loads(file.read_text()) == FIGURES


@pytest.mark.parametrize("path", ["", "folder", "nowhere/figures.json", "/proc/figures.json"])
def test_json_that_cannot_be_written_is_refused_before_the_work(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    arguments = ["demo", "--json", str(tmp_path / path), "--run-directory", str(tmp_path / "run")]
    assert command_line.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_demo_of_a_robot_on_legs_needs_a_policy_to_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("realitygrad_ros.commands.legged_demo.share_directory", lambda: tmp_path)
    assert command_line.main(["demo", "--robot", "anymal_c", "--run-directory", str(tmp_path / "run")]) == 2
    assert f"no policy '{tmp_path}/policies/anymal_c_velocity.safetensors' to begin with" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["demo", "up"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--robot", "nobody"), "no configuration"),
        (("--robot", "robot.yaml"), "no twin configuration"),
        (("--run-directory", "robot.yaml"), "cannot be written to"),
        (("--run-directory", "robot.yaml/run"), "cannot be written to"),
        (("--run-directory", "/proc/run"), "cannot be written to"),
        (("--run-directory", "begun", "--seed", "5"), "was begun with seed 0, not 5"),
        (("--run-directory", "begun"), "was begun with robot 'other'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_any_node_starts(
    command: str,
    arguments: Sequence[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    configuration = load_configuration("ur5")
    text = (share_directory() / "config" / "ur5.yaml").read_text()
    Path("robot.yaml").write_text(text.replace("../urdf/ur5.urdf", str(configuration.urdf)))
    robot = digest_of_robot(configuration) if "--seed" in arguments else "another"
    Path("begun", "iteration_0").mkdir(parents=True)
    RunFolder(Path("begun")).write_metrics(0, {"k": 0, "robot": "other", "robot_digest": robot, "seed": 0})
    before = sorted(tmp_path.rglob("*"))
    assert command_line.main([command, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert words in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("seed", ["-1", str(2**63), "x"])
def test_a_seed_that_no_node_takes_is_refused(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["demo", "--seed", seed])
    assert "argument --seed: " in capsys.readouterr().err


def test_what_the_system_refuses_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/nodes.log")

    monkeypatch.setattr(check, "run", run)
    assert command_line.main(["check", "ur5"]) == 2
    assert capsys.readouterr().err.startswith("error: 'runs/nodes.log' cannot be used: No space left on device")
