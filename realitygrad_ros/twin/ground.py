"""A robot on legs in MuJoCo: its base free to move, and the ground under its feet."""

import mujoco
import numpy as np
import yourdfpy
from jaxtyping import Float
from numpy.typing import ArrayLike

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.contact import ContactConfiguration
from realitygrad_ros.robot.model import RobotModel

FREE_JOINT = "free base"
"""MuJoCo's name of the six degrees of freedom of a floating base."""

GROUND = "ground"
"""MuJoCo's name of the plane z = 0."""

_TIME_CONSTANT = 1e-9
"""t, shorter than MuJoCo accepts [s]."""

_DAMPING_RATIO = 5.0
"""zeta."""

_IMPEDANCE = 0.9999
"""d, the largest that MuJoCo accepts, its `mjMAXIMP`."""


def merge_masses(description: yourdfpy.Robot, model: RobotModel) -> None:
    """Give each moving link all of the mass that is fixed to it, and leave none to the links that are fixed.

    MuJoCo judges every link by itself, and so refuses robots that have a link with an impossible inertia screwed to
    a sound one. The links stay, for what hangs on them.
    """
    assert model.base is not None
    bodies = {joint.body.links[0]: joint.body for joint in model.joints} | {model.base_link: model.base}
    for link in description.links:
        body = bodies.get(link.name)
        link.inertial = None
        if body is not None:
            origin = np.eye(4)
            origin[:3, 3] = body.center_of_mass
            link.inertial = yourdfpy.Inertial(origin=origin, mass=body.mass, inertia=body.inertia)


def add_ground(spec: mujoco.MjSpec, contact: ContactConfiguration) -> None:
    """Put the plane z = 0 under the robot, which only the contact spheres feel.

    MuJoCo's contact (documentation, chapter "Computation", constraint model) is a spring and a damper on the
    constraint, `a_ref = -b v - k r`, that yields to the force by the regulariser `R = (1 - d) / d A0`. Here both are
    as near to a rigid and inelastic contact as a step of length h goes. `b = 2 / (d t)` and `k = (d t zeta)^-2` by a
    time constant t and a damping ratio zeta. A t of 2 h, the shortest with which MuJoCo's integrator is stable, makes
    `b = 1 / h`, which ends an approach within one step; MuJoCo takes it whatever h is, as the one given here is
    shorter. The spring then gives back at most `k h^2 = 1 / (4 zeta^2)` of the approach, which is 1 % instead of the
    25 % of critical damping, and with which trajectories converge as h goes to zero. `d` is the largest, at which the
    weight presses a sphere in by less than a micrometre at h = 1 ms, and creeping is below a millimetre a second. As
    that regularises friction as little as the normal force, `impratio` stays 1. The elliptic cone is the friction
    cone itself and no pyramid in it. What stays is MuJoCo's convex friction: a contact that slips at v is lifted at
    `mu v`, so that it hops, and has its friction on average.

    Raises:
        RealityGradError: the robot lacks the link of a contact sphere.
    """
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.worldbody.add_geom(
        name=GROUND, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], contype=0, conaffinity=0
    )
    for sphere in contact.spheres:
        link = spec.body(sphere.link)
        if link is None:
            raise RealityGradError(f"the link '{sphere.link}' of a contact sphere is not in the robot's URDF")
        link.add_geom(
            name=sphere.link,
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            pos=sphere.center,
            size=[sphere.radius, 0.0, 0.0],
            mass=0.0,
            contype=0,
            conaffinity=0,
        )
        mu = contact.friction_coefficient
        # Of the friction, slip in two directions and, unused with three dimensions, torsion and rolling.
        spec.add_pair(
            geomname1=GROUND,
            geomname2=sphere.link,
            condim=3,
            friction=[mu, mu, 0.0, 0.0, 0.0],
            solref=[_TIME_CONSTANT, _DAMPING_RATIO],
            solimp=[_IMPEDANCE, _IMPEDANCE, 1.0, 0.5, 2.0],
        )


def place(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    joint_names: tuple[str, ...],
    position: Float[ArrayLike, "coordinate"],
    velocity: Float[ArrayLike, "dof"],
) -> None:
    """Put a robot with a floating base into a state.

    MuJoCo's quaternion begins with its scalar, and its linear velocity of a free body is in the world frame.

    Args:
        model: with the joint `FREE_JOINT`.
        data: is changed; the rest of it as after a reset.
        joint_names: the order of the joints in the state.
        position: base position in the world [m], base `quat_xyzw`, joint positions [rad].
        velocity: linear [m/s] and angular [rad/s] velocity of the base in the base frame, joint velocities [rad/s].
    """
    mujoco.mj_resetData(model, data)
    position, velocity = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
    free = data.joint(FREE_JOINT)
    free.qpos[:] = position[[0, 1, 2, 6, 3, 4, 5]]
    mujoco.mju_rotVecQuat(free.qvel[:3], velocity[:3], free.qpos[3:])
    free.qvel[3:] = velocity[3:6]
    for i, name in enumerate(joint_names):
        data.joint(name).qpos[0], data.joint(name).qvel[0] = position[7 + i], velocity[6 + i]
