"""Reading a robot from its file, judged by Pinocchio, which reads the same file on its own."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from arm_urdf import arm_urdf, write_arm
from example_robots import (
    ARMS,
    OWN_UR5,
    PANDA,
    example_robot,
    oracle_of_file,
    oracle_of_model,
    random_tree_urdf,
    with_rigid_fingers,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from realitygrad_ros.robot.model import BASE, JointKind, RobotModel
from realitygrad_ros.robot.urdf import load_urdf

RELATIVE = 1e-9
"""Right angles that a file gives with twelve digits become exact, which changes results by some 1e-11."""

seeds = st.integers(min_value=0, max_value=2**32 - 1)


@cache
def loaded(path: Path) -> RobotModel:
    return load_urdf(path)


def assert_same_robot(path: Path, model: RobotModel, seed: int) -> None:
    """Every link's pose, the mass matrix, gravity and mass are what Pinocchio has for the file itself."""
    theirs, ours = oracle_of_file(path, model), oracle_of_model(model)
    q = np.random.default_rng(seed).uniform(-np.pi, np.pi, model.joint_count)
    for link in model.frames:
        assert_allclose(ours.link_pose(link, q), theirs.link_pose(link, q), atol=RELATIVE, err_msg=link)
    for quantity in ("mass_matrix", "gravity_torque"):
        expected = getattr(theirs, quantity)(q)
        scale = np.abs(expected).max()
        assert_allclose(getattr(ours, quantity)(q), expected, rtol=0, atol=RELATIVE * scale + 1e-12, err_msg=quantity)
    assert_allclose(sum(joint.body.mass for joint in model.joints), theirs.moving_mass(), rtol=RELATIVE)


@pytest.mark.parametrize("name", ["ur5", *ARMS])
@settings(max_examples=4, deadline=None, derandomize=True)
@given(seed=seeds)
def test_an_arm_is_what_pinocchio_reads(name: str, seed: int) -> None:
    path = OWN_UR5 if name == "ur5" else example_robot(name)
    assert_same_robot(path, loaded(path), seed)


def test_panda_is_what_pinocchio_reads_once_its_fingers_are_fixed(tmp_path: Path) -> None:
    path = with_rigid_fingers(example_robot(PANDA), tmp_path)
    model = load_urdf(path)
    assert model.joint_names == tuple(f"panda_joint{i}" for i in range(1, 8))
    assert_same_robot(path, model, seed=0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=seeds, links=st.integers(min_value=0, max_value=12))
def test_a_random_tree_is_what_pinocchio_reads(tmp_path_factory: pytest.TempPathFactory, seed: int, links: int) -> None:
    path = tmp_path_factory.mktemp("tree") / "robot.urdf"
    path.write_text(random_tree_urdf(seed, links))
    model = load_urdf(path)
    assert_same_robot(path, model, seed)
    assert all(joint.parent < i for i, joint in enumerate(model.joints))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=seeds, links=st.integers(min_value=0, max_value=12))
def test_joints_are_ordered_depth_first(tmp_path_factory: pytest.TempPathFactory, seed: int, links: int) -> None:
    path = tmp_path_factory.mktemp("tree") / "robot.urdf"
    path.write_text(random_tree_urdf(seed, links))
    joints = load_urdf(path).joints
    branch: list[int] = [BASE]
    for i, joint in enumerate(joints):
        # A joint continues the branch of the one before it, or an earlier fork of that branch.
        while branch[-1] != joint.parent:
            branch.pop()
        branch.append(i)


def test_joints_keep_kinds_limits_and_places(tmp_path: Path) -> None:
    model = load_urdf(write_arm(tmp_path, arm_urdf()))
    shoulder, wrist = model.joints
    assert (model.name, model.base_link, model.warnings) == ("arm", "base", ())
    assert (shoulder.kind, shoulder.parent, wrist.kind, wrist.parent) == (
        JointKind.REVOLUTE,
        BASE,
        JointKind.CONTINUOUS,
        0,
    )
    assert (shoulder.lower, shoulder.upper, shoulder.velocity_limit, shoulder.effort_limit) == (-1.0, 2.0, 3.0, 40.0)
    assert (wrist.lower, wrist.upper, wrist.velocity_limit, wrist.effort_limit) == (-np.inf, np.inf, 5.0, 6.0)
    assert wrist.body.links == ("hand", "tool")
    assert set(model.frames) == {"base", "upper", "hand", "tool"}


