"""Flight and contact against closed forms: fall, rest, stick, slip, roll, and what is conserved or lost."""

import numpy as np
import pytest
import torch
from legged_robots import (
    FLOAT,
    GRAVITY,
    LeggedRobot,
    Mechanics,
    anymal,
    block,
    flattened,
    free_joints,
    go2,
    held,
    last,
    parameters,
    rigid_body,
    rolled,
    simulator,
    sled,
    solo12,
    standing,
    thrown,
    tree,
)
from scipy.special import lambertw

from realitygrad_ros.physics.simulator import Simulator, State

SLOPE = 0.35
"""Of an incline [rad]."""

DOWNHILL = (GRAVITY * np.sin(SLOPE), 0.0, -GRAVITY * np.cos(SLOPE))
"""Gravity in the axes of an incline that falls along x."""


# Flight


def test_a_tumbling_body_flies_along_the_parabola_and_keeps_its_momentum():
    robot = block()
    world = simulator(robot, "hard")
    states = rolled(world, robot, thrown(robot, 5, seed=0, height=50.0, speed=3.0, spin=5.0), 200)
    time = (np.arange(201) * world.time_step)[:, None, None]
    mechanics = Mechanics(robot.model)
    momentum = mechanics.momentum(states)[..., :3]
    expected = momentum[0] + robot.mass * time * [0.0, 0.0, -GRAVITY]
    np.testing.assert_allclose(momentum, expected, atol=1e-10)
    fall = 0.5 * time**2 * [0.0, 0.0, -GRAVITY]
    parabola = states.position[0, :, :3].numpy() + momentum[0] / robot.mass * time + fall
    np.testing.assert_allclose(states.position[..., :3], parabola, atol=1e-10)


def flight_drifts(robot: LeggedRobot, time_step: float) -> np.ndarray:
    """Largest drifts over 0.4 s of flight: linear and angular momentum, centre of mass, and energy without torques."""
    world = simulator(robot, "hard", time_step=time_step)
    steps = round(0.4 / time_step)
    time = (np.arange(steps + 1) * time_step)[:, None, None]
    initial = thrown(robot, 4, seed=1, height=50.0)
    mechanics = Mechanics(robot.model)
    states = rolled(world, robot, initial, steps)
    momentum, center = mechanics.momentum(states), mechanics.center_of_mass(states)
    linear = momentum[..., :3] - momentum[0, :, :3] - robot.mass * time * [0.0, 0.0, -GRAVITY]
    angular = momentum[..., 3:] - momentum[0, :, 3:]
    fall = momentum[0, :, :3] / robot.mass * time + 0.5 * time**2 * [0.0, 0.0, -GRAVITY]
    loose = free_joints(robot)
    energy = mechanics.energy(rolled(world, loose, initial, steps), loose.gains["armature"])
    kinetic = mechanics.energy(initial) - robot.mass * GRAVITY * mechanics.center_of_mass(initial)[..., 2]
    drifts = [
        linear / np.linalg.norm(momentum[0, :, :3], axis=-1, keepdims=True),
        angular / np.linalg.norm(momentum[0, :, 3:], axis=-1, keepdims=True),
        center - center[0] - fall,
        (energy - energy[0]) / kinetic,
    ]
    return np.array([np.abs(drift).max() for drift in drifts])


def test_drift_of_momentum_and_energy_in_flight_vanishes_with_the_step():
    """Whatever the joints do inside. At least first order: half of the step leaves at most half of the drift."""
    robot = tree()
    coarse, fine = flight_drifts(robot, 4e-3), flight_drifts(robot, 2e-3)
    assert (coarse < 0.05).all()
    assert (fine < 0.55 * coarse + 1e-12).all()


# Rest


@pytest.mark.parametrize(
    ("mode", "step_size", "robot"),
    [
        ("smooth", "spectral", anymal),
        ("hard", "spectral", anymal),
        ("smooth", "spectral", solo12),
        ("hard", "paper", solo12),
        ("hard", "spectral", go2),
    ],
)
def test_the_ground_carries_the_weight_of_a_robot_at_rest_and_keeps_its_height(robot, mode, step_size):
    robot = robot()
    world = simulator(robot, mode, step_size=step_size)
    second = round(1.0 / world.time_step)
    settled = last(rolled(world, robot, standing(robot), 10 * second))
    impulses = world.contact_impulses(settled, held(robot, second), parameters(robot))
    assert float(impulses[..., 2].sum()) == pytest.approx(robot.mass * GRAVITY, rel=5e-3)
    later = rolled(world, robot, settled, 10 * second)
    depths = -Mechanics(robot.model).sphere_heights(later.position[-1], robot.contact)
    assert depths.max() < 5e-3
    assert (later.position[..., 2] - settled.position[:, 2]).abs().max() < 1e-3


