"""Learning to walk by gradients of the simulator: against PPO, in three models of contact, and from there to the twin.

After section 4 of Schwarke et al., arXiv 2404.02887. The learner by gradients is `Shac`. Unless said, a figure is the
median over training seeds, 0 to `seeds` - 1, and the seeds' own values stand under the same name in `by_seed`.

Trained policies act without their spread, and are judged by the same number of episodes, with the same commands and
beginnings (on the twin: see `twin_walk.evaluate_on_twin`), by the same rewards everywhere.
"""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from json import dumps
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import mujoco
import numpy as np
import torch

from realitygrad_ros.benchmarks import learning_figures as pictures
from realitygrad_ros.benchmarks.learning_curves import LearningCurve, learning_curve
from realitygrad_ros.benchmarks.tracking import in_simulator, on_twin, track
from realitygrad_ros.benchmarks.trainings import Trained, Trainings
from realitygrad_ros.benchmarks.twin_walk import evaluate_on_twin
from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.shac import Shac, ShacSettings
from realitygrad_ros.control.tasks.legged import LeggedRobot
from realitygrad_ros.control.tasks.walking import TASKS
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.control.torch_threads import one_thread
from realitygrad_ros.control.training import Algorithm, Plan, usual_horizon
from realitygrad_ros.control.walking_evaluation import evaluate
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole
from realitygrad_ros.progress import Progress
from realitygrad_ros.resources import share_directory
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.twin.configuration import TwinConfiguration, load_twin_configuration

ROBOT, TASK, BUNDLE = "anymal_c", "walk", "policies/anymal_c_velocity.safetensors"
"""The bundle is that of the task `velocity`, as it is shipped."""

CONTACTS = ("smooth", "hard", "soft")

WORLDS, ITERATIONS = 64, 300
"""Of `Shac`, with its usual horizon."""

PPO_WORLDS, PPO_ITERATIONS = 512, 500
"""24 steps an iteration: 6.1 million samples."""

HORIZONS = (8, 16, 32, 64)
"""h [steps]; each gets as many samples."""

TIMED_ITERATIONS = 20

EPISODES, JUDGED_BY = 32, 1000
"""How many episodes judge a policy, and their seed, by which none is trained."""

TARGETS, TARGET_EPISODES = np.linspace(-1.0, 1.0, 21), 8
"""Velocities forward [m/s], and how many episodes follow each."""

Tree = dict[str, Any]
"""Figures by name; where they are by seed, the leaves are lists, and None stands for what a seed has not."""


@dataclass(frozen=True)
class Bench:
    """What all parts need."""

    folder: Path
    seeds: range
    progress: Progress
    configuration: RobotConfiguration
    model: RobotModel
    hidden: TwinConfiguration
    diverged: dict[str, str] = field(default_factory=dict)
    """Why trainings ended early, by contact, horizon and seed."""

    @cached_property
    def trainings(self) -> Trainings:
        """All of them, done once."""
        return Trainings(self.folder / "trainings", self.configuration, self.model, self.progress)

    @cached_property
    def robots(self) -> dict[str, LeggedRobot]:
        """The robot in each model of contact."""
        parts = (self.model, self.configuration, self.configuration.nominal)
        return {contact: legged_robot(*parts, contact) for contact in {"hard", "smooth", *CONTACTS}}

    def shac(self, seed: int, contact: str = "smooth", horizon: int = ShacSettings.horizon) -> Trained:
        """A training by `Shac`, of as many samples with any horizon; of one that diverged, up to there."""
        iterations = ITERATIONS * ShacSettings.horizon // horizon
        trained = self.trainings.of(Plan(ROBOT, TASK, "shac", contact, WORLDS, horizon, iterations, seed))
        if trained.diverged:
            self.diverged[f"contact {contact}, horizon {horizon}, seed {seed}"] = trained.diverged
        return trained

    def ppo(self, seed: int, worlds: int, iterations: int) -> Trained:
        """A training by `Ppo`."""
        return self.trainings.of(Plan(ROBOT, TASK, "ppo", "smooth", worlds, usual_horizon("ppo"), iterations, seed))

    def judged(self, policy: WalkingPolicy, contact: str) -> Tree:
        """What a policy does in the simulator."""
        robot, nominal = self.robots[contact], self.configuration.nominal
        episodes = evaluate(robot, nominal, TASKS[TASK], policy, worlds=EPISODES, seed=JUDGED_BY)
        return _finite(episodes.figures())

    def judged_on_twin(self, policy: WalkingPolicy) -> Tree:
        """What a policy does on the twin."""
        task, nominal = TASKS[TASK], self.configuration.nominal
        bundle = policy.to_bundle(task, self.model, self.configuration, nominal, epoch=0, parent="")
        robot, configuration = self.robots["smooth"], self.configuration
        return _finite(
            evaluate_on_twin(
                robot, configuration, self.hidden, task, bundle, episodes=EPISODES, seed=JUDGED_BY
            ).figures()
        )

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the benchmark's folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / name, content)


