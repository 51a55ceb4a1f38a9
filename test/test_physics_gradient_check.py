"""The check of gradients finds what is wrong, counts kinks apart, and finds nothing wrong with the simulator."""

import json

import numpy as np
import pytest
import torch
from legged_robots import FLOAT, LeggedRobot, anymal, block, solo12

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.main import main
from realitygrad_ros.physics.gradient_check import Part, Scenario, check_gradients, figures
from realitygrad_ros.physics.gradient_scenario import check_robot, make_scenario
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.physics.stochastic import GRADIENT_MODES, contact_simulator
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

WORLDS, TIME = 3, 4


class Rollouts:
    """A rollout of two numbers that are functions of two inputs, with one derivative changed by a factor."""

    model = RobotModel("numbers", (), {})
    dtype = FLOAT

    def __init__(self, function, factor: float = 1.0) -> None:
        self.function = function
        self.factor = factor

    def rollout(self, initial, command, parameters, push=None) -> State:
        """Both numbers at every time."""
        changed = parameters["kp"]
        # The value stays, the derivative is multiplied.
        changed = changed.detach() + self.factor * (changed - changed.detach())
        value = self.function(initial.position, changed) + command.sum()  # of no joint, so 0
        value = value.expand(len(command) + 1, -1, -1)
        return State(value, initial.velocity.expand_as(value))


def numbers() -> Scenario:
    random = torch.Generator().manual_seed(1)
    shape = (WORLDS, 2)
    initial = State(torch.randn(shape, generator=random, dtype=FLOAT), torch.zeros(shape, dtype=FLOAT))
    inputs = {name: torch.zeros(shape, dtype=FLOAT) for name in ("position", "velocity")}
    inputs |= {"command": torch.zeros(WORLDS, TIME, 0, dtype=FLOAT)}
    inputs |= {"kp": 1.0 + torch.rand(shape, generator=random, dtype=FLOAT)}
    blocks = {name: [Part(name, slice(None), 1.0)] for name in ("position", "kp")}
    return Scenario(initial, inputs, blocks | {"both": [part for parts in blocks.values() for part in parts]})


def test_a_right_gradient_holds():
    result = figures(check_gradients(Rollouts(lambda q, kp: (q * kp).sin()), numbers(), directions=6))
    assert result["holds"]
    assert result["worst"]["error"] < 1e-7
    assert result["least_cosine"]["cosine"] > 1.0 - 1e-12
    assert [block["directions"] for block in result["blocks"].values()] == [6 * WORLDS] * 3


def test_a_wrong_gradient_is_named_with_its_size():
    result = figures(check_gradients(Rollouts(lambda q, kp: (q * kp).sin(), 1.01), numbers(), directions=6))
    assert not result["holds"]
    assert result["worst"]["input"] == "kp"
    assert result["worst"]["error"] == pytest.approx(0.01 / 1.01, rel=1e-4)
    assert result["blocks"]["position"]["worst_error"] < 1e-7
    worst = result["worst"]
    assert worst["analytic"] == pytest.approx(1.01 * worst["difference"], rel=1e-6)


def test_a_gradient_of_the_wrong_sign_shows_in_the_cosine():
    result = figures(check_gradients(Rollouts(lambda q, kp: q * kp, -1.0), numbers(), directions=6))
    assert result["least_cosine"] == {"input": "kp", "cosine": pytest.approx(-1.0)}
    assert not result["holds"]


@pytest.mark.parametrize("function", [torch.abs, lambda q: (q > 0.0).double()], ids=["kink", "jump"])
@pytest.mark.parametrize("offset", [0.0, 4e-6, 1.5e-5], ids=["at the point", "within h", "within 2h"])
def test_kinks_and_jumps_are_counted_and_are_no_errors(function, offset):
    scenario = numbers()
    scenario.initial.position[:] = torch.tensor(offset, dtype=FLOAT)
    rollouts = Rollouts(lambda q, kp: function(q) + q + kp)
    blocks = figures(check_gradients(rollouts, scenario, directions=40))["blocks"]
    position = blocks["position"]
    assert position["kinks"] > 0.5 * position["directions"]
    # In the point itself the derivative of the absolute value is taken as 0, and so is the difference.
    assert position["worst_error_at_kinks"] > 1e-2 or offset == 0.0
    assert position["worst_error"] is None or position["worst_error"] < 1e-4
    assert blocks["kp"]["kinks"] == 0


