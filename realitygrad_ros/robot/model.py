"""The robot as its dynamics see it: a tree of moving joints, fixed joints merged away.

SI units throughout. Frames follow REP 103 (x forward, y left, z up). A joint's frame moves with the joint;
at position zero it coincides with the joint's placement in its parent's frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError

BASE = -1
"""Parent index of a joint, or joint index of a frame, that hangs on the fixed base."""


class JointKind(Enum):
    """How a joint moves along or about its axis."""

    REVOLUTE = "revolute"
    CONTINUOUS = "continuous"
    PRISMATIC = "prismatic"


@dataclass(frozen=True, eq=False)
class Transform:
    """Pose of a child frame in its parent: `x_parent = rotation @ x_child + translation` [m]."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    @staticmethod
    def identity() -> "Transform":
        """The pose of a frame in itself."""
        return Transform(np.eye(3), np.zeros(3))

    @staticmethod
    def from_matrix(matrix: Float[np.ndarray, "4 4"]) -> "Transform":
        """From a homogeneous matrix."""
        return Transform(np.array(matrix[:3, :3], dtype=float), np.array(matrix[:3, 3], dtype=float))

    def __matmul__(self, child: "Transform") -> "Transform":
        """Chain two poses: `(parent_T_a @ a_T_b)` is `parent_T_b`."""
        return Transform(self.rotation @ child.rotation, self.rotation @ child.translation + self.translation)


@dataclass(frozen=True, eq=False)
class Body:
    """What one joint carries: its link and every link fixed to it, as one rigid body in the joint's frame."""

    mass: float
    """[kg]"""
    center_of_mass: Float[np.ndarray, "3"]
    """[m]"""
    inertia: Float[np.ndarray, "3 3"]
    """About the centre of mass [kg m^2]."""
    links: tuple[str, ...]
    """The merged links; the first is the joint's own child link."""


@dataclass(frozen=True, eq=False)
class Joint:
    """One degree of freedom. Units are rad or m by `kind`, and N m or N for efforts."""

    name: str
    kind: JointKind
    parent: int
    """Index of the parent joint, always smaller than this joint's own, or `BASE`."""
    placement: Transform
    """Pose of this joint's frame at position zero, in the parent joint's frame (or the base link's)."""
    axis: Float[np.ndarray, "3"]
    """Unit vector in this joint's frame."""
    lower: float
    """Position limit, -inf for a continuous joint."""
    upper: float
    """Position limit, inf for a continuous joint."""
    velocity_limit: float
    """Magnitude, inf where the URDF gives none."""
    effort_limit: float
    """Magnitude, inf where the URDF gives none."""
    body: Body


@dataclass(frozen=True, eq=False)
class Frame:
    """A URDF link's frame, rigidly attached to a joint's frame or to the base."""

    name: str
    joint: int
    placement: Transform


@dataclass(frozen=True, eq=False)
class RobotModel:
    """A fixed-base tree of joints; parents stand before their children."""

    name: str
    joints: tuple[Joint, ...]
    frames: Mapping[str, Frame]
    """Every link of the URDF by name."""
    warnings: tuple[str, ...] = ()
    """What a user should know about the file, one line each."""
    base_link: str = field(default="base_link")

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", MappingProxyType(dict(self.frames)))

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The order of every per-joint array in this package."""
        return tuple(joint.name for joint in self.joints)

    @property
    def joint_count(self) -> int:
        """Number of degrees of freedom, n."""
        return len(self.joints)

    def frame(self, name: str) -> Frame:
        """The frame of the link `name`.

        Raises:
            RealityGradError: the URDF has no such link.
        """
        if name not in self.frames:
            raise RealityGradError(
                f"robot '{self.name}' has no link '{name}'; its links are: {', '.join(sorted(self.frames))}"
            )
        return self.frames[name]

    def limit_array(self, field_name: str) -> Float[np.ndarray, "joint"]:
        """One of `lower`, `upper`, `velocity_limit`, `effort_limit` as an array in joint order."""
        return np.array([getattr(joint, field_name) for joint in self.joints], dtype=float)
