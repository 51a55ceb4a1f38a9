"""A rosbag2 bag, opened without ROS: its topics, and the messages of one of them.

Only message types of the ROS distribution are read, by their own definitions: what a bag says about its types is
never compiled.
"""

import heapq
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from realitygrad_ros.errors import RealityGradError

STORAGE_SUFFIXES = (".mcap", ".db3")


class Bag:
    """One bag, open while in its `with` block: a folder as rosbag2 writes it, or one of its storage files.

    A folder without `metadata.yaml` (its recorder was killed) is read by the storage files that lie in it.

    Raises:
        RealityGradError: there is no such file, it is no bag, or it is damaged or cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = ExitStack()
        self._connections: list[tuple[Reader, Connection]] = []

    def __enter__(self) -> "Bag":
        if not self.path.exists():
            raise RealityGradError(f"there is no bag '{self.path}'")
        files = [self.path]
        if self.path.is_dir() and not (self.path / "metadata.yaml").exists():
            files = sorted(file for file in self.path.iterdir() if file.suffix in STORAGE_SUFFIXES)
        elif self.path.is_file() and self.path.suffix not in STORAGE_SUFFIXES:
            files = []
        if not files:
            raise RealityGradError(
                f"'{self.path}' is not a bag: give a folder that rosbag2 wrote, or one of its .mcap or .db3 files"
            )
        try:
            for file in files:
                reader = self._stack.enter_context(Reader(file))
                self._connections += [(reader, connection) for connection in reader.connections]
        except Exception as error:  # the reader meets damage with whatever exception it runs into
            self._stack.close()
            raise self._damaged(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _damaged(self, error: Exception) -> RealityGradError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return RealityGradError(
            f"bag '{self.path}' is damaged or cut off ({reason}); record it again, or mend it with "
            "'ros2 bag reindex' or 'mcap recover'"
        )

    @property
    def topics(self) -> dict[str, str]:
        """Message type by topic."""
        return {connection.topic: connection.msgtype for _, connection in self._connections}

    def find(self, name: str, message_type: str, namespace: str | None = None) -> str | None:
        """The topic `name` of a robot in any namespace, or in the one given; None if the bag has none.

        Raises:
            RealityGradError: several namespaces have it, or it carries another type.
        """
        if namespace is None:
            found = [topic for topic in self.topics if f"/{topic}".endswith(f"/{name}")]
        else:
            absolute = f"{namespace.strip('/')}/{name}".strip("/")
            found = [topic for topic in self.topics if topic.strip("/") == absolute]
        fitting = [topic for topic in found if self.topics[topic] == message_type]
        if len(fitting) > 1:
            raise RealityGradError(
                f"bag '{self.path}' has several topics '{name}': {', '.join(sorted(fitting))}; say which namespace"
            )
        if found and not fitting:
            raise RealityGradError(
                f"topic '{found[0]}' in bag '{self.path}' carries {self.topics[found[0]]}, not {message_type}; "
                "name the namespace of the robot, or record it anew"
            )
        return fitting[0] if fitting else None

    def messages(self, topic: str) -> Iterator[tuple[int, Any]]:
        """Time of reception [ns] and message, in order of reception.

        Raises:
            RealityGradError: the bag is damaged, or messages that its index counts are not there.
        """
        sources = [(reader, connection) for reader, connection in self._connections if connection.topic == topic]
        expected = sum(connection.msgcount for _, connection in sources)
        received = 0
        try:
            streams = (reader.messages([connection]) for reader, connection in sources)
            for connection, time, raw in heapq.merge(*streams, key=lambda message: message[1]):
                received += 1
                yield time, _typestore().deserialize_cdr(raw, connection.msgtype)
        except Exception as error:
            raise self._damaged(error) from error
        if received != expected:
            raise self._damaged(ValueError(f"topic '{topic}': {expected} messages expected, {received} found"))


@cache
def _typestore() -> Typestore:
    return get_typestore(Stores.LATEST)
