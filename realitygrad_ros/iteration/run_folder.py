"""A run folder: what an iteration leaves on disk, what each file was made from, and what need not be made again.

    runs/<time>/report.html
    runs/<time>/iteration_<k>/calibration.yaml           identify (k >= 1)
                              trajectories.safetensors   optimise
                              policy.safetensors         train
                              targets.json               plan: the targets of the rollout
                              bag/                       rollout
                              comparison.safetensors     measure: real against simulated motion
                              metrics.json               measure: the figures; the iteration is finished
                              stages/<stage>.json        what the stage was made from, made, and took

Every file is written under a temporary name and renamed. A stage's record names the digests (sha256) of its inputs
and outputs and is written last, so a stage that was interrupted at any instant has no valid record and is done again.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.parameters import SimulationParameters

Tell = Callable[[str], None]
"""Takes one line for the user's log."""

Figures = dict[str, Any]
"""What a stage reports: JSON values by name."""


@dataclass(frozen=True)
class StageRecord:
    """What one stage was made from, what it made, and how long that took."""

    stage: str
    inputs: dict[str, str]
    """Digests by name."""
    outputs: dict[str, str]
    """Digests by file name, relative to the iteration's folder."""
    seconds: float
    figures: Figures


class RunFolder:
    """The folder of one run; its iterations are numbered by the identifications done before."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def directory(self, k: int) -> Path:
        """The folder of iteration k."""
        return self.path / f"iteration_{k}"

    def finished(self) -> int:
        """How many iterations have their metrics, from iteration 0 on without a gap."""
        k = 0
        while (self.directory(k) / "metrics.json").is_file():
            k += 1
        return k

    def metrics(self, k: int) -> Figures:
        """The figures of the finished iteration k.

        Raises:
            RealityGradError: they are missing or damaged; the message names the file.
        """
        path = self.directory(k) / "metrics.json"
        remedy = "delete it, and run_iteration writes it anew"
        metrics = _read_json(path, remedy)
        if not isinstance(metrics, dict) or metrics.get("k") != k:
            raise RealityGradError(f"'{path}' holds no metrics of iteration {k}; {remedy}")
        if metrics.pop("digest", None) != digest_of_value(metrics):
            raise RealityGradError(f"'{path}' is damaged: its figures do not match its digest; {remedy}")
        return metrics

    def write_metrics(self, k: int, metrics: Figures) -> None:
        """Write the figures of iteration k, by which it is finished."""
        content = metrics | {"digest": digest_of_value(metrics)}
        write_whole(self.directory(k) / "metrics.json", json.dumps(content, indent=2).encode())

    def check_same_run(self, configuration: RobotConfiguration, seed: int) -> None:
        """Refuse a run that was begun with something else; a new one is none.

        Raises:
            RealityGradError: its first iteration was of another robot or of another seed.
        """
        if self.finished() == 0:
            return
        begun = self.metrics(0)
        if begun["robot_digest"] != digest_of_robot(configuration):
            raise RealityGradError(
                f"run '{self.path}' was begun with robot '{begun['robot']}' as it was configured then, not with "
                f"'{configuration.name}' as it is now; start a new run folder"
            )
        if begun["seed"] != seed:
            raise RealityGradError(
                f"run '{self.path}' was begun with seed {begun['seed']}, not {seed}; give that one, or start a new run "
                "folder"
            )

    def output(self, k: int, stage: str) -> Path:
        """The one file or folder that a stage of a finished iteration made, checked against its digest.

        Raises:
            RealityGradError: it was not made, is missing, or has changed; the message names it.
        """
        directory = self.directory(k)
        record = read_record(directory, stage)
        if record is None:
            raise RealityGradError(f"'{_record_path(directory, stage)}' is missing: iteration {k} cannot be built upon")
        (name,) = record.outputs
        if not (directory / name).exists():
            raise RealityGradError(f"'{directory / name}' is missing; restore it, or start a new run folder")
        _check_output(directory, record, name)
        return directory / name

    def calibration(self, k: int, nominal: SimulationParameters) -> SimulationParameters:
        """The parameters that iteration k works with, in the joint order of `nominal`, which are those of iteration 0.

        Raises:
            RealityGradError: the calibration is missing or damaged, or is for other joints.
        """
        if k == 0:
            return nominal
        return SimulationParameters.read(self.output(k, "identify")).reordered(nominal.joint_names)

    @staticmethod
    def place(directory: Path) -> "tuple[RunFolder, int] | None":
        """The run and the number of an iteration's folder; None for any other folder."""
        match = re.fullmatch(r"iteration_(\d+)", directory.name)
        return None if match is None else (RunFolder(directory.parent), int(match[1]))


