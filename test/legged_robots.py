"""Robots that touch the ground, for tests, and Pinocchio's view of how they move.

Each stands on its base frame's pose: `standing` puts the lowest contact sphere on the ground z = 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from example_robots import QUADRUPEDS, example_robot, oracle_of_model, pinocchio, random_tree_urdf

from realitygrad_ros.physics.simulator import Simulator, State
from realitygrad_ros.robot.contact import ContactConfiguration, ContactSphere, SoftContact
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.model import BASE, Body, Frame, RobotModel, Transform
from realitygrad_ros.robot.parameters import PARAMETER_NAMES
from realitygrad_ros.robot.urdf import load_urdf

GRAVITY = 9.81
FLOAT = torch.float64


@dataclass(frozen=True, eq=False)
class LeggedRobot:
    """A floating robot, where it touches the ground, and how its joints are driven."""

    model: RobotModel
    contact: ContactConfiguration
    home: np.ndarray
    """[joint]"""
    gains: dict[str, Any]
    """A value, or one a joint, of each of `PARAMETER_NAMES`."""

    @property
    def mass(self) -> float:
        """[kg]"""
        return self.model.base.mass + sum(joint.body.mass for joint in self.model.joints)


def contact_of(links: Sequence[str], radius: float, **changes: Any) -> ContactConfiguration:
    """Spheres of one radius at the origins of links."""
    spheres = tuple(ContactSphere(link, np.zeros(3), radius) for link in links)
    contact = ContactConfiguration(
        spheres=spheres,
        time_step=0.005,
        friction_coefficient=0.75,
        kappa=300.0,
        recovery_rate=20.0,
        sweeps=10,
        step_size="spectral",
        soft=SoftContact(stiffness=2e4, damping=200.0, tangential_damping=100.0),
    )
    return replace(contact, **changes)


def rigid_body(
    mass: float, inertia: Sequence[float], contacts: Sequence[Sequence[float]], radius: float, **changes: Any
) -> LeggedRobot:
    """A body without joints, its frame at its centre of mass, with spheres around the points `contacts`."""
    body = Body(mass, np.zeros(3), np.diag(np.asarray(inertia, dtype=float)), ("body",))
    frames = {"body": Frame("body", BASE, Transform.identity())}
    for i, point in enumerate(contacts):
        frames[f"contact_{i}"] = Frame(f"contact_{i}", BASE, Transform(np.eye(3), np.asarray(point, dtype=float)))
    model = RobotModel("body", (), frames, base_link="body", base=body)
    contact = contact_of([f"contact_{i}" for i in range(len(contacts))], radius, **changes)
    return LeggedRobot(model, contact, np.zeros(0), dict.fromkeys(PARAMETER_NAMES, 0.0))


def block(mass: float = 2.0, **changes: Any) -> LeggedRobot:
    """A body that touches the ground in its centre of mass as long as it is upright: a point mass that cannot tip."""
    radius = 0.1
    return rigid_body(mass, (0.01, 0.01, 0.01), [(0.0, 0.0, radius)], radius, **changes)


def sled(mass: float = 10.0, **changes: Any) -> LeggedRobot:
    """A box, 0.6 m x 0.4 m x 0.2 m, on four spheres."""
    inertia = mass / 12.0 * np.array([0.4**2 + 0.2**2, 0.6**2 + 0.2**2, 0.6**2 + 0.4**2])
    corners = [(x, y, -0.1) for x in (0.3, -0.3) for y in (0.2, -0.2)]
    return rigid_body(mass, inertia, corners, 0.02, **changes)


@cache
def anymal() -> LeggedRobot:
    """ANYmal C as the package configures it."""
    configuration, model = load_robot("anymal_c")
    assert configuration.contact is not None
    gains = {name: getattr(configuration.nominal, name) for name in PARAMETER_NAMES}
    return LeggedRobot(model, configuration.contact, configuration.home, gains)


@cache
def go2() -> LeggedRobot:
    """Unitree Go2, 16 kg."""
    model = load_urdf(example_robot(QUADRUPEDS["go2"]), floating=True)
    contact = contact_of([f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")], 0.022)
    gains = {"damping": 0.1, "armature": 0.01, "kp": 60.0, "kd": 2.0, "friction": 0.0}
    return LeggedRobot(model, contact, np.tile([0.0, 0.8, -1.5], 4), gains)


@cache
def solo12() -> LeggedRobot:
    """Solo12, 2.5 kg."""
    model = load_urdf(example_robot(QUADRUPEDS["solo12"]), floating=True)
    contact = contact_of([f"{leg}_FOOT" for leg in ("FL", "FR", "HL", "HR")], 0.016)
    gains = {"damping": 0.01, "armature": 0.001, "kp": 10.0, "kd": 0.3, "friction": 0.0}
    return LeggedRobot(model, contact, np.tile([0.0, 0.8, -1.6], 4), gains)


@cache
def tree() -> LeggedRobot:
    """A random tree, 6 kg: a slider on the base and a hinge on the slider, with spheres on base and hinge."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tree.urdf"
        path.write_text(random_tree_urdf(seed=14, links=2))
        model = load_urdf(path, floating=True)
    last = next(name for name, frame in model.frames.items() if frame.joint == model.joint_count - 1)
    gains = {"damping": 0.5, "armature": 0.05, "kp": 30.0, "kd": 1.0, "friction": 0.2}
    return LeggedRobot(model, contact_of([model.base_link, last], 0.05), np.zeros(model.joint_count), gains)


