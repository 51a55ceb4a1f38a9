"""The plan of a rollout: which targets the robot reaches for, and which of them are held out."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.identification.recording import Recording, TargetSegment
from realitygrad_ros.robot.configuration import RobotConfiguration

COMPLETE = 0.9
"""The share of a motion that must have been recorded."""

SILENCE = 0.1
"""How long before the end of a motion its last command may have been given [s]; a busy machine is late at times."""


@dataclass(frozen=True, eq=False)
class Plan:
    """One chain of targets, each valid for `duration`: first those to identify from, then those to judge by."""

    identification: Float[np.ndarray, "motion 3"]
    """In the base frame [m]. Identification reads these motions and no others."""
    evaluation: Float[np.ndarray, "motion 3"]
    """In the base frame [m]. The same in every iteration; never trained on, never identified from."""
    duration: float
    """[s]"""
    hold: float
    """The last part of a motion, in which the end effector should rest [s]."""

    @staticmethod
    def draw(configuration: RobotConfiguration, k: int, seed: int, identification: int, evaluation: int) -> "Plan":
        """The plan of iteration k, always the same for the same arguments.

        Args:
            configuration: of the robot; gives the box and the times.
            k: the iteration; each identifies from motions of its own.
            seed: of the run.
            identification: number of targets to identify from.
            evaluation: number of targets to judge by.
        """
        # Imported here: it brings torch, and the nodes that only read a plan shall start fast.
        from realitygrad_ros.control.tasks.reach import sample_targets

        def stream(*key: int) -> int:
            """A seed that no other use of the run's seed meets."""
            return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0])

        return Plan(
            identification=sample_targets(configuration, identification, stream(1, k)),
            evaluation=sample_targets(configuration, evaluation, stream(2)),
            duration=configuration.reach.duration,
            hold=configuration.reach.hold,
        )

    @property
    def targets(self) -> Float[np.ndarray, "motion 3"]:
        """All targets in their order."""
        return np.concatenate([self.identification, self.evaluation])

    def segments(self, recording: Recording) -> tuple[list[TargetSegment], list[TargetSegment]]:
        """The recorded motions to identify from, and those to judge by.

        Raises:
            RealityGradError: the recording does not hold every motion of this plan; the message says what is missing.
        """
        recorded = recording.target_segments()
        found: list[TargetSegment] = []
        for target in self.targets:
            number = len(found) + 1
            if number > len(recorded) or not np.allclose(recorded[number - 1].target, target, rtol=0.0, atol=1e-9):
                raise RealityGradError(
                    f"bag '{recording.source}' lacks target {number} of {len(self.targets)}; roll out again"
                )
            segment = recorded[number - 1]
            end = min(segment.end, segment.start + self.duration)
            commanded = recording.command_time[recording.command_time < end]
            if end < segment.start + COMPLETE * self.duration or len(commanded) == 0 or commanded[-1] < end - SILENCE:
                raise RealityGradError(
                    f"bag '{recording.source}': motion {number} of {len(self.targets)} was not commanded to its end; "
                    "see the policy node's diagnostics, then roll out again"
                )
            found.append(TargetSegment(segment.target, segment.start, end))
        return found[: len(self.identification)], found[len(self.identification) :]

    def write(self, path: Path) -> None:
        """Write a JSON file, whole or not at all."""
        content = {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()
        }
        write_whole(path, json.dumps(content, indent=2).encode())

    @staticmethod
    def read(path: Path) -> "Plan":
        """Read what `write` wrote.

        Raises:
            RealityGradError: the file is missing or damaged.
        """
        try:
            content = json.loads(path.read_text())
            targets = {name: np.array(content[name], dtype=float) for name in ("identification", "evaluation")}
            if any(rows.ndim != 2 or rows.shape[1] != 3 or not np.isfinite(rows).all() for rows in targets.values()):
                raise ValueError("a target is not three finite numbers")
            return Plan(**targets, duration=float(content["duration"]), hold=float(content["hold"]))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise RealityGradError(f"plan '{path}' cannot be read ({error}); roll out again") from error
