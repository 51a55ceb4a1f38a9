"""Identifies the simulator's parameters from bags, on `sysid/fit`, and hands them to the trainer."""

from collections.abc import Mapping
from pathlib import Path

from std_msgs.msg import String
from std_srvs.srv import Trigger

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.calibration import as_ros_parameters, calibration_of, declare_calibration
from realitygrad_ros.nodes.long_job import LongJob
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.nodes.qos import LATCHED
from realitygrad_ros.nodes.remote import RemoteParameters
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.load import load_clamped_robot
from realitygrad_ros.robot.parameters import SimulationParameters

TRAINER = "trainer_node"


class SysidNode(RealityGradNode):
    """Fits `calibration.*` to recordings; the present values are where it starts and what it holds on to.

    The result becomes the node's own `calibration.*` and that of the trainer, and is written to
    `iteration_directory` as a parameter file.
    """

    def __init__(self) -> None:
        super().__init__("sysid_node")
        robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        self._configuration, self._model = load_clamped_robot(robot)
        self.declare("iteration_directory", "runs/sysid", "where calibration.yaml is written")
        self.declare("bags", [], "bags to fit; empty: the last one that recorder/bag announced")
        declare_calibration(self, self._configuration)
        self._announced: str | None = None
        self._trainer = RemoteParameters(self, TRAINER)
        self._job = LongJob(self, needs="realitygrad_ros.iteration.stages")
        self.create_subscription(String, "recorder/bag", self._on_bag, LATCHED)
        self.create_service(Trigger, "sysid/fit", self._on_fit)
        self.create_service(Trigger, "sysid/cancel", lambda _, response: self._job.cancel(response))

    def diagnostics(self) -> Diagnostics:
        """What it does."""
        return Diagnostics(message=self._job.stage, values={"last bag": self._announced or ""})

    def close(self) -> None:
        """Stop the running job."""
        self._job.close()

    def _on_bag(self, message: String) -> None:
        self._announced = message.data

    def _on_fit(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if not self.value("bags") and self._announced is None:
            response.success, response.message = False, "no bag: record one, or set the parameter 'bags'"
            return response
        return self._job.start(self._fit, response)

    def _fit(self, progress: Progress, cancelled: CancelCheck) -> Mapping[str, object]:
        # Torch and Warp take seconds to import: see LongJob.
        from realitygrad_ros.iteration.stages import identify

        directory = Path(self.value("iteration_directory"))
        figures = identify(
            directory,
            self._configuration,
            self._model,
            [Path(bag) for bag in self.value("bags") or [self._announced]],
            calibration_of(self, self._configuration),
            progress=progress,
            cancelled=cancelled,
            tell=self.get_logger().info,
        )
        self._hand_on(SimulationParameters.read(directory / "calibration.yaml"))
        *_, before, after = figures["residuals"]
        return {"residual before": before, "residual after": after, "windows": figures["windows"]}

    def _hand_on(self, fitted: SimulationParameters) -> None:
        for result in self.set_parameters(as_ros_parameters(fitted)):
            if not result.successful:
                raise RealityGradError(f"the fitted calibration is refused: {result.reason}")
        if self._trainer.is_ready():
            self._trainer.set(as_ros_parameters(fitted))
        else:
            self.get_logger().warning(f"{TRAINER} is not running; give it calibration.yaml by --params-file")


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(SysidNode, args)


if __name__ == "__main__":
    main()
