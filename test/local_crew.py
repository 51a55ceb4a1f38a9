"""A crew without ROS: this process does the work, and steps the twin itself."""

import numpy as np
from bag_writing import COMMANDS, command, joint_state, target, write_bag

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.observations import REACH_TERMS
from realitygrad_ros.errors import Cancelled
from realitygrad_ros.robot.load import load_robot
from realitygrad_ros.twin.configuration import load_twin_configuration
from realitygrad_ros.twin.twin import STEP_RATE, Twin


class LocalCrew:
    """`realitygrad_ros.iteration.loop.Crew` with few motions, on the twin of `robot`."""

    def __init__(self, robot, motions):
        self.configuration, self.model = load_robot(robot)
        self.motions = motions
        self.twin = Twin(self.configuration, load_twin_configuration(robot))
        self.told = []

    def identify(self, directory, bags, prior, progress, cancelled):
        """In this process."""
        from realitygrad_ros.iteration.stages import identify

        identify(
            directory,
            self.configuration,
            self.model,
            bags,
            prior,
            progress=progress,
            cancelled=cancelled,
            tell=self.told.append,
        )

    def learn(self, directory, parameters, seed, progress, cancelled):
        """In this process."""
        from realitygrad_ros.iteration.stages import learn

        learn(
            directory,
            self.configuration,
            self.model,
            parameters,
            motions=self.motions,
            seed=seed,
            progress=progress,
            cancelled=cancelled,
            tell=self.told.append,
        )

    def rollout(self, directory, plan, progress, cancelled):
        """Step the twin under the policy, as the nodes would, and write the bag."""
        bundle = PolicyBundle.read(directory / "policy.safetensors")
        write_bag(directory / "bag", self._messages(bundle, plan, progress, cancelled))

    def _messages(self, bundle, plan, progress, cancelled):
        names = self.configuration.joint_names
        steps_per_command = round(STEP_RATE / bundle.policy_rate)
        steps_per_state = round(STEP_RATE / self.configuration.joint_state_rate)
        steps_per_motion = round(STEP_RATE * plan.duration)
        given = self.twin.position
        for step in range(steps_per_motion * len(plan.targets)):
            time = step / STEP_RATE
            motion, phase = divmod(step, steps_per_motion)
            if phase == 0:
                progress("rollout", motion / len(plan.targets), {"motion": motion})
                yield "/target", time, target(plan.targets[motion])
                if cancelled():
                    raise Cancelled
            if step % steps_per_state == 0:
                stamp = 1_700_000_000 * 10**9 + round(time * 1e9)
                yield "/joint_states", time, joint_state(names, self.twin.position, self.twin.velocity, stamp)
            if step % steps_per_command == 0:
                told = (self.twin.position, self.twin.velocity, plan.targets[motion])
                given = bundle.act(dict(zip(REACH_TERMS, told, strict=True)), given)
                yield COMMANDS, time, command(given)
            self.twin.step(np.asarray(given))
