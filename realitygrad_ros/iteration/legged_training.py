"""A walking policy for a calibrated simulator."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.tasks.walking import VELOCITY
from realitygrad_ros.control.tasks.worlds import legged_robot
from realitygrad_ros.control.training import Plan, train
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.iteration.legged_measure import CONTACT
from realitygrad_ros.iteration.legged_walk import simulate_walk, standing
from realitygrad_ros.iteration.run_folder import Figures
from realitygrad_ros.progress import CancelCheck, Progress
from realitygrad_ros.robot.parameters import SimulationParameters

if TYPE_CHECKING:
    from realitygrad_ros.iteration.legged_loop import LeggedTask


def train_policy(
    task: "LeggedTask", parameters: SimulationParameters, folder: Path, progress: Progress, cancelled: CancelCheck
) -> tuple[PolicyBundle, Figures]:
    """Train a policy to walk at commanded velocities, and have it walk the schedule in the simulator.

    Args:
        task: gives the robot, the schedule, the seed, and how much to train.
        parameters: of the simulator.
        folder: of the training; one that was interrupted there goes on.
        progress: told the reward.
        cancelled: asked before each step.

    Returns:
        The bundle, and its figures.

    Raises:
        RealityGradError: training diverged, or the policy falls in the simulator.
        Cancelled: `cancelled` asked for it; the folder keeps what was learned.
    """
    configuration, model = task.configuration, task.model
    plan = Plan(
        robot=configuration.name,
        task=VELOCITY.name,
        algorithm="shac",
        contact=CONTACT,
        worlds=task.worlds,
        iterations=task.training_iterations,
        seed=task.seed,
    )

    def told(_: str, fraction: float, figures: Mapping[str, float]) -> None:
        progress("train", fraction, {"reward": figures["reward"]})

    progress("train", 0.0, {})
    training = train(plan, configuration, model, parameters, folder, progress=told, cancelled=cancelled)
    period = 1.0 / configuration.policy_rate
    wanted = np.concatenate([np.tile(s.velocity, (round(s.duration / period), 1)) for s in task.schedule])
    robot = legged_robot(model, configuration, parameters, CONTACT)
    walk = simulate_walk(robot, configuration, parameters, training.bundle, standing(configuration), wanted)
    if walk.stopped_because:
        raise RealityGradError(
            f"the policy that was trained is not given to the robot: in the simulator {walk.stopped_because}; train "
            "longer, or with another seed"
        )
    last = training.curve[-1]
    return training.bundle, {"reward": last["reward"], "samples": last["samples"], "seconds": last["seconds"]}
