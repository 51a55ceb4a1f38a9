"""Many worlds of one walking task side by side, with episodes that end and begin anew."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from realitygrad_ros.control.tasks.legged import OBSERVATIONS, REWARDS, LeggedRobot, Motion, Situation
from realitygrad_ros.control.tasks.walking import WalkingTask
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.physics.kinematics import ContactHeights
from realitygrad_ros.physics.simulator import Simulator, State, parameter_tensors
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

ACTION_SCALE = 0.5
"""Change of a joint's position target by an action of one [rad]; second-hand, as the numbers of `tasks.legged`."""

START = {"lift": 0.05, "tilt": 0.06, "joint": 0.1, "velocity": 0.25}
"""Largest deviation from standing at rest when an episode begins: height [m], roll and pitch [rad], joints [rad], and
every velocity [m/s, rad/s]; ours."""


class Share(NamedTuple):
    """Which of all worlds are here, when several processes share them."""

    first: int
    count: int
    total: int


class Step(NamedTuple):
    """What one action led to."""

    motion: Motion
    following: Situation
    """Before anything begins anew."""
    fallen: Bool[Tensor, "world"]
    late: Bool[Tensor, "world"]
    """The episode has had its time."""


def legged_robot(
    model: RobotModel,
    configuration: RobotConfiguration,
    parameters: SimulationParameters,
    contact_mode: str,
    threads: int | None = None,
) -> LeggedRobot:
    """A robot on legs in the simulator, float32.

    Raises:
        RealityGradError: its base does not float, or it has no contact.
    """
    contact = configuration.contact
    if not configuration.floating or contact is None or configuration.home_height is None:
        raise RealityGradError(
            f"robot '{configuration.name}' cannot walk: give its configuration 'base: floating' and a 'contact' section"
        )
    period = 1.0 / configuration.policy_rate
    simulator = Simulator(
        model,
        time_step=contact.time_step,
        gravity=configuration.gravity.tolist(),
        friction_velocity=configuration.friction_velocity,
        threads=threads,
        contact=contact,
        contact_mode=contact_mode,
    )
    return LeggedRobot(
        simulator=simulator,
        heights=ContactHeights(model, contact.spheres),
        home=torch.tensor(configuration.home, dtype=torch.float32),
        home_height=configuration.home_height,
        action_scale=ACTION_SCALE,
        period=period,
        substeps=round(period / contact.time_step),
        lower=torch.tensor(model.limit_array("lower"), dtype=torch.float32),
        upper=torch.tensor(model.limit_array("upper"), dtype=torch.float32),
        gains={name: tensor[0] for name, tensor in parameter_tensors(parameters).items() if name in ("kp", "kd")},
    )


