"""The robot's dynamics against two oracles that we did not write: Pinocchio and MuJoCo."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from example_robots import (
    OWN_UR5,
    PANDA,
    QUADRUPEDS,
    example_robot,
    oracle_of_file,
    oracle_of_model,
    random_tree_urdf,
    with_rigid_fingers,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.physics import rigid_body
from realitygrad_ros.physics.kinematics import ForwardKinematics
from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.physics.vectors import quaternion_product
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.urdf import load_urdf
from realitygrad_ros.twin.ground import FREE_JOINT, place
from realitygrad_ros.twin.twin import mujoco_model

GRAVITY = (0.3, -0.2, -9.81)

ROBOTS = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": PANDA,
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "z1": "z1_description/urdf/z1.urdf",
}


@pytest.fixture(scope="module", params=[*ROBOTS, "own ur5"])
def robot(request, tmp_path_factory) -> tuple[Path, RobotModel]:
    """A file and its model."""
    if request.param == "own ur5":
        path = OWN_UR5
    else:
        path = example_robot(ROBOTS[request.param])
        if request.param == "panda":
            path = with_rigid_fingers(path, tmp_path_factory.mktemp("panda"))
    return path, load_urdf(path)


def relative_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference, relative to the largest element."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def random_coordinates(model: RobotModel, rng: np.random.Generator) -> np.ndarray:
    """Joint positions, and before them the pose of a floating base."""
    joints = rng.uniform(-2.0, 2.0, model.joint_count)
    if model.base is None:
        return joints
    quat_xyzw = rng.normal(size=4)
    return np.concatenate([rng.uniform(-5.0, 5.0, 3), quat_xyzw / np.linalg.norm(quat_xyzw), joints])


def check_against_pinocchio(path: Path, model: RobotModel, seed: int) -> None:
    """RNEA, mass matrix and forward dynamics in one random state."""
    rng = np.random.default_rng(seed)
    q = random_coordinates(model, rng)
    qd, qdd = rng.uniform(-2.0, 2.0, (2, model.velocity_count))
    # The same numbers as ours: the file's right angles, exact to 12 digits, are exact in our model, and small inertias
    # magnify the difference beyond 1e-9 in the forward dynamics.
    of_file, of_model = oracle_of_file(path, model), oracle_of_model(model)
    for oracle in (of_file, of_model):
        oracle.model.gravity.linear[:] = GRAVITY

    tau = np.array(rigid_body.inverse_dynamics(model, q.tolist(), qd.tolist(), qdd.tolist(), GRAVITY))
    assert relative_error(tau, of_file.inverse_dynamics(q, qd, qdd)) < 1e-9

    H = rigid_body.mass_matrix(model, q.tolist())
    assert relative_error(rigid_body.dense_mass_matrix(model, q.tolist()), of_file.mass_matrix(q)) < 1e-9

    bias = rigid_body.inverse_dynamics(model, q.tolist(), qd.tolist(), [0.0] * model.velocity_count, GRAVITY)
    factor = rigid_body.factorize(model, H)
    assert list(factor.L) == rigid_body.factor_pattern(model)
    ours = np.array(rigid_body.solve(model, factor, [t - b for t, b in zip(tau, bias, strict=True)]))
    assert relative_error(ours, of_model.forward_dynamics(q, qd, tau)) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_arm_agrees_with_pinocchio(robot, seed):
    check_against_pinocchio(*robot, seed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", QUADRUPEDS)
def test_quadruped_agrees_with_pinocchio(name, seed):
    path = example_robot(QUADRUPEDS[name])
    check_against_pinocchio(path, load_urdf(path, floating=True), seed)


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
@settings(max_examples=50, deadline=None)
def test_any_tree_agrees_with_pinocchio(tmp_path_factory, seed, links, floating):
    path = tmp_path_factory.mktemp("tree") / "tree.urdf"
    path.write_text(random_tree_urdf(seed, links))
    check_against_pinocchio(path, load_urdf(path, floating=floating), seed)


@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(-0.05, 5.0))
@settings(max_examples=25, deadline=None)
def test_added_base_mass_is_a_point_mass_of_the_base(tmp_path_factory, seed, links, added):
    path = tmp_path_factory.mktemp("tree") / "tree.urdf"
    path.write_text(random_tree_urdf(seed, links))
    model = load_urdf(path, floating=True)
    loaded = replace(model, base=replace(model.base, mass=model.base.mass + added))
    rng = np.random.default_rng(seed)
    q = random_coordinates(model, rng)
    qd, qdd = rng.uniform(-2.0, 2.0, (2, model.velocity_count))
    tau = np.array(rigid_body.inverse_dynamics(model, q.tolist(), qd.tolist(), qdd.tolist(), GRAVITY, added))
    expected = rigid_body.inverse_dynamics(loaded, q.tolist(), qd.tolist(), qdd.tolist(), GRAVITY)
    assert relative_error(tau, np.array(expected)) < 1e-9


def test_forces_do_not_depend_on_where_the_base_is_and_how_fast_it_moves():
    """Galilei: nor on its heading, as gravity is along z here."""
    model = load_urdf(example_robot(QUADRUPEDS["anymal c"]), floating=True)
    rng = np.random.default_rng(0)
    q = random_coordinates(model, rng)
    qd, qdd = rng.uniform(-2.0, 2.0, (2, model.velocity_count))
    forces = rigid_body.inverse_dynamics(model, q.tolist(), qd.tolist(), qdd.tolist(), (0.0, 0.0, -9.81))
    turn = np.array([0.0, 0.0, np.sin(0.4), np.cos(0.4)])
    q[:3] += 1e3
    q[3:7] = quaternion_product(turn.tolist(), q[3:7].tolist())
    qd[:3] = 100.0
    moved = rigid_body.inverse_dynamics(model, q.tolist(), qd.tolist(), qdd.tolist(), (0.0, 0.0, -9.81))
    np.testing.assert_allclose(moved, forces, rtol=1e-9, atol=1e-9)


def test_forward_kinematics_agrees_with_pinocchio():
    model = load_urdf(OWN_UR5)
    oracle = oracle_of_file(OWN_UR5, model)
    kinematics = ForwardKinematics(model, "tool0", torch.float64)
    q = torch.tensor(np.random.default_rng(0).uniform(-3, 3, (2, 4, 6)))
    expected = [[oracle.link_pose("tool0", sample.numpy())[:3, 3] for sample in row] for row in q]
    np.testing.assert_allclose(kinematics(q).numpy(), expected, atol=1e-12)
    assert torch.autograd.gradcheck(kinematics, (q.requires_grad_(),))


def test_a_frame_fixed_to_the_base_stands_still():
    model = load_urdf(OWN_UR5)
    q = torch.zeros(3, 6, requires_grad=True)
    origin = ForwardKinematics(model, model.base_link)(q)
    assert origin.abs().max() < 1e-6
    origin.sum().backward()
    assert q.grad.abs().max() == 0.0


def mujoco_rollout(path: Path, model: RobotModel, time_step: float, steps: int, command: np.ndarray, start: np.ndarray):
    """The same arm, actuators and losses in MuJoCo; Coulomb friction is left out, which it models otherwise."""
    spec = mujoco.MjSpec.from_string(_without_shapes(path))
    for i, joint in enumerate(model.joints):
        body_joint = spec.joint(joint.name)
        body_joint.damping[0], body_joint.armature = 2.0 + i, 0.1
        body_joint.frictionloss = 0.0
        body_joint.limited = body_joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
        actuator.gainprm[0] = 300.0
        actuator.biasprm[:3] = [0.0, -300.0, -8.0]
        actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE
    spec.option.timestep = time_step
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    compiled = spec.compile()
    data = mujoco.MjData(compiled)
    positions = [compiled.joint(name).qposadr[0] for name in model.joint_names]
    data.qpos[positions] = start
    data.ctrl[:] = command
    trajectory = [data.qpos[positions].copy()]
    for _ in range(steps):
        mujoco.mj_step(compiled, data)
        trajectory.append(data.qpos[positions].copy())
    return np.array(trajectory)


def _without_shapes(path: Path) -> str:
    from xml.etree import ElementTree

    root = ElementTree.parse(path).getroot()
    for link in root.iter("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(shape)
    return ElementTree.tostring(root, encoding="unicode")


def test_rollout_agrees_with_mujoco(robot):
    """Two integrators of different order meet as the step goes to zero: halving it halves what parts them."""
    path, model = robot
    n = model.joint_count
    rng = np.random.default_rng(1)
    start = rng.uniform(-0.5, 0.5, n)
    command = start + rng.uniform(-0.3, 0.3, n)
    values = {"damping": 2.0 + np.arange(n), "armature": 0.1, "kp": 300.0, "kd": 8.0, "friction": 0.0}
    parameters = {name: torch.tensor(np.broadcast_to(values[name], (1, n)).copy()) for name in PARAMETER_NAMES}
    unlimited = _with_unlimited_efforts(model)
    differences = []
    for time_step in (2e-3, 1e-3):
        steps = round(0.5 / time_step)
        simulator = Simulator(unlimited, time_step=time_step, dtype=torch.float64)
        initial = State(torch.tensor(start)[None], torch.zeros(1, n, dtype=torch.float64))
        ours = simulator.rollout(initial, torch.tensor(command).repeat(steps, 1, 1), parameters).position[:, 0].numpy()
        differences.append(np.abs(ours - mujoco_rollout(path, model, time_step, steps, command, start)).max())
    assert np.ptp(ours, axis=0).max() > 0.1
    assert differences[0] < 5e-3
    assert differences[1] == pytest.approx(0.5 * differences[0], rel=0.2)


def _with_unlimited_efforts(model: RobotModel) -> RobotModel:
    return replace(model, joints=tuple(replace(joint, effort_limit=np.inf) for joint in model.joints))


def free_flight(folder: Path, time_step: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of a tumbling tree with servos after 0.5 s, ours and MuJoCo's."""
    path = folder / "tree.urdf"
    path.write_text(random_tree_urdf(0, 2))
    model = _with_unlimited_efforts(load_urdf(path, floating=True))
    rng = np.random.default_rng(0)
    q, qd = random_coordinates(model, rng), rng.uniform(-3.0, 3.0, model.velocity_count)
    command, n, steps = q[7:] + 0.2, model.joint_count, round(0.5 / time_step)
    values = {"damping": 0.5, "armature": 0.1, "kp": 50.0, "kd": 3.0, "friction": 0.0}
    parameters = SimulationParameters(model.joint_names, **{name: np.full(n, values[name]) for name in PARAMETER_NAMES})

    simulator = Simulator(model, time_step=time_step, gravity=GRAVITY, dtype=torch.float64)
    initial = State(torch.tensor(q)[None], torch.tensor(qd)[None])
    held = torch.tensor(command).repeat(steps, 1, 1)
    ours = simulator.rollout(initial, held, parameter_tensors(parameters, torch.float64)).position[-1, 0].numpy()

    flying = replace(
        load_configuration("anymal_c"),
        urdf=path,
        joint_names=model.joint_names,
        nominal=parameters,
        gravity=np.array(GRAVITY),
        contact=None,
    )
    peer = mujoco_model(flying, parameters)
    peer.opt.timestep = time_step
    for limited in (peer.jnt_limited, peer.jnt_actfrclimited, peer.actuator_forcelimited):
        limited[:] = 0
    data = mujoco.MjData(peer)
    place(peer, data, model.joint_names, q, qd)
    data.ctrl[:] = command
    mujoco.mj_step(peer, data, steps)
    base = data.joint(FREE_JOINT).qpos
    theirs = [*base[:3], *base[[4, 5, 6, 3]], *(data.joint(name).qpos[0] for name in model.joint_names)]
    return ours, np.array(theirs)


def test_free_flight_agrees_with_mujoco(tmp_path):
    """As above: halving the step halves what parts the integrators."""
    differences = []
    for time_step in (2e-3, 1e-3):
        ours, theirs = free_flight(tmp_path, time_step)
        theirs[3:7] *= np.sign(theirs[3:7] @ ours[3:7])
        differences.append(np.abs(ours - theirs).max())
    assert differences[0] < 1e-2
    assert differences[1] == pytest.approx(0.5 * differences[0], rel=0.1)
