"""A stand-in for the real robot: MuJoCo with parameters that nobody else is told."""

from dataclasses import replace
from typing import Final, NamedTuple

import mujoco
import numpy as np
import yourdfpy
from jaxtyping import Float
from numpy.typing import ArrayLike

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.description import read_description
from realitygrad_ros.robot.parameters import SimulationParameters
from realitygrad_ros.robot.urdf import load_urdf
from realitygrad_ros.twin.base import BaseReading, BaseSensors
from realitygrad_ros.twin.configuration import Payload, TwinConfiguration
from realitygrad_ros.twin.ground import FREE_JOINT, add_ground, merge_masses, place

STEP_RATE: Final = 1000
"""Steps of the twin per second [Hz]."""

HANGING_HEIGHT = 2.0
"""Of a robot on legs that hangs, in heights of one that stands."""


class TwinSamples(NamedTuple):
    """What the encoders and motors of a twin told, one row a step; [sample, joint] in joint order."""

    time: Float[np.ndarray, "sample"]
    """Since the first row [s]."""
    position: Float[np.ndarray, "sample joint"]
    """[rad]"""
    velocity: Float[np.ndarray, "sample joint"]
    """[rad/s]"""
    effort: Float[np.ndarray, "sample joint"]
    """Of the motors [N m]."""


