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
"""Parent index of a joint, or joint index of a frame, that hangs on the base."""


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
    """A tree of joints on a fixed or a floating base; parents stand before their children.

    Coordinates are the joints' positions; before them, with a floating base, the base's position in the world [m] and
    its orientation as `quat_xyzw`. Velocities are the joints'; before them the base's twist, linear then angular, both
    in the base frame (REP 103).
    """

    name: str
    joints: tuple[Joint, ...]
    frames: Mapping[str, Frame]
    """Every link of the URDF by name."""
    warnings: tuple[str, ...] = ()
    """What a user should know about the file, one line each."""
    base_link: str = field(default="base_link")
    base: Body | None = None
    """A floating base: the root link and all that is fixed to it, in the root link's frame. None: the base is fixed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", MappingProxyType(dict(self.frames)))

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The order of every per-joint array in this package."""
        return tuple(joint.name for joint in self.joints)

    @property
    def joint_count(self) -> int:
        """Number of joints, n."""
        return len(self.joints)

    @property
    def base_freedom(self) -> int:
        """Degrees of freedom of the base: 6 if it floats, else 0."""
        return 0 if self.base is None else 6

    @property
    def velocity_count(self) -> int:
        """Number of degrees of freedom: n, and 6 more with a floating base."""
        return self.base_freedom + self.joint_count

    @property
    def coordinate_count(self) -> int:
        """Number of coordinates: n, and 7 more with a floating base."""
        return (0 if self.base is None else 7) + self.joint_count

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
