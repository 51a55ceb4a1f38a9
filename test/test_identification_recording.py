"""Bags become recordings, or one clear error."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_writing import COMMANDS, START, Messages, command, joint_state, target, write_bag
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.rosbag2 import StoragePlugin

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.recording import Recording, read_recording

JOINTS = ("base", "elbow", "hand")


def angle(time: float) -> np.ndarray:
    """A smooth motion of the three joints [rad]."""
    return np.array([np.sin(3.0 * time), 0.5 * np.cos(2.0 * time), 0.2 * time])


def rate(time: float) -> np.ndarray:
    """Its velocity [rad/s]."""
    return np.array([3.0 * np.cos(3.0 * time), -np.sin(2.0 * time), 0.2])


def motion(seconds: float = 0.5, topic: str = "/joint_states") -> Messages:
    """Joint states at 500 Hz, each received 0.3 ms after its stamp, with commands at 100 Hz."""
    messages: Messages = []
    for k in range(round(seconds * 500) + 1):
        time = k / 500
        state = joint_state(JOINTS, angle(time), rate(time), START + round(time * 1e9))
        messages.append((topic, time + 0.0003, state))
        if k % 5 == 0:
            messages.append((COMMANDS, time + 0.0005, command(angle(time) + 0.01)))
    return messages


def replaced(messages: Messages, index: int, message: Any) -> Messages:
    """The messages with that of the given joint state (counted) replaced."""
    states = [i for i, (topic, _, _) in enumerate(messages) if topic.endswith("joint_states")]
    topic, time, _ = messages[states[index]]
    return [*messages[: states[index]], (topic, time, message), *messages[states[index] + 1 :]]


def read(path: Path, **options: Any) -> Recording:
    """Read with the test's joints."""
    return read_recording(path, JOINTS, **options)


def refusal(path: Path, **options: Any) -> str:
    """The one line with which a bag is refused."""
    with pytest.raises(RealityGradError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_reads_what_was_written(tmp_path: Path, storage: StoragePlugin) -> None:
    messages = [("/target", 0.0, target([0.1, 0.2, 0.3])), *motion(), ("/target", 0.4, target([0.4, 0.5, 0.6]))]
    recording = read(write_bag(tmp_path / "bag", messages, storage))
    np.testing.assert_allclose(recording.time, np.arange(251) / 500, atol=1e-9)
    np.testing.assert_array_equal(recording.position, [angle(k / 500) for k in range(251)])
    np.testing.assert_array_equal(recording.velocity, [rate(k / 500) for k in range(251)])
    np.testing.assert_allclose(recording.command_time, np.arange(51) / 100 + 0.0005, atol=1e-9)
    np.testing.assert_array_equal(recording.command, [angle(k / 100) + 0.01 for k in range(51)])
    first, second = recording.target_segments()
    np.testing.assert_array_equal(first.target, [0.1, 0.2, 0.3])
    assert (first.start, first.end) == (pytest.approx(0.0), pytest.approx(0.4))
    assert second.end == pytest.approx(0.5)
    assert recording.warnings == ()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orders=st.lists(st.permutations([*JOINTS, "gripper"]), min_size=4, max_size=4))
def test_joints_are_taken_by_name_from_every_message(
    tmp_path_factory: pytest.TempPathFactory, orders: list[list[str]]
) -> None:
    messages: Messages = [(COMMANDS, 0.0, command([0.0, 0.0, 0.0]))]
    for k, order in enumerate(orders):
        value = dict(zip(JOINTS, angle(k / 100), strict=True)) | {"gripper": 99.0}
        speed = dict(zip(JOINTS, rate(k / 100), strict=True)) | {"gripper": np.nan}
        state = joint_state(order, [value[n] for n in order], [speed[n] for n in order], START + k * 10**7)
        messages.append(("/joint_states", k / 100, state))
    recording = read(write_bag(tmp_path_factory.mktemp("bags") / "bag", messages))
    np.testing.assert_array_equal(recording.position, [angle(k / 100) for k in range(4)])
    np.testing.assert_array_equal(recording.velocity, [rate(k / 100) for k in range(4)])