def test_a_fixed_link_is_merged_by_the_parallel_axis_theorem(tmp_path: Path) -> None:
    body = load_urdf(write_arm(tmp_path, arm_urdf())).joints[1].body
    # 1 kg at 0 and 0.5 kg at 0.1 m: the reduced mass is 1/3 kg, and 1/3 * 0.1^2 is added across the line.
    assert body.mass == pytest.approx(1.5)
    assert_allclose(body.center_of_mass, [0.1 / 3.0, 0.0, 0.0])
    assert_allclose(body.inertia, np.diag([0.003, 0.003 + 0.01 / 3.0, 0.003 + 0.01 / 3.0]), rtol=1e-12)


def test_a_right_angle_is_exact(tmp_path: Path) -> None:
    rotation = load_urdf(write_arm(tmp_path, arm_urdf())).joints[0].placement.rotation
    assert rotation.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]


def test_axes_become_unit_vectors_with_a_warning(tmp_path: Path) -> None:
    model = load_urdf(write_arm(tmp_path, arm_urdf().replace('<axis xyz="1 0 0"/>', '<axis xyz="0 -3 4"/>')))
    assert_allclose(model.joints[1].axis, [0.0, -0.6, 0.8])
    assert "'wrist'" in model.warnings[0] and "length 5" in model.warnings[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (' velocity="5"', "", ("velocity", "wrist")),
        (' effort="6"', ' effort="0"', ("effort", "wrist")),
        ('lower="-1" upper="2"', 'lower="1" upper="1"', ("shoulder", "cannot move")),
        ('<axis xyz="1 0 0"/>', '<axis xyz="1 0 0"/><dynamics damping="0.7"/>', ("<dynamics>", "wrist")),
        ('ixx="0.01"', 'ixx="0.05"', ("upper", "no body has")),
        ('ixx="0.002"', 'ixx="0.02"', ("tool", "no body has")),
        ('<link name="base"/>', '<link name="base"><visual><geometry><mesh filename="package://a/b.stl"/></geometry>'
         "</visual></link>", ("package://a/b.stl", "1 mesh file is not found")),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_warned_of(tmp_path: Path, old: str, new: str, words: tuple[str, ...]) -> None:
    assert old in arm_urdf()
    warnings = load_urdf(write_arm(tmp_path, arm_urdf().replace(old, new))).warnings
    assert len(warnings) == 1
    assert all(word in warnings[0] for word in words), warnings


def test_missing_limits_are_unlimited(tmp_path: Path) -> None:
    wrist = load_urdf(write_arm(tmp_path, arm_urdf().replace('<limit velocity="5" effort="6"/>', ""))).joints[1]
    assert (wrist.velocity_limit, wrist.effort_limit) == (np.inf, np.inf)


def test_meshes_are_found_beside_the_file_and_in_a_sourced_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = tmp_path / "share" / "arm_description" / "a.stl"
    mesh.parent.mkdir(parents=True)
    mesh.touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    names = ("package://arm_description/a.stl", "share/arm_description/a.stl", f"file://{mesh}")
    shapes = "".join(f'<visual><geometry><mesh filename="{name}"/></geometry></visual>' for name in names)
    text = arm_urdf().replace('<link name="base"/>', f'<link name="base">{shapes}</link>')
    assert load_urdf(write_arm(tmp_path, text)).warnings == ()


def test_what_is_not_for_dynamics_is_not_read(tmp_path: Path) -> None:
    extra = '<gazebo><plugin:thing no:prefix="1"/></gazebo><transmission/><material name="red"/><!-- <link/> -->'
    shape = '<link name="base"><collision><geometry><capsule radius="x"/></geometry></collision></link>'
    model = load_urdf(write_arm(tmp_path, arm_urdf(extra).replace('<link name="base"/>', shape)))
    assert (model.joint_names, model.warnings) == (("shoulder", "wrist"), ())
