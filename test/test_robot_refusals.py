"""Every file that is no robot for this package is refused by one line that names the file and the thing at fault."""

import sys
from pathlib import Path

import pytest
from arm_urdf import arm_urdf, write_arm
from example_robots import PANDA, example_robot
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.urdf import load_urdf


def refusal(path: Path) -> str:
    """The message of the refusal, after a check of what holds for every one."""
    with pytest.raises(RealityGradError) as caught:
        load_urdf(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


LOOP = '<joint name="back" type="fixed"><parent link="tool"/><child link="base"/></joint>'
ISLAND = (
    '<link name="a"/><link name="b"/>'
    '<joint name="ab" type="fixed"><parent link="a"/><child link="b"/></joint>'
    '<joint name="ba" type="fixed"><parent link="b"/><child link="a"/></joint>'
)

CASES = {
    "mimic": ('<axis xyz="1 0 0"/>', '<axis xyz="1 0 0"/><mimic joint="shoulder"/>', ("mimic", "wrist")),
    "floating": ('"continuous"', '"floating"', ("wrist", "floating")),
    "planar": ('"continuous"', '"planar"', ("wrist", "planar")),
    "unknown type": ('"continuous"', '"hinge"', ("wrist", "hinge")),
    "no type": (' type="continuous"', "", ("wrist", "None")),
    "no mass": ('<mass value="2"/>', '<mass value="0"/>', ("upper", "no mass")),
    "negative mass": ('<mass value="0.5"/>', '<mass value="-0.5"/>', ("tool", "negative mass")),
    "indefinite": ('ixx="0.01"', 'ixx="-0.01"', ("upper", "not positive definite")),
    "zero inertia": ('ixx="0.01"', 'ixx="0"', ("upper", "not positive definite")),
    "indefinite by a fixed link": ('ixx="0.002"', 'ixx="-0.002"', ("tool", "not positive definite")),
    "no mass value": ('<mass value="2"/>', "<mass/>", ("upper", "mass", "value")),
    "incomplete inertia": ('ixx="0.01" ', "", ("upper", "ixx")),
    "limits reversed": ('lower="-1" upper="2"', 'lower="2" upper="-1"', ("shoulder", "lower limit 2")),
    "no limits": ('lower="-1" upper="2" ', "", ("shoulder", "no position limits")),
    "negative velocity": ('velocity="3"', 'velocity="-3"', ("shoulder", "velocity")),
    "zero axis": ('<axis xyz="1 0 0"/>', '<axis xyz="0 0 0"/>', ("wrist", "axis")),
    "short vector": ('xyz="0.4 0 0"', 'xyz="0.4 0"', ("wrist", "xyz", "3 numbers")),
    "word for a number": ('effort="40"', 'effort="strong"', ("shoulder", "effort", "strong")),
    "NaN": ('<mass value="2"/>', '<mass value="nan"/>', ("upper", "nan")),
    "NaN limit": ('upper="2"', 'upper="nan"', ("shoulder", "nan")),
    "link twice": ('<link name="base"/>', '<link name="base"/><link name="hand"/>', ("link 'hand'", "more than once")),
    "joint twice": ('name="mount"', 'name="wrist"', ("joint 'wrist'", "more than once")),
    "two parents": ('<child link="tool"/>', '<child link="upper"/>', ("upper", "shoulder", "mount")),
    "missing parent": ('<parent link="hand"/>', '<parent link="palm"/>', ("mount", "palm")),
    "missing child": ('<child link="tool"/>', '<child link="tip"/>', ("mount", "tip")),
    "no parent": ('<parent link="hand"/>', "", ("mount", "parent")),
    "joint without name": (' name="mount"', "", ("joint", "no name")),
    "loop": ("</robot>", LOOP + "</robot>", ("loop",)),
    "island": ("</robot>", ISLAND + "</robot>", ("loop", "a")),
    "two trees": ("</robot>", '<link name="stray"/></robot>', ("base, stray",)),
    "robot without name": ('<robot name="arm">', "<robot>", ("no name",)),
    "unclosed": ("</robot>", "", ("not XML",)),
    "mismatched": ('<link name="base"/>', '<link name="base"></joint>', ("not XML", "line")),
    "another format": ("robot", "sdf", ("no URDF",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused_by_name(tmp_path: Path, case: str) -> None:
    old, new, words = CASES[case]
    assert old in arm_urdf()
    message = refusal(write_arm(tmp_path, arm_urdf().replace(old, new)))
    assert all(word in message for word in words), message


def test_a_massless_link_between_two_joints_is_refused(tmp_path: Path) -> None:
    text = arm_urdf()
    start, end = text.index("<inertial>"), text.index("</inertial>") + len("</inertial>")
    assert "moving link 'upper' has no mass" in refusal(write_arm(tmp_path, text[:start] + text[end:]))


def test_a_massless_link_that_something_heavy_is_fixed_to_is_accepted(tmp_path: Path) -> None:
    hand = '<inertial><mass value="1"/>'
    start = arm_urdf().index(hand)
    end = arm_urdf().index("</inertial>", start) + len("</inertial>")
    text = arm_urdf()[:start] + arm_urdf()[end:]
    assert load_urdf(write_arm(tmp_path, text)).joints[1].body.mass == 0.5


def test_a_robot_that_cannot_move_is_refused(tmp_path: Path) -> None:
    text = arm_urdf().replace('"revolute"', '"fixed"').replace('"continuous"', '"fixed"')
    assert "no moving joint" in refusal(write_arm(tmp_path, text))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    start=st.integers(0, len(arm_urdf())), length=st.integers(1, 40), filling=st.sampled_from(["", "0", "-", '"', "<"])
)
def test_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, filling: str
) -> None:
    text = arm_urdf()[:start] + filling + arm_urdf()[start + length :]
    path = write_arm(tmp_path_factory.getbasetemp(), text, "damaged.urdf")
    try:
        load_urdf(path)
    except RealityGradError:
        refusal(path)


@pytest.mark.parametrize("content", [b"", b" \n", b"joints: {}", b"\x00\x01\x02", b"\xff\xfe", b"PK\x03\x04"])
def test_a_file_that_is_no_xml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "robot.urdf"
    path.write_bytes(content)
    refusal(path)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    text = arm_urdf()
    for end in range(0, len(text) - len("</robot>"), 97):
        refusal(write_arm(tmp_path, text[:end]))


def test_a_file_with_entities_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = '<!DOCTYPE robot [<!ENTITY arm "long">]>' + arm_urdf().partition("?>")[2].replace(
        'name="arm"', 'name="&arm;"'
    )
    assert "declares the entity 'arm'" in refusal(write_arm(tmp_path, text))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("suffix", ["urdf", "urdf.xacro"])
def test_a_missing_file_is_refused(tmp_path: Path, suffix: str) -> None:
    if suffix.endswith("xacro"):
        pytest.importorskip("xacro")
    refusal(tmp_path / f"nowhere.{suffix}")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    refusal(tmp_path)


REFUSED = {
    PANDA: "panda_finger_joint2",
    "panda_description/urdf/panda_collision.urdf": "panda_finger_joint2",
    "baxter_description/urdf/baxter.urdf": "l_gripper_r_finger_joint",
    "tiago_pro_description/robots/tiago_pro.urdf": "gripper_left_inner_finger_left_joint",
    "ur_description/urdf/ur3.urdf": "no name",
}
"""The arms of `example-robot-data` that are refused, and what for: the first four for joints that mimic others (the
fingers of their grippers), the last because it holds no robot at all."""


@pytest.mark.parametrize("name", REFUSED)
def test_arms_that_are_refused(name: str) -> None:
    assert REFUSED[name] in refusal(example_robot(name))


XACRO = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="reach" value="0.4"/>
  <xacro:include filename="{include}"/>
  <xacro:links/>
</robot>"""


def test_xacro_is_expanded(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    body = arm_urdf().replace('<robot name="arm">', "").replace('<?xml version="1.0"?>', "").replace("</robot>", "")
    body = body.replace('xyz="0.4 0 0"', 'xyz="${reach / 2} 0 0"')
    macro = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="links">'
    write_arm(tmp_path, f"{macro}{body}</xacro:macro></robot>", "links.xacro")
    model = load_urdf(write_arm(tmp_path, XACRO.format(include="links.xacro"), "arm.urdf.xacro"))
    assert model.joint_names == ("shoulder", "wrist")
    assert model.joints[1].placement.translation.tolist() == [0.2, 0.0, 0.0]


NAMESPACE = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


@pytest.mark.parametrize(
    "text",
    [
        XACRO.format(include="absent.xacro"),
        XACRO[:80],
        '<robot name="${nothing}"/>',
        '<robot name="${1/0}"/>',
        f'<robot name="arm" {NAMESPACE}><xacro:arg name="prefix"/></robot>',
        f'<robot name="arm" {NAMESPACE}><xacro:include filename="$(find nowhere)/arm.xacro"/></robot>',
    ],
)
def test_a_wrong_xacro_is_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("xacro")
    assert "cannot be expanded" in refusal(write_arm(tmp_path, text, "arm.xacro"))


def test_a_xacro_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    path = tmp_path / "arm.xacro"
    path.write_bytes(b"\x86\x00")
    assert "cannot be expanded" in refusal(path)


def test_xacro_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    assert "pip install xacro" in refusal(write_arm(tmp_path, XACRO, "arm.xacro"))
