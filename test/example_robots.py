"""Robots for tests: those of `example-robot-data`, random trees, and Pinocchio's view of both."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from realitygrad_ros.robot.model import BASE, Body, JointKind, RobotModel, Transform

pinocchio = pytest.importorskip("pinocchio")

OWN_UR5 = Path(__file__).resolve().parents[1] / "urdf" / "ur5.urdf"

ARMS = (
    "asr_twodof_description/urdf/TwoDofs.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "finger_edu_description/robots/finger_edu.urdf",
    "allegro_hand_description/urdf/allegro_left_hand.urdf",
    "kinova_description/robots/kinova.urdf",
    "so_arm_description/urdf/so100.urdf",
    "so_arm_description/urdf/so101.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "ur_description/urdf/ur3_robot.urdf",
    "ur_description/urdf/ur3_joint_limited_robot.urdf",
    "ur_description/urdf/ur3_gripper.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "ur_description/urdf/ur5_joint_limited_robot.urdf",
    "ur_description/urdf/ur5_gripper.urdf",
    "ur_description/urdf/ur10_robot.urdf",
    "ur_description/urdf/ur10_joint_limited_robot.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "z1_description/urdf/z1.urdf",
)
"""Every robot of `example-robot-data` that stands on a fixed base and has no mimic joint; so far as it is an arm, a
hand, a leg or a torso with arms."""

PANDA = "panda_description/urdf/panda.urdf"

QUADRUPEDS = {
    "anymal c": "anymal_c_simple_description/urdf/anymal.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
}


def example_robot(name: str) -> Path:
    """The path of a robot of `example-robot-data`; the test is skipped where that package is not installed."""
    try:
        package = distribution("example-robot-data")
    except PackageNotFoundError:
        pytest.skip("the package example-robot-data is not installed")
    return Path(str(package.locate_file("cmeel.prefix/share/example-robot-data/robots"))) / name


def with_rigid_fingers(path: Path, folder: Path) -> Path:
    """A copy of a URDF in which mimic joints and the joints that they follow are fixed."""
    tree = ElementTree.parse(path)
    joints = {joint.get("name"): joint for joint in tree.getroot().iter("joint")}
    for joint in list(joints.values()):
        mimic = joint.find("mimic")
        if mimic is not None:
            joint.remove(mimic)
            for rigid in (joint, joints[mimic.get("joint")]):
                rigid.set("type", "fixed")
    copy = folder / path.name
    tree.write(copy)
    return copy


class Oracle:
    """A Pinocchio model, asked in the order of coordinates and velocities of a `RobotModel`."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        self.model = model
        self.data = self.model.createData()
        self._joints = [self.model.joints[self.model.getJointId(name)] for name in names]
        self._free = self.model.nv - sum(joint.nv for joint in self._joints)
        """Degrees of freedom of the base, which Pinocchio has in our order, too."""
        self._order = [*range(self._free), *(joint.idx_v for joint in self._joints)]

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Coordinates as Pinocchio has them: an angle without limits is a cosine and a sine."""
        result = pinocchio.neutral(self.model)
        base, angles = np.split(q, [len(q) - len(self._joints)])
        result[: len(base)] = base
        for joint, angle in zip(self._joints, angles, strict=True):
            result[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        return result

    def link_pose(self, link: str, q: np.ndarray) -> np.ndarray:
        """The homogeneous matrix of a link in the frame of a fixed base, or in the world of a floating one."""
        pinocchio.framesForwardKinematics(self.model, self.data, self.configuration(q))
        return self.data.oMf[self.model.getFrameId(link, pinocchio.FrameType.BODY)].homogeneous

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """H(q)."""
        dense = pinocchio.crba(self.model, self.data, self.configuration(q))
        dense = np.triu(dense) + np.triu(dense, 1).T
        return dense[np.ix_(self._order, self._order)]

    def inverse_dynamics(self, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
        """The forces that give accelerations, of which the base's linear one is that of its origin."""
        accelerations = self._theirs(qdd - self._convective(qd))
        return pinocchio.rnea(self.model, self.data, self.configuration(q), self._theirs(qd), accelerations)[
            self._order
        ]

    def forward_dynamics(self, q: np.ndarray, qd: np.ndarray, force: np.ndarray) -> np.ndarray:
        """The accelerations that forces give, of which the base's linear one is that of its origin."""
        qdd = pinocchio.aba(self.model, self.data, self.configuration(q), self._theirs(qd), self._theirs(force))
        return qdd[self._order] + self._convective(qd)

    def gravity_torque(self, q: np.ndarray) -> np.ndarray:
        """The torques that hold the robot against gravity."""
        return pinocchio.computeGeneralizedGravity(self.model, self.data, self.configuration(q))[self._order]

    def moving_mass(self) -> float:
        """The mass of everything that moves [kg]."""
        return sum(inertia.mass for inertia in list(self.model.inertias)[1:])

    def _theirs(self, values: np.ndarray) -> np.ndarray:
        result = np.empty(self.model.nv)
        result[self._order] = values
        return result

    def _convective(self, qd: np.ndarray) -> np.ndarray:
        """omega x v: what the acceleration of the base's origin has more than Pinocchio's, the rate of v."""
        convective = np.zeros_like(qd)
        if self._free:
            convective[:3] = np.cross(qd[3:6], qd[:3])
        return convective


