"""The RealityGrad loop of a robot on legs: hang it up and identify, train, walk, and again with what was identified.

After Collins et al. 2021, arXiv 2109.04674, whose robot is an arm; policies are trained by gradients through contact,
as in Schwarke et al., arXiv 2404.02887. Iterations are numbered by the identifications done before: iteration 0 walks
by a policy that is there already, iteration k by one that was trained with what the chirps of iterations 1 to k told.

    runs/<time>/iteration_<k>/hung/bag/                  excite (k >= 1)
                              calibration.yaml           identify (k >= 1)
                              training_<inputs>/         train (k >= 1): goes on there after an interruption
                              policy.safetensors         train
                              bag/                       rollout
                              comparison.safetensors     measure
                              metrics.json               the figures; the iteration is finished
"""

import dataclasses
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.iteration.legged_plan import CHIRP, SCHEDULE, Chirp, Stretch
from realitygrad_ros.iteration.run_folder import (
    Figures,
    RunFolder,
    Tell,
    digest,
    digest_of_robot,
    digest_of_value,
    read_record,
    run_stage,
)
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

STAGES = ("excite", "identify", "train", "rollout", "measure")
"""The stages whose time is told, in their order."""

COMPLETE = 0.9
"""The share of the schedule that must have been recorded."""


@dataclass(frozen=True, eq=False)
class LeggedTask:
    """What a run is about; the same for all its iterations."""

    configuration: RobotConfiguration
    model: RobotModel
    seed: int
    policy: Path
    """The bundle of iteration 0."""
    truth: SimulationParameters | None
    """The twin's parameters for the report; None on a real robot, where nobody knows them."""
    schedule: tuple[Stretch, ...] = SCHEDULE
    chirp: Chirp = CHIRP
    worlds: int = 64
    """Of the training."""
    training_iterations: int = 300


