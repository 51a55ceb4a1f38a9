"""A robot's configuration and its URDF, checked against each other."""

import numpy as np

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import RobotConfiguration, load_configuration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.urdf import load_urdf


def load_robot(robot: str) -> tuple[RobotConfiguration, RobotModel]:
    """Load a robot by its name in `config/`, or by the path of its YAML file.

    Raises:
        RealityGradError: a file is missing or wrong; or the configuration does not fit the URDF: other joints, another
            order, an unknown end effector, a home pose beyond the limits. The message names the thing.
    """
    configuration = load_configuration(robot)
    model = load_urdf(configuration.urdf)
    try:
        _check_joints(configuration, model)
        model.frame(configuration.end_effector)
        _check_home(configuration, model)
    except RealityGradError as error:
        raise RealityGradError(f"configuration of '{configuration.name}': {error}") from error
    return configuration, model


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