@pytest.mark.parametrize("kappa", [100.0, 300.0, 3000.0])
def test_a_smooth_contact_rests_where_recovery_makes_up_for_what_the_sigmoid_lets_through(kappa):
    """sigma beta |d| = (1 - sigma) g h, that is e^(kappa d) g h = beta |d|, so kappa |d| = W(kappa g h / beta)."""
    robot = block(kappa=kappa)
    world = simulator(robot, "smooth")
    fall, beta = GRAVITY * world.time_step, robot.contact.recovery_rate
    depth = lambertw(kappa * fall / beta).real / kappa
    assert np.exp(-kappa * depth) * fall == pytest.approx(beta * depth)
    there = rolled(world, robot, standing(robot, height=-depth), 2000)
    np.testing.assert_allclose(there.position[..., 2], -depth, atol=1e-12)
    from_above = rolled(world, robot, standing(robot, height=0.01), 2000)
    assert float(from_above.position[-1, 0, 2]) == pytest.approx(-depth, abs=1e-9)


def test_feet_at_rest_in_smooth_contact_creep_by_what_the_sigmoid_lets_through():
    """w_i = beta |d_i| n - e^(kappa d_i) G_ii P_i, once the sweeps have converged: zero along n, and not zero across.

    A leg that carries weight with a bent knee pushes its foot along the ground, and the sigmoid lets a part through.
    """
    robot = solo12()
    world = simulator(robot, "smooth", sweeps=100)
    state = last(rolled(world, robot, standing(robot), 1000))
    impulses = world.contact_impulses(state, held(robot, 1), parameters(robot))[0, 0].numpy()
    mechanics, q, gains = Mechanics(robot.model), state.position[0].numpy(), robot.gains
    added = gains["armature"] + world.time_step * (gains["kd"] + gains["damping"])
    A = mechanics.mass_matrix(q) + np.diag([0.0] * 6 + [added] * 12)
    J = mechanics.contact_jacobian(q, robot.contact)
    slips = (J @ state.velocity[0].numpy()).reshape(4, 3)
    d = mechanics.sphere_heights(q, robot.contact)
    for i in range(4):
        J_i = J[3 * i : 3 * i + 3]
        leak = np.exp(robot.contact.kappa * d[i]) * (J_i @ np.linalg.solve(A, J_i.T)) @ impulses[i]
        expected = -robot.contact.recovery_rate * d[i] * np.array([0.0, 0.0, 1.0]) - leak
        np.testing.assert_allclose(slips[i], expected, atol=1e-4)
        assert abs(slips[i][2]) < 1e-6
        assert np.abs(slips[i][:2]).max() > 0.01


def test_in_a_hard_contact_a_penetration_decays_at_the_recovery_rate():
    """v_E = -beta d_M in each step, d_M = d + h v / 2 and d_E = d_M + h v_E / 2; about e^(-beta t)."""
    robot = block()
    world = simulator(robot, "hard")
    h, beta, depth = world.time_step, robot.contact.recovery_rate, 0.01
    states = rolled(world, robot, standing(robot, height=-depth), 200)
    d, v, expected = -depth, 0.0, []
    for _ in range(200):
        middle = d + 0.5 * h * v
        v = -beta * middle
        d = middle + 0.5 * h * v
        expected.append(d)
    np.testing.assert_allclose(states.position[1:, 0, 2], expected, atol=1e-12)
    assert expected[19] == pytest.approx(-depth * np.exp(-beta * 20 * h), rel=0.1)
    assert -1e-9 < expected[-1] < 0.0


def test_a_soft_contact_rests_where_its_springs_carry_the_weight():
    robot = block()
    states = rolled(simulator(robot, "soft"), robot, standing(robot), 2000)
    depth = robot.mass * GRAVITY / robot.contact.soft.stiffness
    np.testing.assert_allclose(states.position[1000:, 0, 2], -depth, atol=1e-9)


# Friction


def test_a_block_on_an_incline_sticks_below_the_friction_angle_and_slides_above():
    """Downhill velocity t g (sin a - mu cos a) where that is positive. Each world has a friction coefficient."""
    robot = block()
    world = simulator(robot, "hard", gravity=DOWNHILL, recovery_rate=0.0)
    mu = np.tan(SLOPE) * np.array([[0.0], [0.5], [0.98], [1.02], [1.5]])
    states = rolled(world, robot, standing(robot, 5, height=-1e-6), 200, friction_coefficient=mu)
    time = np.arange(201)[:, None] * world.time_step
    acceleration = GRAVITY * np.maximum(np.sin(SLOPE) - mu[:, 0] * np.cos(SLOPE), 0.0)
    np.testing.assert_allclose(states.velocity[..., 0], time * acceleration, atol=1e-10)
    np.testing.assert_allclose(states.velocity[..., 1:], 0.0, atol=1e-10)


