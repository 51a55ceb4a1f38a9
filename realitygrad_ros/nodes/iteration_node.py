"""Leads the graph through RealityGrad iterations, on `run_iteration`."""

from collections.abc import Mapping
from pathlib import Path

from std_srvs.srv import Trigger

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.bringup import HARDWARE, ROS2_CONTROL, TWIN
from realitygrad_ros.nodes.graph_crew import GraphCrew
from realitygrad_ros.nodes.long_job import LongJob
from realitygrad_ros.nodes.node import Diagnostics, RealityGradNode, run
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.load import load_reaching_robot
from realitygrad_ros.twin.configuration import load_twin_configuration


class IterationNode(RealityGradNode):
    """Does the next iteration of the run in `run_directory`, and goes on where an interrupted one stopped."""

    def __init__(self) -> None:
        super().__init__("iteration_node")
        self._robot = self.declare("robot", "ur5", "name in config/ or path of a robot's configuration", read_only=True)
        self._configuration, self._model = load_reaching_robot(self._robot)
        run_directory = self.declare("run_directory", "runs/run", "folder of the iterations", read_only=True)
        self._run_directory = Path(run_directory).absolute()
        self._hardware = self.declare(
            "hardware", ROS2_CONTROL, "what moves; the report on a twin shows the true parameters", read_only=True
        )
        if self._hardware not in HARDWARE:
            raise RealityGradError(f"parameter 'hardware' is '{self._hardware}'; choose one of {', '.join(HARDWARE)}")
        base_frame = self.declare("base_frame", "base_link", "frame that targets are given in", read_only=True)
        self.declare("seed", 0, "draws the targets", lower=0)
        self.declare("identification_targets", 8, "motions of a rollout to identify from", lower=1, upper=1000)
        self.declare("evaluation_targets", 8, "motions of a rollout to judge by", lower=1, upper=1000)
        self._crew = GraphCrew(self, base_frame)
        self._job = LongJob(self, needs="realitygrad_ros.iteration.measure")
        self.create_service(Trigger, "run_iteration", lambda _, response: self._job.start(self._iterate, response))
        self.create_service(Trigger, "cancel", lambda _, response: self._job.cancel(response))

    def diagnostics(self) -> Diagnostics:
        """What it does, and where."""
        return Diagnostics(message=self._job.stage, values={"run": self._run_directory})

    def close(self) -> None:
        """Stop the running iteration; it can be resumed."""
        self._job.close()

    def _iterate(self, progress: Progress, cancelled: CancelCheck) -> Mapping[str, object]:
        # Torch and Warp take seconds to import: see LongJob.
        from realitygrad_ros.iteration.loop import Task, run_iteration
        from realitygrad_ros.iteration.run_folder import RunFolder

        truth = load_twin_configuration(self._robot).truth if self._hardware == TWIN else None
        task = Task(
            configuration=self._configuration,
            model=self._model,
            seed=self.value("seed"),
            identification_targets=self.value("identification_targets"),
            evaluation_targets=self.value("evaluation_targets"),
            truth=None if truth is None else truth.reordered(self._configuration.joint_names),
        )
        metrics = run_iteration(
            RunFolder(self._run_directory), task, self._crew, progress, cancelled, self.get_logger().info
        )
        names = ("k", "gap_mean_m", "gap_accumulated_m", "target_error_mean_m")
        return {name: metrics[name] for name in names} | {"seconds": metrics["seconds"]["total"]}


def main(args: list[str] | None = None) -> None:
    """Run the node."""
    run(IterationNode, args)


if __name__ == "__main__":
    main()
