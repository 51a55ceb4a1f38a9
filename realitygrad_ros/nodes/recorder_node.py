"""Records the graph's topics into a rosbag2 bag, between `recorder/start` and `recorder/stop`."""

import time
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticStatus
from std_msgs.msg import String
from std_srvs.srv import Trigger

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bag_writer import BagWriter
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.nodes.polled import PolledSubscription
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.nodes.recorded_topics import DEFAULT_TOPICS, recorded_topic

NECESSARY = "joint_states"
"""Without a message of this topic a recording is worth nothing."""

POLL_PERIOD = 0.02
"""How often waiting messages are taken [s]."""


class RecorderNode(RealityGradNode):
    """Takes messages as they are, serialised, and hands them to a `BagWriter`.

    It is subscribed all the time, so that a recording begins with the first message after its start. What is latched
    was perhaps sent long before: the last such message opens every bag.
    """

    def __init__(self) -> None:
        super().__init__("recorder_node")
        self.declare("bag_directory", "bags", "where bags are written; taken at the start of a recording")
        names = self.declare("topics", list(DEFAULT_TOPICS), "topics of the graph to record", read_only=True)
        self._topics = {self.resolve_topic_name(name): recorded_topic(name) for name in names}
        self._necessary = self.resolve_topic_name(NECESSARY)
        self._latched: dict[str, bytes] = {}
        self._bag: BagWriter | None = None
        self._polled = {
            name: PolledSubscription(self, topic.message_class, topic.name, topic.requested, raw=True)
            for name, topic in self._topics.items()
        }
        self.create_timer(POLL_PERIOD, self._take_messages, clock=self.steady_clock)
        self._publisher = self.create_publisher(String, "recorder/bag", LATCHED)
        self.create_service(Trigger, "recorder/start", self._on_start)
        self.create_service(Trigger, "recorder/stop", self._on_stop)

    def diagnostics(self) -> Diagnostics:
        """Whether it records, how many messages of each topic, and how far the writer is behind."""
        bag = self._bag
        if bag is None:
            return Diagnostics(message="not recording")
        level, message = DiagnosticStatus.OK, "recording"
        if bag.failure:
            level, message = DiagnosticStatus.ERROR, bag.failure
        values: dict[str, object] = {"queue high-water mark": bag.high_water}
        values |= {f"{name} messages": count for name, count in bag.counts.items()}
        return Diagnostics(level, message, values)

    def close(self) -> None:
        """Finish the bag that is being recorded."""
        if self._bag is not None:
            try:
                self.get_logger().info(f"recorded '{self._finish(self._bag)}'")
            except RealityGradError as error:
                self.get_logger().error(str(error))

    def _take_messages(self) -> None:
        for name, subscription in self._polled.items():
            for message, arrival in subscription.take():
                if self._topics[name].is_latched:
                    self._latched[name] = message
                if self._bag is not None:
                    self._bag.write(name, arrival or time.time_ns(), message)

    def _on_start(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._bag is not None:
            response.success, response.message = False, "already recording; call recorder/stop first"
            return response
        self._take_messages()  # what came before the start does not belong to the recording
        directory = Path(self.value("bag_directory")).absolute()
        try:
            self._bag = BagWriter(directory, self._topics)
        except RealityGradError as error:
            response.success, response.message = False, str(error)
            return response
        for name, message in self._latched.items():
            self._bag.write(name, time.time_ns(), message)
        response.success, response.message = True, f"recording in '{directory}'"
        self.get_logger().info(response.message)
        return response

    def _on_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._bag is None:
            response.success, response.message = False, "not recording; call recorder/start first"
            return response
        try:
            response.success, response.message = True, str(self._finish(self._bag))
            self.get_logger().info(f"recorded '{response.message}'")
        except RealityGradError as error:
            response.success, response.message = False, str(error)
            self.get_logger().error(str(error))
        return response

    def _finish(self, bag: BagWriter) -> Path:
        self._take_messages()
        self._bag = None
        if bag.counts.get(self._necessary) == 0:
            bag.discard()
            raise RealityGradError(f"nothing came on '{self._necessary}' during the recording; no bag is kept")
        path = bag.finish()
        self._publisher.publish(String(data=str(path)))
        return path


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(RecorderNode, args)


if __name__ == "__main__":
    main()