class LeggedCrew(Protocol):
    """Who moves the robot and identifies it: the nodes of the graph, or this process.

    Every method raises `RealityGradError` where it fails and `Cancelled` within a second of being asked to stop.
    """

    def excite(
        self,
        directory: Path,
        commands: Float[np.ndarray, "time joint"],
        rate: float,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Hang the robot up, give it commands [rad], `rate` a second, and leave the recording in `directory / bag`."""

    def identify(
        self,
        directory: Path,
        bags: Sequence[Path],
        prior: SimulationParameters,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Do the stage `identify` of `stages.identify` in an iteration's folder."""

    def walk(self, directory: Path, schedule: Sequence[Stretch], progress: Progress, cancelled: CancelCheck) -> None:
        """Let the robot, on its feet, walk the schedule by the folder's policy, and leave the recording in its `bag`.

        Where it falls it is stood up, and goes on with the next stretch.
        """


def run_iteration(
    run: RunFolder, task: LeggedTask, crew: LeggedCrew, progress: Progress, cancelled: CancelCheck, tell: Tell
) -> Figures:
    """Do the next iteration of a run, after iteration 0 where the run is new, and write metrics and report.

    A run that was interrupted goes on where it stopped: see `run_stage`.

    Args:
        run: the run's folder; made where there is none.
        task: what the run is about.
        crew: does the work, but for the training, which this process does.
        progress: gets the stages; each figure list names the `iteration`.
        cancelled: asked throughout.
        tell: gets what the log should say.

    Returns:
        The metrics of the iteration.

    Raises:
        RealityGradError: a stage failed, or a file of the run is damaged or is not of this task.
        Cancelled: `cancelled` asked for it; everything finished before is kept.
    """
    # Imported here: it brings matplotlib.
    from realitygrad_ros.iteration.legged_report import write_report

    k = run.finished()
    run.check_same_run(task.configuration, task.seed)
    for number in (0, 1) if k == 0 else (k,):
        _Iteration(run, task, crew, number, progress, cancelled, tell).run()
        progress("report", 0.0, {"iteration": number})
        write_report(run)
    return run.metrics(run.finished() - 1)


class _Iteration:
    """Iteration k of a run."""

    def __init__(
        self,
        run: RunFolder,
        task: LeggedTask,
        crew: LeggedCrew,
        k: int,
        progress: Progress,
        cancelled: CancelCheck,
        tell: Tell,
    ) -> None:
        self._run, self._task, self._crew, self._k, self._tell = run, task, crew, k, tell
        self._cancelled = cancelled
        self._directory = run.directory(k)
        self._robot = {"robot": digest_of_robot(task.configuration)}

        def told(stage: str, fraction: float, figures: Any) -> None:
            progress(stage, fraction, {"iteration": k, **figures})

        self._progress = told

    def run(self) -> None:
        """Every stage that is not done, and the metrics."""
        start = time.monotonic()
        self._directory.mkdir(parents=True, exist_ok=True)
        before = {stage: read_record(self._directory, stage) for stage in STAGES}
        if self._k == 0:
            self._take_policy()
        else:
            self._excite()
            self._identify()
            self._train()
        self._walk()
        self._progress("measure", 0.0, {})
        self._measure()
        after = {stage: read_record(self._directory, stage) for stage in STAGES}
        seconds = {stage: 0.0 if record is None else record.seconds for stage, record in after.items()}
        # A stage that was finished before the iteration was interrupted counts with the time that it took then.
        kept = sum(seconds[stage] for stage in STAGES if before[stage] is not None and before[stage] == after[stage])
        seconds["total"] = time.monotonic() - start + kept
        self._write_metrics(seconds)

    def _parameters(self) -> SimulationParameters:
        return self._run.calibration(self._k, self._task.configuration.nominal)

    def _take_policy(self) -> None:
        bundle = PolicyBundle.read(self._task.policy)

        def copy() -> Figures:
            bundle.write(self._directory / "policy.safetensors")
            return {}

        made_from = self._robot | {"given policy": bundle.digest}
        run_stage(self._directory, "train", made_from, ["policy.safetensors"], copy, self._tell)

    def _excite(self) -> None:
        task, directory = self._task, self._directory / "hung"
        rate = task.configuration.policy_rate

        def excite() -> Figures:
            self._remove_leftover(directory)
            directory.mkdir(exist_ok=True)
            commands = task.chirp.commands(task.configuration, task.model, rate)
            self._crew.excite(directory, commands, rate, self._progress, self._cancelled)
            return {}

        made_from = self._robot | {"chirp": digest_of_value(task.chirp), "iteration": str(self._k)}
        run_stage(self._directory, "excite", made_from, ["hung/bag"], excite, self._tell)

    def _identify(self) -> None:
        bags = [self._run.output(i, "excite") for i in range(1, self._k)] + [self._directory / "hung" / "bag"]
        prior = self._run.calibration(self._k - 1, self._task.configuration.nominal)
        self._crew.identify(self._directory, bags, prior, self._progress, self._cancelled)

    def _train(self) -> None:
        # Imported here: it brings torch and Warp, and an iteration can begin without them.
        from realitygrad_ros.iteration.legged_training import train_policy

        task, parameters = self._task, self._parameters()
        parent = PolicyBundle.read(self._run.output(self._k - 1, "train"))
        made_from = self._robot | {
            "parameters": digest_of_value(parameters.as_mapping()),
            "plan": digest_of_value([task.worlds, task.training_iterations, task.seed]),
            "parent": parent.digest,
        }

        def work() -> Figures:
            folder = self._directory / f"training_{digest_of_value(made_from)[:8]}"
            bundle, figures = train_policy(task, parent, parameters, folder, self._progress, self._cancelled)
            bundle = dataclasses.replace(bundle, epoch=parent.epoch + 1, parent=parent.digest)
            bundle.write(self._directory / "policy.safetensors")
            return figures

        run_stage(self._directory, "train", made_from, ["policy.safetensors"], work, self._tell)

    def _walk(self) -> None:
        task, directory = self._task, self._directory

        def walk() -> Figures:
            self._remove_leftover(directory)
            try:
                self._crew.walk(directory, task.schedule, self._progress, self._cancelled)
                self._check_whole()
            except (Cancelled, RealityGradError):
                shutil.rmtree(directory / "bag", ignore_errors=True)
                raise
            return {}

        made_from = {"policy.safetensors": digest(directory / "policy.safetensors")}
        made_from |= {"schedule": digest_of_value(task.schedule)}
        run_stage(directory, "rollout", made_from, ["bag"], walk, self._tell)

    def _remove_leftover(self, directory: Path) -> None:
        # A bag without a record is that of a recording that was interrupted: it does not hold the whole plan.
        for leftover in sorted(directory.glob("bag*")):
            self._tell(f"{self._directory.name}: '{leftover.name}' of a recording that was interrupted is removed")
            shutil.rmtree(leftover)

    def _check_whole(self) -> None:
        from realitygrad_ros.iteration.legged_recording import read_walk

        time = read_walk(self._directory / "bag", self._task.configuration).time
        wanted = sum(stretch.duration for stretch in self._task.schedule)
        recorded = time[-1] - time[0]
        if recorded < COMPLETE * wanted:
            raise RealityGradError(
                f"bag '{self._directory / 'bag'}' holds {recorded:.1f} s of a walk of {wanted:.1f} s; run the "
                "iteration again"
            )

    def _measure(self) -> None:
        from realitygrad_ros.iteration.legged_measure import measure

        task, directory, parameters = self._task, self._directory, self._parameters()
        made_from = self._robot | {
            "parameters": digest_of_value(parameters.as_mapping()),
            "bag": digest(directory / "bag"),
            "policy.safetensors": digest(directory / "policy.safetensors"),
        }
        run_stage(
            directory,
            "measure",
            made_from,
            ["comparison.safetensors"],
            lambda: measure(directory, task.configuration, task.model, parameters, self._tell),
            self._tell,
        )

    def _write_metrics(self, seconds: dict[str, float]) -> None:
        measured, identified = read_record(self._directory, "measure"), read_record(self._directory, "identify")
        assert measured is not None
        task = self._task
        metrics = {
            "k": self._k,
            "robot": task.configuration.name,
            "robot_digest": digest_of_robot(task.configuration),
            "seed": task.seed,
            "finished": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %z"),
            "seconds": seconds,
            **measured.figures,
            "residuals": [] if identified is None else identified.figures["residuals"],
            "parameters": self._parameters().as_mapping(),
            "verdicts": {} if identified is None else identified.figures["verdicts"],
            "truth": None if task.truth is None else task.truth.as_mapping(),
            "schedule": [list(stretch) for stretch in task.schedule],
        }
        self._run.write_metrics(self._k, metrics)