def test_in_a_smooth_contact_a_sticking_block_creeps_at_a_known_velocity():
    """v_E = v + h g sin a - min(sigma (v + h g sin a), mu h g cos a): the cone still opens at the friction angle.

    A block that sticks tends to what the sigmoid lets through, (1 - sigma) / sigma h g sin a = beta |d| tan a.
    """
    robot = block()
    world = simulator(robot, "smooth", gravity=DOWNHILL)
    mu = np.tan(SLOPE) * np.array([[0.98], [1.02]])
    kappa, beta, h = robot.contact.kappa, robot.contact.recovery_rate, world.time_step
    depth = lambertw(kappa * h * GRAVITY * np.cos(SLOPE) / beta).real / kappa
    states = rolled(world, robot, standing(robot, 2, height=-depth), 200, friction_coefficient=mu)
    sigma, pull, grip = 1.0 / (1.0 + np.exp(-kappa * depth)), h * GRAVITY * np.sin(SLOPE), h * GRAVITY * np.cos(SLOPE)
    expected = np.zeros((201, 2))
    for k in range(200):
        free = expected[k] + pull
        expected[k + 1] = free - np.minimum(sigma * free, mu[:, 0] * grip)
    np.testing.assert_allclose(states.velocity[..., 0], expected, atol=1e-9)
    assert expected[-1, 0] - expected[-2, 0] == pytest.approx(pull - mu[0, 0] * grip)
    assert expected[-1, 1] == pytest.approx(beta * depth * np.tan(SLOPE))


def test_a_sliding_block_is_slowed_down_by_mu_g_until_it_stands():
    robot = block()
    world = simulator(robot, "hard", recovery_rate=0.0)
    initial = standing(robot, 3, height=-1e-6)
    initial.velocity[:, :2] = torch.tensor([[1.0, 0.0], [0.6, -0.8], [0.0, -1.0]], dtype=FLOAT)
    mu = np.array([[0.2], [0.5], [1.0]])
    states = rolled(world, robot, initial, 200, friction_coefficient=mu)
    speed = np.maximum(1.0 - mu[:, 0] * GRAVITY * np.arange(201)[:, None] * world.time_step, 0.0)
    np.testing.assert_allclose(states.velocity[..., :2], speed[..., None] * initial.velocity[:, :2].numpy(), atol=1e-10)


def test_a_ball_rolls_up_to_its_own_friction_angle():
    """With I = 2/5 m r^2 it rolls for tan a <= 7/2 mu, at 5/7 g sin a, and else slides at g (sin a - mu cos a)."""
    mass, radius = 3.0, 0.1
    robot = rigid_body(mass, [0.4 * mass * radius**2] * 3, [(0.0, 0.0, 0.0)], radius)
    world = simulator(robot, "hard", gravity=DOWNHILL, recovery_rate=0.0)
    mu = np.tan(SLOPE) / 3.5 * np.array([[1.02], [0.98]])
    states = rolled(world, robot, standing(robot, 2, height=-1e-6), 200, friction_coefficient=mu)
    time = np.arange(201)[:, None] * world.time_step
    velocity = Mechanics(robot.model).momentum(states)[..., 0] / mass
    rolling = 5.0 / 7.0 * GRAVITY * np.sin(SLOPE)
    sliding = GRAVITY * (np.sin(SLOPE) - mu[1, 0] * np.cos(SLOPE))
    np.testing.assert_allclose(velocity, time * [rolling, sliding], atol=1e-9)


@pytest.mark.parametrize("step_size", ["paper", "spectral"])
def test_a_sled_on_four_feet_sticks_and_slides_as_one_on_one_foot(step_size):
    """The feet share the weight, and however they do, the friction of all is mu times the weight."""
    robot = sled()
    world = simulator(robot, "hard", gravity=DOWNHILL, step_size=step_size)
    mu = np.tan(SLOPE) * np.array([0.9, 1.1])
    rows = np.repeat(mu[:, None], 4, axis=1)
    states = rolled(world, robot, standing(robot, 2), 400, friction_coefficient=rows)
    assert abs(float(states.velocity[-1, 1, 0])) < 2e-3
    pace = (states.velocity[-1, 0, 0] - states.velocity[-201, 0, 0]) / (200 * world.time_step)
    assert float(pace) == pytest.approx(GRAVITY * (np.sin(SLOPE) - mu[0] * np.cos(SLOPE)), rel=0.01)


# Energy


