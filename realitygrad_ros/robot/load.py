"""A robot's configuration and its URDF, checked against each other."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration
from realitygrad_ros.robot.contact import ContactConfiguration
from realitygrad_ros.robot.model import BASE, Joint, JointKind, RobotModel, Transform
from realitygrad_ros.robot.urdf import load_urdf

HEIGHT_SLACK = 0.002
"""A standing robot's lowest contact sphere is at most so far off the ground, or in it [m]."""


def load_robot(robot: str) -> tuple[RobotConfiguration, RobotModel]:
    """Load a robot by its name in `config/`, or by the path of its YAML file.

    Raises:
        RealityGradError: a file is missing or wrong; or the configuration does not fit the URDF: other joints, another
            order, an unknown end effector or contact link, a home pose beyond the limits, a floating base that stands
            in the air or in the ground. The message names the thing.
    """
    configuration = load_configuration(robot)
    model = load_urdf(configuration.urdf, floating=configuration.floating)
    try:
        _check_joints(configuration, model)
        if configuration.reach_section is not None:
            model.frame(configuration.reach.end_effector)
        _check_home(configuration, model)
        if configuration.contact is not None:
            _check_contact(configuration, configuration.contact, model)
    except RealityGradError as error:
        raise RealityGradError(f"configuration of '{configuration.name}': {error}") from error
    return configuration, model


def load_reaching_robot(robot: str) -> tuple[RobotConfiguration, RobotModel]:
    """Load a robot as `load_robot` does, for work that needs the task `reach`.

    Raises:
        RealityGradError: as for `load_robot`, or the robot has no such task.
    """
    configuration, model = load_robot(robot)
    _ = configuration.reach  # refuses where there is none, before any work is done
    return configuration, model


def load_clamped_robot(robot: str) -> tuple[RobotConfiguration, RobotModel]:
    """Load a robot as `load_robot` does, its base fixed to the world: as it is when it is identified.

    A robot with a floating base hangs or is clamped then, upright, and touches nothing.

    Raises:
        RealityGradError: as for `load_robot`.
    """
    configuration, model = load_robot(robot)
    if not configuration.floating:
        return configuration, model
    return replace(configuration, floating=False, home_height=None, contact=None), load_urdf(configuration.urdf)


def _check_joints(configuration: RobotConfiguration, model: RobotModel) -> None:
    ours, theirs = configuration.joint_names, model.joint_names
    unknown = [name for name in ours if name not in theirs]
    missing = [name for name in theirs if name not in ours]
    if unknown or missing:
        complaints = [f"has joints that the URDF lacks: {', '.join(unknown)}"] if unknown else []
        complaints += [f"lacks joints of the URDF: {', '.join(missing)}"] if missing else []
        raise RealityGradError(
            f"it {' and '.join(complaints)}; the joints of '{configuration.urdf}' are {', '.join(theirs)}"
        )
    if ours != theirs:
        raise RealityGradError(f"its joints are not in the order of '{configuration.urdf}': {', '.join(theirs)}")


def _check_home(configuration: RobotConfiguration, model: RobotModel) -> None:
    outside = ~((configuration.home >= model.limit_array("lower")) & (configuration.home <= model.limit_array("upper")))
    if outside.any():
        joint, home = model.joints[int(np.argmax(outside))], configuration.home[outside][0]
        raise RealityGradError(f"home {home:g} of joint '{joint.name}' is not in [{joint.lower:g}, {joint.upper:g}]")


def _check_contact(configuration: RobotConfiguration, contact: ContactConfiguration, model: RobotModel) -> None:
    """Every sphere's link is there, and a floating base stands on the lowest sphere in its home pose."""
    poses = _joint_poses(model, configuration.home)
    lowest = {}
    for sphere in contact.spheres:
        frame = model.frame(sphere.link)
        link = frame.placement if frame.joint == BASE else poses[frame.joint] @ frame.placement
        lowest[sphere.link] = (link @ Transform(np.eye(3), sphere.center)).translation[2] - sphere.radius
    foot = min(lowest, key=lambda link: lowest[link])
    height = configuration.home_height
    if height is not None and abs(height + lowest[foot]) > HEIGHT_SLACK:
        raise RealityGradError(
            f"home_height is {height:g} m, which has the lowest contact sphere, of link '{foot}', touch the ground at "
            f"z = {height + lowest[foot]:.4f} m in the home pose; it must be {-lowest[foot]:.4f}"
        )


def _joint_poses(model: RobotModel, position: Float[np.ndarray, "joint"]) -> list[Transform]:
    """The pose of every joint's frame in the base frame."""
    poses: list[Transform] = []
    for joint, q in zip(model.joints, position, strict=True):
        placed = joint.placement @ _motion(joint, float(q))
        poses.append(placed if joint.parent == BASE else poses[joint.parent] @ placed)
    return poses


def _motion(joint: Joint, q: float) -> Transform:
    """Pose of a joint's frame at position q in that at zero: a shift along the axis, or Rodrigues' turn about it."""
    if joint.kind is JointKind.PRISMATIC:
        return Transform(np.eye(3), q * joint.axis)
    x, y, z = joint.axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return Transform(np.eye(3) + np.sin(q) * cross + (1.0 - np.cos(q)) * cross @ cross, np.zeros(3))
