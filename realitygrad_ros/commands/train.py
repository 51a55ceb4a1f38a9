"""Train a walking policy in the simulator.

The folder keeps a checkpoint: the same command again goes on from there. Under `torchrun` the worlds are shared among
all processes, on one machine or on several; the folder must then be one that all of them see.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import check_writable
from realitygrad_ros.robot.contact import CONTACT_MODES

WORLDS = {"shac": 64, "ppo": 1024}
ITERATIONS = {"shac": 500, "ppo": 300}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--robot", default="anymal_c", help="name of a robot in config/, or path of its YAML file")
    parser.add_argument("--task", choices=("walk", "velocity"), default="walk", help="what to learn (walk)")
    parser.add_argument("--algorithm", choices=tuple(WORLDS), default="shac", help="how to learn it (shac)")
    parser.add_argument("--contact", choices=CONTACT_MODES, default="smooth", help="how contact is simulated (smooth)")
    parser.add_argument("--worlds", type=_count, help="worlds side by side (64 for shac, 1024 for ppo)")
    parser.add_argument("--horizon", type=_count, help="steps of each world in an iteration (the algorithm's own)")
    parser.add_argument("--iterations", type=_count, help="how many (500 for shac, 300 for ppo)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="training folder (runs/train_ROBOT_TASK_ALGORITHM)")
    add_json_argument(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 on")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Train, judge the policy by whole episodes, and write the figures."""
    from realitygrad_ros.robot.load import load_robot

    configuration, model = load_robot(arguments.robot)
    default = f"runs/train_{configuration.name}_{arguments.task}_{arguments.algorithm}"
    folder = arguments.out or Path(default)
    check_writable(folder)
    from realitygrad_ros.control.tasks.walking import TASKS
    from realitygrad_ros.control.tasks.worlds import legged_robot
    from realitygrad_ros.control.training import POLICY, Plan, train, usual_horizon
    from realitygrad_ros.control.walking_evaluation import evaluate

    plan = Plan(
        robot=configuration.name,
        task=arguments.task,
        algorithm=arguments.algorithm,
        contact=arguments.contact,
        worlds=arguments.worlds or WORLDS[arguments.algorithm],
        horizon=arguments.horizon or usual_horizon(arguments.algorithm),
        iterations=arguments.iterations or ITERATIONS[arguments.algorithm],
        seed=arguments.seed,
    )
    with _shared_worlds() as first, progress_bar() as progress:
        training = train(plan, configuration, model, configuration.nominal, folder, progress=progress)
        if not first:
            return 0
    robot = legged_robot(model, configuration, configuration.nominal, arguments.contact)
    episodes = evaluate(robot, configuration.nominal, TASKS[plan.task], training.policy, worlds=64, seed=plan.seed)
    last = training.curve[-1]
    figures = {"samples": int(last["samples"]), "seconds": last["seconds"], "reward": last["reward"]}
    figures |= episodes.figures() | {"episodes": 64}
    print(table([(name, "-" if value is None else f"{value:.5g}") for name, value in figures.items()], "<>"))
    print(f"policy: {folder / POLICY}")
    write_json(arguments.json, figures | {"curve": training.curve})
    return 0


@contextmanager
def _shared_worlds() -> Iterator[bool]:
    """Join the processes of `torchrun`, if it started this one; yields whether this is the first of them."""
    if "WORLD_SIZE" not in os.environ:
        yield True
        return
    import torch.distributed

    try:
        torch.distributed.init_process_group("gloo")
    except ValueError as error:
        raise RealityGradError(f"the processes of torchrun cannot meet: {error}") from error
    try:
        yield torch.distributed.get_rank() == 0
    finally:
        torch.distributed.destroy_process_group()