def simulator(robot: LeggedRobot, mode: str, *, gravity: Any = (0.0, 0.0, -GRAVITY), **options: Any) -> Simulator:
    """A simulator in float64; options of the contact or of the simulator."""
    own = {name: options.pop(name) for name in ("dtype", "threads", "substeps") if name in options}
    contact = replace(robot.contact, **options)
    return Simulator(
        robot.model,
        **{"dtype": FLOAT, **own},
        time_step=contact.time_step,
        gravity=gravity,
        contact=contact,
        contact_mode=mode,
    )


def parameters(robot: LeggedRobot, worlds: int = 1, dtype: torch.dtype = FLOAT, **others: Any) -> dict[str, Any]:
    """The robot's gains [worlds, joint], and other parameters [worlds, ...]."""
    n = robot.model.joint_count
    values = {name: np.broadcast_to(value, (worlds, n)) for name, value in robot.gains.items()} | others
    return {name: torch.tensor(np.array(value), dtype=dtype) for name, value in values.items()}


def free_joints(robot: LeggedRobot) -> LeggedRobot:
    """The same robot with no torque in its joints."""
    return replace(robot, gains=dict.fromkeys(PARAMETER_NAMES, 0.0) | {"armature": robot.gains["armature"]})


def held(robot: LeggedRobot, time: int, worlds: int = 1, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    """The command that asks for the home pose."""
    return torch.tensor(robot.home, dtype=dtype).expand(time, worlds, -1)


def standing(robot: LeggedRobot, worlds: int = 1, height: float = 0.0) -> State:
    """At rest, upright and at home, the lowest sphere `height` above the ground [m]."""
    position = np.concatenate([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], robot.home])
    lowest = Mechanics(robot.model).sphere_heights(position[None], robot.contact).min()
    position[2] = height - lowest
    velocity = torch.zeros(worlds, robot.model.velocity_count, dtype=FLOAT)
    return State(torch.tensor(position).expand(worlds, -1).clone(), velocity)


def thrown(robot: LeggedRobot, worlds: int, seed: int, height: float, speed: float = 1.0, spin: float = 3.0) -> State:
    """Random poses, the lowest sphere `height` above the ground [m], at random velocities [m/s, rad/s]."""
    rng = np.random.default_rng(seed)
    position = np.zeros((worlds, robot.model.coordinate_count))
    quaternion = rng.normal(size=(worlds, 4))
    position[:, 3:7] = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    position[:, 7:] = robot.home + rng.uniform(-0.4, 0.4, (worlds, robot.model.joint_count))
    position[:, 2] = height - Mechanics(robot.model).sphere_heights(position, robot.contact).min(1)
    scale = np.concatenate([[speed] * 3, [spin] * (robot.model.velocity_count - 3)])
    velocity = scale * rng.uniform(-1.0, 1.0, (worlds, robot.model.velocity_count))
    return State(torch.tensor(position), torch.tensor(velocity))


