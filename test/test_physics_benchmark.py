"""What the benchmark of the simulator sets MuJoCo to do."""

import numpy as np
import pytest

from realitygrad_ros.benchmarks.physics import Peer
from realitygrad_ros.benchmarks.rollouts import batch_of, home_position
from realitygrad_ros.robot.configuration import load_configuration


def test_mujocos_robot_on_legs_stands_on_all_of_its_feet():
    configuration = load_configuration("anymal_c")
    peer = Peer(configuration, batch_of(configuration).time_step)
    assert peer.mean_contacts() == pytest.approx(4.0, abs=1e-3)


def test_a_robot_on_legs_steps_as_often_for_a_command_as_its_rates_say():
    batch = batch_of(load_configuration("anymal_c"))
    assert (batch.worlds, batch.commands, batch.substeps, batch.time_step) == (64, 32, 4, 0.005)
    assert batch.steps == 8192


def test_an_arm_starts_at_home_and_a_robot_on_legs_stands_there():
    arm, quadruped = load_configuration("ur5"), load_configuration("anymal_c")
    np.testing.assert_array_equal(home_position(arm), arm.home)
    expected = [0.0, 0.0, quadruped.home_height, 0.0, 0.0, 0.0, 1.0, *quadruped.home]
    np.testing.assert_array_equal(home_position(quadruped), expected)
