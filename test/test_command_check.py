"""`realitygrad check`: what it prints, what it writes, and how it ends."""

import json
from pathlib import Path

import numpy as np
import pytest
from arm_urdf import arm_urdf, write_arm
from example_robots import ARMS, OWN_UR5, PANDA, example_robot, oracle_of_file, oracle_of_model
from numpy.testing import assert_allclose

from realitygrad_ros.commands.check import _masses_carried, describe
from realitygrad_ros.main import main
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.urdf import load_urdf


def test_a_robot_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "ur5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shoulder = next(line for line in lines if line.startswith("shoulder_lift_joint"))
    assert (
        " ".join(shoulder.split())
        == "shoulder_lift_joint revolute shoulder_pan_joint -6.283 6.283 3.142 150 8.393 13.35"
    )
    assert any("total moving mass" in line and "17.05 kg" in line for line in lines)
    assert any("condition of the mass matrix" in line and "(0, -1.2, 1.6, -1.97, -1.57, 0)" in line for line in lines)
    assert lines[-1] == "no warnings"


def test_a_robot_with_a_floating_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert main(["check", "anymal_c", "--json", str(path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "base floating, 26.37 kg, 0.5488 m above the ground at home" in lines
    assert "contacts LF_FOOT, RF_FOOT, LH_FOOT, RH_FOOT" in lines
    assert "total moving mass 52.13 kg" in lines
    assert lines[-1] == "no warnings"
    figures, (configuration, model) = json.loads(path.read_text()), load_robot("anymal_c")
    assert (figures["base_mass"], figures["home_height"]) == (26.37317, 0.5488)
    assert figures["contacts"][0] == {"link": "LF_FOOT", "center": [0.0, 0.0, 0.0225], "radius": 0.03}
    upright = np.concatenate([np.zeros(6), [1.0], configuration.home])
    expected = np.linalg.cond(oracle_of_model(model).mass_matrix(upright))
    assert_allclose(figures["mass_matrix_condition"], expected, rtol=1e-6)


def test_the_base_of_a_urdf_alone_is_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert main(["check", str(write_arm(tmp_path, arm_urdf())), "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert (figures["base_mass"], figures["home_height"], figures["contacts"]) == (None, None, [])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "base fixed" in lines and "contacts none" in lines


def test_a_configuration_by_its_path(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    assert main(["check", str(OWN_UR5.parents[1] / "config" / "ur5.yaml"), "--json", str(figures)]) == 0
    assert json.loads(figures.read_text())["nominal_pose"]["elbow_joint"] == 1.6


def test_every_warning_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = arm_urdf().replace(' effort="6"', "").replace('ixx="0.01"', 'ixx="0.05"')
    path, figures = write_arm(tmp_path, text), tmp_path / "figures.json"
    assert main(["check", str(path), "--json", str(figures)]) == 0
    warnings = json.loads(figures.read_text())["warnings"]
    assert len(warnings) == 2
    printed = capsys.readouterr().out
    assert all(f"warning: {warning}" in printed for warning in warnings)


def test_a_limit_that_is_not_there_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    assert main(["check", str(write_arm(tmp_path, arm_urdf())), "--json", str(figures)]) == 0
    shoulder, wrist = json.loads(figures.read_text())["joints"]
    assert (wrist["lower"], wrist["upper"], wrist["velocity_limit"]) == (None, None, 5.0)
    assert (shoulder["parent"], wrist["parent"], shoulder["mass_carried"]) == ("base", "shoulder", 3.5)
    line = capsys.readouterr().out.splitlines()[5]
    assert " ".join(line.split()) == "wrist continuous shoulder - - 5 6 1.5 1.5"


@pytest.mark.parametrize("name", ARMS)
def test_the_condition_is_that_of_the_mass_matrix(name: str) -> None:
    path = example_robot(name)
    model = load_urdf(path)
    figures = describe(model)
    pose = np.array(list(figures["nominal_pose"].values()))
    expected = np.linalg.cond(oracle_of_file(path, model).mass_matrix(pose))
    assert_allclose(figures["mass_matrix_condition"], expected, rtol=1e-6)
    bounded = np.isfinite(model.limit_array("lower")) & np.isfinite(model.limit_array("upper"))
    assert (pose[~bounded] == 0.0).all()
    json.dumps(figures, allow_nan=False)


def test_a_bad_condition_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    light = arm_urdf().replace('"0.001"', '"1e-8"').replace('"0.002"', '"1e-8"')
    assert main(["check", str(write_arm(tmp_path, light))]) == 0
    warning = capsys.readouterr().out.splitlines()[-1]
    assert warning.startswith("warning: the mass matrix is badly conditioned")
    assert "'wrist'" in warning


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("nobody", ("nobody", "known robots")),
        ("nowhere/robot.urdf", ("nowhere/robot.urdf", "No such file")),
        ("nowhere/robot.yaml", ("nowhere/robot.yaml",)),
        ("/", ("cannot be read",)),
    ],
)
def test_bad_input_ends_with_one_line(file: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", file]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert all(word in err for word in words)


def test_a_mimic_joint_ends_with_one_line_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(example_robot(PANDA)), "--json", str(tmp_path / "figures.json")]) == 2
    assert "panda_finger_joint2" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_figures_that_cannot_be_written_end_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert main(["check", "ur5", "--json", str(folder)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == [folder]


def test_a_chain_of_a_thousand_joints_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 1100
    inertia = '<inertia ixx="1" iyy="1" izz="1"/>'
    links = (f'<link name="l{i}"><inertial><mass value="1"/>{inertia}</inertial></link>' for i in range(count + 1))
    joints = (
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/></joint>'
        for i in range(count)
    )
    path = tmp_path / "snake.urdf"
    path.write_text(f'<robot name="snake">{"".join(links)}{"".join(joints)}</robot>')
    model = load_urdf(path)
    assert _masses_carried(model) == list(range(count, 0, -1))