class Twin:
    r"""The robot of a URDF with a position servo in each joint, a payload and noisy encoders.

    Each servo's torque is `tau = clip(kp (q* - q) - kd qd, -effort_limit, effort_limit)`, without gravity
    compensation; the joint adds viscous damping, Coulomb friction and the armature:
    `M(q) qdd + armature qdd + c(q, qd) + g(q) = tau - damping qd - friction clip(qd / friction_velocity, -1, 1)`.
    The limits of effort and position are the URDF's. Nothing touches anything but the robot's contact spheres the
    ground. A robot with a floating base has an IMU and a state estimator, too.

    Per-joint arrays are in the order of `robot.joint_names`.
    """

    def __init__(self, robot: RobotConfiguration, hidden: TwinConfiguration, *, hung: bool = False) -> None:
        """Build the twin and put it at the robot's home.

        Args:
            robot: of which the URDF, the joint order, the home, gravity and the contact spheres are used; never its
                nominal parameters.
            hidden: the truth.
            hung: whether a floating base is held in the air, so that the legs move freely.

        Raises:
            RealityGradError: the URDF cannot be simulated, or does not have the joints or the link which the
                configurations name; a robot with a fixed base shall hang, or the truth of a floating one is missing.
        """
        self.joint_names = robot.joint_names
        self.truth: SimulationParameters = hidden.truth.reordered(robot.joint_names)
        self.hung = hung
        """Whether a floating base is held in the air."""
        self._robot = _with_true_ground(robot, hidden, hung)
        self._noise = hidden.noise
        self._model = mujoco_model(self._robot, self.truth, hidden.payload, hung=hung)
        noise, seed = hidden.base_noise, hidden.noise.seed
        self._sensors = None if noise is None else BaseSensors(self._model, noise, seed)
        self._base: BaseReading | None = None
        _soften_friction(self._model, hidden.friction_velocity)
        self._data = mujoco.MjData(self._model)
        joints = [self._model.joint(name) for name in self.joint_names]
        self._position_address = np.array([joint.qposadr[0] for joint in joints])
        self._velocity_address = np.array([joint.dofadr[0] for joint in joints])
        limited = np.array([bool(joint.limited[0]) for joint in joints])
        self._lower = np.where(limited, [joint.range[0] for joint in joints], -np.inf)
        self._upper = np.where(limited, [joint.range[1] for joint in joints], np.inf)
        self.reset()

    def reset(self) -> None:
        """Return to the home, at rest, held by the servos, with the noise from its beginning.

        A robot with a floating base stands, or hangs, upright at the origin of the world.
        """
        home, height = self._robot.home, self._robot.home_height
        if height is None or self.hung:
            mujoco.mj_resetData(self._model, self._data)
            self._data.qpos[self._position_address] = home
        else:
            velocity = np.zeros(self._model.nv)
            place(self._model, self._data, self.joint_names, [0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0, *home], velocity)
        self._data.ctrl[:] = home
        mujoco.mj_forward(self._model, self._data)
        self._random = np.random.default_rng(self._noise.seed)
        if self._sensors is not None:
            self._sensors.begin(self._data)
        self._measure()

    def check_command(self, command: ArrayLike) -> Float[np.ndarray, "joint"]:
        """The position targets [rad], clamped to the joints' limits as a driver would.

        Raises:
            RealityGradError: the command has a wrong length or a value that is not finite; nothing is guessed.
        """
        target = np.asarray(command, dtype=float)
        if target.shape != (len(self.joint_names),):
            raise RealityGradError(
                f"a command has {target.size} values, but the twin has {len(self.joint_names)} joints: "
                f"{', '.join(self.joint_names)}"
            )
        finite = np.isfinite(target)
        if not finite.all():
            joint = self.joint_names[int(np.argmin(finite))]
            raise RealityGradError(f"the command of joint '{joint}' is {target[~finite][0]}; it must be finite")
        return np.clip(target, self._lower, self._upper)

    def step(self, command: ArrayLike) -> None:
        """Go 1 / `STEP_RATE` seconds ahead under the position targets `command` [joint] [rad].

        Raises:
            RealityGradError: as `check_command`; the twin then stays where it is.
        """
        self._data.ctrl[:] = self.check_command(command)
        mujoco.mj_step(self._model, self._data)
        self._measure()

    def push(self, linear: ArrayLike, angular: ArrayLike) -> None:
        """Push a robot with a floating base: its velocity changes at once, that of its joints does not.

        Args:
            linear: change of the velocity in the base frame [m/s].
            angular: change of the angular velocity in the base frame [rad/s].

        Raises:
            RealityGradError: the base is fixed or hangs, or a value is not finite.
        """
        if self._sensors is None or self.hung:
            raise RealityGradError("the base cannot be pushed: it is fixed")
        change = np.array([linear, angular], dtype=float)
        if not np.isfinite(change).all():
            raise RealityGradError("the push is not finite")
        self._sensors.push(self._data, *change)

    def simulate(self, command: Float[np.ndarray, "time joint"], rate: float) -> TwinSamples:
        """Run a sequence of commands from the present state, each held for 1 / `rate` seconds.

        Args:
            command: position targets [rad].
            rate: commands per second; it must divide `STEP_RATE` [Hz].

        Returns:
            The present state and that after each step: `time * STEP_RATE / rate + 1` rows.

        Raises:
            RealityGradError: `rate` does not divide `STEP_RATE`, or a command is refused.
        """
        held = round(STEP_RATE / rate)
        if held < 1 or abs(held * rate - STEP_RATE) > 1e-9 * STEP_RATE:
            raise RealityGradError(f"the command rate {rate} Hz does not divide the twin's {STEP_RATE} Hz")
        rows = [(self.position, self.velocity, self.effort)]
        for target in command:
            for _ in range(held):
                self.step(target)
                rows.append((self.position, self.velocity, self.effort))
        position, velocity, effort = (np.stack(column) for column in zip(*rows, strict=True))
        return TwinSamples(np.arange(len(rows)) / STEP_RATE, position, velocity, effort)

    @property
    def position(self) -> Float[np.ndarray, "joint"]:
        """As the encoders measured it after the last step [rad]."""
        return self._position

    @property
    def velocity(self) -> Float[np.ndarray, "joint"]:
        """As the encoders measured it after the last step [rad/s]."""
        return self._velocity

    @property
    def effort(self) -> Float[np.ndarray, "joint"]:
        """The servos' torque during the last step, after its limit [N m]."""
        return self._effort

    @property
    def base(self) -> BaseReading:
        """What IMU and state estimator of a floating base tell after the last step.

        Raises:
            RealityGradError: the base is fixed.
        """
        if self._sensors is None:
            raise RealityGradError("a robot with a fixed base has no IMU")
        if self._base is None:
            self._base = self._sensors.read(self._data)
        return self._base

    def _measure(self) -> None:
        noise = self._random.standard_normal((2, len(self.joint_names)))
        self._position = self._data.qpos[self._position_address] + self._noise.position * noise[0]
        self._velocity = self._data.qvel[self._velocity_address] + self._noise.velocity * noise[1]
        self._effort = self._data.actuator_force.copy()
        self._base = None  # read when somebody asks


