"""The benchmarks of the policy and the recorder node run, and count right; how fast they are is not tested."""

import pytest

from realitygrad_ros.benchmarks import policy, recorder


@pytest.mark.parametrize(("robot", "rate"), [("ur5", 200.0), ("anymal_c", 50.0)])
def test_the_policy_benchmark_counts(ros_domain, robot, rate):
    stages = []
    figures = policy.run(robot, lambda stage, *_: stages.append(stage), seconds=1.5)
    assert figures["rate_hz"] == rate
    assert figures["commands_received"] > 0
    assert all(value >= 0.0 for value in figures.values())
    assert set(stages) == {"start", "run"}


def test_the_recorder_benchmark_counts(ros_domain):
    figures = recorder.run("ur5", seconds=1.0)
    assert figures["sent"] == 500
    assert figures["in_bag"] + figures["dropped"] == 500
