"""Reading a robot whose base floats, judged by Pinocchio, which reads the same file on its own."""

from pathlib import Path

import numpy as np
import pytest
from arm_urdf import arm_urdf, write_arm
from example_robots import example_robot, pinocchio, random_tree_urdf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.model import Body, RobotModel
from realitygrad_ros.robot.urdf import load_urdf

LEGGED = (
    "a1_description/urdf/a1.urdf",
    "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c_simple_description/urdf/anymal.urdf",
    "b1_description/urdf/b1.urdf",
    "bolt_description/robots/bolt.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "go1_description/urdf/go1.urdf",
    "go2_description/urdf/go2.urdf",
    "hyq_description/robots/hyq_no_sensors.urdf",
    "laikago_description/urdf/laikago.urdf",
    "solo_description/robots/solo.urdf",
    "solo_description/robots/solo12.urdf",
    "talos_data/robots/talos_reduced.urdf",
)
"""Robots with legs of `example-robot-data`; the root link of several has no mass of its own."""

RELATIVE = 1e-9


def base_of(model: RobotModel) -> Body:
    assert model.base is not None
    return model.base


def assert_same_base(path: Path, model: RobotModel) -> None:
    """The base, and the mass of all that moves, are what Pinocchio has for the file itself."""
    theirs = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    base, expected = base_of(model), theirs.inertias[1]
    assert base.mass == pytest.approx(expected.mass, rel=RELATIVE)
    assert_allclose(base.center_of_mass, expected.lever, atol=RELATIVE)
    assert_allclose(base.inertia, expected.inertia, atol=RELATIVE * np.abs(expected.inertia).max())
    total = base.mass + sum(joint.body.mass for joint in model.joints)
    assert total == pytest.approx(pinocchio.computeTotalMass(theirs), rel=RELATIVE)
    assert (model.base_freedom, model.velocity_count) == (6, theirs.nv)


@pytest.mark.parametrize("name", LEGGED)
def test_a_robot_with_legs_is_what_pinocchio_reads(name: str) -> None:
    path = example_robot(name)
    assert_same_base(path, load_urdf(path, floating=True))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), links=st.integers(0, 12))
def test_a_random_tree_is_what_pinocchio_reads(tmp_path_factory: pytest.TempPathFactory, seed: int, links: int) -> None:
    path = tmp_path_factory.getbasetemp() / "floating_tree.urdf"
    path.write_text(random_tree_urdf(seed, links))
    floating, fixed = load_urdf(path, floating=True), load_urdf(path)
    assert_same_base(path, floating)
    assert fixed.base is None
    assert floating.joint_names == fixed.joint_names
    assert all(floating.frame(name).joint == frame.joint for name, frame in fixed.frames.items())


def inertial(mass: float, ixx: float, iyy: float, izz: float) -> str:
    return f'<inertial><mass value="{mass}"/><inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}"/></inertial>'


def floating_arm(root: str, fixed: str = "") -> str:
    """The arm with inertial elements for its root link and for a link `box`, fixed 0.1 m before it."""
    text = arm_urdf(
        f'<link name="box">{fixed}</link><joint name="bolts" type="fixed"><parent link="base"/><child link="box"/>'
        '<origin xyz="0.1 0 0"/></joint>'
    )
    return text.replace('<link name="base"/>', f'<link name="base">{root}</link>')


HEAVY = inertial(3.0, 0.02, 0.03, 0.04)


def test_what_is_fixed_to_the_root_is_part_of_the_base(tmp_path: Path) -> None:
    path = write_arm(tmp_path, floating_arm(inertial(1.0, 0.01, 0.01, 0.01), HEAVY))
    base = base_of(load_urdf(path, floating=True))
    # 1 kg and 3 kg, 0.1 m apart: the reduced mass is 0.75 kg, and 0.75 * 0.1^2 is added across the line.
    assert (base.mass, base.links) == (4.0, ("base", "box"))
    assert_allclose(base.center_of_mass, [0.075, 0.0, 0.0])
    assert_allclose(base.inertia, np.diag([0.03, 0.04 + 0.0075, 0.05 + 0.0075]), rtol=1e-12)


def test_a_massless_root_that_something_heavy_is_fixed_to_is_accepted(tmp_path: Path) -> None:
    base = base_of(load_urdf(write_arm(tmp_path, floating_arm("", HEAVY)), floating=True))
    assert (base.mass, base.links) == (3.0, ("base", "box"))
    assert_allclose(base.center_of_mass, [0.1, 0.0, 0.0])


def test_only_the_whole_base_is_judged(tmp_path: Path) -> None:
    impossible = inertial(0.1, 0.001, -0.001, 0.001)
    model = load_urdf(write_arm(tmp_path, floating_arm(HEAVY, impossible)), floating=True)
    assert model.warnings == ()
    assert base_of(model).inertia[1, 1] == pytest.approx(0.029 + 0.3 / 3.1 * 0.1**2)


REFUSED = {
    "no mass": (arm_urdf(), ("floating base 'base' has no mass; give it an <inertial>",)),
    "no mass at all": (floating_arm("", ""), ("floating base 'base' has no mass", "fixed to it: box")),
    "negative mass": (floating_arm(HEAVY, inertial(-1.0, 1.0, 1.0, 1.0)), ("'box'", "negative mass")),
    "no inertia": (floating_arm(inertial(1.0, 0.0, 0.0, 0.0)), ("'base'", "not positive definite")),
    "indefinite by a fixed link": (
        floating_arm(HEAVY, inertial(0.1, 0.001, -0.1, 0.001)),
        ("link 'box' has an inertia that is not positive definite", "floating base 'base'"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_base_that_cannot_float_is_refused_by_name(tmp_path: Path, case: str) -> None:
    text, words = REFUSED[case]
    path = write_arm(tmp_path, text)
    with pytest.raises(RealityGradError) as caught:
        load_urdf(path, floating=True)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert all(word in message for word in words), message
    assert load_urdf(path).base is None


def test_a_base_that_no_body_can_be_is_warned_of(tmp_path: Path) -> None:
    model = load_urdf(write_arm(tmp_path, floating_arm(inertial(3.0, 0.02, 0.03, 0.06))), floating=True)
    assert len(model.warnings) == 1
    assert "link 'base' has an inertia that no body has" in model.warnings[0]


@pytest.mark.parametrize("floating", [False, True])
def test_a_floating_joint_below_the_world_is_refused_with_what_to_write(tmp_path: Path, floating: bool) -> None:
    world = '<link name="world"/><joint name="root" type="floating"><parent link="world"/><child link="base"/></joint>'
    path = write_arm(tmp_path, floating_arm(HEAVY).replace("</robot>", world + "</robot>"))
    with pytest.raises(RealityGradError, match=r"'root' .* drop it and link 'world', and write 'base: floating'"):
        load_urdf(path, floating=floating)
