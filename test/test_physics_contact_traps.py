"""Errors that others made in such simulators, each a test: what went wrong there stands in its docstring."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from arm_urdf import arm_urdf, write_arm
from hypothesis import given, settings
from hypothesis import strategies as st
from legged_robots import (
    FLOAT,
    LeggedRobot,
    Mechanics,
    anymal,
    contact_of,
    go2,
    held,
    parameters,
    simulator,
    sled,
    standing,
    thrown,
    tree,
)

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics import rigid_body
from realitygrad_ros.physics.contact import (
    NORMAL_FIRST,
    STEP_SIZE_RULES,
    Delassus,
    contact_points,
    first_impulses,
    sweep,
)
from realitygrad_ros.physics.contact import block as block_of
from realitygrad_ros.physics.simulator import State
from realitygrad_ros.robot.urdf import load_urdf

MU = 0.7


def solved_contacts(robot: LeggedRobot, seed: int):
    """In a random state: coordinates, what is added to the mass matrix's diagonal, its factor, contacts and G."""
    model, rng = robot.model, np.random.default_rng(seed)
    q = thrown(robot, 1, seed, height=0.0).position[0].numpy()
    added = np.concatenate([np.zeros(6), rng.uniform(0.01, 0.2, model.joint_count)])
    A = rigid_body.mass_matrix(model, q.tolist())
    factor = rigid_body.factorize(model, {(i, j): value + (added[i] if i == j else 0.0) for (i, j), value in A.items()})
    points = contact_points(model, q.tolist(), robot.contact.spheres)
    return q, added, factor, points, Delassus.of(model, factor, points)


def dense(G: dict, count: int) -> np.ndarray:
    """G as an array, put together of its blocks."""
    return np.block([[np.array(block_of(G, i, j)) for j in range(count)] for i in range(count)]).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_trap_1_the_delassus_matrix_is_symmetric_and_is_what_it_should_be(seed):
    """The blocks off the diagonal were read transposed until 2025-04-15: G_ij = G_ji^T, and G = J A^-1 J^T."""
    for robot in (tree(), go2()):
        q, added, factor, points, delassus = solved_contacts(robot, seed)
        mechanics, count = Mechanics(robot.model), len(points)
        J = mechanics.contact_jacobian(q, robot.contact)
        A = mechanics.mass_matrix(q) + np.diag(added)
        G = dense(delassus.G, count)
        np.testing.assert_allclose(G, J @ np.linalg.solve(A, J.T), rtol=1e-9, atol=1e-9 * np.abs(G).max())
        np.testing.assert_array_equal(G, G.T)
        heights = [float(point.height) for point in points]
        np.testing.assert_allclose(heights, mechanics.sphere_heights(q, robot.contact), atol=1e-12)
        P, u = np.random.default_rng(seed).normal(size=(2, max(J.shape)))
        response = delassus.response(robot.model, factor, P[: len(J)].tolist())
        np.testing.assert_allclose(response, np.linalg.solve(A, J.T @ P[: len(J)]), rtol=1e-8, atol=1e-9)
        slips = [point.velocity(u[: J.shape[1]].tolist()) for point in points]
        np.testing.assert_allclose(np.concatenate(slips), J @ u[: J.shape[1]], rtol=1e-9, atol=1e-9)


def random_contacts(seed: int, mass: float, count: int = 4) -> tuple[np.ndarray, dict]:
    """G of contacts on 18 random degrees of freedom that weigh about `mass` [kg], whole and as its lower triangle."""
    J = np.random.default_rng(seed).normal(size=(3 * count, 18))
    G = J @ J.T / mass
    rows, columns = np.tril_indices(3 * count)
    return G, {(int(k), int(j)): float(G[k, j]) for k, j in zip(rows, columns, strict=True)}


@pytest.mark.parametrize("rule", STEP_SIZE_RULES)
@given(seed=st.integers(0, 10_000), mass=st.floats(1.0, 100.0))
@settings(deadline=None)
def test_step_sizes_are_stable_for_light_and_heavy_robots(rule, seed, mass):
    """The paper's rule adds determinants, in kg^-3, to one: blocks off the diagonal can bring the sum to zero."""
    G, lower = random_contacts(seed, mass)
    products = steps_in_units_of_the_largest_eigenvalue(rule, G, lower)
    assert (products > 0.0).all()
    assert (products < 2.0).all()