def newest_policy(directory: Path) -> Path | None:
    """The policy in an iteration's folder or, in a run's folder, that of its newest iteration; None without any."""
    policies = [directory / "policy.safetensors", *directory.glob("iteration_*/policy.safetensors")]

    def number(path: Path) -> int:
        place = RunFolder.place(path.parent)
        return -1 if place is None else place[1]

    return max((path for path in policies if path.is_file()), key=number, default=None)


def digest(path: Path) -> str:
    """sha256 of a file's content, or of a folder's file names and contents.

    Raises:
        RealityGradError: there is neither.
    """
    if not path.exists():
        raise RealityGradError(f"there is no file or folder '{path}'")
    if path.is_dir():
        total = hashlib.sha256()
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            total.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
        return total.hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_value(value: Any) -> str:
    """sha256 of a value's canonical JSON; numpy arrays count as nested lists."""
    text = json.dumps(value, sort_keys=True, default=lambda other: getattr(other, "tolist", lambda: str(other))())
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_robot(configuration: RobotConfiguration) -> str:
    """sha256 of everything that the configuration and its URDF say, wherever the files lie."""
    return digest_of_value(asdict(configuration) | {"urdf": digest(configuration.urdf)})


def run_stage(
    directory: Path,
    stage: str,
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    work: Callable[[], Figures],
    tell: Tell,
) -> StageRecord:
    """Do a stage of an iteration, unless its outputs stand there already and were made from the same inputs.

    Args:
        directory: the iteration's folder; made if it is not there.
        stage: the stage's name.
        inputs: digests of everything that the outputs depend upon, by name.
        outputs: names of what `work` writes into `directory`.
        work: does the stage and returns its figures; called without an argument.
        tell: gets one line whenever a stage is skipped, or is done again and why.

    Returns:
        The record, new or from before.

    Raises:
        RealityGradError: an output is not what the stage wrote, or the record is damaged; the message names the file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    record = read_record(directory, stage)
    if record is not None:
        reason = _reason_to_redo(directory, record, inputs)
        if reason is None:
            tell(f"{directory.name}: {stage} is done already")
            return record
        tell(f"{directory.name}: {stage} is done again, for {reason}")
        _record_path(directory, stage).unlink()
    start = time.monotonic()
    figures = work()
    seconds = time.monotonic() - start
    made = {name: digest(directory / name) for name in outputs}
    record = StageRecord(stage, dict(inputs), made, seconds, figures)
    path = _record_path(directory, stage)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(asdict(record), indent=2).encode())
    return record


def read_record(directory: Path, stage: str) -> StageRecord | None:
    """The record of a stage, or None where the stage was not finished.

    Raises:
        RealityGradError: the record is damaged.
    """
    path = _record_path(directory, stage)
    if not path.is_file():
        return None
    remedy = f"delete it to have stage '{stage}' done again"
    try:
        return StageRecord(**_read_json(path, remedy))
    except TypeError as error:
        raise RealityGradError(f"'{path}' is no record of a stage ({error}); {remedy}") from error


def _reason_to_redo(directory: Path, record: StageRecord, inputs: Mapping[str, str]) -> str | None:
    changed = [name for name in {**inputs, **record.inputs} if inputs.get(name) != record.inputs.get(name)]
    if changed:
        return f"its {', '.join(changed)} changed"
    for name in record.outputs:
        if not (directory / name).exists():
            return f"{name} is missing"
        _check_output(directory, record, name)
    return None


def _check_output(directory: Path, record: StageRecord, name: str) -> None:
    if digest(directory / name) != record.outputs[name]:
        raise RealityGradError(
            f"'{directory / name}' is not what stage '{record.stage}' wrote (its sha256 differs); "
            "restore it, or delete it to have it made again"
        )


def _record_path(directory: Path, stage: str) -> Path:
    return directory / "stages" / f"{stage}.json"


def _read_json(path: Path, remedy: str) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RealityGradError(f"'{path}' cannot be read ({error}); {remedy}") from error
