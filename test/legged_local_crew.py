"""A crew of a robot on legs without ROS: this process steps the twin, tells the command loop, and writes the bags."""

from itertools import pairwise

import numpy as np
from bag_writing import COMMANDS, START, command, imu, joint_state, odometry, twist_stamped, write_bag
from walking_policies import showing_bundle

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.command_loop import CommandLoop
from realitygrad_ros.control.observations import components
from realitygrad_ros.control.tasks.legged import OBSERVATIONS
from realitygrad_ros.errors import Cancelled
from realitygrad_ros.robot.configuration import load_configuration
from realitygrad_ros.twin.configuration import load_twin_configuration
from realitygrad_ros.twin.twin import STEP_RATE, Twin

ANYMAL = load_configuration("anymal_c")


def constant_bundle(offset=0.0, **changes) -> PolicyBundle:
    """A policy of the usual network, which holds every joint `offset` [rad] from home: one value, or one a joint.

    It knows velocities from -1 to 1.
    """
    terms = tuple(OBSERVATIONS)
    names = [(term, name) for term in terms for name in components(term, ANYMAL.joint_names)]
    widths = [len(names), 128, 64, 32, len(ANYMAL.joint_names)]
    layers = [(np.zeros((outer, inner)), np.zeros(outer)) for inner, outer in pairwise(widths)]
    layers[-1][1][:] = np.asarray(offset) / 0.5
    return showing_bundle(
        ANYMAL,
        layers=tuple(layers),
        observation_terms=terms,
        observation_mean=np.zeros(len(names)),
        observation_scale=np.array([3.0**-0.5 if term == "velocity_command" else 1.0 for term, _ in names]),
        **changes,
    )


def crouching_bundle(**changes) -> PolicyBundle:
    """A policy that folds the legs, so that the base sinks, which counts as a fall."""
    folded = {"HFE": 1.1, "KFE": -2.2}
    signs = {"F": 1.0, "H": -1.0}  # the hind knees bend the other way
    offset = [folded.get(name[-3:], 0.0) * signs[name[1]] for name in ANYMAL.joint_names]
    return constant_bundle(np.array(offset), **changes)


class LeggedLocalCrew:
    """`realitygrad_ros.iteration.legged_loop.LeggedCrew` on ANYmal C's twin."""

    def __init__(self):
        self.configuration = ANYMAL
        self.hidden = load_twin_configuration("anymal_c")
        self.told = []

    def excite(self, directory, commands, rate, progress, cancelled):
        """Of the twin that hangs."""
        twin = Twin(self.configuration, self.hidden, hung=True)
        progress("excite", 0.0, {})
        if cancelled():
            raise Cancelled

        def commanded(step):
            return commands[round(step * rate) // STEP_RATE]

        write_bag(directory / "bag", list(self._messages(twin, commanded, round(len(commands) * STEP_RATE / rate))))

    def identify(self, directory, bags, prior, progress, cancelled):
        """In this process."""
        from realitygrad_ros.iteration.stages import identify
        from realitygrad_ros.robot.load import load_clamped_robot

        clamped = load_clamped_robot("anymal_c")
        identify(directory, *clamped, bags, prior, progress=progress, cancelled=cancelled, tell=self.told.append)

    def walk(self, directory, schedule, progress, cancelled):
        """Of the twin on its feet."""
        progress("rollout", 0.0, {})
        if cancelled():
            raise Cancelled
        twin, loop = Twin(self.configuration, self.hidden), CommandLoop(self.configuration)
        loop.accept(PolicyBundle.read(directory / "policy.safetensors"))
        messages, begin = [], 0
        for stretch in schedule:
            steps = round(stretch.duration * STEP_RATE)
            messages += self._stretch(twin, loop, stretch, begin, steps)
            begin += steps
        write_bag(directory / "bag", messages)

    def _stretch(self, twin, loop, stretch, begin, steps):
        if not loop.engaged:
            twin.reset()

        def commanded(step):
            time = (begin + step) / STEP_RATE
            _tell(loop, twin, time, stretch.velocity)
            if step == 0 and not loop.engaged:
                loop.engage(time)
            return loop.command(time)

        yield (
            "/cmd_vel",
            begin / STEP_RATE,
            twist_stamped([*stretch.velocity[:2], 0.0], [0.0, 0.0, stretch.velocity[2]]),
        )
        yield from self._messages(twin, commanded, steps, begin)

    def _messages(self, twin, commanded, steps, begin=0):
        held = twin.position
        for step in range(steps):
            time = (begin + step) / STEP_RATE
            stamp = START + round(time * 1e9)
            if step % round(STEP_RATE / self.configuration.joint_state_rate) == 0:
                base = twin.base
                yield "/joint_states", time, joint_state(twin.joint_names, twin.position, twin.velocity, stamp)
                yield "/imu", time, imu(base.quat_xyzw, base.angular_velocity, stamp)
                yield (
                    "/odom",
                    time,
                    odometry(base.position, base.quat_xyzw, base.linear_velocity, base.angular_velocity, stamp),
                )
            given = commanded(step) if step % round(STEP_RATE / self.configuration.policy_rate) == 0 else None
            if given is not None:
                held = given
                yield COMMANDS, time, command(held)
            twin.step(held)


def _tell(loop, twin, time, velocity):
    base = twin.base
    loop.set_state(time, twin.position, twin.velocity)
    loop.set_imu(time, base.quat_xyzw, base.angular_velocity)
    loop.set_odometry(time, float(base.position[2]), base.linear_velocity)
    loop.set_velocity_command(time, np.array(velocity, dtype=float))
