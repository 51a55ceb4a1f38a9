"""The RealityGrad loop: optimise, train, roll out, identify, and again with what was identified.

After Collins et al. 2021, arXiv 2109.04674. Iterations are numbered by the identifications done before: iteration 0
works with the nominal model, iteration k with what was identified from the rollouts of all iterations before it.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.identification.recording import read_recording
from realitygrad_ros.iteration.plan import Plan
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

STAGES = ("identify", "optimise", "train", "rollout", "measure")
"""The stages whose time is told, in their order."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a run is about; the same for all its iterations."""

    configuration: RobotConfiguration
    model: RobotModel
    seed: int
    identification_targets: int
    evaluation_targets: int
    truth: SimulationParameters | None
    """The twin's parameters for the report; None on a real robot, where nobody knows them."""


class Crew(Protocol):
    """Who does the work: the nodes of the graph, or this process.

    Every method raises `RealityGradError` where it fails and `Cancelled` within a second of being asked to stop.
    """

    def identify(
        self,
        directory: Path,
        bags: Sequence[Path],
        prior: SimulationParameters,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Do the stage `identify` of `stages.identify` in an iteration's folder."""

    def learn(
        self,
        directory: Path,
        parameters: SimulationParameters,
        seed: int,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        """Do the stages `optimise` and `train` of `stages.learn`, and give the policy to the robot."""

    def rollout(self, directory: Path, plan: Plan, progress: Progress, cancelled: CancelCheck) -> None:
        """Let the robot follow the plan by the folder's policy, and leave the whole recording in its `bag`."""


def run_iteration(
    run: RunFolder, task: Task, crew: Crew, progress: Progress, cancelled: CancelCheck, tell: Tell
) -> Figures:
    """Do the next iteration of a run, after iteration 0 where the run is new, and write metrics and report.

    A run that was interrupted goes on where it stopped: see `run_stage`.

    Args:
        run: the run's folder; made where there is none.
        task: what the run is about.
        crew: does the work.
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
    from realitygrad_ros.iteration.report import write_report

    k = run.finished()
    run.check_same_run(task.configuration, task.seed)
    for number in (0, 1) if k == 0 else (k,):
        _iterate(run, task, crew, number, progress, cancelled, tell)
        progress("report", 0.0, {"iteration": number})
        write_report(run)
    return run.metrics(run.finished() - 1)


def _iterate(
    run: RunFolder, task: Task, crew: Crew, k: int, progress: Progress, cancelled: CancelCheck, tell: Tell
) -> None:
    start = time.monotonic()
    directory = run.directory(k)
    directory.mkdir(parents=True, exist_ok=True)
    before = {stage: read_record(directory, stage) for stage in STAGES}

    def told(stage: str, fraction: float, figures: Figures) -> None:
        progress(stage, fraction, {"iteration": k, **figures})

    if k > 0:
        bags = [run.output(i, "rollout") for i in range(k)]
        crew.identify(directory, bags, run.calibration(k - 1, task.configuration.nominal), told, cancelled)
    crew.learn(directory, run.calibration(k, task.configuration.nominal), task.seed, told, cancelled)
    _roll_out(directory, task, crew, k, told, cancelled, tell)
    told("measure", 0.0, {})
    _measure(run, task, k, tell)
    after = {stage: read_record(directory, stage) for stage in STAGES}
    seconds = {stage: 0.0 if record is None else record.seconds for stage, record in after.items()}
    # A stage that was finished before the iteration was interrupted counts with the time that it took then.
    kept = sum(seconds[stage] for stage in STAGES if before[stage] is not None and before[stage] == after[stage])
    seconds["total"] = time.monotonic() - start + kept
    _write_metrics(run, task, k, seconds)


def _roll_out(
    directory: Path, task: Task, crew: Crew, k: int, progress: Progress, cancelled: CancelCheck, tell: Tell
) -> None:
    drawn = {
        "robot": digest_of_robot(task.configuration),
        "draw": digest_of_value([k, task.seed, task.identification_targets, task.evaluation_targets]),
    }
    plan = Plan.draw(task.configuration, k, task.seed, task.identification_targets, task.evaluation_targets)

    def write_plan() -> Figures:
        plan.write(directory / "targets.json")
        return {}

    run_stage(directory, "plan", drawn, ["targets.json"], write_plan, tell)

    def roll_out() -> Figures:
        # A bag without a record is that of a rollout that was interrupted: it does not hold the whole plan.
        for leftover in sorted(directory.glob("bag*")):
            tell(f"{directory.name}: '{leftover.name}' of a rollout that was interrupted is removed")
            shutil.rmtree(leftover)
        try:
            crew.rollout(directory, plan, progress, cancelled)
            plan.segments(read_recording(directory / "bag", task.configuration.joint_names))
        except (Cancelled, RealityGradError):
            shutil.rmtree(directory / "bag", ignore_errors=True)
            raise
        return {"motions": len(plan.targets)}

    made_from = {name: digest(directory / name) for name in ("policy.safetensors", "targets.json")}
    run_stage(directory, "rollout", made_from, ["bag"], roll_out, tell)


def _measure(run: RunFolder, task: Task, k: int, tell: Tell) -> None:
    # Imported here: it brings torch and Warp, and an iteration can begin without them.
    from realitygrad_ros.iteration.measure import measure

    directory = run.directory(k)
    parameters = run.calibration(k, task.configuration.nominal)
    made_from = {
        "robot": digest_of_robot(task.configuration),
        "parameters": digest_of_value(parameters.as_mapping()),
        "bag": digest(directory / "bag"),
        "targets.json": digest(directory / "targets.json"),
    }
    run_stage(
        directory,
        "measure",
        made_from,
        ["comparison.safetensors"],
        lambda: measure(directory, task.configuration, task.model, parameters, tell),
        tell,
    )


def _write_metrics(run: RunFolder, task: Task, k: int, seconds: dict[str, float]) -> None:
    directory = run.directory(k)
    measured = read_record(directory, "measure")
    identified = read_record(directory, "identify")
    assert measured is not None
    residuals = [measured.figures["residual"]] if identified is None else identified.figures["residuals"]
    metrics = {
        "k": k,
        "robot": task.configuration.name,
        "robot_digest": digest_of_robot(task.configuration),
        "seed": task.seed,
        "finished": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %z"),
        "seconds": seconds,
        "gap_mean_m": measured.figures["gap_mean_m"],
        "gap_accumulated_m": measured.figures["gap_accumulated_m"],
        "target_error_mean_m": measured.figures["target_error_mean_m"],
        "residuals": residuals,
        "parameters": run.calibration(k, task.configuration.nominal).as_mapping(),
        "verdicts": {} if identified is None else identified.figures["verdicts"],
        "truth": None if task.truth is None else task.truth.as_mapping(),
    }
    run.write_metrics(k, metrics)
