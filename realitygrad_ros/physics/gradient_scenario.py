"""Short rollouts of any robot in which much happens, for the check of gradients.

A robot with a floating base falls from a few centimetres onto its contacts, in a random pose and with a random
velocity, pushed and commanded at random. One on a fixed base follows random commands, into friction, reversals and
effort limits.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.contact import contact_points
from realitygrad_ros.physics.gradient_check import (
    COMMAND,
    PUSH,
    STATE_CHANGES,
    BlockCheck,
    Inputs,
    Part,
    Scenario,
    check_gradients,
)
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.state_space import changed
from realitygrad_ros.physics.stochastic import contact_simulator
from realitygrad_ros.progress import Progress, silent
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.contact import ContactConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

WORLDS, DIRECTIONS, STEPS = 8, 16, 50
"""Rollouts, random directions for each of them and block of inputs, and physics steps."""

TIME_STEP = 0.002
"""Of a simulator without contact [s]."""

CLEARANCE = (0.01, 0.04)
"""Least and most height of the lowest contact above the ground at the start [m]."""

POSITION_DEVIATION, VELOCITY_DEVIATION, COMMAND_DEVIATION = 0.2, 0.5, 0.05
"""Standard deviations of the start about home [rad or m, rad/s or m/s], and of a command's change in a step [rad]."""

POSITION_UNIT, VELOCITY_UNIT = 0.1, 1.0
"""Sizes of changes that matter alike [m or rad, m/s or rad/s]."""

PUSH_DEVIATION = 2.0
"""Standard deviation of the pushes, by the mass of the robot [N/kg]."""

VARIATION = 0.2
"""Most relative difference of a parameter from its nominal value."""


def check_robot(
    configuration: RobotConfiguration,
    model: RobotModel,
    mode: str | None,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, BlockCheck]:
    """Check the gradients of a robot's simulator by blocks of its inputs.

    Args:
        configuration: of the robot.
        model: of the same robot.
        mode: one of `GRADIENT_MODES`; None simulates no contact.
        seed: of rollouts and directions.
        progress: told of each block.

    Returns:
        What was found, by the block's name.

    Raises:
        RealityGradError: the mode needs contacts, and the robot's configuration has none.
    """
    contact = None if mode is None else configuration.contact
    if mode is not None and contact is None:
        raise RealityGradError(
            f"contact mode '{mode}' needs contacts, but robot '{configuration.name}' has no section 'contact' in its "
            "configuration; choose contact mode 'none'"
        )
    rollouts = contact_simulator(
        model,
        mode or "smooth",
        contact=contact,
        time_step=TIME_STEP if contact is None else contact.time_step,
        gravity=configuration.gravity.tolist(),
        friction_velocity=configuration.friction_velocity,
        dtype=torch.float64,
    )
    scenario = make_scenario(
        model, configuration.home, configuration.nominal, contact, worlds=WORLDS, steps=STEPS, seed=seed
    )
    return check_gradients(rollouts, scenario, directions=DIRECTIONS, seed=seed, progress=progress)


def make_scenario(
    model: RobotModel,
    home: Float[np.ndarray, "joint"],
    nominal: SimulationParameters,
    contact: ContactConfiguration | None,
    *,
    worlds: int,
    steps: int,
    seed: int,
) -> Scenario:
    """Random rollouts of a robot, with a command for each physics step.

    Args:
        model: the robot.
        home: positions to start near.
        nominal: parameters that the random ones vary about.
        contact: of the simulator that is checked; None if it has none.
        worlds: number of rollouts.
        steps: length of each.
        seed: of all that is random.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    joints, dof = model.joint_count, model.velocity_count
    position = _start(model, torch.tensor(home, dtype=torch.float64), contact, worlds, normal)
    initial = State(position, VELOCITY_DEVIATION * normal(worlds, dof))
    inputs = {name: torch.zeros(worlds, dof, dtype=torch.float64) for name in STATE_CHANGES}
    walk = COMMAND_DEVIATION * normal(worlds, steps, joints).cumsum(1)
    inputs[COMMAND] = position[:, None, model.coordinate_count - joints :] + walk
    for name in PARAMETER_NAMES:
        values = torch.tensor(getattr(nominal, name), dtype=torch.float64)
        inputs[name] = values * (1.0 + VARIATION * normal(worlds, joints).tanh())
    if contact is not None:
        factor = 1.0 + VARIATION * normal(worlds, len(contact.spheres)).tanh()
        inputs["friction_coefficient"] = contact.friction_coefficient * factor
    if model.base is not None:
        inputs["added_base_mass"] = VARIATION * model.base.mass * normal(worlds, 1).tanh()
        mass = model.base.mass + sum(joint.body.mass for joint in model.joints)
        inputs[PUSH] = PUSH_DEVIATION * mass * normal(worlds, steps, 3)
    return Scenario(initial, inputs, _blocks(model, inputs))


def _start(
    model: RobotModel,
    home: Tensor,
    contact: ContactConfiguration | None,
    worlds: int,
    normal: Callable[..., Tensor],
) -> Tensor:
    """Coordinates [world, coordinate] at random around home, and somewhere above the ground."""
    change = POSITION_DEVIATION * normal(worlds, model.velocity_count)
    if model.base is None:
        return home + change
    upright = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    position = changed(model, torch.cat([upright, home]).expand(worlds, -1), change)
    if contact is not None:
        points = contact_points(model, list(position.unbind(-1)), contact.spheres)
        lowest = torch.stack([point.height for point in points]).amin(0)
        least, most = CLEARANCE
        position[:, 2] += (least + most + (most - least) * normal(worlds).tanh()) / 2.0 - lowest
    return position


def _blocks(model: RobotModel, inputs: Inputs) -> dict[str, list[Part]]:
    """What to differentiate by: each kind of input alone, and all together."""
    base = model.base_freedom
    blocks = {}
    if model.base is not None:
        linear, angular = slice(0, 3), slice(3, 6)
        blocks["base position"] = [Part("position", linear, POSITION_UNIT)]
        blocks["base orientation"] = [Part("position", angular, POSITION_UNIT)]
        blocks["base linear velocity"] = [Part("velocity", linear, VELOCITY_UNIT)]
        blocks["base angular velocity"] = [Part("velocity", angular, VELOCITY_UNIT)]
    blocks["joint position"] = [Part("position", slice(base, None), POSITION_UNIT)]
    blocks["joint velocity"] = [Part("velocity", slice(base, None), VELOCITY_UNIT)]
    for name, value in inputs.items():
        if name not in STATE_CHANGES:
            # A change of as much as there is of it; of 1 where there is none.
            unit = POSITION_UNIT if name == COMMAND else float(value.square().mean().sqrt()) or 1.0
            blocks[name] = [Part(name, slice(None), unit)]
    blocks["all together"] = [part for parts in blocks.values() for part in parts]
    return blocks