def steps_in_units_of_the_largest_eigenvalue(rule: str, G: np.ndarray, lower: dict) -> np.ndarray:
    """r_t lambda_max(G_tt) and r_n (G_nn + mu |G_tn|), [contact, 2]; for the paper's rule, of the whole of G_ii."""
    r = np.array(STEP_SIZE_RULES[rule](lower, [MU] * 4), dtype=float).reshape(4, 2)
    blocks = [G[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(4)]
    if rule == "paper":
        return r * np.array([np.linalg.eigvalsh(block)[-1] for block in blocks])[:, None]
    return r * np.array(
        [(np.linalg.eigvalsh(block[:2, :2])[-1], block[2, 2] + MU * np.linalg.norm(block[2, :2])) for block in blocks]
    )


@pytest.mark.parametrize("mass", [1.0, 10.0, 100.0])
def test_the_spectral_rule_is_the_same_for_every_mass(mass):
    """The step is the inverse of the largest eigenvalue."""
    G, lower = random_contacts(0, mass)
    np.testing.assert_allclose(steps_in_units_of_the_largest_eigenvalue("spectral", G, lower), 1.0, rtol=1e-6)


@pytest.mark.parametrize("rule", STEP_SIZE_RULES)
@given(seed=st.integers(0, 10_000), mass=st.floats(1.0, 100.0))
@settings(deadline=None, max_examples=20)
def test_sweeps_come_nearer_to_the_solution(rule, seed, mass):
    """The impulses that a sweep does not change any more."""
    _, _, _, _, delassus = solved_contacts(sled(mass), seed)
    c = np.random.default_rng(seed).normal(size=12).tolist()
    r = STEP_SIZE_RULES[rule](delassus.G, [MU] * 4)
    p, changes = first_impulses(delassus.G, c, 4), []
    for _ in range(100):
        swept = sweep(delassus.G, c, r, [1.0] * 4, [MU] * 4, p, normal_first=NORMAL_FIRST[rule])
        changes.append(np.linalg.norm(np.array(swept) - p))
        p = swept
    assert changes[9] <= changes[0]
    assert changes[99] <= changes[9]


@pytest.mark.parametrize("rule", STEP_SIZE_RULES)
def test_sweeps_do_not_swing_up_where_friction_pushes_a_foot_into_the_ground(rule):
    """A step of 1 / G_nn makes p_n <- 1 - 1.125 p_n of this foot that slips; gradients through it grew by 1e8."""
    G = {(0, 0): 1.0, (1, 0): 0.0, (1, 1): 1.0, (2, 0): 0.9, (2, 1): 0.0, (2, 2): 1.0}
    c, mu = [-5.0, 0.0, -1.0], 1.25
    p = first_impulses(G, c, 1)
    for _ in range(200):
        p = sweep(G, c, STEP_SIZE_RULES[rule](G, [mu]), [1.0], [mu], p, normal_first=NORMAL_FIRST[rule])
    normal = 1.0 / (1.0 + 0.9 * mu)
    np.testing.assert_allclose(p, [mu * normal, 0.0, normal], atol=1e-9)


def loaded(robot: LeggedRobot, mode: str, initial: State, steps: int):
    """The end of a rollout and the gradient of its sum by every input."""
    worlds = len(initial.position)
    leaves = [value.clone().requires_grad_() for value in initial]
    values = {name: value.requires_grad_() for name, value in parameters(robot, worlds).items()}
    states = simulator(robot, mode).rollout(State(*leaves), held(robot, steps, worlds), values)
    total = sum(value.sum() for value in states)
    return states, torch.autograd.grad(total, [*leaves, *values.values()])


@pytest.mark.parametrize("mode", ["hard", "smooth", "soft"])
def test_trap_3_contacts_in_the_air_give_no_impulse_and_finite_gradients(mode):
    """A slot without contact had a singular G_ii, of which the inverse was taken."""
    robot = tree()
    initial = thrown(robot, 8, seed=1, height=2.0)
    impulses = simulator(robot, mode).contact_impulses(initial, held(robot, 20, 8), parameters(robot))
    assert impulses.abs().max() < 1e-100
    states, gradients = loaded(robot, mode, initial, 20)
    assert all(value.isfinite().all() for value in (*states, *gradients))


def arm_on_the_ground(tmp_path, links: list[str]) -> LeggedRobot:
    """Two joints on a fixed base."""
    model = load_urdf(write_arm(tmp_path, arm_urdf()))
    gains = {"damping": 0.1, "armature": 0.01, "kp": 5.0, "kd": 0.5, "friction": 0.1}
    return LeggedRobot(model, contact_of(links, 0.3), np.zeros(2), gains)


@pytest.mark.parametrize("mode", ["hard", "smooth", "soft"])
def test_trap_3_a_contact_that_can_not_move_every_way_is_no_division_by_zero(tmp_path, mode):
    """Two joints move a point along a surface only: G_ii is singular."""
    robot = arm_on_the_ground(tmp_path, ["tool"])
    initial = State(*torch.tensor(np.random.default_rng(0).uniform(-2.0, 2.0, (2, 16, 2))))
    assert simulator(robot, mode).contact_impulses(initial, held(robot, 1, 16), parameters(robot)).max() > 0.0
    states, gradients = loaded(robot, mode, initial, 50)
    assert all(value.isfinite().all() for value in (*states, *gradients))


def test_trap_3_a_contact_that_can_not_move_at_all_is_refused(tmp_path):
    with pytest.raises(RealityGradError, match="link 'base' stands still"):
        simulator(arm_on_the_ground(tmp_path, ["tool", "base"]), "smooth")


def test_trap_3_a_stretched_leg_is_no_division_by_zero():
    """At zero the knee can not move the foot along the leg."""
    robot = replace(anymal(), home=np.zeros(12))
    states, gradients = loaded(robot, "smooth", standing(robot, height=-0.001), 20)
    assert all(value.isfinite().all() for value in (*states, *gradients))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_trap_4_gradients_do_not_grow_with_the_distance_from_the_origin(dtype, tolerance):
    """Twists about the world's origin made gradients a hundredfold at 50 m to 100 m from it."""
    robot = tree()
    world = simulator(robot, "smooth", dtype=dtype)
    start = thrown(robot, 4, seed=2, height=0.02)
    found = []
    for place in ((0.0, 0.0), (100.0, -50.0)):
        position = start.position.clone()
        position[:, :2] += torch.tensor(place, dtype=FLOAT)
        leaves = [value.to(dtype).requires_grad_() for value in (position, start.velocity)]
        values = {name: value.requires_grad_() for name, value in parameters(robot, 4, dtype).items()}
        states = world.rollout(State(*leaves), held(robot, 50, 4, dtype), values)
        total = sum(value[-1].sum() for value in states)
        found.append(torch.autograd.grad(total, [*leaves, *values.values()]))
    for here, there in zip(*found, strict=True):
        assert (here - there).abs().max() <= tolerance * here.abs().max()


def test_trap_5_adjoints_of_shared_inputs_add_up():
    """Arrays that were updated in place doubled adjoints, and a later rollout wrote into those of an earlier one."""
    robot = tree()
    world = simulator(robot, "smooth")
    starts = [thrown(robot, 3, seed, height=0.02) for seed in (3, 4)]
    shared = {name: value.requires_grad_() for name, value in parameters(robot).items()}
    command = held(robot, 40, 3)

    def loss(start: State) -> torch.Tensor:
        return world.rollout(start, command, shared).position.square().sum()

    apart = [torch.autograd.grad(loss(start), list(shared.values())) for start in starts]
    first = world.rollout(starts[0], command, shared)
    kept = first.position.detach().clone()
    second = loss(starts[1])
    assert torch.equal(first.position.detach(), kept)
    second.backward()
    first.position.square().sum().backward()
    for value, a, b in zip(shared.values(), *apart, strict=True):
        torch.testing.assert_close(value.grad, a + b, rtol=1e-12, atol=1e-12)


def test_trap_5_a_parameter_of_all_worlds_has_the_sum_of_their_gradients():
    """Also, worlds cost what they cost alone: nothing is searched among them, as contacts once were in all of them."""
    robot = tree()
    start = thrown(robot, 3, seed=5, height=0.02)
    found = []
    for worlds in (1, 3):
        values = {name: value.requires_grad_() for name, value in parameters(robot, worlds).items()}
        states = simulator(robot, "smooth").rollout(start, held(robot, 40, 3), values)
        gradients = torch.autograd.grad(states.position.square().sum(), list(values.values()))
        found.append([gradient.sum(0) for gradient in gradients])
    for one, three in zip(*found, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-12, atol=1e-12)


def test_trap_7_gradients_do_not_explode_on_flat_ground():
    """A simulator with contact slots that were assigned as it went had exploding gradients from time to time."""
    robot, worlds, steps = anymal(), 64, 128
    rng = np.random.default_rng(6)
    initial = standing(robot, worlds, height=0.0)
    initial.velocity[:, :3] = torch.tensor(rng.uniform(-0.5, 0.5, (worlds, 3)))
    time = torch.arange(steps, dtype=FLOAT)[:, None, None] * robot.contact.time_step
    trot = torch.tensor(np.repeat([0.0, np.pi, np.pi, 0.0], 3) + rng.uniform(0.0, 6.0, (worlds, 1)))
    swing = torch.tensor(np.tile([0.0, 0.3, 0.3], 4)) * (4.0 * np.pi * time + trot).sin()
    command = (held(robot, steps, worlds) + swing).requires_grad_()
    states = simulator(robot, "smooth").rollout(initial, command, parameters(robot))
    (states.position[-1, :, 0] - states.position[-1, :, 4].square()).sum().backward()
    norms = command.grad.norm(dim=(0, 2))
    assert norms.isfinite().all()
    assert norms.min() > 0.0
    assert norms.max() < 1e3 * norms.median()
