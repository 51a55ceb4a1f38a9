"""A robot on legs in MuJoCo: free base, merged masses and rigid contact, against closed forms."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from example_robots import QUADRUPEDS, example_robot, oracle_of_file

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration
from realitygrad_ros.robot.contact import ContactConfiguration, ContactSphere, SoftContact
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.urdf import load_urdf
from realitygrad_ros.twin.ground import FREE_JOINT, place
from realitygrad_ros.twin.twin import mujoco_model

GRAVITY, MU, RADIUS, HEIGHT, MASS = 9.81, 0.5, 0.02, 0.3, 5.0

FEET = {f"foot {side} {end}": (0.3 * end, 0.2 * side, RADIUS - HEIGHT) for side in (-1, 1) for end in (-1, 1)}


def inertial(mass: float, moments: tuple[float, float, float]) -> str:
    names = ("ixx", "iyy", "izz")
    values = " ".join(f'{name}="{moment}"' for name, moment in zip(names, moments, strict=True))
    return f'<inertial><mass value="{mass}"/><inertia {values} ixy="0" ixz="0" iyz="0"/></inertial>'


TABLE = f"""<robot name="table">
  <link name="root"/>
  <joint name="board" type="fixed"><parent link="root"/><child link="board"/></joint>
  <link name="board">{inertial(MASS - 1.0, (0.12, 0.2, 0.3))}</link>
  <joint name="lid" type="fixed"><parent link="root"/><child link="lid"/></joint>
  <link name="lid">{inertial(0.9, (-0.01, 0.02, 0.02))}</link>
  <joint name="dial" type="continuous"><parent link="board"/><child link="hand"/><axis xyz="0 0 1"/></joint>
  <link name="hand">{inertial(0.1, (0.01, 0.01, 0.01))}</link>
  {
    "".join(
        f'<link name="{name}"/><joint name="{name}" type="fixed"><parent link="root"/><child link="{name}"/>'
        f'<origin xyz="{x} {y} {z}"/></joint>'
        for name, (x, y, z) in FEET.items()
    )
}
</robot>"""
"""A table on four feet, with a dial; its lid alone is impossible."""


def legged(urdf: Path, spheres: tuple[ContactSphere, ...], gravity: tuple[float, float, float]) -> RobotConfiguration:
    """A robot with a floating base, without losses, its servos slack."""
    names = load_urdf(urdf, floating=True).joint_names
    zeros = np.zeros(len(names))
    contact = ContactConfiguration(spheres, 0.005, MU, 200.0, 10.0, 10, "paper", SoftContact(1e4, 1e2, 1e2))
    return replace(
        load_configuration("ur5"),
        name=urdf.stem,
        urdf=urdf,
        floating=True,
        joint_names=names,
        home=zeros,
        nominal=SimulationParameters(names, **dict.fromkeys(PARAMETER_NAMES, zeros)),
        gravity=np.array(gravity),
        contact=contact,
    )


def table(folder: Path, slope: float = 0.0) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A table that stands on an incline which falls along x."""
    (folder / "table.urdf").write_text(TABLE)
    spheres = tuple(ContactSphere(name, np.zeros(3), RADIUS) for name in FEET)
    gravity = (GRAVITY * np.sin(slope), 0.0, -GRAVITY * np.cos(slope))
    robot = legged(folder / "table.urdf", spheres, gravity)
    model = mujoco_model(robot, robot.nominal)
    data = mujoco.MjData(model)
    place(model, data, robot.joint_names, [0.0, 0.0, HEIGHT, 0.0, 0.0, 0.0, 1.0, 0.0], np.zeros(7))
    return model, data