def mujoco_model(
    robot: RobotConfiguration, parameters: SimulationParameters, payload: Payload | None = None, *, hung: bool = False
) -> mujoco.MjModel:
    """The URDF's tree with joints of these parameters, a servo for each in their order, and the payload.

    A floating base gets the joint `FREE_JOINT`, and the robot's contact spheres touch the ground; one that is `hung`
    is held in the air and touches nothing.

    Raises:
        RealityGradError: the URDF cannot be simulated, or lacks a joint, the payload's link or that of a contact.
    """
    try:
        spec = mujoco.MjSpec.from_string(_urdf(robot))
        # A fixed link keeps its body where the payload must find the link that it hangs on.
        spec.compiler.fusestatic = payload is None
        spec.option.timestep = 1.0 / STEP_RATE
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.gravity = robot.gravity
        _check_joints(spec, robot)
        _set_joints(spec, parameters)
        if hung and robot.home_height is not None:
            spec.worldbody.first_body().pos = [0.0, 0.0, HANGING_HEIGHT * robot.home_height]
        elif robot.floating:
            spec.worldbody.first_body().add_freejoint(name=FREE_JOINT)
        if robot.contact is not None and not hung:
            add_ground(spec, robot.contact)
        if payload is not None:
            _add_payload(spec, payload, robot)
        return spec.compile()
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise RealityGradError(f"MuJoCo cannot load the URDF '{robot.urdf}': {reason}") from error


def _with_true_ground(robot: RobotConfiguration, hidden: TwinConfiguration, hung: bool) -> RobotConfiguration:
    """The robot on the ground of its twin, once the truth is found whole."""
    if hung and not robot.floating:
        raise RealityGradError(f"robot '{robot.name}' cannot hang: its base is fixed")
    if robot.floating != (hidden.base_noise is not None):
        raise RealityGradError(
            f"the twin's 'noise.base' is for a floating base alone, and robot '{robot.name}' has "
            f"{'one; add it' if robot.floating else 'none; drop it'}"
        )
    if robot.contact is None:
        return robot
    if hidden.foot_friction_coefficient is None:
        raise RealityGradError(
            f"the twin of '{robot.name}' lacks 'foot_friction_coefficient', and the robot touches the ground; add it"
        )
    return replace(robot, contact=replace(robot.contact, friction_coefficient=hidden.foot_friction_coefficient))


def _urdf(robot: RobotConfiguration) -> str:
    """The robot's URDF, checked and without shapes: their meshes may be missing, and the twin needs none."""
    description, _ = read_description(robot.urdf)
    if robot.floating:
        merge_masses(description, load_urdf(robot.urdf, floating=True))
    return yourdfpy.URDF(description, build_scene_graph=False, load_meshes=False).write_xml_string().decode()


def _check_joints(spec: mujoco.MjSpec, robot: RobotConfiguration) -> None:
    difference = sorted({joint.name for joint in spec.joints} ^ set(robot.joint_names))
    if difference:
        raise RealityGradError(
            f"the joints of robot '{robot.name}' and of its URDF '{robot.urdf}' differ; only one side has: "
            f"{', '.join(difference)}"
        )


def _set_joints(spec: mujoco.MjSpec, truth: SimulationParameters) -> None:
    for index, name in enumerate(truth.joint_names):
        joint = spec.joint(name)
        joint.damping[0] = truth.damping[index]
        joint.armature = truth.armature[index]
        joint.frictionloss = truth.friction[index]
        servo = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=name)
        servo.set_to_position(kp=truth.kp[index], kv=truth.kd[index])
        # MuJoCo has read the URDF's effort limit into the joint; without one both ends are zero.
        if joint.actfrcrange.any():
            servo.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
            servo.forcerange = joint.actfrcrange


def _add_payload(spec: mujoco.MjSpec, payload: Payload, robot: RobotConfiguration) -> None:
    link = spec.body(payload.link)
    if link is None:
        raise RealityGradError(f"the payload's link '{payload.link}' is not in the URDF '{robot.urdf}'")
    link.add_body(name="payload", ipos=payload.offset, mass=payload.mass, inertia=np.zeros(3), explicitinertial=True)


def _soften_friction(model: mujoco.MjModel, friction_velocity: float) -> None:
    """Let friction grow linearly with the velocity and have its full value from `friction_velocity` [rad/s] on.

    MuJoCo's own default sticks where a greased gear creeps. Its friction in a joint (documentation, chapter
    "Computation", constraint model) is `f = -(a + b v) / (A + R)` up to `frictionloss`, where `a` is the acceleration
    without friction, `A` the inverse of the inertia, `R = (1 - d) / d A0`, `A0` = `A` at position zero, and
    `b = 2 / (d t)` by the time constant `t`. With a small `d` only `f = -b v / R` remains, and `t` follows from
    `b / R = frictionloss / friction_velocity`.
    """
    d = 0.01
    model.dof_solimp[:, :2] = d
    rubbing = model.dof_frictionloss > 0.0
    slope = model.dof_frictionloss[rubbing] / friction_velocity
    model.dof_solref[rubbing, 0] = 2.0 / (slope * (1.0 - d) * model.dof_invweight0[rubbing])
