"""What the robot's computer observes is what the simulator let the policy observe."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.control import observations
from realitygrad_ros.control.command_loop import CommandLoop
from realitygrad_ros.control.tasks import legged
from realitygrad_ros.control.tasks.walking import TASKS
from realitygrad_ros.control.tasks.worlds import ACTION_SCALE, legged_robot
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("anymal_c")
ROBOT = legged_robot(MODEL, CONFIGURATION, CONFIGURATION.nominal, "smooth", threads=1)
JOINTS = MODEL.joint_count
WIDTH = sum(len(observations.components(term, MODEL.joint_names)) for term in legged.OBSERVATIONS)
BUNDLE = WalkingPolicy(WIDTH, JOINTS, torch.Generator().manual_seed(0)).to_bundle(
    TASKS["velocity"], MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=0, parent=""
)


def situation(seed: int) -> legged.Situation:
    random = torch.Generator().manual_seed(seed)
    quat_xyzw = torch.nn.functional.normalize(torch.randn(4, generator=random), dim=0)
    position = torch.cat([torch.randn(3, generator=random), quat_xyzw, torch.randn(JOINTS, generator=random)])
    velocity = torch.randn(6 + JOINTS, generator=random)
    action, command = torch.randn(JOINTS, generator=random), 2.0 * torch.rand(3, generator=random) - 1.0
    return legged.Situation(State(position, velocity), action, 0.9 * command, 20.0 * torch.rand((), generator=random))


@given(seed=st.integers(0, 2**31))
@settings(max_examples=50, deadline=None)
def test_each_term_is_the_simulators(seed: int) -> None:
    seen = situation(seed)
    position, velocity = seen.state.position.numpy(), seen.state.velocity.numpy()
    expected = {name: term(ROBOT, seen).numpy() for name, term in legged.OBSERVATIONS.items()}

    loop = CommandLoop(CONFIGURATION)
    loop.accept(BUNDLE)
    loop.set_state(0.0, position[7:], velocity[6:])
    loop.set_imu(0.0, position[3:7], velocity[3:6])
    loop.set_odometry(0.0, float(position[2]), velocity[:3])
    loop.set_velocity_command(0.0, seen.command.numpy())
    terms = loop._terms(BUNDLE, 0.0)
    terms["gait_phase"] = observations.gait_phase(float(seen.time))
    for name, value in expected.items():
        assert len(value) == len(observations.components(name, MODEL.joint_names))
        if name != "previous_action":
            # The phase is of hundreds of rad, in single precision there.
            np.testing.assert_allclose(terms[name], value, atol=1e-4 if name == "gait_phase" else 2e-6, err_msg=name)

    # The action before follows from the command before.
    previous = CONFIGURATION.home + ACTION_SCALE * seen.previous_action.numpy()
    observation = BUNDLE.observe(terms, previous) * BUNDLE.observation_scale + BUNDLE.observation_mean
    np.testing.assert_allclose(observation, np.concatenate(list(expected.values())), atol=1e-4)


def test_the_bundle_commands_what_the_network_wants() -> None:
    policy = WalkingPolicy(WIDTH, JOINTS, torch.Generator().manual_seed(3))
    policy.normalizer.update(torch.randn(100, WIDTH, generator=torch.Generator().manual_seed(4)))
    bundle = policy.to_bundle(TASKS["walk"], MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=0, parent="")
    seen = situation(5)
    values = {name: term(ROBOT, seen) for name, term in legged.OBSERVATIONS.items()}
    with torch.no_grad():
        action = policy(torch.cat(list(values.values()))).numpy()
    previous = CONFIGURATION.home + ACTION_SCALE * seen.previous_action.numpy()
    command = bundle.act({name: value.numpy() for name, value in values.items()}, previous)
    np.testing.assert_allclose(command, CONFIGURATION.home + ACTION_SCALE * action, atol=1e-5)


def test_the_gaits_are_in_step() -> None:
    assert observations.GAIT_FREQUENCY == legged.GAIT_FREQUENCY


@pytest.mark.parametrize("term", legged.OBSERVATIONS)
def test_the_robot_knows_every_term_of_the_tasks(term: str) -> None:
    assert term in observations.OBSERVATION_TERMS
