"""What this package says about ANYmal C, against the description that ANYbotics publishes."""

from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from example_robots import OWN_UR5, example_robot, oracle_of_model
from numpy.testing import assert_allclose

from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.model import Body, RobotModel, Transform
from realitygrad_ros.robot.urdf import load_urdf

OWN = OWN_UR5.parent / "anymal_c.urdf"
PUBLISHED = "anymal_c_simple_description/urdf/anymal.urdf"

LEGS = ("LF", "RF", "LH", "RH")
JOINTS = ("HAA", "HFE", "KFE")

TOLERANCE = 1e-6
"""[kg, m, kg m^2, rad]"""


@cache
def own() -> RobotModel:
    return load_urdf(OWN, floating=True)


@cache
def published() -> RobotModel:
    return load_urdf(example_robot(PUBLISHED), floating=True)


def bodies(model: RobotModel) -> list[Body]:
    assert model.base is not None
    return [model.base, *(joint.body for joint in model.joints)]


def test_joints_and_links_are_those_of_the_robot() -> None:
    assert own().joint_names == published().joint_names == tuple(f"{leg}_{joint}" for leg in LEGS for joint in JOINTS)
    links = {f"{leg}_{link}" for leg in LEGS for link in ("HIP", "THIGH", "SHANK", "FOOT")}
    assert set(own().frames) == {"base"} | links
    assert (own().base_link, own().warnings) == ("base", ())


def test_bodies_are_the_published_ones() -> None:
    for ours, theirs in zip(bodies(own()), bodies(published()), strict=True):
        for quantity in ("mass", "center_of_mass", "inertia"):
            assert_allclose(
                getattr(ours, quantity), getattr(theirs, quantity), rtol=0, atol=TOLERANCE, err_msg=ours.links[0]
            )
    assert sum(body.mass for body in bodies(own())) == pytest.approx(52.13, abs=0.01)


def test_joints_stand_and_end_where_the_published_ones_do() -> None:
    for ours, theirs in zip(own().joints, published().joints, strict=True):
        assert (ours.kind, ours.parent) == (theirs.kind, theirs.parent)
        assert_allclose(ours.axis, theirs.axis, atol=TOLERANCE)
        assert_transforms_agree(ours.placement, theirs.placement)
        for limit in ("lower", "upper"):
            assert getattr(ours, limit) == pytest.approx(getattr(theirs, limit), abs=TOLERANCE)
        assert (ours.velocity_limit, ours.effort_limit) == (7.5, 80.0)
    for name, frame in own().frames.items():
        assert frame.joint == published().frame(name).joint
        assert_transforms_agree(frame.placement, published().frame(name).placement)


def assert_transforms_agree(ours: Transform, theirs: Transform) -> None:
    assert_allclose(ours.rotation, theirs.rotation, atol=TOLERANCE)
    assert_allclose(ours.translation, theirs.translation, atol=TOLERANCE)


def test_right_angles_are_exact() -> None:
    for joint in own().joints:
        entries = joint.placement.rotation
        whole = np.round(entries)
        assert (entries == whole)[np.abs(entries - whole) < TOLERANCE].all()


def test_shapes_need_no_mesh() -> None:
    shapes = [shape[0].tag for shape in ElementTree.parse(OWN).iter("geometry")]
    assert set(shapes) == {"box", "cylinder", "sphere"}


def test_contact_spheres_are_the_published_feet() -> None:
    contact = load_robot("anymal_c")[0].contact
    assert contact is not None
    links = {link.get("name"): link for link in ElementTree.parse(example_robot(PUBLISHED)).iter("link")}
    for sphere in contact.spheres:
        collisions = links[sphere.link].findall("collision")
        (foot,) = (collision for collision in collisions if collision.find("geometry/sphere") is not None)
        assert_allclose(sphere.center, [float(word) for word in foot.find("origin").get("xyz").split()])
        assert sphere.radius == float(foot.find("geometry/sphere").get("radius"))


def test_it_stands_on_four_feet_under_its_base() -> None:
    configuration, _ = load_robot("anymal_c")
    contact, height = configuration.contact, configuration.home_height
    assert contact is not None and height is not None
    base = oracle_of_model(load_urdf(OWN))
    feet = []
    for sphere in contact.spheres:
        foot = base.link_pose(sphere.link, configuration.home)
        feet.append(foot[:3, :3] @ sphere.center + foot[:3, 3] - [0.0, 0.0, sphere.radius])
    assert_allclose([foot[2] for foot in feet], -height, atol=1e-4)
    # The feet form a rectangle around the base's origin, a little larger than that of the hips.
    assert_allclose(np.sum(feet, axis=0)[:2], 0.0, atol=1e-4)
    hips = np.array([base.link_pose(f"{leg}_THIGH", configuration.home)[:2, 3] for leg in LEGS])
    outside = np.abs([foot[:2] for foot in feet]) - np.abs(hips)
    assert ((outside > 0.0) & (outside < 0.12)).all()