def oracle_of_file(path: Path, model: RobotModel) -> Oracle:
    """What Pinocchio makes of the same file."""
    free = () if model.base is None else (pinocchio.JointModelFreeFlyer(),)
    return Oracle(pinocchio.buildModelFromUrdf(str(path), *free), model.joint_names)


def oracle_of_model(model: RobotModel) -> Oracle:
    """What Pinocchio makes of the joints, placements, bodies and frames of a model, and nothing from its file."""
    built, base = pinocchio.Model(), 0
    if model.base is not None:
        base = built.addJoint(0, pinocchio.JointModelFreeFlyer(), pinocchio.SE3.Identity(), "base")
        built.appendBodyToJoint(base, _inertia(model.base), pinocchio.SE3.Identity())
    for joint in model.joints:
        prismatic = joint.kind is JointKind.PRISMATIC
        kind = pinocchio.JointModelPrismaticUnaligned if prismatic else pinocchio.JointModelRevoluteUnaligned
        parent = base if joint.parent == BASE else base + joint.parent + 1
        index = built.addJoint(parent, kind(joint.axis), _se3(joint.placement), joint.name)
        built.appendBodyToJoint(index, _inertia(joint.body), pinocchio.SE3.Identity())
    for frame in model.frames.values():
        parent = base if frame.joint == BASE else base + frame.joint + 1
        built.addFrame(pinocchio.Frame(frame.name, parent, _se3(frame.placement), pinocchio.FrameType.BODY))
    return Oracle(built, model.joint_names)


def _inertia(body: Body) -> Any:
    return pinocchio.Inertia(body.mass, body.center_of_mass, body.inertia)


def _se3(transform: Transform) -> Any:
    return pinocchio.SE3(transform.rotation, transform.translation)


def random_tree_urdf(seed: int, links: int) -> str:
    """A URDF of a random tree: every kind of joint, massless and heavy links, inertial frames in any pose."""
    rng = np.random.default_rng(seed)

    def numbers(values: np.ndarray) -> str:
        return " ".join(repr(float(value)) for value in values)

    def origin() -> str:
        return f'<origin xyz="{numbers(rng.uniform(-0.5, 0.5, 3))}" rpy="{numbers(rng.uniform(-np.pi, np.pi, 3))}"/>'

    def inertial() -> str:
        # Principal moments of a box obey the triangle inequality.
        x, y, z = map(float, rng.uniform(0.05, 0.5, 3) ** 2)
        mass = float(rng.uniform(0.1, 5.0))
        moments = {"ixx": y + z, "iyy": x + z, "izz": x + y}
        inertia = " ".join(f'{name}="{mass / 12.0 * moment!r}"' for name, moment in moments.items())
        products = 'ixy="0" ixz="0" iyz="0"'
        return f'<inertial>{origin()}<mass value="{mass!r}"/><inertia {inertia} {products}/></inertial>'

    kinds = ["fixed", *rng.choice(["fixed", "revolute", "continuous", "prismatic"], links), "revolute"]
    parts = ['<robot name="random">', f'<link name="l0">{inertial()}</link>']
    for i, kind in enumerate(kinds, start=1):
        empty = kind == "fixed" and rng.random() < 0.3
        parts.append(f'<link name="l{i}">{"" if empty else inertial()}</link>')
        parts.append(
            f'<joint name="j{i}" type="{kind}"><parent link="l{rng.integers(i)}"/><child link="l{i}"/>{origin()}'
            f'<axis xyz="{numbers(rng.normal(size=3))}"/>'
            '<limit lower="-1" upper="2" velocity="3" effort="4"/></joint>'
        )
    # A file need not define a link before the joints that use it, nor parents before children.
    body = parts[1:]
    return "\n".join([parts[0], *(body[i] for i in rng.permutation(len(body))), "</robot>"])
