"""Short-horizon actor-critic: Xu et al., Accelerated Policy Learning with Parallel Differentiable Simulation, 2022.

The actor's loss is differentiated through the simulator over a short window of h steps; what comes behind the window
is a critic's estimate. N worlds; V' is a critic that follows the trained one slowly:

    L = - 1 / (N h) sum_i [ sum_(t = t0 .. t0 + h - 1) gamma^(t - t0) r_t + gamma^h V'(s_(t0 + h)) ]

Where an episode ends within the window the discount starts anew; V' counts after an episode's time is over, and is zero
after a fall. The critic learns TD(lambda) estimates within the window. The normaliser of observations stands still
during a window.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from realitygrad_ros.control.tasks.legged import Motion, Situation
from realitygrad_ros.control.tasks.worlds import Worlds
from realitygrad_ros.control.walking_policy import WalkingPolicy, perceptron
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.simulator import State


@dataclass(frozen=True)
class ShacSettings:
    """Numbers of the algorithm; those of its authors for an ant, unless said."""

    horizon: int = 32
    """h [steps]"""
    iterations: int = 500
    """Length of the schedule of the learning rates; ours."""
    actor_rate: float = 2e-3
    """Of Adam, falling linearly to `last_rate`."""
    critic_rate: float = 2e-3
    last_rate: float = 1e-5
    betas: tuple[float, float] = (0.7, 0.95)
    """Of Adam."""
    discount: float = 0.99
    """gamma"""
    trace: float = 0.95
    """lambda"""
    target_share: float = 0.2
    """Share of itself that V' keeps in an iteration."""
    critic_epochs: int = 16
    minibatches: int = 4
    longest_gradient: float = 1.0
    """A longer gradient is shortened to this norm."""
    refused_gradient: float = 1e6
    """A longer gradient ends the training, for it cannot be right."""


class Window(NamedTuple):
    """One window of all worlds, [time, world, ...]."""

    observation: Tensor
    following_observation: Tensor
    """Of the state after each step, before anything began anew."""
    motion: Motion
    fallen: Bool[Tensor, "time world"]
    done: Bool[Tensor, "time world"]


