"""Hard contact against MuJoCo's: robots that stand in their home pose, and that fall into it.

MuJoCo steps the same robot with the same parameters at 0.5 ms, at which its base is within 0.5 mm of where it is at
0.05 ms. The servos give way under the weight, so that a standing robot, too, sinks and swings in the second that is
compared; ANYmal, dropped, leaves the ground again.
"""

from dataclasses import replace
from functools import cache

import mujoco
import numpy as np
import pytest
from example_robots import QUADRUPEDS, example_robot
from legged_robots import LeggedRobot, anymal, go2, held, parameters, simulator, solo12, standing

from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.twin.ground import place
from realitygrad_ros.twin.twin import mujoco_model

DURATION, SAMPLE, REFERENCE_STEP = 1.0, 5e-3, 5e-4
"""[s]"""

HEIGHT_TOLERANCE, IMPULSE_TOLERANCE = 5e-3, 0.03
"""[m], and relative."""

ROBOTS = {"anymal c": anymal, "go2": go2, "solo12": solo12}


def peer_model(name: str) -> mujoco.MjModel:
    """The robot in MuJoCo."""
    configuration = load_configuration("anymal_c")
    if name == "anymal c":
        return mujoco_model(configuration, configuration.nominal)
    robot = ROBOTS[name]()
    names, n = robot.model.joint_names, robot.model.joint_count
    nominal = SimulationParameters(names, **{gain: np.full(n, robot.gains[gain]) for gain in PARAMETER_NAMES})
    urdf = example_robot(QUADRUPEDS[name])
    return mujoco_model(replace(configuration, urdf=urdf, joint_names=names, contact=robot.contact), nominal)


@cache
def reference(name: str, drop: float) -> tuple[np.ndarray, float]:
    """MuJoCo's base height at each sample [m], and the normal impulse of the ground on the robot [N s]."""
    robot, model = ROBOTS[name](), peer_model(name)
    assert model.body_mass.sum() == pytest.approx(robot.mass, rel=1e-9)
    model.opt.timestep = REFERENCE_STEP
    data, force, impulse = mujoco.MjData(model), np.zeros(6), 0.0
    start = standing(robot, height=drop)
    place(model, data, robot.model.joint_names, start.position[0].numpy(), start.velocity[0].numpy())
    data.ctrl[:] = robot.home
    heights = [data.qpos[2]]
    for _ in range(round(DURATION / REFERENCE_STEP)):
        mujoco.mj_step(model, data)
        for contact in range(data.ncon):
            mujoco.mj_contactForce(model, data, contact, force)
            impulse += force[0] * REFERENCE_STEP
        heights.append(data.qpos[2])
    return np.array(heights)[:: round(SAMPLE / REFERENCE_STEP)], impulse


def rolled_out(robot: LeggedRobot, drop: float, **contact: object) -> tuple[np.ndarray, float]:
    """The same of the simulator."""
    world = simulator(robot, "hard", **contact)
    initial, command = standing(robot, height=drop), held(robot, round(DURATION / world.time_step))
    heights = world.rollout(initial, command, parameters(robot)).position[:, 0, 2].numpy()
    impulses = world.contact_impulses(initial, command, parameters(robot))
    return heights[:: round(SAMPLE / world.time_step)], float(impulses[..., 2].sum())


@pytest.mark.parametrize("drop", [0.0, 0.1])
@pytest.mark.parametrize("time_step", [5e-3, 1e-3])
@pytest.mark.parametrize(
    ("name", "step_size"), [("anymal c", "spectral"), ("anymal c", "paper"), ("go2", "spectral"), ("solo12", "paper")]
)
def test_standing_and_dropped_robots_agree_with_mujoco(name, step_size, time_step, drop):
    theirs, their_impulse = reference(name, drop)
    ours, our_impulse = rolled_out(ROBOTS[name](), drop, time_step=time_step, step_size=step_size)
    assert np.abs(ours - theirs).max() < HEIGHT_TOLERANCE
    assert our_impulse == pytest.approx(their_impulse, rel=IMPULSE_TOLERANCE)


def test_robots_are_not_at_rest_while_they_are_compared():
    for drop, least_travel in ((0.0, 0.04), (0.1, 0.15)):
        heights, _ = reference("anymal c", drop)
        assert np.ptp(heights) > least_travel


def test_agreement_improves_with_the_time_step():
    errors = [
        np.abs(rolled_out(anymal(), 0.1, time_step=step)[0] - reference("anymal c", 0.1)[0]).max()
        for step in (5e-3, 1e-3)
    ]
    assert errors[1] < 0.75 * errors[0]