class Worlds:
    """Worlds of one task, their present situations, and their own random numbers.

    Each process that shares the worlds draws the random numbers of all of them, so that a world's fate does not depend
    on how they are shared.

    Attributes:
        situation: of every world; the derivatives of what came before are cut.
    """

    def __init__(
        self, robot: LeggedRobot, parameters: SimulationParameters, task: WalkingTask, share: Share, seed: int
    ) -> None:
        """Begin an episode in every world, each at another of its moments so that they do not end together.

        Args:
            robot: in the simulator.
            parameters: of its joints.
            task: what to do.
            share: which worlds are here.
            seed: of every random number.
        """
        self.robot, self.task, self.share = robot, task, share
        self.random = torch.Generator().manual_seed(seed)
        self._nominal = {name: value.expand(share.count, -1) for name, value in parameter_tensors(parameters).items()}
        self.situation, self.conditions, self._delay = self._begun()
        age = self._uniform(0.0, task.duration)[:, 0]
        self.situation = self.situation._replace(time=(age / robot.period).floor() * robot.period)
        self._until_kick = self._uniform(*task.randomisation.kick_interval)[:, 0]

    def observe(self, situation: Situation, noisy: bool = True) -> Float[Tensor, "world observation"]:
        """What a policy sees, with the errors of the task's sensors where `noisy`."""
        terms = []
        for name in self.task.observations:
            term = OBSERVATIONS[name](self.robot, situation)
            largest = self.task.randomisation.observation_noise.get(name, 0.0)
            terms.append(term + self._uniform(-largest, largest, term.shape[-1]) if noisy and largest else term)
        return torch.cat(terms, -1)

    def normal(self, width: int) -> Float[Tensor, "world width"]:
        """Standard normal numbers of these worlds."""
        return self._own(torch.randn(self.share.total, width, generator=self.random))

    def advance(self, situation: Situation, action: Float[Tensor, "world joint"]) -> Step:
        """One control step; differentiable by situation and action."""
        robot = self.robot
        target = (robot.home + robot.action_scale * action).clamp(robot.lower, robot.upper)
        before = robot.home + robot.action_scale * situation.previous_action
        # The command of a policy comes a little after what it observed; until then the one before it acts.
        waiting = torch.arange(robot.substeps)[:, None] < (self._delay / robot.simulator.time_step).round()
        command = torch.where(waiting[..., None], before, target)
        states = robot.simulator.rollout(situation.state, command, self.conditions)
        after = State(states.position[-1], states.velocity[-1])
        # What the robot's computer knows of its action is the command that it gave.
        done_action = (target - robot.home) / robot.action_scale
        following = Situation(after, done_action, situation.command, situation.time + robot.period)
        with torch.no_grad():
            fallen = after.position[:, 2] < self.task.least_base_height
            late = following.time > self.task.duration - 0.5 * self.robot.period
        return Step(Motion(situation, action, after), following, fallen, late & ~fallen)

    def go_on(self, step: Step) -> Situation:
        """What follows a step: kicked or told another velocity when its time has come, begun anew where it ended."""
        situation = self._disturbed(step.following)
        done = step.fallen | step.late
        if done.any():
            begun, conditions, delay = self._begun()
            self._delay = torch.where(done, delay, self._delay)
            situation = Situation(*(_chosen(done, new, old) for new, old in zip(begun, situation, strict=True)))
            self.conditions = {
                name: torch.where(done[:, None], conditions[name], old) for name, old in self.conditions.items()
            }
        return situation

    def frozen(self, step: Step, moving: Bool[Tensor, "world"]) -> Situation:
        """What follows a step, but worlds that shall not move on stay where the step began."""
        before, time = step.motion.before, step.following.time
        held = Situation(*(_chosen(moving, new, old) for new, old in zip(step.following, before, strict=True)))
        return held._replace(time=time)

    def rewards(self, motion: Motion) -> dict[str, Float[Tensor, "*batch"]]:
        """The weighted terms of the reward by name; motions may have a time dimension before that of the worlds."""
        return {name: weight * REWARDS[name](self.robot, motion) for name, weight in self.task.rewards.items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that the next steps of these worlds depend on, by name; [world, ...], `random` [process, byte]."""
        s = self.situation
        situation = {"position": s.state.position, "velocity": s.state.velocity, "previous_action": s.previous_action}
        situation |= {"command": s.command, "time": s.time, "until_kick": self._until_kick, "delay": self._delay}
        conditions = {f"conditions.{name}": value for name, value in self.conditions.items()}
        return situation | conditions | {"random": self.random.get_state()[None]}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Become this share of what `state` described, with the rows of all processes, however many they were."""
        s = {name: self._own(value) for name, value in state.items() if name != "random"}
        self.situation = Situation(State(s["position"], s["velocity"]), s["previous_action"], s["command"], s["time"])
        self._until_kick, self._delay = s["until_kick"], s["delay"]
        self.conditions = {name: s[f"conditions.{name}"] for name in self.conditions}
        # Where the processes were as many, its own; else that of the process which had the first of these worlds.
        random = state["random"]
        row = random[self.share.first * len(random) // self.share.total]
        self.random.set_state(row.clone())  # of a view torch would read the storage from its beginning

    def _disturbed(self, situation: Situation) -> Situation:
        randomisation = self.task.randomisation
        if randomisation.kick == 0.0:
            return situation
        self._until_kick = self._until_kick - self.robot.period
        now = (self._until_kick <= 0.0)[:, None]
        if not now.any():
            return situation
        self._until_kick = torch.where(now[:, 0], self._uniform(*randomisation.kick_interval)[:, 0], self._until_kick)
        kick = torch.zeros_like(situation.state.velocity)
        kick[:, 0:2] = self._uniform(-randomisation.kick, randomisation.kick, 2)
        state = situation.state._replace(velocity=situation.state.velocity + torch.where(now, kick, 0.0))
        return situation._replace(state=state, command=torch.where(now, self._command(), situation.command))

    def _begun(self) -> tuple[Situation, dict[str, Tensor], Tensor]:
        """New episodes in all worlds, the parameters of the simulator in them, and the delays of commands [s]."""
        robot, randomisation, w = self.robot, self.task.randomisation, self.share.count
        n = len(robot.home)
        lift, tilt = self._uniform(0.0, START["lift"]), self._uniform(-0.5 * START["tilt"], 0.5 * START["tilt"], 2)
        orientation = torch.cat([tilt, torch.zeros(w, 1), (1.0 - tilt.square().sum(1, keepdim=True)).sqrt()], 1)
        joint_position = robot.home + self._uniform(-START["joint"], START["joint"], n)
        position = torch.cat([torch.zeros(w, 2), robot.home_height + lift, orientation, joint_position], 1)
        velocity = self._uniform(-START["velocity"], START["velocity"], 6 + n)
        situation = Situation(State(position, velocity), torch.zeros(w, n), self._command(), torch.zeros(w))
        return situation, self._conditions(n), self._uniform(*randomisation.delay)[:, 0]

    def _conditions(self, joints: int) -> dict[str, Tensor]:
        """Parameters of the simulator in new episodes."""
        randomisation, feet = self.task.randomisation, self.robot.heights.output_count
        conditions = self._nominal | {"added_base_mass": self._uniform(*randomisation.added_base_mass)}
        if randomisation.friction_coefficient is not None:
            alike = self._uniform(*randomisation.friction_coefficient).expand(self.share.count, feet)
            conditions["friction_coefficient"] = alike
        for name in ("damping", "friction"):
            drawn = getattr(randomisation, name)
            if drawn is not None:
                conditions[name] = self._uniform(*drawn, joints)
        return conditions

    def _command(self) -> Tensor:
        lower, upper = torch.tensor(self.task.command_lower), torch.tensor(self.task.command_upper)
        return lower + (upper - lower) * self._uniform(0.0, 1.0, 3)

    def _uniform(self, lower: float, upper: float, width: int = 1) -> Float[Tensor, "world width"]:
        drawn = torch.rand(self.share.total, width, generator=self.random)
        return self._own(lower + (upper - lower) * drawn)

    def _own(self, values: Tensor) -> Tensor:
        return values[self.share.first : self.share.first + self.share.count]


def _chosen(where: Tensor, new: Tensor | State, old: Tensor | State) -> Tensor | State:
    if isinstance(old, State):
        return State(*(_chosen(where, n, o) for n, o in zip(new, old, strict=True)))
    return torch.where(where if old.ndim == 1 else where[:, None], new, old)
