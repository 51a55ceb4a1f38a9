"""Proximal policy optimisation, the baseline that needs no gradients of the simulator: Schulman et al., 2017.

The algorithm is that of rsl-rl-lib; here it meets our worlds and our policy. Its networks have the sizes of `Shac`'s,
and share the policy's normaliser, which stands still during an iteration.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from realitygrad_ros.control.shac import gathered, load_optimizer, optimizer_state, part, processes
from realitygrad_ros.control.tasks.worlds import Step, Worlds
from realitygrad_ros.control.walking_policy import WalkingPolicy, perceptron
from realitygrad_ros.errors import RealityGradError

try:
    from rsl_rl.algorithms import PPO
    from rsl_rl.models import MLPModel
    from rsl_rl.modules.distribution import Distribution, GaussianDistribution
    from rsl_rl.storage import RolloutStorage
    from tensordict import TensorDict
except ImportError as error:
    raise RealityGradError(f"PPO needs rsl-rl-lib ({error}); install it with pip install 'rsl-rl-lib>=5.5'") from error


@dataclass(frozen=True)
class PpoSettings:
    """Numbers of the algorithm; those which rsl-rl-lib and its users take for robots on legs, unless said."""

    steps: int = 24
    """Of every world in an iteration."""
    epochs: int = 5
    minibatches: int = 4
    clip: float = 0.2
    """Largest change of an action's probability that pays, as a share; largest change of a value."""
    discount: float = 0.99
    trace: float = 0.95
    """lambda of the advantages' estimates."""
    first_deviation: float = 1.0
    """Standard deviation of an untrained policy's actions."""
    entropy_weight: float = 0.005
    value_weight: float = 1.0
    first_rate: float = 1e-3
    """Of Adam, at first."""
    wanted_divergence: float = 0.01
    """Kullback-Leibler divergence of the old policy from the new one which the rate of Adam is adapted to."""
    longest_gradient: float = 1.0
    """A longer gradient is shortened to this norm."""


