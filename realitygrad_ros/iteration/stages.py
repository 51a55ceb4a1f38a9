"""The stages that compute: identify, and optimise and train. Each is done once for the same inputs: see `run_stage`."""

from collections.abc import Sequence
from pathlib import Path

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.cloning import clone, refuse_unfit
from realitygrad_ros.control.trajectory_optimization import Trajectories, optimise
from realitygrad_ros.errors import Cancelled
from realitygrad_ros.identification.base_at_rest import refuse_moving_base
from realitygrad_ros.identification.fit import FitResult, fit
from realitygrad_ros.identification.recording import UniformRecording, read_recording
from realitygrad_ros.identification.verdict import ParameterVerdict
from realitygrad_ros.identification.windows import Windows, rms
from realitygrad_ros.iteration.measure import pieces
from realitygrad_ros.iteration.plan import Plan
from realitygrad_ros.iteration.run_folder import (
    Figures,
    RunFolder,
    Tell,
    digest,
    digest_of_robot,
    digest_of_value,
    run_stage,
)
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

PLAN = "targets.json"
"""Beside a bag: which of its motions are for identification. A bag without it is used as a whole."""


def identify(
    directory: Path,
    configuration: RobotConfiguration,
    model: RobotModel,
    bags: Sequence[Path],
    prior: SimulationParameters,
    *,
    progress: Progress,
    cancelled: CancelCheck,
    tell: Tell,
) -> Figures:
    """Fit the simulator's parameters to bags and write `calibration.yaml`.

    Args:
        directory: where to write; an iteration's folder, or any other.
        configuration: of the robot.
        model: of the robot.
        bags: recordings; of one with a plan beside it only the motions that are meant for identification.
        prior: where the fit starts, and what stays where the data say nothing.
        progress: told the residual.
        cancelled: asked throughout.
        tell: gets what the log should say.

    Returns:
        `residuals` on these bags of the calibrations of all iterations before, if `directory` is one of a run, or of
        the prior, and last of the fitted one; `verdicts` in words by parameter and joint.

    Raises:
        RealityGradError: a bag is missing, damaged or lacks something.
        Cancelled: `cancelled` asked for it.
    """
    made_from = {"robot": digest_of_robot(configuration), "prior": digest_of_value(prior.as_mapping())}
    for number, bag in enumerate(bags):
        made_from[f"bag {number}"] = digest(bag)
        if (bag.parent / PLAN).is_file():
            made_from[f"plan {number}"] = digest(bag.parent / PLAN)

    def work() -> Figures:
        progress("identify", 0.0, {})
        recordings = [piece for bag in bags for piece in _motions(bag, configuration, cancelled, tell)]
        earlier = _earlier_calibrations(directory, configuration.nominal) or [prior]
        result = fit(configuration, model, recordings, prior, progress=progress, cancelled=cancelled)
        windows = Windows(configuration, model, recordings)
        _write_calibration(directory, result, bags)
        return {
            "residuals": [*(rms(windows.residual(parameters)) for parameters in earlier), result.residual_after],
            "verdicts": _in_words(result.verdicts),
            "windows": result.windows,
            "saturated": result.saturated,
        }

    return run_stage(directory, "identify", made_from, ["calibration.yaml"], work, tell).figures


def learn(
    directory: Path,
    configuration: RobotConfiguration,
    model: RobotModel,
    parameters: SimulationParameters,
    *,
    motions: int,
    seed: int,
    progress: Progress,
    cancelled: CancelCheck,
    tell: Tell,
) -> Figures:
    """Optimise motions, clone them, and write `trajectories.safetensors` and `policy.safetensors`.

    Args:
        directory: where to write; an iteration's folder, or any other.
        configuration: of the robot.
        model: of the robot.
        parameters: of the simulator.
        motions: number of motions.
        seed: draws targets and weights.
        progress: told cost and loss.
        cancelled: asked throughout.
        tell: gets what the log should say.

    Returns:
        Figures of motions and policy: see `optimise` and `clone`.

    Raises:
        RealityGradError: a target is out of reach, a file of the folder is damaged, or the policy fails in the
            simulator.
        Cancelled: `cancelled` asked for it.
    """
    trajectories, policy = directory / "trajectories.safetensors", directory / "policy.safetensors"
    made_from = {
        "robot": digest_of_robot(configuration),
        "parameters": digest_of_value(parameters.as_mapping()),
        "draw": digest_of_value([motions, seed]),
    }

    def optimise_motions() -> Figures:
        progress("optimise", 0.0, {})
        optimal = optimise(
            model, configuration, parameters, count=motions, seed=seed, progress=progress, cancelled=cancelled
        )
        optimal.write(trajectories)
        return dict(optimal.figures)

    optimised = run_stage(directory, "optimise", made_from, [trajectories.name], optimise_motions, tell)
    epoch, parent = _descent(directory)
    made_from |= {trajectories.name: digest(trajectories), "parent": parent}

    def train_policy() -> Figures:
        progress("train", 0.0, {})
        result = clone(
            model,
            configuration,
            parameters,
            Trajectories.read(trajectories),
            seed=seed,
            epoch=epoch,
            parent=parent,
            progress=progress,
            cancelled=cancelled,
        )
        refuse_unfit(result.figures)
        result.bundle.write(policy)
        return result.figures

    trained = run_stage(directory, "train", made_from, [policy.name], train_policy, tell)
    return {f"optimise {name}": value for name, value in optimised.figures.items()} | {
        f"train {name}": value for name, value in trained.figures.items()
    }


def _motions(
    bag: Path, configuration: RobotConfiguration, cancelled: CancelCheck, tell: Tell
) -> list[UniformRecording]:
    if cancelled():
        raise Cancelled
    refuse_moving_base(bag)
    recording = read_recording(bag, configuration.joint_names)
    for warning in recording.warnings:
        tell(f"'{bag}': {warning}")
    uniform = recording.resample(1.0 / configuration.joint_state_rate)
    if not (bag.parent / PLAN).is_file():
        return [uniform]
    identification, _ = Plan.read(bag.parent / PLAN).segments(recording)
    return pieces(uniform, identification)


def _earlier_calibrations(directory: Path, nominal: SimulationParameters) -> list[SimulationParameters]:
    """Of the iterations before the one in `directory`; none where it is not of a run."""
    place = RunFolder.place(directory)
    return [] if place is None else [place[0].calibration(i, nominal) for i in range(place[1])]


def _descent(directory: Path) -> tuple[int, str]:
    """Epoch of the policy in `directory`, and the digest of the one before it."""
    place = RunFolder.place(directory)
    if place is None or place[1] == 0:
        return 0, ""
    run, k = place
    return k, PolicyBundle.read(run.output(k - 1, "train")).digest


def _write_calibration(directory: Path, result: FitResult, bags: Sequence[Path]) -> None:
    lines = [
        f"identified by realitygrad_ros; residual {result.residual_before:.4g}, then {result.residual_after:.4g}",
        "from the bags (sha256 of all their files)",
        *(f"{digest(bag)} {bag}" for bag in bags),
    ]
    result.parameters.write(directory / "calibration.yaml", "\n".join(lines))


def _in_words(verdicts: Sequence[ParameterVerdict]) -> dict[str, dict[str, str]]:
    words: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        # Two significant digits, and no exponent: 320, not 3.2e+02.
        error = None if verdict.standard_error is None else float(f"{verdict.standard_error:.2g}")
        text = "held" if error is None else f"fitted ± {error:g}"
        words.setdefault(verdict.name, {})[verdict.joint] = f"{text}: {verdict.reason}" if verdict.reason else text
    return words