def normal_force(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Of the ground on the robot in the last step [N]."""
    force, total = np.zeros(6), 0.0
    for contact in range(data.ncon):
        mujoco.mj_contactForce(model, data, contact, force)
        total += force[0]
    return total


@pytest.mark.parametrize("time_step", [5e-3, 1e-3, 2e-4])
def test_a_robot_rests_on_a_rigid_ground(tmp_path: Path, time_step: float) -> None:
    model, data = table(tmp_path)
    model.opt.timestep = time_step
    mujoco.mj_step(model, data, round(1.0 / time_step))
    assert data.ncon == 4
    assert normal_force(model, data) == pytest.approx(MASS * GRAVITY, rel=1e-4)
    # It falls for one step before it touches.
    np.testing.assert_allclose(data.qpos[:3], [0.0, 0.0, HEIGHT], atol=GRAVITY * time_step**2)


@pytest.mark.parametrize("ratio", [0.95, 1.05, 1.5])
def test_it_sticks_below_the_friction_angle_and_slips_above(tmp_path: Path, ratio: float) -> None:
    slope, duration = ratio * np.arctan(MU), 1.0
    model, data = table(tmp_path, slope)
    mujoco.mj_step(model, data, round(duration / model.opt.timestep))
    acceleration = max(GRAVITY * (np.sin(slope) - MU * np.cos(slope)), 0.0)
    np.testing.assert_allclose(data.qpos[0], 0.5 * acceleration * duration**2, rtol=0.025, atol=5e-4)
    np.testing.assert_allclose(data.qpos[1], 0.0, atol=1e-3)


@pytest.mark.parametrize("height", [0.0503, 0.1, 0.2])
def test_an_impact_is_inelastic(tmp_path: Path, height: float) -> None:
    model, data = table(tmp_path)
    data.qpos[2] += height
    fall = np.sqrt(2.0 * GRAVITY * height)
    mujoco.mj_step(model, data, round(fall / GRAVITY / model.opt.timestep) - 2)
    rebound = 0.0
    for _ in range(100):
        mujoco.mj_step(model, data)
        rebound = max(rebound, data.qvel[2])
    assert rebound < 0.02 * fall
    np.testing.assert_allclose(data.qpos[2], HEIGHT, atol=3e-3)


def test_only_the_contact_spheres_touch_and_they_weigh_nothing(tmp_path: Path) -> None:
    model, _ = table(tmp_path)
    assert model.npair == 4
    assert model.ngeom == 5
    assert not model.geom_contype.any()
    assert not model.geom_conaffinity.any()
    assert model.body_mass.sum() == pytest.approx(MASS, rel=1e-12)


def test_an_impossible_inertia_of_a_fixed_link_is_that_of_the_whole(tmp_path: Path) -> None:
    model, _ = table(tmp_path)
    body = model.body("root")
    assert body.mass[0] == pytest.approx(MASS - 0.1, rel=1e-12)
    np.testing.assert_allclose(np.sort(body.inertia), [0.11, 0.22, 0.32], rtol=1e-12)


def test_a_state_is_placed_in_mujocos_conventions(tmp_path: Path) -> None:
    model, data = table(tmp_path)
    model.opt.gravity = 0.0
    rng = np.random.default_rng(0)
    quat_xyzw, v, omega = rng.normal(size=4), rng.normal(size=3), rng.normal(size=3)
    quat_xyzw /= np.linalg.norm(quat_xyzw)
    position = [1.0, 2.0, 3.0, *quat_xyzw, 0.4]
    place(model, data, ("dial",), position, [*v, *omega, 0.7])
    mujoco.mj_forward(model, data)
    base = data.body("root")
    x, y, z, w = quat_xyzw
    # The third column of a rotation by a quaternion, as textbooks have it.
    up = [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)]
    np.testing.assert_allclose(base.xmat.reshape(3, 3)[:, 2], up, atol=1e-12)
    np.testing.assert_allclose(base.xpos, position[:3])
    twist = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body("root").id, twist, 1)
    np.testing.assert_allclose(twist, [*omega, *v], atol=1e-12)
    assert (data.joint("dial").qpos[0], data.joint("dial").qvel[0]) == (0.4, 0.7)


def test_a_contact_on_a_link_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.urdf").write_text(TABLE)
    robot = legged(tmp_path / "table.urdf", (ContactSphere("paw", np.zeros(3), RADIUS),), (0.0, 0.0, -GRAVITY))
    with pytest.raises(RealityGradError, match="link 'paw' of a contact sphere is not in the robot's URDF"):
        mujoco_model(robot, robot.nominal)


@pytest.mark.parametrize("name", QUADRUPEDS)
def test_mass_matrix_of_a_quadruped_is_the_oracles(name: str) -> None:
    urdf = example_robot(QUADRUPEDS[name])
    robot, ours = legged(urdf, (), (0.0, 0.0, -GRAVITY)), load_urdf(urdf, floating=True)
    model = mujoco_model(robot, robot.nominal)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    quat_xyzw = rng.normal(size=4)
    q = np.concatenate([rng.normal(size=3), quat_xyzw / np.linalg.norm(quat_xyzw), rng.normal(size=ours.joint_count)])
    place(model, data, robot.joint_names, q, np.zeros(ours.velocity_count))
    mujoco.mj_forward(model, data)
    dense = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, dense)
    order = [*range(6), *(model.joint(joint).dofadr[0] for joint in robot.joint_names)]
    to_base_axes = np.eye(model.nv)
    to_base_axes[:3, :3] = data.body(ours.base_link).xmat.reshape(3, 3).T
    expected = to_base_axes.T @ oracle_of_file(urdf, ours).mass_matrix(q) @ to_base_axes
    np.testing.assert_allclose(dense[np.ix_(order, order)], expected, atol=1e-8 * expected.max())


def test_an_arm_stays_fixed_and_touches_nothing() -> None:
    arm = load_configuration("ur5")
    model = mujoco_model(arm, arm.nominal)
    assert (model.nq, model.nv, model.ngeom, model.npair) == (6, 6, 0, 0)
    assert FREE_JOINT not in [model.joint(i).name for i in range(model.njnt)]
