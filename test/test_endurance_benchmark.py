"""The benchmark of a long walk with pushes: what is drawn for it, what it counts, and a short one over real DDS."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from legged_local_crew import crouching_bundle

from realitygrad_ros.benchmarks import endurance
from realitygrad_ros.benchmarks.endurance import EnduranceWalk, Event, Pause, draw_events
from realitygrad_ros.benchmarks.learning_figures import draw_endurance
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.nodes.walking_twin import Stop
from realitygrad_ros.progress import silent
from realitygrad_ros.resources import share_directory

LOWER, UPPER = np.array([-1.0, -0.5, -0.8]), np.array([0.9, 0.5, 0.7])


@given(seed=st.integers(0, 2**32 - 1), seconds=st.floats(0.1, 900.0))
def test_events_come_in_order_at_the_promised_distances_and_within_the_known_velocities(seed, seconds):
    events = draw_events(seconds, LOWER, UPPER, seed)
    assert events == draw_events(seconds, LOWER, UPPER, seed)
    assert (events[0].time, events[0].kind) == (0.0, "command")
    assert [event.time for event in events] == sorted(event.time for event in events)
    commands, pushes = ([event for event in events if event.kind == kind] for kind in ("command", "push"))
    for several, (least, most) in ((commands, endurance.COMMAND_GAP), ([events[0], *pushes], endurance.PUSH_GAP)):
        gaps = np.diff([event.time for event in several])
        assert ((gaps >= least - 1e-9) & (gaps <= most + 1e-9)).all()
        assert seconds - most <= several[-1].time < seconds
    twists = np.array([command.twist for command in commands])
    assert ((twists >= LOWER) & (twists <= UPPER)).all()
    for push in pushes:
        assert np.hypot(*push.twist[:2]) == pytest.approx(endurance.PUSH_SPEED)
        assert push.twist[2] == 0.0


def test_a_fifth_of_the_commands_lets_the_robot_stand_and_seeds_differ():
    commands = [event.twist for event in draw_events(20_000.0, LOWER, UPPER, 0) if event.kind == "command"]
    assert np.mean([twist == (0.0, 0.0, 0.0) for twist in commands]) == pytest.approx(0.2, abs=0.03)
    assert draw_events(60.0, LOWER, UPPER, 0) != draw_events(60.0, LOWER, UPPER, 1)


def a_walk() -> EnduranceWalk:
    """Exactly as wanted in every settled instant but for 0.1 m/s to the left, and far off in all others."""
    time = np.arange(0.0, 30.0, 0.01)
    events = (
        Event(0.0, "command", (0.5, 0.0, 0.2)),
        Event(5.0, "command", (-0.5, 0.0, 0.0)),
        Event(10.0, "push", (0.0, 0.5, 0.0)),
    )
    pauses = (
        Pause(15.0, 16.0, Stop("stopped: the robot has fallen", fallen=True)),
        Pause(25.0, 25.5, Stop("stopped: imu late", fallen=False)),
    )
    walk = EnduranceWalk(30.0, time, np.zeros((len(time), 3)), events, pauses)
    return replace(walk, measured=walk.wanted + np.where(walk.settled[:, None], [0.0, 0.1, 0.0], 9.0))


def test_stops_are_counted_by_their_kind_and_what_is_no_steady_walk_is_left_out_of_the_error():
    walk = a_walk()
    figures = walk.figures()
    assert figures["tracking_error_mps"] == pytest.approx(0.1)
    assert {name: figures[name] for name in ("commands", "pushes", "falls", "interruptions")} == {
        "commands": 2,
        "pushes": 1,
        "falls": 1,
        "interruptions": 1,
    }
    assert figures["seconds"] == 28.5
    assert figures["stops"] == {"15.0 s": "stopped: the robot has fallen", "25.0 s": "stopped: imu late"}
    left_out = [(0.0, 1.0), (5.0, 6.0), (10.0, 11.0), (12.5, 17.0), (22.5, 26.5)]
    unsettled = np.any([(walk.time >= start) & (walk.time < end) for start, end in left_out], axis=0)
    assert (walk.settled == ~unsettled).mean() > 0.998  # but for those on the edges
    assert walk.wanted[499].tolist() == [0.5, 0.0, 0.2]
    assert walk.wanted[501].tolist() == [-0.5, 0.0, 0.0]
    assert draw_endurance(walk).startswith(b"\x89PNG")


def test_a_walk_over_ros_is_told_and_its_pushes_reach_the_twin(ros_domain):
    bundle = PolicyBundle.read(share_directory() / "policies" / "anymal_c_velocity.safetensors")
    told = []
    walk = endurance.walk("anymal_c", bundle, 12.0, lambda stage, *_: told.append(stage), seed=1)
    drawn = draw_events(12.0, *bundle.uniform_range("velocity_command"), seed=1)
    assert [event[1:] for event in walk.events] == [event[1:] for event in drawn]
    figures = walk.figures()
    assert set(figures) == {
        *("seconds", "commands", "pushes", "falls", "interruptions", "tracking_error_mps", "stops"),
    }
    assert figures["commands"] + figures["pushes"] == len(drawn)
    assert len(figures["stops"]) == figures["falls"] + figures["interruptions"]
    assert figures["seconds"] >= 12.0
    assert np.isfinite(figures["tracking_error_mps"])
    assert told == ["endurance: start"] + ["endurance"] * len(drawn)
    pushes = walk.of_kind("push")
    assert pushes
    for push in pushes:
        along = walk.measured[:, :2] @ np.array(push.twist[:2]) / endurance.PUSH_SPEED
        before = along[(walk.time > push.time - 0.05) & (walk.time <= push.time)].mean()
        assert along[(walk.time > push.time) & (walk.time < push.time + 0.15)].max() > before + 0.3


def test_a_robot_that_falls_is_stood_up_and_goes_on(ros_domain):
    walk = endurance.walk("anymal_c", crouching_bundle(), 4.0, silent)
    first, second, *_ = walk.pauses
    assert first.stop.fallen
    assert second.stop.fallen
    assert "fallen" in first.stop.reason
    assert first.start < first.end < second.start
    assert not walk.settled[(walk.time > first.start) & (walk.time < first.end)].any()
