"""A robot's YAML file alone, and against its URDF; and what this package says about the UR5."""

import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from example_robots import OWN_UR5, example_robot, oracle_of_file, oracle_of_model
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.load import load_reaching_robot, load_robot
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

SHARE = OWN_UR5.parents[1]

ROBOTS = ("ur5", "anymal_c")


@cache
def content(robot: str) -> dict[str, Any]:
    """The package's own configuration of a robot."""
    return dict(yaml.safe_load((SHARE / "config" / f"{robot}.yaml").read_text()))


def variant(folder: Path, change: Callable[[dict[str, Any]], Any], robot: str = "ur5") -> str:
    """The path of a changed copy of a robot's configuration."""
    changed = deepcopy(content(robot))
    changed["urdf"] = str(SHARE / "urdf" / f"{robot}.urdf")
    change(changed)
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(changed, sort_keys=False))
    return str(path)


def refusal(robot: str) -> str:
    """The message of the refusal, one line."""
    with pytest.raises(RealityGradError) as caught:
        load_robot(robot)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_ur5_loads_by_its_name() -> None:
    configuration, model = load_robot("ur5")
    assert configuration.joint_names == model.joint_names
    assert configuration.reach.end_effector in model.frames
    assert (configuration.floating, configuration.home_height, configuration.contact) == (False, None, None)
    assert model.base is None
    assert model.warnings == ()


def test_anymal_loads_by_its_name() -> None:
    configuration, model = load_robot("anymal_c")
    contact = configuration.contact
    assert configuration.joint_names == model.joint_names
    assert configuration.floating and configuration.home_height == 0.5488
    assert model.base is not None and model.base.links == ("base",)
    assert contact is not None
    assert [sphere.link for sphere in contact.spheres] == ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]
    assert (contact.time_step, contact.kappa, contact.recovery_rate, contact.sweeps) == (0.005, 300.0, 20.0, 10)
    assert (contact.soft.stiffness, contact.soft.damping, contact.soft.tangential_damping) == (1e4, 2e2, 2e2)


def test_a_base_is_fixed_unless_it_is_said_to_float(tmp_path: Path) -> None:
    assert not load_robot(variant(tmp_path, set_entry("base", to="fixed")))[0].floating


def test_a_robot_that_does_not_reach_says_so_when_asked_to() -> None:
    with pytest.raises(RealityGradError, match="robot 'anymal_c' has no 'reach' section"):
        load_reaching_robot("anymal_c")
    assert load_reaching_robot("ur5")[0].reach.duration == 1.5


def set_entry(*keys: str, to: object) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