def test_missing_joints_are_named_with_the_time(tmp_path: Path) -> None:
    broken = replaced(motion(), 100, joint_state(["base", "gripper"], [0.0, 0.0], [0.0, 0.0], START))
    message = refusal(write_bag(tmp_path / "bag", broken))
    assert "elbow" in message and "hand" in message and "base" not in message.split("message at")[1].split(":")[0]
    assert "0.200 s" in message and "/joint_states" in message


def test_messages_of_another_device_are_passed_over(tmp_path: Path) -> None:
    with_gripper = [*motion(), ("/joint_states", 0.6, joint_state(["gripper"], [1.0]))]
    assert len(read(write_bag(tmp_path / "bag", with_gripper)).time) == 251
    only_gripper = [(COMMANDS, 0.0, command(np.zeros(3))), ("/joint_states", 0.6, joint_state(["gripper"], [1.0]))]
    assert "gripper" in refusal(write_bag(tmp_path / "other", only_gripper))


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (joint_state(JOINTS, [0.0, np.nan, 0.0], np.zeros(3)), ("elbow", "not finite")),
        (joint_state(JOINTS, [0.0, 0.0], np.zeros(3)), ("3 names", "2 values in 'position'")),
        (joint_state(JOINTS, np.zeros(3), [0.0]), ("1 values in 'velocity'",)),
        (joint_state([], np.zeros(3)), ("0 names",)),
        (joint_state(JOINTS, []), ("0 values in 'position'",)),
    ],
)
def test_a_joint_state_that_cannot_be_understood_is_refused(tmp_path: Path, state: Any, named: tuple[str, ...]) -> None:
    message = refusal(write_bag(tmp_path / "bag", replaced(motion(), 50, state)))
    assert all(part in message for part in (*named, "0.100 s")), message


@pytest.mark.parametrize(
    ("values", "named"), [([0.0, 1.0], "2 values, not 3"), ([0.0, 0.0, np.inf], "joint 'hand' that is not finite")]
)
def test_a_command_that_cannot_be_understood_is_refused(tmp_path: Path, values: list[float], named: str) -> None:
    message = refusal(write_bag(tmp_path / "bag", [*motion(), (COMMANDS, 0.6, command(values))]))
    assert named in message and COMMANDS in message and "command 51" in message


def test_missing_velocities_are_differences_of_positions(tmp_path: Path) -> None:
    messages: Messages = []
    for k, (topic, time, message) in enumerate(motion(1.0)):
        if topic == "/joint_states":
            message.velocity = np.zeros(0) if k % 2 else np.array([np.nan, *message.velocity[1:]])
        messages.append((topic, time, message))
    recording = read(write_bag(tmp_path / "bag", messages))
    np.testing.assert_allclose(recording.velocity, [rate(k / 500) for k in range(501)], atol=0.02)
    assert len(recording.warnings) == 3
    assert "'base' has no velocity in 501 of 501" in recording.warnings[0]


def test_a_velocity_that_is_none_is_not_used(tmp_path: Path) -> None:
    messages = motion()
    for topic, _, message in messages:
        if topic == "/joint_states":
            message.velocity[0] = 3.2
    recording = read(write_bag(tmp_path / "bag", messages))
    np.testing.assert_allclose(recording.velocity, [rate(k / 500) for k in range(251)], atol=0.02)
    (warning,) = recording.warnings
    assert "'base' contradicts its positions" in warning


@pytest.mark.parametrize(
    ("shift", "named"),
    [
        (lambda k, stamp: 0, "zero"),
        (lambda k, stamp: stamp - (10**8 if k > 100 else 0), "not in order"),
        (lambda k, stamp: stamp - START + 10**9, "away from the times of reception"),
    ],
)
def test_stamps_that_cannot_be_used_give_way_to_reception(tmp_path: Path, shift: Any, named: str) -> None:
    messages = motion()
    states = [message for topic, _, message in messages if topic == "/joint_states"]
    for k, message in enumerate(states):
        stamp = shift(k, START + k * 2_000_000)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
    recording = read(write_bag(tmp_path / "bag", messages))
    np.testing.assert_allclose(recording.time, np.arange(251) / 500, atol=1e-8)
    np.testing.assert_allclose(recording.command_time[0], 0.0002, atol=1e-8)
    (warning,) = recording.warnings
    assert named in warning


