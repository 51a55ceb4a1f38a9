"""Each world has its own inputs, and each input does what it says: pushes, added mass, gains, friction coefficients."""

from dataclasses import replace

import numpy as np
import torch
from legged_robots import FLOAT, Mechanics, block, held, parameters, rolled, simulator, sled, thrown, tree

from realitygrad_ros.physics.simulator import State


def test_a_push_changes_the_momentum_by_force_times_time():
    robot = block()
    world = simulator(robot, "hard", gravity=(0.0, 0.0, 0.0), substeps=2)
    initial = thrown(robot, 3, seed=4, height=5.0)
    push = torch.zeros(20, 3, 3, dtype=FLOAT)
    push[5:10, 0] = torch.tensor([3.0, -2.0, 7.0], dtype=FLOAT)
    push[:, 2, 1] = -4.0
    states = world.rollout(initial, held(robot, 20, 3), parameters(robot), push)
    momentum = Mechanics(robot.model).momentum(states)[..., :3]
    time = 2 * world.time_step
    expected = np.concatenate([np.zeros((1, 3, 3)), push.cumsum(0).numpy() * time])
    np.testing.assert_allclose(momentum - momentum[0], expected, atol=1e-10)


def test_added_mass_is_a_heavier_base():
    """By a point mass in the centre of mass, wherever that is."""
    added, light = 2.5, sled(mass=10.0)
    center = np.array([0.1, -0.05, 0.02])
    bases = [replace(light.model.base, mass=mass, center_of_mass=center) for mass in (10.0, 10.0 + added)]
    robot, heavier = (replace(light, model=replace(light.model, base=base)) for base in bases)
    initial = thrown(robot, 3, seed=5, height=0.1)
    expected = rolled(simulator(heavier, "smooth"), heavier, initial, 100)
    got = rolled(simulator(robot, "smooth"), robot, initial, 100, added_base_mass=np.full((3, 1), added))
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_every_input_is_a_worlds_own_and_threads_change_no_number():
    robot = tree()
    worlds, rng = 4, np.random.default_rng(6)
    world = simulator(robot, "smooth", threads=2)
    initial = thrown(robot, worlds, seed=6, height=0.05)
    command = held(robot, 60, worlds) + torch.tensor(rng.normal(0.0, 0.2, (60, worlds, robot.model.joint_count)))
    push = torch.tensor(rng.normal(0.0, 5.0, (60, worlds, 3)))
    values = parameters(robot, worlds)
    values |= {name: value * torch.tensor(rng.uniform(0.5, 1.5, value.shape)) for name, value in values.items()}
    values["friction_coefficient"] = torch.tensor(rng.uniform(0.3, 1.2, (worlds, 2)))
    values["added_base_mass"] = torch.tensor(rng.uniform(-0.05, 3.0, (worlds, 1)))
    together = world.rollout(initial, command, values, push)
    alone = simulator(robot, "smooth", threads=1)
    for w in range(worlds):
        own = {name: value[w : w + 1] for name, value in values.items()}
        start = State(*(value[w : w + 1] for value in initial))
        single = alone.rollout(start, command[:, w : w + 1], own, push[:, w : w + 1])
        assert torch.equal(single.position[:, 0], together.position[:, w])
        assert torch.equal(single.velocity[:, 0], together.velocity[:, w])
    for name, value in values.items():
        changed = value.clone()
        changed[1] *= 1.1
        states = world.rollout(initial, command, values | {name: changed}, push)
        moved = (states.velocity[-1] - together.velocity[-1]).abs().amax(-1)
        assert moved[1] > 1e-9, name
        assert torch.equal(moved[[0, 2, 3]], torch.zeros(3, dtype=FLOAT)), name
