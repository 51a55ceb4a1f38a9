"""`realitygrad sysid`: from a bag to a calibration, or to one line of complaint."""

import json
from pathlib import Path

import numpy as np
import pytest
from bag_writing import COMMANDS, START, Messages, command, joint_state, write_bag
from recorded_motion import CONFIGURATION, MODEL, twin_recording

from realitygrad_ros.main import main
from realitygrad_ros.robot.parameters import SimulationParameters


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three motions of the twin, its joints in another order than ours and without velocities."""
    recording = twin_recording(0, 3)
    order = np.argsort(MODEL.joint_names)
    names = [MODEL.joint_names[i] for i in order]
    messages: Messages = [
        ("/arm/joint_states", t, joint_state(names, q[order], (), START + round(t * 1e9)))
        for t, q in zip(recording.time, recording.position, strict=True)
    ]
    messages += [
        (f"/arm{COMMANDS}", t, command(q)) for t, q in zip(recording.command_time, recording.command, strict=True)
    ]
    messages.sort(key=lambda message: message[1])
    return write_bag(tmp_path_factory.mktemp("bags") / "bag", messages)


def test_fits_prints_and_writes(bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, file = tmp_path / "new" / "folder", tmp_path / "figures.json"
    assert main(["sysid", str(bag), "--namespace", "arm", "--out", str(out), "--json", str(file)]) == 0
    printed = capsys.readouterr()
    assert "has no velocity" in printed.err
    assert "only kd + damping of elbow_joint is fixed by this data; kd kept at its prior" in printed.out
    figures = json.loads(file.read_text())
    assert figures["residual_after"] < 0.1 * figures["residual_before"]
    assert set(figures["parameters"]) == {"damping", "armature", "kp", "kd", "friction"}
    fitted = SimulationParameters.read(out / "calibration.yaml")
    assert fitted.joint_names == MODEL.joint_names
    for name, joints in figures["parameters"].items():
        np.testing.assert_allclose(getattr(fitted, name), [joint["fitted"] for joint in joints.values()])
    elbow = figures["parameters"]["kp"]["elbow_joint"]
    assert elbow["prior"] == CONFIGURATION.nominal.kp[2] and elbow["identified"] and elbow["standard_error"] > 0.0

    # What was found is a better prior than what was believed.
    again = tmp_path / "again.json"
    prior = ["--prior", str(out / "calibration.yaml"), "--out", str(tmp_path), "--json", str(again)]
    assert main(["sysid", str(bag), *prior]) == 0
    assert json.loads(again.read_text())["residual_before"] == pytest.approx(figures["residual_after"])


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line on stderr with which the command ends by 2."""
    assert main(["sysid", *arguments]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line


def test_bad_input_ends_with_one_line_and_leaves_nothing(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert "no bag" in refusal([str(tmp_path / "nothing"), *out], capsys)
    assert "no topic 'joint_states' in namespace 'leg'" in refusal([str(bag), "--namespace", "leg", *out], capsys)
    assert "no configuration" in refusal([str(bag), "--robot", "ur55", *out], capsys)
    assert "cannot be read" in refusal([str(bag), "--prior", str(tmp_path / "none.yaml"), *out], capsys)
    cut = tmp_path / "cut.mcap"
    (file,) = bag.glob("*.mcap")
    cut.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "damaged or cut off" in refusal([str(cut), *out], capsys)
    still: Messages = [(COMMANDS, 0.0, command(CONFIGURATION.home))]
    still += [
        ("/joint_states", k / 500, joint_state(MODEL.joint_names, CONFIGURATION.home, np.zeros(6))) for k in range(500)
    ]
    assert "nothing moves" in refusal([str(write_bag(tmp_path / "still", still)), *out], capsys)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal([str(bag), "--out", str(tmp_path / "file")], capsys)