@one_thread()
def run(folder: Path, progress: Progress, seeds: int = 3, part: str | None = None) -> Tree:
    """Train, judge and draw. What `folder` holds of trainings is not trained again, so that a second run only judges.

    Args:
        folder: trainings and pictures go here; it is made if it is not there.
        progress: told of each training and judgement.
        seeds: how many trainings of a kind.
        part: one of `PARTS`; none: all.

    Returns:
        The figures of each part, as its function says; `episodes` that judge a policy, `seeds`, `diverged` trainings
        with the reason, of which the policy before was judged, `by_seed` and the machine.

    Raises:
        RealityGradError: `folder` holds trainings of another plan; the policy that is shipped, or PPO's library, is not
            there; or a training diverged that has no part in the comparison of contacts or horizons.
    """
    configuration, model = load_robot(ROBOT)
    bench = Bench(folder, range(seeds), progress, configuration, model, load_twin_configuration(ROBOT))
    chosen = list(PARTS) if part is None else [part]
    for name in chosen:
        _REQUIRED.get(name, lambda: None)()
    by_seed: Tree = {}
    others: Tree = {}
    for name in chosen:
        own, more = PARTS[name](bench)
        by_seed |= own
        others |= more
    return {
        **_medians(by_seed),
        **others,
        "episodes": EPISODES,
        "seeds": seeds,
        "diverged": bench.diverged,
        "by_seed": by_seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, PyTorch {torch.__version__}, "
        f"MuJoCo {mujoco.__version__}",
    }


def _walk(bench: Bench) -> tuple[Tree, Tree]:
    """`walk`: seconds of learning from scratch, mean speed of the episodes without a fall, falls."""
    rows = []
    for seed in bench.seeds:
        trained = _whole(bench.shac(seed))
        figures = bench.judged(trained.policy, "smooth")
        rows.append({"seconds": trained.curve[-1]["seconds"], **_chosen(figures, "speed_mean_mps", "falls")})
    return {"walk": _by_name(rows)}, {}


def _ppo(bench: Bench) -> tuple[Tree, Tree]:
    """Both algorithms, learning the same task in smooth contact.

    `samples_to_equal_reward`: of the two trainings by a seed, the lower of the final rewards is the equal one; these
    are the samples after which each reached it, by `LearningCurve`. `samples_to_shac_reward`: the same of the final
    reward of `Shac`, none if `Ppo` did not reach it; `ppo_reward_reached` is the highest that `Ppo` reached.
    `final_return` is that of whole episodes without the spread of actions. `iteration_seconds`: see
    `_iteration_seconds`.
    """
    ppo = partial(bench.ppo, worlds=PPO_WORLDS, iterations=PPO_ITERATIONS)
    trained = {
        name: [_whole(learn(seed)) for seed in bench.seeds] for name, learn in (("shac", bench.shac), ("ppo", ppo))
    }
    curves = {name: [learning_curve(one.curve) for one in several] for name, several in trained.items()}
    equal = [min(pair) for pair in zip(*([c.final for c in several] for several in curves.values()), strict=True)]
    bests = [curve.final for curve in curves["shac"]]
    returns = {
        name: [bench.judged(one.policy, "smooth")["return_mean"] for one in several]
        for name, several in trained.items()
    }
    samples = _samples(curves, equal)
    by_seed = {
        "samples_to_equal_reward": samples,
        "ppo_over_shac_samples": [ppo / shac for shac, ppo in zip(samples["shac"], samples["ppo"], strict=True)],
        "equal_reward": equal,
        "samples_to_shac_reward": _samples(curves, bests),
        "ppo_reward_reached": [float(curve.reward.max()) for curve in curves["ppo"]],
        "final_reward": {name: [curve.final for curve in several] for name, several in curves.items()},
        "final_return": returns,
        "samples": {name: [float(curve.samples[-1]) for curve in several] for name, several in curves.items()},
        "seconds": {name: [float(curve.seconds[-1]) for curve in several] for name, several in curves.items()},
    }
    bench.write("learning_curves.png", pictures.draw_curves(curves, median(equal)))
    return by_seed, _iteration_seconds(bench)


