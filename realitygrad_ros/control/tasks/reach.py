"""Dynamic reaching: bring the end effector to a target, stop, and hold.

The cost of a motion is the mean over time of a running cost that depends on the present state and command alone,

    J = 1/T sum_t l(q_t, qd_t, u_t),        l = sum_i w_i l_i,

and each term l_i is zero at rest on the target. Hence the best command is nearly a stationary feedback law
u = pi(q, qd; p*), which a network without memory can clone, and rest on the target is its equilibrium without bias.
RealityGrad (Collins et al. 2021, arXiv 2109.04674) leaves task and cost open: all terms are our own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.kinematics import ForwardKinematics
from realitygrad_ros.physics.rigid_body import inverse_dynamics
from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

SUBSTEPS = 2
"""Physics steps for each command."""

REACH_TOLERANCE = 1e-3
"""How near a goal posture must bring the end effector to its target [m]."""


@dataclass(frozen=True)
class ReachWeights:
    """Weights w_i of the terms, and the numbers that shape them."""

    distance: float = 1.0
    """Of `distance_cost`, per metre."""
    posture: float = 0.1
    """Of `posture_cost`, per rad^2."""
    pull: float = 0.2
    """Of `pull_cost`."""
    acceleration: float = 1.0e-4
    """Of `acceleration_cost`, per (rad/s^2)^2."""
    limit: float = 100.0
    """Of each `limit_cost`."""
    terminal: float = 20.0
    """How many running costs of the last state stand for all that would follow."""
    softness: float = 0.05
    """Distance within which `distance_cost` is a parabola [m]."""
    margin: float = 0.8
    """Share of the torque and velocity limits that a motion may use without cost."""
    position_margin: float = 0.05
    """Distance from the position limits that a motion keeps without cost [rad]."""


class Goal(NamedTuple):
    """Rest on a target: what the arm comes to."""

    target: Float[Tensor, "world 3"]
    """p* in the base frame [m]."""
    position: Float[Tensor, "world joint"]
    """q*, the posture nearest to home with p(q*) = p* [rad]."""
    command: Float[Tensor, "world joint"]
    """u*, which holds the arm there against gravity [rad]."""


def sample_targets(configuration: RobotConfiguration, count: int, seed: int) -> Float[np.ndarray, "target 3"]:
    """Targets drawn evenly from the box `configuration.reach`, in the base frame [m]; the same for the same seed."""
    reach = configuration.reach
    return np.random.default_rng(seed).uniform(reach.target_lower, reach.target_upper, size=(count, 3))


def distance_cost(
    end_effector: Float[Tensor, "*batch 3"], target: Float[Tensor, "*batch 3"], softness: float
) -> Float[Tensor, "*batch"]:
    """Pseudo-Huber distance `sqrt(|p - p*|^2 + s^2) - s` [m]: far targets pull no harder than near ones."""
    return ((end_effector - target).square().sum(-1) + softness**2).sqrt() - softness


def posture_cost(
    position: Float[Tensor, "*batch joint"], goal: Float[Tensor, "*batch joint"]
) -> Float[Tensor, "*batch"]:
    """`|q - q*|^2` [rad^2]; makes the motion of an arm with more joints than its target has coordinates unique."""
    return (position - goal).square().sum(-1)


def pull_cost(
    position: Float[Tensor, "*batch joint"],
    command: Float[Tensor, "*batch joint"],
    goal: Goal,
    lag: Float[Tensor, "joint"],
    velocity_limit: Float[Tensor, "joint"],
) -> Float[Tensor, "*batch"]:
    """`|((u - u*) - (q - q*)) / (T qd_max)|^2`: how far the command leads the joint, beyond its lead at rest.

    With lag T = (kd + damping) / kp a constant lead `T qd` keeps up a velocity qd, so the lead is counted in units of
    what the largest velocity needs. To charge the lead, rather than torque or acceleration, makes laws cheap that
    depend on q and hardly on qd: they leave the servo's damping as it is, and stay stable with gains that are wrong.
    """
    lead = (command - goal.command) - (position - goal.position)
    return (lead / (lag * velocity_limit)).square().sum(-1)


def acceleration_cost(velocity: Float[Tensor, "time+1 *batch joint"], period: float) -> Float[Tensor, "time *batch"]:
    """Squared acceleration, by differences of velocity over one control period [(rad/s^2)^2]."""
    return (velocity.diff(dim=0) / period).square().sum(-1)


def limit_cost(ratio: Float[Tensor, "*batch joint"], margin: float) -> Float[Tensor, "*batch"]:
    """Squared excess of `|ratio|` over `margin`; a ratio is a quantity in units of its limit."""
    return torch.relu(ratio.abs() - margin).square().sum(-1)


def position_limit_cost(
    position: Float[Tensor, "*batch joint"], lower: Float[Tensor, "joint"], upper: Float[Tensor, "joint"], margin: float
) -> Float[Tensor, "*batch"]:
    """Squared excess over the position limits drawn in by `margin` [rad^2]."""
    return (torch.relu(lower + margin - position) + torch.relu(position - upper + margin)).square().sum(-1)


def goal_posture(
    kinematics: Callable[[Tensor], Tensor], home: Float[Tensor, "joint"], target: Float[Tensor, "world 3"]
) -> Float[Tensor, "world joint"]:
    """The posture nearest to home that has the end effector on the target [rad].

    Newton's iteration for min |q - home|^2 subject to p(q) = p*, with J = dp/dq:

        q <- q + J^+ (p* - p(q)) + (1 - J^+ J) (home - q),    J^+ = J^T (J J^T + d 1)^-1

    Raises:
        RealityGradError: a target is out of reach.
    """
    iterations, damping, longest_step = 15, 1e-6, 0.3
    q = home.expand(len(target), -1)
    for _ in range(iterations):
        p, J = _position_jacobian(kinematics, q)
        pseudo_inverse = J.mT @ torch.linalg.inv(J @ J.mT + damping * torch.eye(3))
        to_home = home - q
        step = to_home + (pseudo_inverse @ (target - p - (J @ to_home[..., None])[..., 0])[..., None])[..., 0]
        q = q + step * (longest_step / step.abs().amax(-1, keepdim=True)).clamp(max=1.0)
    miss = (kinematics(q) - target).norm(dim=-1)
    if not bool((miss <= REACH_TOLERANCE).all()):
        worst = int(miss.argmax())
        place = ", ".join(f"{coordinate:.3f}" for coordinate in target[worst].tolist())
        raise RealityGradError(
            f"target ({place}) m is out of the arm's reach by {float(miss[worst]):.3f} m; "
            "make the box 'reach' in the robot's configuration smaller"
        )
    return q


def _position_jacobian(
    kinematics: Callable[[Tensor], Tensor], q: Float[Tensor, "world joint"]
) -> tuple[Float[Tensor, "world 3"], Float[Tensor, "world 3 joint"]]:
    """p(q) and dp/dq: one copy of q for each coordinate, so that one reverse pass gives all rows."""
    copies = q.expand(3, *q.shape).clone().requires_grad_()
    p = kinematics(copies)
    (rows,) = torch.autograd.grad(p.diagonal(dim1=0, dim2=2).sum(), copies)
    return p[0].detach(), rows.transpose(0, 1)


class ReachProblem:
    """Reaching with one robot, as the simulator with given parameters sees it. Everything is float32."""

    def __init__(
        self,
        model: RobotModel,
        configuration: RobotConfiguration,
        parameters: SimulationParameters,
    ) -> None:
        """Prepare simulator and kinematics.

        Args:
            model: the robot.
            configuration: gives home, end effector, rates and the task.
            parameters: of the simulator.
        """
        self.model = model
        self.weights = ReachWeights()
        self.period = 1.0 / configuration.policy_rate
        self.steps = round(configuration.reach.duration / self.period)
        self.hold_steps = round(configuration.reach.hold / self.period)
        self.simulator = Simulator(
            model,
            time_step=self.period / SUBSTEPS,
            substeps=SUBSTEPS,
            gravity=configuration.gravity.tolist(),
            friction_velocity=configuration.friction_velocity,
        )
        self.kinematics = ForwardKinematics(model, configuration.reach.end_effector)
        self.parameters = parameter_tensors(parameters)
        self.home = torch.tensor(configuration.home, dtype=torch.float32)
        self.lower, self.upper, self.velocity_limit, self.effort_limit = (
            torch.tensor(model.limit_array(name), dtype=torch.float32)
            for name in ("lower", "upper", "velocity_limit", "effort_limit")
        )
        lag = (self.parameters["kd"] + self.parameters["damping"]) / self.parameters["kp"]
        self.lag = lag[0].clamp(min=self.period)
        """T = (kd + damping) / kp: by how much time a joint follows its command, at least a period [s], [joint]."""

    def goal(self, target: Float[Tensor, "world 3"]) -> Goal:
        """Rest on targets.

        Raises:
            RealityGradError: a target is out of reach, or a servo without kp cannot hold the arm there.
        """
        position = goal_posture(self.kinematics, self.home, target)
        return Goal(target, position, self.rest_command(position))

    def rest_command(self, position: Float[Tensor, "world joint"]) -> Float[Tensor, "world joint"]:
        """The command that holds the arm at `position`: u = q + g(q) / kp, with g the torque of gravity [rad].

        Raises:
            RealityGradError: a servo without kp has to carry something.
        """
        q = list(position.double().numpy().T)
        rest = [0.0] * len(q)
        g = inverse_dynamics(self.model, q, rest, rest, self.simulator.gravity)
        # A joint whose axis is vertical carries nothing, which is one number for all worlds.
        torque = np.stack([np.broadcast_to(g_i, q[0].shape) for g_i in g], axis=-1)
        command = position + torch.from_numpy(torque).float() / self.parameters["kp"]
        finite = command.isfinite().all(dim=0)
        if not finite.all():
            joint = self.model.joint_names[int(finite.int().argmin())]
            raise RealityGradError(
                f"the command that holds joint '{joint}' at rest is not finite; check the calibration's kp"
            )
        return command

    def cost(
        self,
        states: State,
        command: Float[Tensor, "time world joint"],
        goal: Goal,
        previous: Float[Tensor, "world joint"],
    ) -> dict[str, Float[Tensor, "world"]]:
        """The weighted terms of J by name.

        Args:
            states: [time + 1, world, joint], the initial one first.
            command: one for each but the last state.
            goal: where the motion shall end.
            previous: the command before the first one.
        """
        w = self.weights
        q = states.position
        running = {
            "distance": w.distance * distance_cost(self.kinematics(q[1:]), goal.target, w.softness),
            "posture": w.posture * posture_cost(q[1:], goal.position),
            "pull": w.pull * pull_cost(q[:-1], command, goal, self.lag, self.velocity_limit),
            "acceleration": w.acceleration * acceleration_cost(states.velocity, self.period),
            "position_limit": w.limit * position_limit_cost(q[1:], self.lower, self.upper, w.position_margin),
        }
        for name, ratio in self.limit_ratios(states, command, previous).items():
            running[f"{name}_limit"] = w.limit * limit_cost(ratio, w.margin)
        terms = {name: term.mean(0) for name, term in running.items()}
        last = running["distance"][-1] + running["posture"][-1]
        return terms | {"terminal": w.terminal / len(command) * last}

    def limit_ratios(
        self, states: State, command: Float[Tensor, "time world joint"], previous: Float[Tensor, "world joint"]
    ) -> Mapping[str, Float[Tensor, "time world joint"]]:
        """Torque, velocity and rate of the command, each in units of its limit."""
        before = State(states.position[:-1], states.velocity[:-1])
        return {
            "torque": self.simulator.torque(before, command, self.parameters) / self.effort_limit,
            "velocity": states.velocity[1:] / self.velocity_limit,
            "command_rate": torch.cat([previous[None], command]).diff(dim=0) / self.period / self.velocity_limit,
        }

    def figures(
        self,
        states: State,
        command: Float[Tensor, "time world joint"],
        goal: Goal,
        previous: Float[Tensor, "world joint"],
    ) -> dict[str, float]:
        """What matters in motions of `steps` commands: errors while they should hold [m], and use of the limits."""
        distance = (self.kinematics(states.position[-self.hold_steps :]) - goal.target).norm(dim=-1)
        ratios = self.limit_ratios(states, command, previous)
        outside = torch.maximum(self.lower - states.position, states.position - self.upper)
        return {
            "hold_error_mean_m": float(distance.mean()),
            "hold_error_max_m": float(distance.max()),
            "hold_speed_max": float(states.velocity[-self.hold_steps :].abs().max()),
            **{f"{name}_ratio_max": float(ratio.abs().max()) for name, ratio in ratios.items()},
            "position_limit_excess_max": float(outside.max()),
        }
