"""The simulator's derivatives against central differences in float64, over whole rollouts."""

import numpy as np
import pytest
import torch
from example_robots import PANDA, example_robot, with_rigid_fingers

from realitygrad_ros.physics.compile import kernel
from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters
from realitygrad_ros.robot.urdf import load_urdf

ARMS = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": PANDA,
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "z1": "z1_description/urdf/z1.urdf",
}
WORLDS, CONTROL_STEPS, SUBSTEPS = 3, 100, 2


class Case:
    """A rollout of 200 steps in which everything happens: friction, reversal, and efforts at their limits."""

    def __init__(self, model, threads: int = 2) -> None:
        n = model.joint_count
        self.simulator = Simulator(
            model, time_step=0.002, substeps=SUBSTEPS, dtype=torch.float64, threads=threads, friction_velocity=0.1
        )
        random = torch.Generator().manual_seed(3)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=random, dtype=torch.float64)

        values = {"damping": 3.0, "armature": 0.2, "kp": 300.0, "kd": 10.0, "friction": 2.0}
        self.inputs = {name: (values[name] * (1.0 + 0.2 * normal(1, n).tanh())) for name in PARAMETER_NAMES}
        self.inputs["position"] = 0.3 * normal(WORLDS, n)
        self.inputs["velocity"] = 0.5 * normal(WORLDS, n)
        self.inputs["command"] = self.inputs["position"] + 0.05 * normal(CONTROL_STEPS, WORLDS, n).cumsum(0)
        self.weights = [normal(CONTROL_STEPS + 1, WORLDS, n) for _ in range(2)]
        self.random = normal

    def parameters(self) -> dict[str, torch.Tensor]:
        """Those among the inputs."""
        return {name: self.inputs[name] for name in PARAMETER_NAMES}

    def loss(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """A random linear functional of the whole trajectory."""
        parameters = {name: inputs[name] for name in PARAMETER_NAMES}
        states = self.simulator.rollout(State(inputs["position"], inputs["velocity"]), inputs["command"], parameters)
        return sum((weight * value).sum() for weight, value in zip(self.weights, states, strict=True))


@pytest.fixture(scope="module", params=ARMS)
def case(request, tmp_path_factory) -> Case:
    path = example_robot(ARMS[request.param])
    if request.param == "panda":
        path = with_rigid_fingers(path, tmp_path_factory.mktemp("panda"))
    return Case(load_urdf(path))


def test_gradient_by_every_input_agrees_with_central_differences(case):
    leaves = {name: value.clone().requires_grad_() for name, value in case.inputs.items()}
    case.loss(leaves).backward()
    for name, value in case.inputs.items():
        direction = case.random(*value.shape)
        analytic = float((leaves[name].grad * direction).sum())
        step = 1e-6
        ahead, behind = (case.loss({**case.inputs, name: value + s * direction}) for s in (step, -step))
        assert analytic == pytest.approx(float(ahead - behind) / (2.0 * step), rel=1e-5), name


def test_jacobian_is_the_transpose_of_the_gradient(case):
    leaves = {name: value.clone().requires_grad_() for name, value in case.inputs.items()}
    case.loss(leaves).backward()
    n = case.simulator.model.joint_count
    wrt = [(name, joint) for name in PARAMETER_NAMES for joint in range(n)]
    initial = State(case.inputs["position"], case.inputs["velocity"])
    states, rates = case.simulator.jacobian(initial, case.inputs["command"], case.parameters(), wrt)
    again = case.simulator.rollout(initial, case.inputs["command"], case.parameters())
    assert torch.equal(states.position, again.position)
    product = sum((w[..., None] * rate).sum((0, 1, 2)) for w, rate in zip(case.weights, rates, strict=True))
    expected = torch.cat([leaves[name].grad[0] for name in PARAMETER_NAMES])
    torch.testing.assert_close(product, expected, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def ur5():
    return load_robot("ur5")


def test_every_parameter_changes_the_trajectory(ur5):
    case = Case(ur5[1])
    leaves = {name: value.clone().requires_grad_() for name, value in case.inputs.items()}
    case.loss(leaves).backward()
    for name, leaf in leaves.items():
        assert (leaf.grad[:, :] if leaf.ndim == 2 else leaf.grad[:-1]).abs().max(0).values.min() > 0.0, name


def test_threads_worlds_and_stores_do_not_change_a_number(ur5):
    one, two = Case(ur5[1], threads=1), Case(ur5[1], threads=2)
    initial = State(one.inputs["position"], one.inputs["velocity"])
    command = one.inputs["command"].clone().requires_grad_()
    together = one.simulator.rollout(initial, command, one.parameters())
    assert torch.equal(together.position, two.simulator.rollout(initial, command.detach(), one.parameters()).position)
    for w in range(WORLDS):
        alone = State(*(value[w : w + 1] for value in initial))
        own = {name: value.expand(1, -1) for name, value in one.parameters().items()}
        single = one.simulator.rollout(alone, command.detach()[:, w : w + 1], own)
        assert torch.equal(single.velocity[:, 0], together.velocity[:, w])


def test_float32_follows_float64(ur5):
    configuration, model = ur5
    states = []
    for dtype in (torch.float32, torch.float64):
        home = torch.tensor(configuration.home, dtype=dtype)[None]
        simulator = Simulator(model, time_step=0.002, dtype=dtype)
        parameters = parameter_tensors(configuration.nominal, dtype)
        command = (home + 0.2).repeat(300, 1, 1)
        states.append(simulator.rollout(State(home, torch.zeros_like(home)), command, parameters))
    assert (states[0].position - states[1].position).abs().max() < 1e-4


def test_parameters_of_a_world_are_its_own(ur5):
    case = Case(ur5[1])
    parameters = {name: value.repeat(WORLDS, 1) for name, value in case.parameters().items()}
    parameters["damping"][1] += 5.0
    initial = State(case.inputs["position"], case.inputs["velocity"])
    shared = case.simulator.rollout(initial, case.inputs["command"], case.parameters()).position
    own = case.simulator.rollout(initial, case.inputs["command"], parameters).position
    assert torch.equal(shared[:, [0, 2]], own[:, [0, 2]])
    assert not torch.equal(shared[:, 1], own[:, 1])


def test_torque_saturates_smoothly_at_the_effort_limit(ur5):
    model = ur5[1]
    simulator = Simulator(model, time_step=0.002, dtype=torch.float64)
    zero = torch.zeros(1, 6, dtype=torch.float64)
    limit = torch.tensor(model.limit_array("effort_limit"))
    parameters = {name: torch.ones(1, 6, dtype=torch.float64) for name in PARAMETER_NAMES}
    for sign in (-1.0, 1.0):
        for ratio, expected in ((0.5, 0.5), (0.95, 0.95), (1.0, 0.9875), (1.05, 1.0), (9.0, 1.0)):
            torque = simulator.torque(State(zero, zero), sign * ratio * limit[None], parameters)
            torch.testing.assert_close(torque, sign * expected * limit[None])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"command": torch.zeros(5, 2, 4, dtype=torch.float64)}, "command must be"),
        ({"position": torch.zeros(3, 6, dtype=torch.float64)}, "initial position must be of shape"),
        ({"velocity": torch.zeros(2, 6)}, "initial velocity must be"),
        ({"kp": torch.zeros(3, 6, dtype=torch.float64)}, "kp must be of shape"),
    ],
)
def test_wrong_tensors_are_named(ur5, change, complaint):
    simulator = Simulator(ur5[1], time_step=0.002, dtype=torch.float64)
    inputs = {name: torch.zeros(1, 6, dtype=torch.float64) for name in PARAMETER_NAMES}
    inputs |= {name: torch.zeros(2, 6, dtype=torch.float64) for name in ("position", "velocity")}
    inputs["command"] = torch.zeros(5, 2, 6, dtype=torch.float64)
    inputs |= change
    parameters = {name: inputs[name] for name in PARAMETER_NAMES}
    with pytest.raises(ValueError, match=complaint):
        simulator.rollout(State(inputs["position"], inputs["velocity"]), inputs["command"], parameters)


