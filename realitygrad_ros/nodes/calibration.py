"""The simulator's parameters as ROS parameters: `calibration.joint_names`, `calibration.damping` and so on.

`calibration.joint_names` says the order of the lists, so a parameter file that `sysid_node` wrote restores them by
`--params-file`, whatever the order of joints in it.
"""

from rclpy.parameter import Parameter

from realitygrad_ros.nodes.node import RealityGradNode
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, PARAMETER_UNITS, SimulationParameters


def declare_calibration(node: RealityGradNode, configuration: RobotConfiguration) -> None:
    """Declare the parameters with the robot's nominal values as default and its bounds as range.

    Raises:
        RealityGradError: a value given at the start of the node has the wrong type or is out of range.
    """
    count = len(configuration.joint_names)
    order = "order of the lists beside this one"
    node.declare("calibration.joint_names", list(configuration.joint_names), order, length=count)
    for name in PARAMETER_NAMES:
        lower, upper = configuration.bounds[name]
        values = getattr(configuration.nominal, name).tolist()
        description = f"{name} of each joint [{PARAMETER_UNITS[name]}], in the order of calibration.joint_names"
        node.declare(f"calibration.{name}", values, description, lower, upper, length=count)


def calibration_of(node: RealityGradNode, configuration: RobotConfiguration) -> SimulationParameters:
    """The present values, in the joint order of the configuration.

    Raises:
        RealityGradError: the lists have not one value a joint, or are for other joints.
    """
    values = {name: node.value(f"calibration.{name}") for name in PARAMETER_NAMES}
    parameters = SimulationParameters(tuple(node.value("calibration.joint_names")), **values)
    return parameters.reordered(configuration.joint_names)


def as_ros_parameters(parameters: SimulationParameters) -> list[Parameter]:
    """What to set on a node that declared a calibration."""
    values = {name: getattr(parameters, name).tolist() for name in PARAMETER_NAMES}
    return [
        Parameter(f"calibration.{name}", value=value)
        for name, value in {"joint_names": list(parameters.joint_names), **values}.items()
    ]