def drop_entry(*keys: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


REACH = {
    "end_effector": "LF_FOOT",
    "target_lower": [0.3, 0.0, 0.0],
    "target_upper": [0.4, 0.1, 0.1],
    "duration": 1.0,
    "hold": 0.5,
}


def swap_wrists(content: dict[str, Any]) -> None:
    rows = list(content["joints"].items())
    content["joints"] = dict([*rows[:-2], rows[-1], rows[-2]])


def rename_joint(content: dict[str, Any]) -> None:
    content["joints"]["finger_joint"] = content["joints"].pop("wrist_3_joint")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_entry("joints", "wrist_3_joint"), ("lacks joints of the URDF: wrist_3_joint",)),
        (rename_joint, ("finger_joint", "wrist_3_joint")),
        (swap_wrists, ("order", "wrist_1_joint, wrist_2_joint, wrist_3_joint")),
        (set_entry("reach", "end_effector", to="gripper"), ("no link 'gripper'", "tool0")),
        (set_entry("urdf", to="nowhere.urdf"), ("nowhere.urdf",)),
        (set_entry("joints", "elbow_joint", "home", to=4.0), ("home 4", "elbow_joint")),
        (set_entry("joints", "elbow_joint", "home", to=float("nan")), ("home",)),
        (set_entry("joints", "elbow_joint", "kp", to=-1.0), ("kp", "elbow_joint")),
        (set_entry("joints", "elbow_joint", "kp", to=1e6), ("kp", "elbow_joint", "bounds")),
        (set_entry("joints", "elbow_joint", "kp", to="stiff"), ("stiff",)),
        (drop_entry("joints", "elbow_joint", "kd"), ("kd", "elbow_joint")),
        (drop_entry("reach", "end_effector"), ("lacks the entry 'reach.end_effector'",)),
        (set_entry("reach", to=None), ("reach is None",)),
        (set_entry("reach", "hold", to=1.5), ("reach.hold",)),
        (set_entry("reach", "target_lower", to=[1.0, 0.0]), ("reach.target_lower",)),
        (set_entry("reach", "target_lower", to=[1.0, 0.0, 0.2]), ("reach.target_lower", "target_upper")),
        (set_entry("gravity", to=-9.81), ("gravity",)),
        (set_entry("rates", "policy", to=0), ("rates.policy",)),
        (set_entry("friction_velocity", to=float("inf")), ("friction_velocity",)),
        (set_entry("bounds", "kd", to=[5.0, 1.0]), ("bounds.kd",)),
        (set_entry("bounds", "kd", to=5.0), ("bounds.kd is 5.0",)),
        (set_entry("joints", to={}), ("no joints",)),
        (set_entry("joints", to=["elbow_joint"]), ("joints",)),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: tuple[str, ...]
) -> None:
    message = refusal(variant(tmp_path, change))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_entry("base", to="mobile"), ("base is 'mobile'", "fixed, floating")),
        (set_entry("base", to="fixed"), ("home_height", "the base is fixed")),
        (drop_entry("base"), ("home_height", "the base is fixed")),
        (drop_entry("home_height"), ("lacks the entry 'home_height'",)),
        (set_entry("home_height", to=0.0), ("home_height is 0.0", "positive")),
        (set_entry("home_height", to=0.6), ("home_height is 0.6 m", "LF_FOOT", "z = 0.0512 m", "must be 0.5488")),
        (set_entry("joints", "RH_KFE", "home", to=0.4), ("home_height", "RH_FOOT", "must be 0.6080")),
        (set_entry("reach", to=REACH), ("reach", "base is floating")),
        (set_entry("contact", to=None), ("contact is None",)),
        (set_entry("contact", "spheres", to={}), ("contact.spheres is empty",)),
        (set_entry("contact", "spheres", "TAIL", to={"center": [0, 0, 0], "radius": 0.1}), ("no link 'TAIL'",)),
        (set_entry("contact", "spheres", "LF_FOOT", "radius", to=0), ("contact.spheres.LF_FOOT.radius is 0",)),
        (set_entry("contact", "spheres", "LF_FOOT", "center", to=[0, 0]), ("contact.spheres.LF_FOOT.center",)),
        (set_entry("contact", "time_step", to=0.006), ("contact.time_step is 0.006", "3.33333 steps")),
        (set_entry("contact", "time_step", to=0.05), ("contact.time_step is 0.05", "0.4 steps")),
        (set_entry("contact", "friction_coefficient", to=-0.1), ("contact.friction_coefficient is -0.1",)),
        (set_entry("contact", "friction_coefficient", to=float("nan")), ("contact.friction_coefficient is nan",)),
        (set_entry("contact", "kappa", to=float("inf")), ("contact.kappa is inf",)),
        (set_entry("contact", "recovery_rate", to=201.0), ("contact.recovery_rate is 201", "200 1/s")),
        (set_entry("contact", "sweeps", to=0), ("contact.sweeps is 0", "whole number")),
        (set_entry("contact", "sweeps", to=2.5), ("contact.sweeps is 2.5", "whole number")),
        (set_entry("contact", "step_size", to="small"), ("contact.step_size is 'small'", "paper, spectral")),
        (set_entry("contact", "soft", "stiffness", to=0.0), ("contact.soft.stiffness is 0.0",)),
        (drop_entry("contact", "soft", "damping"), ("lacks the entry 'contact.soft.damping'",)),
        (set_entry("contact", "soft", "tangential_damping", to=-1.0), ("contact.soft.tangential_damping is -1.0",)),
    ],
)
def test_a_base_or_a_contact_that_cannot_be_meant_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: tuple[str, ...]
) -> None:
    message = refusal(variant(tmp_path, change, "anymal_c"))
    assert all(word in message for word in words), message


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"{", b"\xff\xfe\x00", b"a: b: c"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "robot.yaml"
    path.write_bytes(content)
    assert str(path) in refusal(str(path))


WRONG = st.one_of(
    st.none(), st.booleans(), st.just(10**400), st.just("stiff"), st.just("two\nlines"), st.just([1]), st.just({"a": 1})
)


def entries(content: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*place, key)
        yield from entries(value, (*place, key))


