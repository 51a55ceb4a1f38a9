"""The recorder node as a process over real DDS, and the bag writer alone."""

import signal
import time
from pathlib import Path

import pytest
from conftest import wait_until
from geometry_msgs.msg import PointStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String, UInt8MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bag_writer import BagWriter
from realitygrad_ros.nodes.qos import COMMAND, LATCHED, SENSOR_DATA, TARGET
from realitygrad_ros.nodes.recorded_topics import recorded_topic

TYPESTORE = get_typestore(Stores.ROS2_JAZZY)


def messages_of(bag: Path) -> dict[str, list]:
    """Every message of a bag, by topic, in the order of its time."""
    found: dict[str, list] = {}
    with Reader(bag) as reader:
        for connection in reader.connections:
            found[connection.topic] = []
        for connection, _, data in reader.messages():
            found[connection.topic].append(TYPESTORE.deserialize_cdr(data, connection.msgtype))
    return found


@pytest.fixture
def recorder(start_node, tmp_path):
    return start_node("recorder_node", {"bag_directory": str(tmp_path / "run")})


def test_a_recording_holds_every_message(recorder, probe, tmp_path):
    paths = probe.collect(String, "recorder/bag", LATCHED)
    bundle = probe.publisher(UInt8MultiArray, "policy/bundle", LATCHED)
    bundle.publish(UInt8MultiArray(data=b"a policy"))
    joint_states = probe.publisher(JointState, "joint_states", SENSOR_DATA)
    commands = probe.publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
    targets = probe.publisher(PointStamped, "target", TARGET)
    joint_states.publish(JointState(name=["early"]))

    for number in range(2):
        assert probe.call(Trigger, "recorder/start").success
        busy = probe.call(Trigger, "recorder/start")
        assert not busy.success
        assert "already recording" in busy.message
        targets.publish(PointStamped())
        for k in range(200):
            joint_states.publish(JointState(name=["a", "b"], position=[float(k), 0.5]))
            commands.publish(Float64MultiArray(data=[float(k)]))
            time.sleep(0.002)
        time.sleep(0.2)
        answer = probe.call(Trigger, "recorder/stop")
        expected = tmp_path / "run" / ("bag_1" if number else "bag")
        assert answer.success, answer.message
        assert answer.message == str(expected)
        wait_until(lambda expected=expected: paths and paths[-1].data == str(expected), "the path of the bag")

        recorded = messages_of(expected)
        assert [message.position[0] for message in recorded["/joint_states"]] == list(range(200))
        assert recorded["/joint_states"][0].name == ["a", "b"]
        assert [message.data[0] for message in recorded["/forward_position_controller/commands"]] == list(range(200))
        assert len(recorded["/target"]) == 1
        assert bytes(recorded["/policy/bundle"][0].data) == b"a policy"

    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["bag", "bag_1"]
    # The types in the bag are those on the wire.
    wire = probe.node.get_publishers_info_by_topic("/joint_states")[0].topic_type_hash
    with Reader(tmp_path / "run" / "bag") as reader:
        digest = next(connection.digest for connection in reader.connections if connection.topic == "/joint_states")
        offered = next(connection.ext for connection in reader.connections if connection.topic == "/policy/bundle")
    assert digest.removeprefix("RIHS01_") == bytes(wire.value).hex()
    assert offered.offered_qos_profiles[0].durability.name == "TRANSIENT_LOCAL"
    recorder.interrupt()


def test_without_joint_states_no_bag_is_kept(recorder, probe, tmp_path):
    assert "not recording" in probe.call(Trigger, "recorder/stop").message
    assert probe.call(Trigger, "recorder/start").success
    answer = probe.call(Trigger, "recorder/stop")
    assert not answer.success
    assert answer.message == "nothing came on '/joint_states' during the recording; no bag is kept"
    assert list((tmp_path / "run").iterdir()) == []

    # A directory that cannot be made, and a parameter that is none.
    (tmp_path / "file").write_text("")
    set_directory(probe, ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=str(tmp_path / "file")))
    answer = probe.call(Trigger, "recorder/start")
    assert not answer.success
    assert f"bag directory '{tmp_path / 'file'}' cannot be written to" in answer.message
    result = set_directory(probe, ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=3))
    assert not result.successful
    assert result.reason == "parameter 'bag_directory' is 3; it must be a string"


def set_directory(probe, value):
    request = SetParameters.Request(parameters=[Parameter(name="bag_directory", value=value)])
    return probe.call(SetParameters, "recorder_node/set_parameters", request).results[0]


def test_an_interrupt_finishes_the_bag(recorder, probe, tmp_path):
    newest = probe.diagnostics_of("recorder_node")
    joint_states = probe.publisher(JointState, "joint_states", SENSOR_DATA)
    assert probe.call(Trigger, "recorder/start").success
    for k in range(10):
        joint_states.publish(JointState(name=["a"], position=[float(k)]))
        time.sleep(0.002)

    def counted() -> bool:
        status = newest()
        return status is not None and {v.key: v.value for v in status.values}.get("/joint_states messages") == "10"

    wait_until(counted, "ten messages in the diagnostics")
    recorder.process.send_signal(signal.SIGTERM)
    recorder.interrupt()  # a second signal changes nothing
    assert len(messages_of(tmp_path / "run" / "bag")["/joint_states"]) == 10
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["bag"]


def test_an_unknown_topic_ends_the_node_with_one_line(start_node):
    node = start_node("recorder_node", {"topics": ["joint_states", "camera"]})
    assert node.wait() == 2
    assert node.output.startswith("recorder_node: parameter 'topics' names 'camera'; the recorder knows joint_states,")
    assert node.output.count("\n") == 1


TOPICS = {"/robot/target": recorded_topic("target")}


def test_nothing_is_overwritten(tmp_path):
    writer = BagWriter(tmp_path, TOPICS)
    # Somebody takes the name while the bag is being written.
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "theirs").write_text("")
    writer.write("/robot/target", 1, TYPESTORE.serialize_cdr(target(), "geometry_msgs/msg/PointStamped").tobytes())
    assert writer.finish() == tmp_path / "bag_1"
    assert messages_of(tmp_path / "bag_1")["/robot/target"] == [target()]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bag", "bag_1"]


def test_a_discarded_bag_leaves_nothing(tmp_path):
    writer = BagWriter(tmp_path / "new", TOPICS)
    writer.write("/robot/target", 1, b"\0\1\0\0")
    writer.discard()
    assert list((tmp_path / "new").iterdir()) == []


def test_a_failing_disk_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    writer = BagWriter(tmp_path, TOPICS)
    monkeypatch.setattr(writer._writer, "write", fail)
    for time_ns in range(5):
        writer.write("/robot/target", time_ns, b"\0\1\0\0")
    with pytest.raises(RealityGradError, match=r"cannot be written: .*No space left on device"):
        writer.finish()
    assert "No space left" in writer.failure
    assert list(tmp_path.iterdir()) == []


def target():
    time_type = TYPESTORE.types["builtin_interfaces/msg/Time"]
    header = TYPESTORE.types["std_msgs/msg/Header"](stamp=time_type(sec=1, nanosec=2), frame_id="base_link")
    point = TYPESTORE.types["geometry_msgs/msg/Point"](x=1.0, y=2.0, z=3.0)
    return TYPESTORE.types["geometry_msgs/msg/PointStamped"](header=header, point=point)