class Shac:
    """A policy, its critic, and the worlds in which they learn.

    With an initialised `torch.distributed`, each process has a share of the worlds and gradients are averaged; all
    processes must be made with the same seed.
    """

    def __init__(self, worlds: Worlds, settings: ShacSettings, seed: int) -> None:
        self.worlds, self.settings = worlds, settings
        self.random = torch.Generator().manual_seed(seed)
        observations = worlds.observe(worlds.situation, noisy=False).shape[-1]
        actions = len(worlds.robot.home)
        self.policy = WalkingPolicy(observations, actions, self.random)
        self.critic = perceptron([observations, 64, 64, 1], 1.0, self.random)
        self.target_critic = copy.deepcopy(self.critic)
        actor_parameters = [*self.policy.network.parameters(), self.policy.log_deviation]
        self.actor_optimizer = torch.optim.Adam(actor_parameters, settings.actor_rate, settings.betas, fused=True)
        self.critic_optimizer = torch.optim.Adam(
            self.critic.parameters(), settings.critic_rate, settings.betas, fused=True
        )
        self.iteration = 0

    def learn(self) -> dict[str, float]:
        """One iteration: a window, a step of the actor, the critic's epochs.

        Returns:
            Figures: mean `reward` a step and each of its terms, `gradient_norm` of the actor, `critic_loss`, mean
            `speed_mps` forward, `falls`, `samples` of all processes, `seconds`, physics `steps_per_second`.

        Raises:
            RealityGradError: a gradient was longer than `refused_gradient` or no number; the policy is as it was.
        """
        start = time.perf_counter()
        self._set_rates()
        window = self.roll_out()
        loss, terms, value = self.loss_of(window)
        self.actor_optimizer.zero_grad()
        loss.backward()
        norm = self._step(self.actor_optimizer)
        reward = torch.stack(list(terms.values())).sum(0)
        critic_loss = self._learn_values(window, reward.detach(), value.detach())
        self.policy.normalizer.update(gathered(window.observation.flatten(0, 1)))
        self.iteration += 1
        samples, seconds = window.done.shape[0] * self.worlds.share.total, time.perf_counter() - start
        figures = {
            "reward": float(reward.detach().mean()),
            "gradient_norm": norm,
            "critic_loss": critic_loss,
            "speed_mps": float(window.motion.after.velocity[..., 0].detach().mean()),
            "falls": float(window.fallen.sum()),
            "samples": float(samples),
            "seconds": seconds,
            "steps_per_second": samples * self.worlds.robot.substeps / seconds,
        }
        return figures | {f"reward_{name}": float(term.detach().mean()) for name, term in terms.items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that the next iteration depends on, by name, the worlds of all processes together.

        Every process must ask for it when the others do.
        """
        modules = {"policy": self.policy, "critic": self.critic, "target_critic": self.target_critic}
        state = {
            f"{name}.{key}": value for name, module in modules.items() for key, value in module.state_dict().items()
        }
        for name, optimizer in (("actor_optimizer", self.actor_optimizer), ("critic_optimizer", self.critic_optimizer)):
            state |= optimizer_state(name, optimizer)
        state |= {f"worlds.{name}": gathered(value) for name, value in self.worlds.state().items()}
        return state | {"random": self.random.get_state(), "iteration": torch.tensor(self.iteration)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Become what `state` described."""
        modules = {"policy": self.policy, "critic": self.critic, "target_critic": self.target_critic}
        for name, module in modules.items():
            module.load_state_dict(part(state, name))
        load_optimizer("actor_optimizer", self.actor_optimizer, state)
        load_optimizer("critic_optimizer", self.critic_optimizer, state)
        self.worlds.load(part(state, "worlds"))
        self.random.set_state(state["random"])
        self.iteration = int(state["iteration"])

    def _set_rates(self) -> None:
        s = self.settings
        left = max(0.0, 1.0 - self.iteration / s.iterations)
        for optimizer, rate in ((self.actor_optimizer, s.actor_rate), (self.critic_optimizer, s.critic_rate)):
            for group in optimizer.param_groups:
                group["lr"] = s.last_rate + (rate - s.last_rate) * left

    def loss_of(self, window: Window) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The actor's loss, the terms of the reward [time, world] by name, and V' after each step [time, world]."""
        terms = self.worlds.rewards(window.motion)
        value = self._value(window)
        reward = torch.stack(list(terms.values())).sum(0)
        return actor_loss(reward, value, window.done, self.settings.discount), terms, value

    def roll_out(self) -> Window:
        """h steps of all worlds; the worlds then stand where these end, without their derivatives."""
        worlds, situation = self.worlds, self.worlds.situation
        observations, followings, steps = [], [], []
        observation = worlds.observe(situation)
        for _ in range(self.settings.horizon):
            spread = self.policy.log_deviation.exp() * worlds.normal(len(self.policy.log_deviation))
            step = worlds.advance(situation, self.policy(observation) + spread)
            observations.append(observation.detach())
            steps.append(step)
            followings.append(worlds.observe(step.following))
            situation = worlds.go_on(step)
            observation = worlds.observe(situation)
        worlds.situation = _cut(situation)
        fallen = torch.stack([step.fallen for step in steps])
        late = torch.stack([step.late for step in steps])
        motion = stacked([step.motion for step in steps])
        return Window(torch.stack(observations), torch.stack(followings), motion, fallen, fallen | late)

    def _value(self, window: Window) -> Float[Tensor, "time world"]:
        """V' of the state after each step; zero after a fall."""
        value = self.target_critic(self.policy.normalizer(window.following_observation))[..., 0]
        return torch.where(window.fallen, 0.0, value)

    def _learn_values(self, window: Window, reward: Tensor, value: Tensor) -> float:
        """The critic's epochs; returns its last loss."""
        s = self.settings
        targets = td_lambda(reward, value, window.done, s.discount, s.trace).flatten()
        inputs = self.policy.normalizer(window.observation).flatten(0, 1)
        loss = torch.zeros(())
        for _ in range(s.critic_epochs):
            for batch in torch.randperm(len(inputs), generator=self.random).chunk(s.minibatches):
                loss = nn.functional.mse_loss(self.critic(inputs[batch])[:, 0], targets[batch])
                self.critic_optimizer.zero_grad()
                loss.backward()
                self._step(self.critic_optimizer)
        with torch.no_grad():
            for kept, new in zip(self.target_critic.parameters(), self.critic.parameters(), strict=True):
                kept.lerp_(new, 1.0 - s.target_share)
        return float(loss.detach())

    def _step(self, optimizer: torch.optim.Optimizer) -> float:
        """Follow the gradient, averaged over all processes; returns its norm before it was shortened."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        average_gradients(parameters)
        norm = float(nn.utils.clip_grad_norm_(parameters, self.settings.longest_gradient))
        if not norm <= self.settings.refused_gradient:
            raise RealityGradError(
                f"training diverged in iteration {self.iteration}: the gradient's norm is {norm:.3g}; go on from the "
                "last checkpoint with another seed, or take a shorter horizon"
            )
        optimizer.step()
        return norm


def actor_loss(
    reward: Float[Tensor, "time world"],
    value: Float[Tensor, "time world"],
    done: Bool[Tensor, "time world"],
    discount: float,
) -> Float[Tensor, ""]:
    """L of the module's docstring.

    Args:
        reward: r_t.
        value: V' of the state after each step, zero after a fall.
        done: whether an episode ended with the step.
        discount: gamma.
    """
    weight, total = torch.ones_like(reward[0]), torch.zeros_like(reward[0])
    last = len(reward) - 1
    for t, (r, v, d) in enumerate(zip(reward, value, done, strict=True)):
        ends = d if t < last else torch.ones_like(d)
        total = total + weight * r + torch.where(ends, discount * weight * v, 0.0)
        weight = torch.where(ends, 1.0, discount * weight)
    return -total.mean() / len(reward)


def td_lambda(
    reward: Float[Tensor, "time world"],
    value: Float[Tensor, "time world"],
    done: Bool[Tensor, "time world"],
    discount: float,
    trace: float,
) -> Float[Tensor, "time world"]:
    """Estimates of the value before each step, from what follows within the window; arguments as for `actor_loss`."""
    estimates = torch.empty_like(reward)
    following = value[-1]
    for t in reversed(range(len(reward))):
        ahead = torch.where(done[t], value[t], (1.0 - trace) * value[t] + trace * following)
        following = estimates[t] = reward[t] + discount * ahead
    return estimates


def stacked(motions: Sequence[Motion]) -> Motion:
    """Motions with a time dimension first."""

    def states(parts: Sequence[State]) -> State:
        return State(*(torch.stack(values) for values in zip(*parts, strict=True)))

    befores = [motion.before for motion in motions]
    rest = [torch.stack(values) for values in list(zip(*befores, strict=True))[1:]]
    before = Situation(states([situation.state for situation in befores]), *rest)
    return Motion(before, torch.stack([m.action for m in motions]), states([m.after for m in motions]))


def _cut(situation: Situation) -> Situation:
    state = State(*(value.detach() for value in situation.state))
    return Situation(state, *(value.detach() for value in situation[1:]))


def part(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """What stands below a name, without it."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def optimizer_state(name: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and the count of steps that Adam keeps for each parameter."""
    kept = optimizer.state_dict()["state"]
    return {f"{name}.{index}.{key}": value for index, values in kept.items() for key, value in values.items()}


def load_optimizer(name: str, optimizer: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Give an optimiser back what `optimizer_state` told."""
    kept: dict[int, dict[str, Tensor]] = {}
    for key, value in part(state, name).items():
        index, moment = key.split(".")
        kept.setdefault(int(index), {})[moment] = value
    optimizer.load_state_dict({"state": kept, "param_groups": optimizer.state_dict()["param_groups"]})


def processes() -> int:
    """How many processes share the worlds."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def average_gradients(parameters: Sequence[Tensor]) -> None:
    """Replace gradients by their mean over all processes."""
    if processes() == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    joined = torch.cat([gradient.flatten() for gradient in gradients])
    torch.distributed.all_reduce(joined)
    parts = joined.div_(processes()).split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def gathered(rows: Shaped[Tensor, "row *shape"]) -> Shaped[Tensor, "all_rows *shape"]:
    """The rows of all processes, those of the first one first."""
    if processes() == 1:
        return rows
    rows = rows.contiguous()
    parts = [torch.empty_like(rows) for _ in range(processes())]
    torch.distributed.all_gather(parts, rows)
    return torch.cat(parts)
