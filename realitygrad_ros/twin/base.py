"""The floating base of a twin, as its IMU and its state estimator tell of it."""

from typing import NamedTuple

import mujoco
import numpy as np
from jaxtyping import Float

from realitygrad_ros.twin.configuration import BaseNoise
from realitygrad_ros.twin.ground import FREE_JOINT


class BaseReading(NamedTuple):
    """What is known of the base at one instant. The world's axis z points up."""

    position: Float[np.ndarray, "3"]
    """Of the base's origin in the world [m]."""
    quat_xyzw: Float[np.ndarray, "4"]
    """From the base frame to the world."""
    linear_velocity: Float[np.ndarray, "3"]
    """In the base frame [m/s]."""
    angular_velocity: Float[np.ndarray, "3"]
    """In the base frame [rad/s]."""
    linear_acceleration: Float[np.ndarray, "3"]
    """As an accelerometer at the base's origin feels it: without gravity's pull, so that one at rest tells of 9.81
    upwards (REP 145). Mean since the reading before, in the base frame [m/s^2]."""


class BaseSensors:
    """Reads the free base of a MuJoCo model, or one that hangs, with noise."""

    def __init__(self, model: mujoco.MjModel, noise: BaseNoise, seed: int) -> None:
        """Look for the joint `FREE_JOINT` in `model`; without it the base hangs where `model` has put it."""
        self._gravity, self._noise, self._seed = model.opt.gravity.copy(), noise, seed
        free = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, FREE_JOINT)
        self._coordinates = None if free < 0 else slice(model.jnt_qposadr[free], model.jnt_qposadr[free] + 7)
        self._freedom = None if free < 0 else slice(model.jnt_dofadr[free], model.jnt_dofadr[free] + 6)
        base = model.body_rootid[-1]
        self._hung = np.concatenate([model.body_pos[base], model.body_quat[base]])

    def begin(self, data: mujoco.MjData) -> None:
        """Begin anew after a reset, with the noise from its beginning."""
        self._random = np.random.default_rng([self._seed, 1])  # apart from the encoders' noise
        self._time, self._before = data.time, self._velocity(data)[:3]

    def read(self, data: mujoco.MjData) -> BaseReading:
        """What the sensors tell now."""
        pose = self._hung if self._coordinates is None else data.qpos[self._coordinates]
        velocity, elapsed = self._velocity(data), data.time - self._time
        change = (velocity[:3] - self._before) / elapsed if elapsed > 0.0 else np.zeros(3)
        self._time, self._before = data.time, velocity[:3]
        to_world = np.zeros(9)
        mujoco.mju_quat2Mat(to_world, pose[3:])
        to_base = to_world.reshape(3, 3).T
        n, noise = self._random.standard_normal((5, 3)), self._noise
        return BaseReading(
            position=pose[:3] + noise.position * n[0],
            quat_xyzw=_turned(pose[3:], noise.orientation * n[1])[[1, 2, 3, 0]],
            linear_velocity=to_base @ velocity[:3] + noise.linear_velocity * n[2],
            angular_velocity=velocity[3:] + noise.angular_velocity * n[3],
            linear_acceleration=to_base @ (change - self._gravity) + noise.linear_acceleration * n[4],
        )

    def push(self, data: mujoco.MjData, linear: Float[np.ndarray, "3"], angular: Float[np.ndarray, "3"]) -> None:
        """Change the velocity of a free base at once, by as much in its frame [m/s], [rad/s]; joints keep theirs."""
        assert self._coordinates is not None and self._freedom is not None
        change = np.zeros(3)
        mujoco.mju_rotVecQuat(change, linear, data.qpos[self._coordinates][3:])
        data.qvel[self._freedom] += np.concatenate([change, angular])

    def _velocity(self, data: mujoco.MjData) -> Float[np.ndarray, "6"]:
        """Linear in the world, angular in the base frame."""
        return np.zeros(6) if self._freedom is None else data.qvel[self._freedom].copy()


def _turned(quat_wxyz: Float[np.ndarray, "4"], angle: Float[np.ndarray, "3"]) -> Float[np.ndarray, "4"]:
    """An orientation turned about its own axes by a small angle [rad]."""
    turned = np.array(quat_wxyz)
    mujoco.mju_quatIntegrate(turned, angle, 1.0)
    return turned
