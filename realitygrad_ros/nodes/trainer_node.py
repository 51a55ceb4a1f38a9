"""Optimises motions through the simulator and trains a policy on them, on `trainer/optimise`."""

from collections.abc import Mapping
from pathlib import Path

from std_msgs.msg import UInt8MultiArray
from std_srvs.srv import Trigger

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.iteration.run_folder import newest_policy
from realitygrad_ros.nodes.calibration import calibration_of, declare_calibration
from realitygrad_ros.nodes.long_job import LongJob
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.load import load_reaching_robot


class TrainerNode(RealityGradNode):
    """Turns the simulator's parameters, `calibration.*`, into a policy on `policy/bundle`.

    What it made is kept in `iteration_directory` and is not made again from the same inputs. When it starts, it
    publishes the newest policy that lies there.
    """

    def __init__(self) -> None:
        super().__init__("trainer_node")
        robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        self._configuration, self._model = load_reaching_robot(robot)
        self.declare("iteration_directory", "runs/trainer", "where trajectories and policy are written")
        self.declare("motions", 64, "motions to optimise and to clone", lower=1, upper=4096)
        self.declare("seed", 0, "draws targets and weights", lower=0)
        declare_calibration(self, self._configuration)
        self._bundle = self.create_publisher(UInt8MultiArray, "policy/bundle", LATCHED)
        self._job = LongJob(self, needs="realitygrad_ros.iteration.stages")
        self.create_service(Trigger, "trainer/optimise", lambda _, response: self._job.start(self._optimise, response))
        self.create_service(Trigger, "trainer/cancel", lambda _, response: self._job.cancel(response))
        self._publish_newest()

    def diagnostics(self) -> Diagnostics:
        """What it does."""
        return Diagnostics(message=self._job.stage)

    def close(self) -> None:
        """Stop the running job."""
        self._job.close()

    def _optimise(self, progress: Progress, cancelled: CancelCheck) -> Mapping[str, object]:
        # Torch and Warp take seconds to import: see LongJob.
        from realitygrad_ros.iteration.stages import learn

        directory = Path(self.value("iteration_directory"))
        figures = learn(
            directory,
            self._configuration,
            self._model,
            calibration_of(self, self._configuration),
            motions=self.value("motions"),
            seed=self.value("seed"),
            progress=progress,
            cancelled=cancelled,
            tell=self.get_logger().info,
        )
        self._publish(directory / "policy.safetensors")
        return figures

    def _publish_newest(self) -> None:
        path = newest_policy(Path(self.value("iteration_directory")))
        if path is None:
            return
        try:
            self._publish(path)
        except RealityGradError as error:
            # A damaged file is no reason to refuse work: the next policy takes its place.
            self.get_logger().error(f"the policy of before is not published: {error}")

    def _publish(self, path: Path) -> None:
        bundle = PolicyBundle.read(path)
        self._bundle.publish(UInt8MultiArray(data=bundle.to_bytes()))
        self.get_logger().info(f"published '{path}', epoch {bundle.epoch}, digest {bundle.digest}")


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(TrainerNode, args)


if __name__ == "__main__":
    main()
