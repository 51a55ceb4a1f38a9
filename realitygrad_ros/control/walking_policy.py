"""The policy of a walking robot as a torch network, with a normaliser that learns along."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.tasks.walking import WalkingTask
from realitygrad_ros.control.tasks.worlds import ACTION_SCALE
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

FIRST_DEVIATION = 0.37
"""Standard deviation of an untrained policy's actions, e^-1 as in SHAC's own code."""


def perceptron(widths: Sequence[int], last_gain: float, generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ELU between them; orthogonal weights, biases of zero."""
    layers: list[nn.Module] = []
    for i, (inner, outer) in enumerate(pairwise(widths)):
        layer = nn.Linear(inner, outer)
        last = i == len(widths) - 2
        nn.init.orthogonal_(layer.weight, last_gain if last else 2.0**0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer] if last else [layer, nn.ELU()]
    return nn.Sequential(*layers)


class Normalizer(nn.Module):
    """Mean and variance of every observation so far."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("count", torch.full((), 1e-4))

    @property
    def scale(self) -> Float[Tensor, "observation"]:
        """Standard deviation, never zero."""
        return (self.variance + 1e-5).sqrt()

    def forward(self, observation: Float[Tensor, "*batch observation"]) -> Float[Tensor, "*batch observation"]:
        """The observation in standard deviations from the mean."""
        return (observation - self.mean) / self.scale

    def update(self, observation: Float[Tensor, "sample observation"]) -> None:
        """Learn from observations (Chan et al., 1979: the variance of two sets joined)."""
        count = torch.tensor(float(len(observation)))
        total = self.count + count
        delta = observation.mean(0) - self.mean
        spread = self.variance * self.count + observation.var(0, unbiased=False) * count
        self.variance.copy_((spread + delta.square() * self.count * count / total) / total)
        self.mean.add_(delta * count / total)
        self.count.copy_(total)


class WalkingPolicy(nn.Module):
    """The mean and the spread of actions for an observation; `PolicyBundle` states the law without the spread."""

    def __init__(self, observations: int, actions: int, generator: torch.Generator) -> None:
        """An untrained policy: 128, 64 and 32 hidden units, as second-hand sources give the paper's."""
        super().__init__()
        self.normalizer = Normalizer(observations)
        self.network = perceptron([observations, 128, 64, 32, actions], 0.01, generator)
        self.log_deviation = nn.Parameter(torch.full((actions,), FIRST_DEVIATION).log())

    def forward(self, observation: Float[Tensor, "*batch observation"]) -> Float[Tensor, "*batch action"]:
        """The mean action: the change of the position targets from home, in units of the action's scale."""
        return self.network(self.normalizer(observation))

    def to_bundle(
        self,
        task: WalkingTask,
        model: RobotModel,
        configuration: RobotConfiguration,
        parameters: SimulationParameters,
        *,
        epoch: int,
        parent: str,
    ) -> PolicyBundle:
        """The same policy for the robot.

        Args:
            task: what it was trained for.
            model: the robot.
            configuration: of the same robot.
            parameters: of the simulator in which it was trained.
            epoch: counts the policies of a run.
            parent: digest of the policy before this one, empty for the first.
        """
        layers = [layer for layer in self.network if isinstance(layer, nn.Linear)]
        joints = len(configuration.joint_names)
        return PolicyBundle(
            robot=configuration.name,
            joint_names=model.joint_names,
            layers=tuple((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers),
            activation="elu",
            observation_terms=task.observations,
            observation_mean=self.normalizer.mean.numpy(),
            observation_scale=self.normalizer.scale.numpy(),
            action_offset=configuration.home,
            action_scale=torch.full((joints,), ACTION_SCALE).numpy(),
            kp=parameters.kp,
            kd=parameters.kd,
            lower=model.limit_array("lower"),
            upper=model.limit_array("upper"),
            velocity_limit=torch.full((joints,), torch.inf).numpy(),
            effort_limit=model.limit_array("effort_limit"),
            policy_rate=configuration.policy_rate,
            epoch=epoch,
            parent=parent,
        )
