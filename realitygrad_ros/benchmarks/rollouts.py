"""The simulator's work in its benchmark: batches of rollouts, forward and backward."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel


@dataclass(frozen=True)
class Batch:
    """How many worlds go how far."""

    worlds: int
    commands: int
    substeps: int
    """Physics steps for each command."""
    time_step: float
    """[s]"""

    @property
    def steps(self) -> int:
        """Physics steps of all worlds."""
        return self.worlds * self.commands * self.substeps


def batch_of(configuration: RobotConfiguration) -> Batch:
    """An arm's, as trajectories are optimised; or, of a robot that touches the ground, as a policy is trained."""
    contact = configuration.contact
    if contact is None:
        return Batch(worlds=256, commands=400, substeps=1, time_step=0.002)
    substeps = round(1.0 / (configuration.policy_rate * contact.time_step))
    return Batch(worlds=64, commands=32, substeps=substeps, time_step=contact.time_step)


def home_position(configuration: RobotConfiguration) -> Float[np.ndarray, "coordinate"]:
    """Coordinates of the robot in its home pose; on a floating base it stands on the ground."""
    base = [0.0, 0.0, configuration.home_height, 0.0, 0.0, 0.0, 1.0] if configuration.floating else []
    return np.array([*base, *configuration.home], dtype=float)


class Rollouts:
    """float32, from rest at home, commands a little off it; contact, if there is any, is smoothed."""

    def __init__(self, configuration: RobotConfiguration, model: RobotModel, threads: int) -> None:
        batch = batch_of(configuration)
        self._simulator = Simulator(
            model,
            time_step=batch.time_step,
            substeps=batch.substeps,
            gravity=configuration.gravity.tolist(),
            friction_velocity=configuration.friction_velocity,
            threads=threads,
            contact=configuration.contact,
            contact_mode="smooth",
        )
        position = torch.tensor(home_position(configuration), dtype=torch.float32).repeat(batch.worlds, 1)
        self._initial = State(position, torch.zeros(batch.worlds, model.velocity_count))
        home = torch.tensor(configuration.home, dtype=torch.float32).repeat(batch.worlds, 1)
        offset = torch.rand(home.shape, generator=torch.Generator().manual_seed(0)) - 0.5
        self._command = (home + 0.2 * offset).repeat(batch.commands, 1, 1)
        self._parameters = parameter_tensors(configuration.nominal)
        self._bars = tuple(torch.ones(batch.commands + 1, *value.shape) for value in self._initial)

    def forward(self) -> None:
        """Roll out."""
        self._simulator.rollout(self._initial, self._command, self._parameters)

    def forward_backward(self) -> None:
        """Roll out, and differentiate the sum of all states by all commands."""
        command = self._command.requires_grad_()
        states = self._simulator.rollout(self._initial, command, self._parameters)
        torch.autograd.backward(states, self._bars)
        self._command = command.detach()