@pytest.mark.parametrize("robot", ROBOTS)
@settings(max_examples=50)
@given(data=st.data())
def test_an_entry_of_another_type_is_named_in_one_line(robot: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        place = data.draw(st.sampled_from([place for place in entries(content(robot)) if place not in NAMES]))
        message = refusal(variant(path, set_entry(*place, to=data.draw(WRONG)), robot))
    assert "\n" not in message
    assert ".".join(key for key in place if isinstance(key, str)) in message


NAMES = (("name",), ("urdf",), ("reach", "end_effector"))


@pytest.mark.parametrize("entry", NAMES)
@pytest.mark.parametrize("value", [None, 5, [], "", "two\nlines", "null\0"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, entry: tuple[str, ...], value: object) -> None:
    assert f"{'.'.join(entry)} is {value!r}" in refusal(variant(tmp_path, set_entry(*entry, to=value)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("elbow_joint:", "wrist_1_joint:", "'wrist_1_joint' is there twice"),
        ("gravity:", "name:", "'name' is there twice"),
        ("elbow_joint:", "5:", "'joints.5' is no text"),
        ("gravity:", "gravity: " + 3000 * "[", "is not YAML"),
        ("gravity:", "day: 2020-99-99\ngravity:", "is not YAML"),
    ],
)
def test_yaml_that_says_what_cannot_be_meant_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = Path(variant(tmp_path, lambda _: None))
    path.write_text(path.read_text().replace(old, new, 1))
    assert words in refusal(str(path))


def test_an_unknown_robot_is_refused_with_those_known() -> None:
    message = refusal("nobody")
    assert "nobody" in message
    assert "ur5" in message


@pytest.mark.parametrize(
    "content", [b"", b"5", b"\xff\xfe\x00", b"a: [", b"'/**': {ros__parameters: {calibration: {joint_names: 5}}}"]
)
def test_a_file_that_is_no_calibration_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calibration.yaml"
    path.write_bytes(content)
    with pytest.raises(RealityGradError, match=f"^calibration '{path}'.* anew by sysid$"):
        SimulationParameters.read(path)


def test_parameters_that_name_a_joint_twice_are_refused() -> None:
    with pytest.raises(RealityGradError, match="joint 'a' twice"):
        SimulationParameters.from_matrix(("a", "b", "a"), np.ones((5, 3)))


def test_parameters_survive_their_file(tmp_path: Path) -> None:
    nominal = load_configuration("ur5").nominal
    path = tmp_path / "calibration.yaml"
    nominal.write(path, comment="Two\nlines.")
    read = SimulationParameters.read(path)
    assert read.joint_names == nominal.joint_names
    assert_allclose(read.as_matrix(), nominal.as_matrix(), rtol=0)
    assert path.read_text().startswith("# Two\n# lines.\n/**:\n  ros__parameters:\n    calibration:\n")
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def ur5() -> RobotModel:
    return load_robot("ur5")[1]


def test_the_ur5_moves_as_the_published_one(ur5: RobotModel) -> None:
    theirs, ours = oracle_of_file(example_robot("ur_description/urdf/ur5_robot.urdf"), ur5), oracle_of_model(ur5)
    for q in np.random.default_rng(0).uniform(-3.0, 3.0, (20, 6)):
        assert_allclose(ours.link_pose("tool0", q), theirs.link_pose("tool0", q), atol=1e-9)


def test_the_ur5_weighs_what_the_published_one_does(ur5: RobotModel) -> None:
    masses = [joint.body.mass for joint in ur5.joints]
    assert masses == [3.7, 8.393, 2.33, 1.219, 1.219, 0.1879]
    # The older description has 2.275 kg for the forearm, centres of mass on the cylinders' axes, and wrists with the
    # inertia of 0.6 m wide cylinders, 0.1 to 0.2 kg m^2 too much: it is near for the joints that move the whole arm.
    theirs, ours = oracle_of_file(example_robot("ur_description/urdf/ur5_robot.urdf"), ur5), oracle_of_model(ur5)
    stretched = np.zeros(6)
    for joint in (0, 1):
        expected = theirs.mass_matrix(stretched)[joint, joint]
        assert ours.mass_matrix(stretched)[joint, joint] == pytest.approx(expected, rel=0.25)
    assert_allclose(ours.gravity_torque(stretched)[:3], theirs.gravity_torque(stretched)[:3], rtol=0.15, atol=1e-3)


def test_the_ur5_reaches_every_corner_of_its_targets(ur5: RobotModel) -> None:
    """A damped Gauss-Newton walk from home reaches each corner within the limits, with gravity to spare."""
    configuration = load_configuration("ur5")
    robot = oracle_of_model(ur5)
    reach = configuration.reach
    corners = np.array(np.meshgrid(*zip(reach.target_lower, reach.target_upper, strict=True))).reshape(3, -1).T
    for corner in corners:
        q = configuration.home.copy()
        for _ in range(100):
            position = robot.link_pose("tool0", q)[:3, 3]
            step = 1e-6
            jacobian = np.stack(
                [(robot.link_pose("tool0", q + step * unit)[:3, 3] - position) / step for unit in np.eye(6)], axis=1
            )
            error = corner - position
            q += np.clip(jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(3), error), -0.2, 0.2)
        assert np.linalg.norm(error) < 1e-4
        assert (np.abs(q - configuration.home) < 1.2).all()
        # Far from singular: every direction of the tool can still be driven.
        assert np.linalg.svd(jacobian, compute_uv=False).min() > 0.1
        assert (np.abs(robot.gravity_torque(q)) < 0.5 * ur5.limit_array("effort_limit")).all()