def _samples(curves: Mapping[str, Sequence[LearningCurve]], rewards: Sequence[float]) -> Tree:
    """Of each algorithm, the samples by which each seed reached its reward."""
    return {
        name: [curve.samples_to(reward) for curve, reward in zip(several, rewards, strict=True)]
        for name, several in curves.items()
    }


def _iteration_seconds(bench: Bench) -> Tree:
    """Seconds of an iteration of either algorithm with the same samples, and their ratio.

    `WORLDS` worlds, the horizon of `Shac`, and the epochs of each over them. Medians of iterations in turn, so that a
    noisy machine is noisy for both, after one that may compile.
    """
    from realitygrad_ros.control.ppo import Ppo, PpoSettings  # its library is an extra

    robot, task = bench.robots["smooth"], TASKS[TASK]

    def worlds() -> Worlds:
        return Worlds(robot, bench.configuration.nominal, task, Share(0, WORLDS, WORLDS), 0)

    learners: dict[str, Algorithm] = {
        "shac": Shac(worlds(), ShacSettings(), 0),
        "ppo": Ppo(worlds(), PpoSettings(steps=ShacSettings.horizon), 0),
    }
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for done in range(TIMED_ITERATIONS + 1):
        for name, learner in learners.items():
            seconds[name].append(learner.learn()["seconds"])
        progress = {name: values[-1] for name, values in seconds.items()}
        bench.progress("iterations", done / TIMED_ITERATIONS, progress)
    seconds = {name: values[1:] for name, values in seconds.items()}
    ratios = [shac / ppo for shac, ppo in zip(seconds["shac"], seconds["ppo"], strict=True)]
    return {
        "iteration_seconds": {name: median(values) for name, values in seconds.items()},
        "shac_over_ppo_seconds": median(ratios),
    }


def _transfer(bench: Bench) -> tuple[Tree, Tree]:
    """Policies trained in each model of contact.

    `transfer`: mean return of episodes in the `own` model, in `hard` contact and on the `twin`; `transfer_falls` and
    `transfer_speed_mps` of the same episodes. The gradients' norms in training are drawn.
    """
    found: dict[str, list[dict[str, Tree]]] = {}
    norms: dict[str, list[list[float]]] = {}
    for contact in CONTACTS:
        found[contact], norms[contact] = [], []
        for seed in bench.seeds:
            trained = bench.shac(seed, contact)
            own = bench.judged(trained.policy, contact)
            hard = own if contact == "hard" else bench.judged(trained.policy, "hard")
            bench.progress(f"twin, contact {contact}, seed {seed}", 0.5, {})
            twin = bench.judged_on_twin(trained.policy)
            found[contact].append({"own": own, "hard": hard, "twin": twin})
            norms[contact].append([row["gradient_norm"] for row in trained.curve])

    def table(figure: str) -> Tree:
        return {
            contact: _by_name([{place: row[place][figure] for place in row} for row in rows])
            for contact, rows in found.items()
        }

    names = {"transfer": "return_mean", "transfer_falls": "falls", "transfer_speed_mps": "speed_mean_mps"}
    by_seed = {name: table(figure) for name, figure in names.items()}
    bench.write("transfer.png", pictures.draw_transfer(by_seed["transfer"], _medians(by_seed["transfer"])))
    bench.write("gradient_norms.png", pictures.draw_gradient_norms(norms))
    return by_seed, {}