class Ppo:
    """A policy, its critic, and the worlds in which they learn.

    With an initialised `torch.distributed`, each process has a share of the worlds and gradients are averaged; all
    processes must be made with the same seed.

    Attributes:
        algorithm: the library's, with the same networks.
    """

    def __init__(self, worlds: Worlds, settings: PpoSettings, seed: int) -> None:
        self.worlds, self.settings = worlds, settings
        self.random = torch.Generator().manual_seed(seed)
        actions = len(worlds.robot.home)
        first = worlds.observe(worlds.situation, noisy=False)
        self.policy = WalkingPolicy(first.shape[-1], actions, self.random)
        nn.init.constant_(self.policy.log_deviation, math.log(settings.first_deviation))
        self.critic = perceptron([first.shape[-1], 64, 64, 1], 1.0, self.random)
        self.iteration = 0
        observation = _named(first)
        spread = GaussianDistribution(actions, std_type="log")
        spread.log_std_param = self.policy.log_deviation
        self.algorithm = PPO(
            _model(observation, self.policy, self.policy.network, spread),
            _model(observation, self.policy, self.critic, None),
            RolloutStorage("rl", worlds.share.count, settings.steps, observation, [actions]),
            num_learning_epochs=settings.epochs,
            num_mini_batches=settings.minibatches,
            clip_param=settings.clip,
            gamma=settings.discount,
            lam=settings.trace,
            value_loss_coef=settings.value_weight,
            entropy_coef=settings.entropy_weight,
            learning_rate=settings.first_rate,
            max_grad_norm=settings.longest_gradient,
            desired_kl=settings.wanted_divergence,
            multi_gpu_cfg=_sharing(),
        )
        self._squares = {"actor": 0.0, "critic": 0.0}
        for name, model in (("actor", self.algorithm.actor), ("critic", self.algorithm.critic)):
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(partial(self._measure, name))

    def learn(self) -> dict[str, float]:
        """One iteration: some steps of all worlds, the epochs over them.

        Returns:
            Figures: mean `reward` a step and each of its terms, `gradient_norm` of the actor (root mean square over the
            minibatches), `critic_loss`, `learning_rate`, mean `speed_mps` forward, `falls`, `samples` of all processes,
            `seconds`, physics `steps_per_second`.

        Raises:
            RealityGradError: a reward or a gradient is no finite number; the networks are as they were before it.
        """
        start = time.perf_counter()
        self._squares = dict.fromkeys(self._squares, 0.0)
        with torch.random.fork_rng(devices=[]):
            # The library draws from torch's own generator; every process's worlds need other numbers.
            torch.manual_seed(int(torch.randint(2**31, (), generator=self.random)) + self.worlds.share.first)
            figures = self.roll_out()
            losses = self.algorithm.update()
        observations = self.algorithm.storage.observations["observation"]
        self.policy.normalizer.update(gathered(observations.flatten(0, 1)))
        self.iteration += 1
        samples, seconds = self.settings.steps * self.worlds.share.total, time.perf_counter() - start
        return figures | {
            "gradient_norm": math.sqrt(self._squares["actor"] / (self.settings.epochs * self.settings.minibatches)),
            "critic_loss": losses["value"],
            "learning_rate": self.algorithm.learning_rate,
            "samples": float(samples),
            "seconds": seconds,
            "steps_per_second": samples * self.worlds.robot.substeps / seconds,
        }

    @torch.no_grad()
    def roll_out(self) -> dict[str, float]:
        """The steps of an iteration, into the library's storage; returns their figures."""
        worlds, algorithm = self.worlds, self.algorithm
        steps, rewards = [], []
        observation = _named(worlds.observe(worlds.situation))
        for _ in range(self.settings.steps):
            step = worlds.advance(worlds.situation, algorithm.act(observation))
            terms = worlds.rewards(step.motion)
            worlds.situation = worlds.go_on(step)
            observation = _named(worlds.observe(worlds.situation))
            # By the second and not by the step, for the library's clip is made for values of about one.
            reward = worlds.robot.period * torch.stack(list(terms.values())).sum(0)
            self._require_finite("reward", float(reward.sum()))
            algorithm.process_env_step(observation, reward, step.fallen | step.late, {"time_outs": step.late})
            steps.append(step)
            rewards.append(terms)
        algorithm.compute_returns(observation)
        return _figures(steps, rewards)

    def state(self) -> dict[str, Tensor]:
        """Everything that the next iteration depends on, by name, the worlds of all processes together.

        Every process must ask for it when the others do.
        """
        state = {f"policy.{key}": value for key, value in self.policy.state_dict().items()}
        state |= {f"critic.{key}": value for key, value in self.critic.state_dict().items()}
        state |= optimizer_state("optimizer", self.algorithm.optimizer)
        state |= {f"worlds.{name}": gathered(value) for name, value in self.worlds.state().items()}
        state["learning_rate"] = torch.tensor(self.algorithm.learning_rate, dtype=torch.float64)
        return state | {"random": self.random.get_state(), "iteration": torch.tensor(self.iteration)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Become what `state` described."""
        self.policy.load_state_dict(part(state, "policy"))
        self.critic.load_state_dict(part(state, "critic"))
        load_optimizer("optimizer", self.algorithm.optimizer, state)
        self.worlds.load(part(state, "worlds"))
        self.algorithm.learning_rate = float(state["learning_rate"])
        self.random.set_state(state["random"])
        self.iteration = int(state["iteration"])

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise RealityGradError(
                f"training diverged in iteration {self.iteration}: the {name} is {value}; go on from the last "
                "checkpoint with another seed, or take more worlds"
            )

    def _measure(self, name: str, parameter: Tensor) -> None:
        """Add up a gradient's square: the library does not tell what it then shortens and follows."""
        assert parameter.grad is not None
        square = float(parameter.grad.square().sum())
        self._require_finite(f"{name}'s gradient", square)
        self._squares[name] += square


def _model(
    observation: TensorDict, policy: WalkingPolicy, network: nn.Module, distribution: Distribution | None
) -> MLPModel:
    """The library's model around the policy's normaliser and one of our networks: the same objects, not copies."""
    model = MLPModel(observation, {"ours": ["observation"]}, "ours", 1, hidden_dims=(1,))
    model.obs_normalizer, model.mlp, model.distribution = policy.normalizer, network, distribution
    return model


def _named(observation: Tensor) -> TensorDict:
    return TensorDict({"observation": observation}, batch_size=[len(observation)])


def _sharing() -> dict[str, int] | None:
    """The processes that share the worlds, as the library wants to be told."""
    if processes() == 1:
        return None
    return {"global_rank": torch.distributed.get_rank(), "world_size": processes()}


def _figures(steps: list[Step], rewards: list[dict[str, Tensor]]) -> dict[str, float]:
    means = {name: float(torch.stack([terms[name] for terms in rewards]).mean()) for name in rewards[0]}
    speed = torch.stack([step.motion.after.velocity[..., 0] for step in steps]).mean()
    return {
        "reward": sum(means.values()),
        "speed_mps": float(speed),
        "falls": float(sum(int(step.fallen.sum()) for step in steps)),
        **{f"reward_{name}": mean for name, mean in means.items()},
    }