def test_a_gradient_that_is_zero_and_should_be_holds():
    result = figures(check_gradients(Rollouts(lambda q, kp: q + 0.0 * kp), numbers(), directions=3))
    assert result["blocks"]["kp"] | {"worst_error": 0.0} == {
        "directions": 3 * WORLDS,
        "cosine": 1.0,
        "median_error": pytest.approx(0.0, abs=1e-4),
        "worst_error": 0.0,
        "kinks": 0,
        "worst_error_at_kinks": None,
    }
    assert result["holds"]


def check(robot: LeggedRobot, mode: str, worlds: int = 4, directions: int = 8) -> dict:
    n = robot.model.joint_count
    gains = {name: np.broadcast_to(value, n) for name, value in robot.gains.items()}
    nominal = SimulationParameters(robot.model.joint_names, **gains)
    contact = robot.contact
    scenario = make_scenario(robot.model, robot.home, nominal, contact, worlds=worlds, steps=50, seed=0)
    rollouts = contact_simulator(robot.model, mode, contact=contact, time_step=contact.time_step, dtype=FLOAT)
    return figures(check_gradients(rollouts, scenario, directions=directions))


@pytest.mark.parametrize("robot", [anymal, solo12], ids=lambda robot: robot.__name__)
def test_gradients_of_quadrupeds_that_fall_hold(robot):
    result = check(robot(), "smooth")
    assert result["holds"], result
    expected = {"base position", "base orientation", "joint position", "base linear velocity", "base angular velocity"}
    expected |= {"joint velocity", "command", "added_base_mass", "friction_coefficient", "push", "all together"}
    assert set(result["blocks"]) == expected | set(PARAMETER_NAMES)


@pytest.mark.parametrize("mode", GRADIENT_MODES)
def test_wherever_there_is_a_derivative_every_mode_finds_it(mode):
    result = check(block(), mode)
    assert result["worst"]["error"] < 1e-4
    assert result["least_cosine"]["cosine"] > 0.999


def test_a_scenario_starts_above_the_ground_and_does_not_stay_there():
    robot = block()
    nominal = SimulationParameters((), *[np.zeros(0)] * len(PARAMETER_NAMES))
    scenario = make_scenario(robot.model, robot.home, nominal, robot.contact, worlds=16, steps=50, seed=4)
    simulator = contact_simulator(robot.model, "hard", contact=robot.contact, time_step=0.005, dtype=FLOAT)
    parameters = {name: scenario.inputs[name] for name in (*PARAMETER_NAMES, "friction_coefficient")}
    impulse = simulator.contact_impulses(scenario.initial, scenario.inputs["command"].transpose(0, 1), parameters)
    assert (impulse[0, ..., 2] == 0.0).all()
    assert (impulse[..., 2].amax((0, 2)) > 0.0).all()


def test_contact_of_a_robot_that_has_none_is_refused_by_name():
    with pytest.raises(RealityGradError, match=r"'smooth'.*'ur5'.*'none'"):
        check_robot(*load_robot("ur5"), "smooth")


def test_command_tells_and_writes_what_was_found(tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["gradcheck", "--robot", "ur5", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gradients of ur5, contact: none"
    written = json.loads(file.read_text())
    assert written["holds"] and written["kinks"] < 0.01
    assert lines[-1].startswith("holds: ")
    assert {line.split("  ")[0] for line in lines} >= set(written["blocks"])
    assert any(line.startswith("worst error") and written["worst"]["input"] in line for line in lines)


def test_command_refuses_what_check_refuses(capsys):
    assert main(["gradcheck", "--robot", "ur5", "--contact", "hard"]) == 2
    assert "'ur5'" in capsys.readouterr().err
