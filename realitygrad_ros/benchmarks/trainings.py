"""The trainings of a benchmark: each is done once, and what is found in the folder is not done again."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from realitygrad_ros.control.shac import part
from realitygrad_ros.control.tasks.walking import TASKS
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.control.training import CHECKPOINT, Plan, read_checkpoint, train
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.progress import Progress
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel


class Trained(NamedTuple):
    """What a training came to."""

    policy: WalkingPolicy
    curve: list[dict[str, float]]
    """Figures of every iteration."""
    diverged: str
    """Why it ended before its last iteration, with the policy of the last checkpoint; empty if it did not."""


class Trainings:
    """Trainings of one robot with its nominal parameters, below one folder.

    An interrupted training goes on from its checkpoint. One that diverged is tried again from there, and diverges
    again, for a training is the same every time.
    """

    def __init__(self, folder: Path, configuration: RobotConfiguration, model: RobotModel, progress: Progress) -> None:
        """Look for trainings in `folder`, and put new ones there; `progress` is told of each."""
        self._folder, self._configuration, self._model, self._progress = folder, configuration, model, progress

    def of(self, plan: Plan) -> Trained:
        """The training of a plan.

        Raises:
            RealityGradError: the folder holds a training of another plan, or a damaged one, or the robot cannot walk.
        """
        folder = self._folder / _name(plan)

        def progress(_: str, fraction: float, figures: Mapping[str, float]) -> None:
            self._progress(folder.name, fraction, figures)

        configuration, model = self._configuration, self._model
        try:
            training = train(plan, configuration, model, configuration.nominal, folder, progress=progress)
        except RealityGradError as error:
            return self._last_good(plan, folder, str(error))
        return Trained(training.policy, training.curve, diverged="")

    def _last_good(self, plan: Plan, folder: Path, reason: str) -> Trained:
        """The policy of the last checkpoint, or the untrained one where the training did not come that far."""
        worlds = self._worlds(plan)
        random = torch.Generator().manual_seed(plan.seed)
        observations = worlds.observe(worlds.situation, noisy=False).shape[-1]
        policy = WalkingPolicy(observations, len(worlds.robot.home), random)
        if not (folder / CHECKPOINT).exists():
            return Trained(policy, [], reason)
        state, curve = read_checkpoint(folder / CHECKPOINT, plan)
        policy.load_state_dict(part(state, "policy"))
        return Trained(policy, curve, reason)

    def _worlds(self, plan: Plan) -> Worlds:
        nominal = self._configuration.nominal
        robot = legged_robot(self._model, self._configuration, nominal, plan.contact)
        return Worlds(robot, nominal, TASKS[plan.task], Share(0, plan.worlds, plan.worlds), plan.seed)


def _name(plan: Plan) -> str:
    size = f"{plan.worlds}_worlds_{plan.horizon}_steps_{plan.iterations}_iterations"
    return f"{plan.task}_{plan.algorithm}_{plan.contact}_{size}_seed_{plan.seed}"
