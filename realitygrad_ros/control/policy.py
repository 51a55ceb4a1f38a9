"""The reaching policy as a torch network: the trainable twin of `control.bundle.PolicyBundle`."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import REACH_TERMS
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters


class ReachPolicy(nn.Module):
    """u = pi(q, qd; p*), with normaliser and limits inside; `PolicyBundle` states the law. Everything is float32."""

    mean: Tensor
    scale: Tensor
    action_offset: Tensor
    action_scale: Tensor
    lower: Tensor
    upper: Tensor
    longest_step: Tensor

    def __init__(
        self,
        mean: Float[Tensor, "observation"],
        scale: Float[Tensor, "observation"],
        action_offset: Float[Tensor, "joint"],
        action_scale: Float[Tensor, "joint"],
        *,
        lower: Float[Tensor, "joint"],
        upper: Float[Tensor, "joint"],
        longest_step: Float[Tensor, "joint"],
        hidden: Sequence[int] = (128, 128),
        seed: int,
    ) -> None:
        """An untrained policy.

        Args:
            mean, scale: of the observation (q, qd, p*), fixed in training.
            action_offset, action_scale: the command for an output of zero, and for a change of one [rad].
            lower, upper: limits of the command [rad].
            longest_step: limit of the command's change in one period [rad].
            hidden: width of each hidden layer.
            seed: draws the weights.
        """
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.register_buffer("action_offset", action_offset)
        self.register_buffer("action_scale", action_scale)
        self.register_buffer("lower", lower)
        self.register_buffer("upper", upper)
        self.register_buffer("longest_step", longest_step)
        generator = torch.Generator().manual_seed(seed)
        widths = [len(mean), *hidden, len(action_offset)]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(widths))
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        position: Float[Tensor, "*batch joint"],
        velocity: Float[Tensor, "*batch joint"],
        target: Float[Tensor, "*batch 3"],
    ) -> Float[Tensor, "*batch joint"]:
        """The action, before the limits [rad], from q [rad], qd [rad/s] and the target in the base frame [m]."""
        h = (torch.cat([position, velocity, target], -1) - self.mean) / self.scale
        for layer in self.layers[:-1]:
            h = nn.functional.elu(layer(h))
        return self.action_offset + self.action_scale * self.layers[-1](h)

    def act(
        self,
        position: Float[Tensor, "*batch joint"],
        velocity: Float[Tensor, "*batch joint"],
        target: Float[Tensor, "*batch 3"],
        previous_command: Float[Tensor, "*batch joint"],
    ) -> Float[Tensor, "*batch joint"]:
        """The command within its limits, as the robot runs it."""
        action = self(position, velocity, target).clamp(self.lower, self.upper)
        return action.clamp(previous_command - self.longest_step, previous_command + self.longest_step)

    def to_bundle(
        self,
        model: RobotModel,
        configuration: RobotConfiguration,
        parameters: SimulationParameters,
        *,
        epoch: int,
        parent: str,
    ) -> PolicyBundle:
        """The same policy for the robot.

        Args:
            model: the robot.
            configuration: of the same robot.
            parameters: of the simulator in which the policy was trained.
            epoch: counts the policies of a run.
            parent: digest of the policy before this one, empty for the first.
        """
        return PolicyBundle(
            robot=configuration.name,
            joint_names=model.joint_names,
            layers=tuple((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in self.layers),
            activation="elu",
            observation_terms=REACH_TERMS,
            observation_mean=self.mean.numpy(),
            observation_scale=self.scale.numpy(),
            action_offset=self.action_offset.numpy(),
            action_scale=self.action_scale.numpy(),
            kp=parameters.kp,
            kd=parameters.kd,
            lower=self.lower.numpy(),
            upper=self.upper.numpy(),
            velocity_limit=self.longest_step.numpy() * configuration.policy_rate,
            effort_limit=model.limit_array("effort_limit"),
            policy_rate=configuration.policy_rate,
            epoch=epoch,
            parent=parent,
        )