def test_repeated_states_count_once(tmp_path: Path) -> None:
    messages = motion()
    messages.append(messages[-2])
    recording = read(write_bag(tmp_path / "bag", messages))
    assert (np.diff(recording.time) > 0).all()
    assert "repeat a stamp" in recording.warnings[0]


def test_topics_are_found_in_any_namespace(tmp_path: Path) -> None:
    moved = [(f"/left{topic}", time, message) for topic, time, message in motion()]
    assert len(read(write_bag(tmp_path / "one", moved)).time) == 251
    both = write_bag(tmp_path / "two", [*moved, *motion()])
    assert "/joint_states, /left/joint_states" in refusal(both)
    assert len(read(both, namespace="/left").time) == 251
    assert len(read(both, namespace="").time) == 251
    assert "in namespace 'right'" in refusal(both, namespace="right")


def test_a_topic_of_another_type_is_refused(tmp_path: Path) -> None:
    messages = [("/joint_states", 0.0, command([1.0])), (COMMANDS, 0.0, command(np.zeros(3)))]
    message = refusal(write_bag(tmp_path / "bag", messages))
    assert "std_msgs/msg/Float64MultiArray" in message and "sensor_msgs/msg/JointState" in message


def test_a_bag_without_a_topic_lists_those_it_has(tmp_path: Path) -> None:
    states = [entry for entry in motion() if entry[0] == "/joint_states"]
    message = refusal(write_bag(tmp_path / "bag", states))
    assert "no topic 'forward_position_controller/commands'" in message and "its topics are: /joint_states" in message


def test_an_empty_bag_is_refused(tmp_path: Path) -> None:
    assert "none at all" in refusal(write_bag(tmp_path / "bag", []))


def test_what_is_no_bag_is_refused(tmp_path: Path) -> None:
    assert "there is no bag" in refusal(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("hello")
    assert "is not a bag" in refusal(tmp_path / "notes.txt")
    assert "is not a bag" in refusal(tmp_path)


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_folder_without_metadata_is_read_by_its_storage_files(tmp_path: Path, storage: StoragePlugin) -> None:
    path = write_bag(tmp_path / "bag", motion(), storage)
    (path / "metadata.yaml").unlink()
    assert len(read(path).time) == 251
    (file,) = path.iterdir()
    assert len(read(file).time) == 251


def test_storage_files_are_merged_by_time(tmp_path: Path) -> None:
    messages = motion()
    folder = tmp_path / "split"
    folder.mkdir()
    for part, name in ((messages[150:], "a"), (messages[:150], "b")):
        (file,) = (f for f in write_bag(tmp_path / name, part).iterdir() if f.suffix == ".mcap")
        shutil.copy(file, folder / file.name)
    np.testing.assert_allclose(read(folder).time, np.arange(251) / 500, atol=1e-9)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), storage=st.sampled_from([StoragePlugin.MCAP, StoragePlugin.SQLITE3]), metadata=st.booleans())
def test_a_damaged_bag_is_refused_or_read_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, storage: StoragePlugin, metadata: bool
) -> None:
    path = write_bag(tmp_path_factory.mktemp("bags") / "bag", motion(0.1), storage)
    (file,) = (f for f in path.iterdir() if f.suffix != ".yaml")
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="cut off"):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    if not metadata:
        (path / "metadata.yaml").unlink()
    # Whatever else goes wrong than a RealityGradError fails the test.
    with suppress(RealityGradError):
        recording = read(path)
        assert np.isfinite(recording.position).all() and (np.diff(recording.time) > 0).all()


