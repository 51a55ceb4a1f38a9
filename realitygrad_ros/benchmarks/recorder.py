"""Whether the recorder node keeps every joint state, over real DDS at the robot's full rate."""

import time

from std_srvs.srv import Trigger

from realitygrad_ros.benchmarks.own_graph import joint_state_source, own_graph
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.identification.bag import Bag
from realitygrad_ros.nodes.bringup import NodeSpec
from realitygrad_ros.nodes.remote import call
from realitygrad_ros.progress import Progress, silent
from realitygrad_ros.robot.configuration import load_configuration


def run(robot: str, progress: Progress = silent, seconds: float = 60.0) -> dict[str, float]:
    """Record what another process publishes at the robot's rate for `seconds`, and count what the bag holds.

    Returns:
        Joint states sent, those in the bag, those dropped, and the most messages that ever waited to be written.

    Raises:
        RealityGradError: the configuration is wrong, or the recorder refuses.
    """
    configuration = load_configuration(robot)
    with own_graph() as graph:
        progress("start", 0.0, {})
        directory = graph.directory / "bags"
        graph.start(NodeSpec("recorder_node", {"bag_directory": str(directory)}))
        start, stop = (graph.client(Trigger, f"recorder/{name}") for name in ("start", "stop"))
        started = call(start, Trigger.Request(), "recorder_node")
        if not started.success:
            raise RealityGradError(f"recorder/start refused: {started.message}")
        expected = seconds * configuration.joint_state_rate
        recorded, high_water = 0, 0
        with joint_state_source(robot, seconds) as source:
            while source.poll() is None:
                time.sleep(0.1)
                newest = graph.diagnostics.get("recorder_node", {})
                recorded = int(newest.get("/joint_states messages", 0))
                high_water = int(newest.get("queue high-water mark", 0))
                progress("record", min(1.0, recorded / expected), {"messages": recorded})
            output = source.communicate()[0]
        stopped = call(stop, Trigger.Request(), "recorder_node")
        if source.returncode != 0 or not stopped.success:
            raise RealityGradError(f"the recording failed: {stopped.message} {output.strip()}")
        sent = int(output)
        with Bag(directory / "bag") as bag:
            stored = [int(message.effort[0]) for _, message in bag.messages("/joint_states")]
    if stored != sorted(set(stored)):
        raise RealityGradError("the bag holds joint states twice or out of order")
    return {
        "sent": sent,
        "in_bag": len(stored),
        "dropped": sent - len(stored),
        "queue_high_water_mark": high_water,
        "rate_hz": configuration.joint_state_rate,
        "seconds": seconds,
    }
