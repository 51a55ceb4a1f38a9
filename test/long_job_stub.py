"""A node with a long job that does as its parameter says: count, fail, or run into a fault of the program."""

import time
from pathlib import Path

from std_srvs.srv import Trigger

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.nodes.long_job import LongJob
from realitygrad_ros.nodes.node import RealityGradNode, run
from realitygrad_ros.nodes.remote import call


class LongJobStub(RealityGradNode):
    """Counts to `count`, ten a second, unless it is told to do otherwise."""

    def __init__(self):
        super().__init__("stub_node")
        self.declare("count", 3, "where to stop")
        self.declare("behaviour", "count", "count, part, linger, fail, write or fault")
        self.job = LongJob(self, needs="json")
        self.farewell = self.create_client(Trigger, "stub/cancel")
        self.create_service(Trigger, "stub/start", lambda _, response: self.job.start(self.work, response))
        self.create_service(Trigger, "stub/cancel", lambda _, response: self.job.cancel(response))

    def close(self):
        """Stop the job."""
        self.job.close()

    def work(self, progress, cancelled):
        """The job."""
        if self.value("behaviour") == "fail":
            raise RealityGradError("the bag 'x' is empty; record it again")
        if self.value("behaviour") == "write":
            Path("/proc/calibration.yaml").write_text("")
        if self.value("behaviour") == "fault":
            raise ZeroDivisionError("by nothing")
        if self.value("behaviour") == "linger":
            while not cancelled():
                time.sleep(0.1)
            time.sleep(1.5)
            raise Cancelled
        for number in range(self.value("count")):
            progress("count", number / self.value("count"), {"number": number})
            time.sleep(0.1)
            if cancelled():
                if self.value("behaviour") == "part":
                    call(self.farewell, Trigger.Request(), "stub_node")
                    self.get_logger().info("parted")
                raise Cancelled
        return {"counted": self.value("count")}


if __name__ == "__main__":
    run(LongJobStub)
