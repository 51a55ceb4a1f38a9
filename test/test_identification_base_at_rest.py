"""A robot on legs is identified while it hangs, and never from a recording in which it walks."""

from pathlib import Path

import numpy as np
import pytest
from bag_writing import COMMANDS, Messages, command, imu, joint_state, write_bag

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.base_at_rest import refuse_moving_base
from realitygrad_ros.main import main
from realitygrad_ros.robot.load import load_clamped_robot, load_robot


def turning(rate: float) -> Messages:
    """Half a second of an IMU whose base turns to and fro [rad/s]."""
    return [("/imu", k / 100, imu([0, 0, 0, 1], [rate * (-1) ** k, 0.0, 0.0])) for k in range(50)]


def test_a_base_that_hangs_still_is_accepted_and_one_that_moves_is_refused(tmp_path: Path) -> None:
    refuse_moving_base(write_bag(tmp_path / "still", turning(0.02)))
    refuse_moving_base(write_bag(tmp_path / "arm", [("/command", 0.0, command([0.0]))]))
    refuse_moving_base(write_bag(tmp_path / "other", turning(2.0)), namespace="left")
    for rate in (0.5, np.nan):
        with pytest.raises(RealityGradError, match=r"the base moves, topic '/imu' tells of \S+ rad/s .* hung up"):
            refuse_moving_base(write_bag(tmp_path / f"moving {rate}", turning(rate)))


def test_sysid_names_the_bag_of_a_walk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration, _ = load_robot("anymal_c")
    states = [
        ("/joint_states", k / 100, joint_state(configuration.joint_names, configuration.home, np.zeros(12)))
        for k in range(50)
    ]
    walk = [*turning(0.5), *states, (COMMANDS, 0.0, command(configuration.home))]
    bag = write_bag(tmp_path / "walk", walk)
    assert main(["sysid", "--robot", "anymal_c", "--out", str(tmp_path), str(bag)]) == 2
    assert f"error: bag '{bag}': the base moves" in capsys.readouterr().err


def test_a_clamped_robot_is_the_same_robot_with_its_base_fixed() -> None:
    configuration, model = load_clamped_robot("anymal_c")
    floating, _ = load_robot("anymal_c")
    assert model.base is None
    assert model.joint_names == floating.joint_names == configuration.joint_names
    assert (configuration.floating, configuration.home_height, configuration.contact) == (False, None, None)
    assert configuration.nominal is not None
    arm, arm_model = load_clamped_robot("ur5")
    assert arm.reach_section is not None
    assert arm_model.base is None
