"""The torch policy and the bundle that the robot runs are one law."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import REACH_TERMS
from realitygrad_ros.control.policy import ReachPolicy
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("ur5")
JOINTS = MODEL.joint_count


def random_policy(seed: int) -> ReachPolicy:
    generator = torch.Generator().manual_seed(seed)

    def uniform(size: int, lower: float, upper: float) -> torch.Tensor:
        return lower + (upper - lower) * torch.rand(size, generator=generator)

    return ReachPolicy(
        uniform(2 * JOINTS + 3, -1.0, 1.0),
        uniform(2 * JOINTS + 3, 0.1, 2.0),
        uniform(JOINTS, -1.0, 1.0),
        uniform(JOINTS, 0.1, 2.0),
        lower=uniform(JOINTS, -3.0, -1.0),
        upper=uniform(JOINTS, 1.0, 3.0),
        longest_step=uniform(JOINTS, 0.005, 1.0),
        hidden=(16, 8),
        seed=seed,
    )


def bundle_of(policy: ReachPolicy) -> PolicyBundle:
    return policy.to_bundle(MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=3, parent="ab" * 32)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.floats(0.0, 5.0))
def test_the_bundle_commands_what_the_network_commands(seed: int, size: float):
    policy = random_policy(seed)
    bundle = bundle_of(policy)
    random = np.random.default_rng(seed)
    q, qd, previous = size * random.standard_normal((3, JOINTS))
    target = size * random.standard_normal(3)
    with torch.no_grad():
        expected = policy.act(*(torch.tensor(values, dtype=torch.float32) for values in (q, qd, target, previous)))
    terms = dict(zip(REACH_TERMS, (q, qd, target), strict=True))
    np.testing.assert_allclose(bundle.act(terms, previous), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_the_bundle_names_robot_joints_gains_limits_and_origin():
    policy = random_policy(0)
    bundle = bundle_of(policy)
    assert bundle.robot == "ur5"
    assert bundle.joint_names == MODEL.joint_names
    np.testing.assert_array_equal(bundle.kp, CONFIGURATION.nominal.kp)
    np.testing.assert_array_equal(bundle.kd, CONFIGURATION.nominal.kd)
    np.testing.assert_array_equal(bundle.effort_limit, MODEL.limit_array("effort_limit"))
    np.testing.assert_allclose(bundle.velocity_limit, policy.longest_step.numpy() * CONFIGURATION.policy_rate)
    assert (bundle.policy_rate, bundle.epoch, bundle.parent) == (CONFIGURATION.policy_rate, 3, "ab" * 32)
    assert PolicyBundle.from_bytes(bundle.to_bytes(), "here").digest == bundle.digest


def test_commands_keep_the_limits_of_position_and_rate():
    policy = random_policy(1)
    generator = torch.Generator().manual_seed(1)
    state = 10.0 * torch.randn(2, 200, JOINTS, generator=generator)
    previous = policy.lower + (policy.upper - policy.lower) * torch.rand(200, JOINTS, generator=generator)
    command = policy.act(*state, torch.zeros(200, 3), previous)
    assert (command >= policy.lower).all()
    assert (command <= policy.upper).all()
    assert ((command - previous).abs() <= policy.longest_step + 1e-6).all()


def test_the_same_seed_gives_the_same_weights():
    same, other = random_policy(5).state_dict(), random_policy(6).state_dict()
    for name, values in random_policy(5).state_dict().items():
        torch.testing.assert_close(values, same[name])
    assert not torch.allclose(same["layers.0.weight"], other["layers.0.weight"])


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_any_batch_of_states_may_be_asked(batch: tuple[int, ...]):
    policy = random_policy(2)
    action = policy(torch.zeros(*batch, JOINTS), torch.zeros(*batch, JOINTS), torch.zeros(*batch, 3))
    assert action.shape == (*batch, JOINTS)
