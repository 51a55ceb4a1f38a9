"""A long job behind a service: the end that does it; `remote.py` has the end that waits for it.

The service answers at once: accepted, or refused with the reason. From then on `~/status` tells where the job is: a
`DiagnosticStatus` whose message is the stage and whose values are `job` (its identity), `progress` (0 to 1), the
stage's figures, and `error` where it failed. The last status of a job has one of `ENDS` as its message.
"""

import importlib
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.progress import CancelCheck, Progress

IDLE, STARTING, DONE, FAILED, CANCELLED = "idle", "starting", "done", "failed", "cancelled"
ENDS = (DONE, FAILED, CANCELLED)

STATUS_PERIOD = 0.1
"""Shortest time between two statuses of one stage [s]."""

END_TIME = 5.0
"""How long a node that ends waits for its job to stop [s]."""

SPIN_TIME = 0.02
"""How often it is looked meanwhile whether the job has stopped [s]."""

Work = Callable[[Progress, CancelCheck], Mapping[str, object]]
"""A job: given how to tell of itself and whether to stop, it returns its final figures."""


class LongJob:
    """Runs one job at a time in a worker thread of a node and publishes `~/status`."""

    def __init__(self, node: Node, needs: str) -> None:
        """Make the job of a node and begin to import what it needs.

        Args:
            node: the node.
            needs: a module that takes seconds to import. It is imported in a thread, so that the node is there at
                once, and a job that is cancelled early need not wait for it.
        """
        threading.Thread(target=importlib.import_module, args=(needs,), name="import", daemon=True).start()
        self._node = node
        self._publisher = node.create_publisher(DiagnosticStatus, "~/status", LATCHED)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._stage = IDLE
        self._identity = ""
        self._last_status = -STATUS_PERIOD
        self._publish(IDLE, {})

    @property
    def stage(self) -> str:
        """What the job does now, or how the last one ended."""
        return self._stage

    def start(self, work: Work, response: Trigger.Response) -> Trigger.Response:
        """Start a job and fill the service's answer; refuse while another runs."""
        with self._lock:
            if self._thread is not None:
                response.success, response.message = False, f"busy with '{self._stage}'; cancel it or wait for its end"
                return response
            self._stop.clear()
            self._identity = uuid.uuid4().hex
            self._publish(STARTING, {"progress": 0.0})
            self._thread = threading.Thread(target=self._run, args=(work,), name="long_job")
            self._thread.start()
        response.success, response.message = True, f"accepted {self._identity}"
        return response

    def cancel(self, response: Trigger.Response) -> Trigger.Response:
        """Ask the running job to stop and fill the service's answer; its end is told in `~/status`."""
        with self._lock:
            running = self._thread is not None
            self._stop.set()
        response.success = running
        response.message = "cancelling" if running else "no job is running"
        return response

    def close(self) -> None:
        """Stop the running job and wait for it; to be called by the thread that spun the node, before it is destroyed.

        The node is spun meanwhile: the job may need the answers of other nodes, to leave the robot at rest.
        """
        self._stop.set()
        thread, executor = self._thread, self._node.executor
        if thread is None or executor is None:
            return
        deadline = time.monotonic() + END_TIME
        while thread.is_alive() and time.monotonic() < deadline:
            executor.spin_once(timeout_sec=SPIN_TIME)

    def _run(self, work: Work) -> None:
        try:
            end, values, level = DONE, dict(work(self._progress, self._stop.is_set)), DiagnosticStatus.OK
        except Cancelled:
            end, values, level = CANCELLED, {}, DiagnosticStatus.WARN
        except (RealityGradError, OSError) as error:
            reason = RealityGradError.of_system(error) if isinstance(error, OSError) else error
            end, values, level = FAILED, {"error": reason}, DiagnosticStatus.ERROR
            self._node.get_logger().error(str(reason))
        except Exception as error:  # a job must never end without a status: whoever waits for it would wait for ever
            end, values, level = FAILED, {"error": f"fault in the program: {error!r}"}, DiagnosticStatus.ERROR
            self._node.get_logger().error(traceback.format_exc())
        with self._lock:
            self._thread = None
            self._publish(end, values, level)

    def _progress(self, stage: str, fraction: float, figures: Mapping[str, float]) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._last_status < STATUS_PERIOD:
            return
        self._last_status = now
        values = {name: f"{value:.6g}" for name, value in figures.items()}
        self._publish(stage, {"progress": f"{fraction:.3f}", **values})

    def _publish(self, stage: str, values: Mapping[str, object], level: bytes = DiagnosticStatus.OK) -> None:
        self._stage = stage
        status = DiagnosticStatus(level=level, name=self._node.get_fully_qualified_name().lstrip("/"), message=stage)
        entries = {"job": self._identity} | dict(values)
        status.values = [KeyValue(key=name, value=str(value)) for name, value in entries.items()]
        self._publisher.publish(status)