def energy_steps(world: Simulator, robot: LeggedRobot, initial: State, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Energies of a rollout [steps + 1, world], and what the contact adds in each step [steps, world] J.

    The latter by comparison with the same step far above the ground.
    """
    mechanics, armature = Mechanics(robot.model), robot.gains["armature"]
    states = rolled(world, robot, initial, steps)
    energy = mechanics.energy(states, armature)
    before = flattened(State(states.position[:-1], states.velocity[:-1]))
    lifted = before.position.clone()
    lifted[:, 2] += 1000.0
    flight = last(rolled(world, robot, State(lifted, before.velocity), 1))
    flight.position[:, 2] -= 1000.0
    return energy, energy[1:] - mechanics.energy(flight, armature).reshape(steps, -1)


@pytest.mark.parametrize("robot", [block, sled])
def test_a_hard_contact_without_recovery_never_adds_energy(robot):
    """But m (g h)^2 / 8 in a step, at most: second order in the step, and true of every rigid body.

    Impulses P do the work P . (w_free + w_E) / 2, w being the contacts' velocities without and with them. As
    P . w_E <= 0 once the sweeps have converged, that is at most -P . G P / 2 <= -S^2 / 2m, with S the sum of the normal
    impulses. In the second half of the step they lift the body, which adds g h S / 2. Both together are largest at
    S = m g h / 2.
    """
    robot = robot()
    world = simulator(robot, "hard", recovery_rate=0.0, sweeps=50)
    energy, added = energy_steps(world, robot, thrown(robot, 20, seed=2, height=0.3), 200)
    assert added.min() < -0.1 * np.ptp(energy)
    assert added.max() < robot.mass * (GRAVITY * world.time_step) ** 2 / 8.0


@pytest.mark.parametrize("robot_name", ["sled", "tree"])
def test_ten_sweeps_and_joints_add_no_energy_beyond_the_drift_of_flight(robot_name):
    """What sweeps that have not converged and a mass matrix that moves add to the above is small, and vanishes."""
    robot = sled() if robot_name == "sled" else free_joints(tree())
    initial, sums = thrown(robot, 40, seed=2, height=0.3), []
    for time_step in (5e-3, 2.5e-3):
        world = simulator(robot, "hard", recovery_rate=0.0, time_step=time_step)
        energy, added = energy_steps(world, robot, initial, round(1.0 / time_step))
        aloft = State(
            initial.position + 1000.0 * torch.eye(robot.model.coordinate_count, dtype=FLOAT)[2], initial.velocity
        )
        flight = Mechanics(robot.model).energy(
            rolled(world, robot, aloft, round(1.0 / time_step)), robot.gains["armature"]
        )
        assert (energy - energy[0]).max() <= (flight - flight[0]).max() + 1e-6
        assert added.max() < 1e-3 * -added.min()
        sums.append(added.clip(min=0.0).sum(0).max())
    assert sums[1] < 0.7 * sums[0]


def test_recovery_adds_no_more_than_it_lifts_and_moves():
    """From the depth d: m g |d| of height, and on the way m (beta d)^2 / 2 of motion."""
    for robot in (block(), sled()):
        world = simulator(robot, "hard")
        depth = 0.02
        states = rolled(world, robot, standing(robot, height=-depth), 400)
        energy = Mechanics(robot.model).energy(states)
        motion = 0.5 * robot.mass * (robot.contact.recovery_rate * depth) ** 2
        assert energy.max() - energy[0] < robot.mass * GRAVITY * depth + motion
        assert energy[-1] - energy[0] == pytest.approx(robot.mass * GRAVITY * depth, rel=1e-3)


# From smooth to hard

KAPPAS = (1e2, 1e3, 1e4, 1e5, 1e6)


def landing(mode: str, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """A block lands while it slides: its path [time, 3], and the derivatives of where it comes to rest."""
    robot = block(kappa=kappa)
    world = simulator(robot, mode)
    initial = standing(robot, height=0.103)
    initial.velocity[0, 0] = 1.0
    inputs = [initial.velocity.requires_grad_(), torch.full((1, 1), 0.4, dtype=FLOAT, requires_grad=True)]
    values = parameters(robot) | {"friction_coefficient": inputs[1]}
    path = world.rollout(initial, held(robot, 150), values).position[:, 0, :3]
    by_velocity, by_friction = torch.autograd.grad(path[-1, 0], inputs)
    return path.detach().numpy(), np.array([by_velocity[0, 0], by_velocity[0, 2], by_friction[0, 0]])


def test_a_smooth_contact_becomes_a_hard_one_as_kappa_grows():
    path, gradient = landing("hard", 1.0)
    found = [landing("smooth", kappa) for kappa in KAPPAS]
    apart = np.array([[np.abs(p - path).max(), np.abs(g - gradient).max()] for p, g in found])
    assert (apart[1:, 0] < apart[:-1, 0]).all()
    assert (apart[1:, 1] <= apart[:-1, 1]).all()
    assert apart[-1, 0] < 1e-4
    assert apart[-1, 1] < 1e-3 * np.abs(gradient).max()
