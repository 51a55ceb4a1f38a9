"""Whatever a simulator is given, its values and gradients are finite numbers, or an error names what is wrong."""

import re

import numpy as np
import pytest
import torch
from legged_robots import LeggedRobot, anymal, held, parameters, simulator, standing, tree

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.simulator import Simulator, State

REFUSALS = (RealityGradError, ValueError)
SINGLE = torch.float32


class Extremes:
    """Random inputs of many worlds, most of them sane, in every world a few of them extreme."""

    def __init__(self, robot: LeggedRobot, worlds: int, steps: int, seed: int) -> None:
        self._rng = rng = np.random.default_rng(seed)
        self._worlds = worlds
        self._robot = robot
        n, dof, contacts = robot.model.joint_count, robot.model.velocity_count, len(robot.contact.spheres)
        position = standing(robot, worlds).position.numpy()
        position[:, :2] = self._mixed((worlds, 2), 1.0, 1e3)
        # From 5 m below the ground to 20 m above it.
        position[:, 2] += self._choice((worlds,), rng.uniform(-0.02, 0.1, worlds), rng.uniform(-5.0, 20.0, worlds))
        quaternion = self._choice((worlds, 1), np.array([0.0, 0.0, 0.0, 1.0]), rng.normal(size=(worlds, 4)))
        position[:, 3:7] = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
        position[:, 7:] += self._mixed((worlds, n), 0.3, 30.0)
        nominal = parameters(robot)
        inputs = {
            "position": position,
            "velocity": self._mixed((worlds, dof), 0.5, 100.0),
            "command": robot.home + self._mixed((steps, worlds, n), 0.3, 100.0),
            "push": self._mixed((steps, worlds, 3), 50.0, 1e4),
            "friction_coefficient": self._positive((worlds, contacts), np.full(contacts, 0.8), 1e3),
            "added_base_mass": self._choice(
                (worlds, 1), np.zeros(1), robot.model.base.mass * rng.uniform(-0.95, 20.0, (worlds, 1))
            ),
        }
        largest = {"damping": 1e3, "armature": 1e2, "kp": 1e6, "kd": 1e4, "friction": 1e3}
        for name, value in largest.items():
            inputs[name] = self._positive((worlds, n), nominal[name].numpy(), value)
        self.inputs = {name: torch.tensor(value, dtype=SINGLE) for name, value in inputs.items()}

    def _choice(self, shape: tuple[int, ...], sane: np.ndarray, extreme: np.ndarray) -> np.ndarray:
        return np.where(self._rng.random(shape) < 0.7, sane, extreme)

    def _mixed(self, shape: tuple[int, ...], sane: float, extreme: float) -> np.ndarray:
        return self._choice(shape, sane * self._rng.normal(size=shape), extreme * self._rng.uniform(-1.0, 1.0, shape))

    def _positive(self, shape: tuple[int, ...], sane: np.ndarray, largest: float) -> np.ndarray:
        """Extreme is zero, or anything up to the largest, by its order of magnitude."""
        rng = self._rng
        magnitude = largest * 10.0 ** rng.uniform(-9.0, 0.0, shape)
        return self._choice(shape, sane, np.where(rng.random(shape) < 0.3, 0.0, magnitude))


def every_number(world: Simulator, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """States and impulses of a rollout, and the gradient by every input, by name."""
    leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    values = {name: leaf for name, leaf in leaves.items() if name not in ("position", "velocity", "command", "push")}
    initial = State(leaves["position"], leaves["velocity"])
    states = world.rollout(initial, leaves["command"], values, leaves["push"])
    sum(value.sum() for value in states).backward()
    found = {f"gradient by {name}": leaf.grad for name, leaf in leaves.items()}
    with torch.no_grad():
        impulses = world.contact_impulses(initial, leaves["command"], values, leaves["push"])
    return found | {"state": states.position.detach(), "velocity": states.velocity.detach(), "impulses": impulses}


def check_finite(world: Simulator, inputs: dict[str, torch.Tensor]) -> None:
    broken = {name: int((~v.isfinite()).sum()) for name, v in every_number(world, inputs).items()}
    assert not any(broken.values()), {name: count for name, count in broken.items() if count}


def test_ten_thousand_anymals_in_any_state_give_finite_values_and_gradients():
    robot = anymal()
    check_finite(simulator(robot, "smooth", dtype=SINGLE), Extremes(robot, 10_000, 4, seed=0).inputs)


@pytest.mark.parametrize("mode", ["hard", "smooth", "soft"])
@pytest.mark.parametrize("time_step", [1e-4, 2e-2])
def test_any_robot_step_and_mode_gives_finite_values_and_gradients_or_names_the_world(mode, time_step):
    """Where a limb is swung at a hundred rad/s, a long step squares its velocity again and again."""
    robot = tree()
    world = simulator(robot, mode, dtype=SINGLE, time_step=time_step, kappa=1e5, recovery_rate=100.0)
    inputs, named = Extremes(robot, 1_000, 4, seed=1).inputs, 0
    while True:
        try:
            check_finite(world, inputs)
            break
        except RealityGradError as error:
            named += 1
            inputs = without(int(re.search(r"world (\d+) is not finite", str(error))[1]), inputs)
    assert named <= (0 if time_step < 1e-3 else 50)


def without(world: int, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Inputs of the other worlds."""
    kept = torch.arange(len(inputs["position"])) != world
    return {name: value[:, kept] if name in ("command", "push") else value[kept] for name, value in inputs.items()}


def test_a_world_that_grows_beyond_all_numbers_is_named():
    """At 1000 rad/s and steps of 0.1 s the quadratic terms square the velocity in each step."""
    robot = tree()
    inputs = sane_inputs(robot)
    inputs["velocity"][1] = 1e3
    inputs["command"] = inputs["command"][:1].repeat(20, 1, 1)
    inputs["push"] = torch.zeros(20, 2, 3)
    with pytest.raises(RealityGradError, match="world 1 is not finite"):
        every_number(simulator(robot, "smooth", dtype=SINGLE, time_step=0.1), inputs)


def sane_inputs(robot: LeggedRobot) -> dict[str, torch.Tensor]:
    start = standing(robot, 2)
    inputs = {"position": start.position.to(SINGLE), "velocity": start.velocity.to(SINGLE)}
    inputs |= {"command": held(robot, 3, 2, SINGLE).clone(), "push": torch.zeros(3, 2, 3)}
    inputs |= {"friction_coefficient": torch.ones(2, 2), "added_base_mass": torch.zeros(2, 1)}
    return inputs | parameters(robot, 2, SINGLE)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name",
    ["position", "velocity", "command", "push", "friction_coefficient", "added_base_mass", "kp", "armature"],
)
def test_an_input_that_is_not_finite_is_refused_by_name(name, value):
    robot = tree()
    inputs = sane_inputs(robot)
    inputs[name].view(-1)[-1] = value
    with pytest.raises(REFUSALS, match=name):
        every_number(simulator(robot, "smooth", dtype=SINGLE), inputs)


def test_an_orientation_without_length_is_refused():
    robot = tree()
    inputs = sane_inputs(robot)
    inputs["position"][1, 3:7] = 0.0
    with pytest.raises(REFUSALS, match="position"):
        every_number(simulator(robot, "smooth", dtype=SINGLE), inputs)


def test_a_base_without_mass_is_refused():
    robot = tree()
    inputs = sane_inputs(robot)
    inputs["added_base_mass"][1] = -robot.model.base.mass
    with pytest.raises(REFUSALS, match="added_base_mass"):
        every_number(simulator(robot, "smooth", dtype=SINGLE), inputs)