def _horizon(bench: Bench) -> tuple[Tree, Tree]:
    """`horizon`: mean return of episodes in smooth contact, by the horizon of the training, after as many samples."""
    returns = {
        horizon: [
            bench.judged(bench.shac(seed, horizon=horizon).policy, "smooth")["return_mean"] for seed in bench.seeds
        ]
        for horizon in HORIZONS
    }
    bench.write("horizon.png", pictures.draw_horizon(returns))
    return {"horizon": {str(horizon): values for horizon, values in returns.items()}}, {}


def _tracking(bench: Bench) -> tuple[Tree, Tree]:
    """The policy that is shipped, zero-shot: it never saw the twin.

    `tracking_error_twin_mps`: mean distance of the horizontal velocity, in every instant, from that wanted, over the
    targets in the middle of the range; `tracking_offset_twin_mps`: mean distance of the mean velocity forward from the
    target, which leaves the sway of each step out; `falls_twin`: in the episodes of all targets, `tracking_episodes` in
    number. The same in the simulator. `tracking.json` has the values by target.
    """
    robot, configuration, bundle = bench.robots["smooth"], bench.configuration, _shipped()
    judged = {"episodes": TARGET_EPISODES, "seed": JUDGED_BY}
    places = {
        "simulator": in_simulator(robot, configuration, bundle, **judged),
        "twin": on_twin(robot, configuration, bench.hidden, bundle, **judged),
    }
    found = {place: track(judge, TARGETS, f"velocity, {place}", bench.progress) for place, judge in places.items()}
    content = {place: _finite({n: v.tolist() for n, v in vars(tracking).items()}) for place, tracking in found.items()}
    bench.write("tracking.json", dumps({"policy": bundle.digest, **content}, allow_nan=False).encode() + b"\n")
    bench.write("tracking.png", pictures.draw_tracking(found))
    figures: Tree = {}
    for place, tracking in found.items():
        figures[f"tracking_error_{place}_mps"] = tracking.middle(tracking.error)
        figures[f"tracking_offset_{place}_mps"] = tracking.middle(np.abs(tracking.speed - tracking.target))
        figures[f"falls_{place}"] = int(tracking.falls.sum())
    return {}, {**_finite(figures), "tracking_episodes": TARGET_EPISODES * len(TARGETS)}


def _endurance(bench: Bench) -> tuple[Tree, Tree]:
    """`endurance`: the policy that is shipped on the twin over ROS; see `EnduranceWalk.figures`."""
    from realitygrad_ros.benchmarks import endurance  # it alone needs ROS

    walk = endurance.walk(ROBOT, _shipped(), endurance.SECONDS, bench.progress)
    bench.write("endurance.png", pictures.draw_endurance(walk))
    return {}, {"endurance": _finite(walk.figures())}


PARTS: Mapping[str, Callable[[Bench], tuple[Tree, Tree]]] = {
    "walk": _walk,
    "ppo": _ppo,
    "transfer": _transfer,
    "horizon": _horizon,
    "tracking": _tracking,
    "endurance": _endurance,
}
"""Each gives figures by seed, and figures of its own."""


def _shipped() -> PolicyBundle:
    return PolicyBundle.read(share_directory() / BUNDLE)


def _import_ppo() -> None:
    import realitygrad_ros.control.ppo  # noqa: F401


_REQUIRED: Mapping[str, Callable[[], Any]] = {"ppo": _import_ppo, "tracking": _shipped, "endurance": _shipped}
"""What a part cannot do without, and is found out before the work of the others."""


def _whole(trained: Trained) -> Trained:
    """A training that came to its end.

    Raises:
        RealityGradError: it diverged.
    """
    if trained.diverged:
        raise RealityGradError(trained.diverged)
    return trained


def _chosen(figures: Tree, *names: str) -> Tree:
    return {name: figures[name] for name in names}


def _by_name(rows: Sequence[Tree]) -> Tree:
    """Rows of figures, one a seed, as lists by name."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _finite(figures: Any) -> Any:
    """None in place of every number that is none."""
    if isinstance(figures, Mapping):
        return {name: _finite(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [_finite(value) for value in figures]
    return figures if not isinstance(figures, float) or isfinite(figures) else None


def _medians(tree: Mapping[str, Any]) -> Tree:
    """The median of every list; none where a seed has none."""
    return {
        name: _medians(value) if isinstance(value, Mapping) else None if None in value else median(value)
        for name, value in tree.items()
    }