def rolled(world: Simulator, robot: LeggedRobot, initial: State, steps: int, **others) -> State:
    """States [steps + 1, world] while the home pose is commanded; with other parameters than the joints'."""
    worlds = len(initial.position)
    return world.rollout(initial, held(robot, steps, worlds), parameters(robot, worlds, **others))


def last(states: State) -> State:
    """The states at the end."""
    return State(states.position[-1], states.velocity[-1])


def flattened(states: State) -> State:
    """States [time, world] as [time * world]."""
    return State(*(value.reshape(-1, value.shape[-1]) for value in states))


class Mechanics:
    """Energy, momentum and heights by Pinocchio; batches are arrays."""

    def __init__(self, model: RobotModel) -> None:
        self._model = model
        self._oracle = oracle_of_model(model)
        self._oracle.model.gravity.linear[:] = (0.0, 0.0, -GRAVITY)

    def _each(self, function: Callable[..., Any], *arrays: Any) -> np.ndarray:
        """The results of `function(pinocchio's model, its data, *row)` for every row of the last dimension."""
        rows = [np.asarray(array, dtype=float).reshape(-1, array.shape[-1]) for array in arrays]
        oracle = self._oracle
        results = [np.array(function(oracle.model, oracle.data, *row)) for row in zip(*rows, strict=True)]
        return np.array(results).reshape(*arrays[0].shape[:-1], *results[0].shape)

    def energy(self, states: State, armature: Any = 0.0) -> np.ndarray:
        """Kinetic energy, with the rotors' own, and potential energy [...] J."""
        kinetic = self._each(pinocchio.computeKineticEnergy, *states)
        rotors = 0.5 * (armature * states.velocity[..., 6:].numpy() ** 2).sum(-1)
        return kinetic + rotors + self._each(pinocchio.computePotentialEnergy, states.position)

    def momentum(self, states: State) -> np.ndarray:
        """Linear momentum [kg m/s] and angular momentum about the centre of mass [kg m^2/s], world axes, [..., 6]."""
        return self._each(lambda *arguments: pinocchio.computeCentroidalMomentum(*arguments).vector, *states)

    def center_of_mass(self, states: State) -> np.ndarray:
        """[..., 3] m."""
        return self._each(lambda *arguments: pinocchio.centerOfMass(*arguments).copy(), *states)

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """H(q) of one state."""
        return self._oracle.mass_matrix(q)

    def contact_jacobian(self, q: np.ndarray, contact: ContactConfiguration) -> np.ndarray:
        """Velocity of the spheres' lowest points, in the world's axes, by that of the robot: [3 contact, dof]."""
        model, data = self._oracle.model, self._oracle.data
        pinocchio.computeJointJacobians(model, data, q)
        blocks = []
        for sphere in contact.spheres:
            joint, center = self._carrier(sphere)
            J = pinocchio.getJointJacobian(model, data, joint, pinocchio.LOCAL_WORLD_ALIGNED)
            arm = data.oMi[joint].rotation @ center - [0.0, 0.0, sphere.radius]
            blocks.append(J[:3] - pinocchio.skew(arm) @ J[3:])
        return np.concatenate(blocks)

    def sphere_heights(self, positions: Any, contact: ContactConfiguration) -> np.ndarray:
        """Height of each sphere's lowest point above the ground [..., contact] m."""

        def heights(model: Any, data: Any, q: np.ndarray) -> list[float]:
            pinocchio.forwardKinematics(model, data, q)
            carriers = [self._carrier(sphere) for sphere in contact.spheres]
            centers = [data.oMi[joint].act(center)[2] for joint, center in carriers]
            return [z - sphere.radius for z, sphere in zip(centers, contact.spheres, strict=True)]

        return self._each(heights, positions)

    def _carrier(self, sphere: ContactSphere) -> tuple[int, np.ndarray]:
        """Pinocchio's joint that carries a sphere, and the sphere's centre in that joint's frame."""
        frame = self._model.frame(sphere.link)
        center = frame.placement.rotation @ sphere.center + frame.placement.translation
        return (1 if frame.joint == BASE else frame.joint + 2), center