def test_a_cut_mcap_says_that_it_is_cut(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag", motion())
    (file,) = (f for f in path.iterdir() if f.suffix == ".mcap")
    file.write_bytes(file.read_bytes()[:-1000])
    message = refusal(path)
    assert "damaged or cut off" in message and str(path) in message and "recover" in message


@pytest.mark.parametrize("name", ["empty_bag_0.db3", "talker.mcap", "wbag_0.mcap"])
def test_bags_by_others_without_joint_states_are_refused(name: str) -> None:
    data = Path(os.environ.get("REALITYGRAD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (data / "rosbag2" / name).exists():
        pytest.skip(f"no '{data / 'rosbag2' / name}'; set REALITYGRAD_DATA")
    message = refusal(data / "rosbag2" / name)
    assert "no topic 'joint_states'" in message and name in message


def recording_of(time: np.ndarray, command_time: np.ndarray, commands: np.ndarray) -> Recording:
    """A recording of the test's motion at the given times."""
    return Recording(
        source="test",
        joint_names=JOINTS,
        time=time,
        position=np.array([angle(t) for t in time]),
        velocity=np.array([rate(t) for t in time]),
        command_time=command_time,
        command=commands,
        target_time=np.zeros(0),
        target=np.zeros((0, 3)),
    )


@settings(max_examples=30, deadline=None)
@given(
    offsets=st.lists(st.floats(0.0, 0.98), min_size=1, max_size=30, unique=True),
    seed=st.integers(0, 1000),
)
def test_the_resampled_command_is_the_exact_mean_of_what_was_held(offsets: list[float], seed: int) -> None:
    times = np.sort(np.array(offsets))
    values = np.random.default_rng(seed).normal(size=(len(times), 3))
    recording = recording_of(np.arange(0.0, 1.0001, 0.002), times, values)
    uniform = recording.resample(0.004)
    assert uniform.time[0] == times[0] and uniform.time[-1] <= recording.time[-1] + 1e-12
    fine = np.linspace(0.0, 0.004, 4001)[:-1] + 0.0000005
    for k in (0, len(uniform.command) // 2, len(uniform.command) - 1):
        held = values[np.searchsorted(times, uniform.time[k] + fine, side="right") - 1]
        np.testing.assert_allclose(uniform.command[k], held.mean(axis=0), atol=5e-3)


def test_resampling_follows_the_motion_through_jitter() -> None:
    random = np.random.default_rng(0)
    time = np.sort(np.arange(0, 1, 0.002) + random.uniform(-0.0005, 0.0005, 500))
    uniform = recording_of(time, np.array([0.1]), np.zeros((1, 3))).resample(0.002)
    assert uniform.time[0] == pytest.approx(0.1)
    np.testing.assert_allclose(uniform.position, [angle(t) for t in uniform.time], atol=1e-9)
    np.testing.assert_allclose(uniform.velocity, [rate(t) for t in uniform.time], atol=1e-4)
    assert not uniform.gap.any()
    part = uniform.between(0.2, 0.3)
    assert (part.time >= 0.2 - 1e-9).all() and (part.time <= 0.3 + 1e-9).all()
    assert len(part.position) == len(part.command) + 1 == len(part.gap) + 1 == 51


def test_missing_joint_states_leave_a_gap() -> None:
    time = np.arange(0, 1, 0.002)
    time = time[(time < 0.5) | (time > 0.6)]
    uniform = recording_of(time, np.array([0.0]), np.zeros((1, 3))).resample(0.002)
    middle = 0.5 * (uniform.time[1:] + uniform.time[:-1])
    np.testing.assert_array_equal(uniform.gap, (middle > 0.497) & (middle < 0.603))


def test_recordings_that_do_not_overlap_are_refused() -> None:
    with pytest.raises(RealityGradError, match="do not overlap"):
        recording_of(np.arange(0, 1, 0.002), np.array([2.0]), np.zeros((1, 3))).resample(0.002)
    uniform = recording_of(np.arange(0, 1, 0.002), np.array([0.0]), np.zeros((1, 3))).resample(0.002)
    with pytest.raises(RealityGradError, match=r"from 0.000 s to 0.998 s"):
        uniform.between(3.0, 4.0)
