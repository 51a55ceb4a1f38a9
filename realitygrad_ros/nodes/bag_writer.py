"""One bag being written: a queue, a thread that empties it into rosbag2's MCAP, and a name that appears when done."""

import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.typesys import Stores, get_typestore

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.recorded_topics import RecordedTopic

BAG_NAME = "bag"

BAG_VERSION: Literal[9] = 9
"""Of rosbag2's metadata, as ROS 2 Jazzy writes it."""

_END = None
_FOREVER = QosTime(2147483647, 4294967295)


class BagWriter:
    """Writes a bag under a temporary name in the directory, in a thread of its own; `finish` or `discard` ends it.

    The bag is called `bag`, or `bag_1`, `bag_2`, ... where that name is taken: nothing is overwritten.
    """

    def __init__(self, directory: Path, topics: Mapping[str, RecordedTopic]) -> None:
        """Begin a bag in `directory`, which is made where it is missing; `topics` are by their resolved names.

        Raises:
            RealityGradError: the directory cannot be written to.
        """
        self.counts = dict.fromkeys(topics, 0)
        """Messages by topic."""
        self.high_water = 0
        """Most messages that ever waited for the thread."""
        self._directory = directory
        self._failure: Exception | None = None
        self._queue: queue.SimpleQueue[tuple[str, int, bytes] | None] = queue.SimpleQueue()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._temporary = Path(tempfile.mkdtemp(dir=directory, prefix=".recording_"))
        except OSError as error:
            raise RealityGradError(f"bag directory '{directory}' cannot be written to: {error.strerror}") from error
        self._writer = Writer(
            self._temporary / _free_name(directory), version=BAG_VERSION, storage_plugin=StoragePlugin.MCAP
        )
        self._writer.open()
        # The types of the graph are the same in every distribution since Jazzy.
        typestore = get_typestore(Stores.ROS2_JAZZY)
        self._connections = {
            name: self._writer.add_connection(
                name, topic.message_type, typestore=typestore, offered_qos_profiles=[_qos(topic)]
            )
            for name, topic in topics.items()
        }
        self._thread = threading.Thread(target=self._run, name="bag_writer")
        self._thread.start()

    @property
    def failure(self) -> str:
        """Why writing has failed, empty while all is well."""
        return "" if self._failure is None else f"the bag in '{self._directory}' cannot be written: {self._failure}"

    def write(self, topic: str, time: int, message: bytes) -> None:
        """Hand a serialised message over; `time` is that of its arrival [ns since the epoch]."""
        self._queue.put((topic, time, message))
        self.counts[topic] += 1
        self.high_water = max(self.high_water, self._queue.qsize())

    def finish(self) -> Path:
        """Write what waits, close the bag, give it its name and return its path.

        Raises:
            RealityGradError: the disk failed; nothing is left of the bag then.
        """
        self._end_thread()
        try:
            if self._failure is not None:
                raise self._failure
            self._writer.close()
            _flush_to_disk(self._writer.path)
            path = self._rename()
        except (OSError, WriterError) as error:
            self._failure = error
            shutil.rmtree(self._temporary, ignore_errors=True)
            raise RealityGradError(self.failure) from error
        self._temporary.rmdir()
        return path

    def discard(self) -> None:
        """End without a bag."""
        self._end_thread()
        self._writer.abort()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _run(self) -> None:
        while (item := self._queue.get()) is not _END:
            # After a failure the queue is still emptied, or it would grow until somebody stops the recording.
            if self._failure is not None:
                continue
            topic, time, message = item
            try:
                self._writer.write(self._connections[topic], time, message)
            except (OSError, WriterError) as error:
                self._failure = error

    def _end_thread(self) -> None:
        self._queue.put(_END)
        self._thread.join()

    def _rename(self) -> Path:
        while True:
            path = self._directory / _free_name(self._directory)
            try:
                self._writer.path.rename(path)
                return path
            except FileExistsError:
                continue
            except OSError:
                # A directory that appeared meanwhile and is not empty.
                if not path.exists():
                    raise


def _free_name(directory: Path) -> str:
    number = 0
    while (directory / (name := f"{BAG_NAME}_{number}" if number else BAG_NAME)).exists():
        number += 1
    return name


def _flush_to_disk(directory: Path) -> None:
    for path in (*directory.iterdir(), directory):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _qos(topic: RecordedTopic) -> Qos:
    return Qos(
        QosHistory.KEEP_LAST,
        topic.offered.depth,
        QosReliability[topic.offered.reliability.name],
        QosDurability[topic.offered.durability.name],
        _FOREVER,
        _FOREVER,
        QosLiveliness.AUTOMATIC,
        _FOREVER,
        False,
    )