def test_a_missing_parameter_and_a_wrong_simulator_are_named(ur5):
    simulator = Simulator(ur5[1], time_step=0.002, dtype=torch.float64)
    zero = torch.zeros(1, 6, dtype=torch.float64)
    with pytest.raises(ValueError, match="kp"):
        simulator.rollout(State(zero, zero), zero[None], {name: zero for name in PARAMETER_NAMES if name != "kp"})
    with pytest.raises(ValueError, match="positive"):
        Simulator(ur5[1], time_step=0.0)
    with pytest.raises(ValueError, match="dtype"):
        Simulator(ur5[1], time_step=0.001, dtype=torch.float16)


def test_parameter_tensors_keep_names_and_values(ur5):
    parameters: SimulationParameters = ur5[0].nominal
    tensors = parameter_tensors(parameters, torch.float64)
    np.testing.assert_array_equal(torch.cat([tensors[name] for name in PARAMETER_NAMES]), parameters.as_matrix())


def test_a_launch_compiles_a_kernel_once(ur5):
    """Warp compiles a module anew for each block size that it is loaded with."""
    case = Case(ur5[1])
    case.loss(case.inputs)
    variants = {name: len(kernel(source).module.execs) for name, source in case.simulator._sources.items()}
    assert variants == {"rollout": 1}
