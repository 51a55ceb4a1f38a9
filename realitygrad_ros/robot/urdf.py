"""URDF or xacro -> `RobotModel`: the tree of moving joints, everything fixed to a joint merged into its body."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import yourdfpy
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.description import read_description
from realitygrad_ros.robot.inertia import Piece, merge, triangle_warning
from realitygrad_ros.robot.model import BASE, Body, Frame, Joint, JointKind, RobotModel, Transform

_Described: TypeAlias = yourdfpy.urdf.Joint

_SNAP = 1e-11
"""What is this close to 0, 1 or -1 becomes it, so that the generated code has no term for it. A right angle that a
file gives with twelve digits is off by 5e-12."""

_AXIS_SLACK = 1e-3
"""An axis whose length differs from 1 by more than this is worth a warning."""

_KINDS = {kind.value: kind for kind in JointKind}


def load_urdf(path: Path, *, floating: bool = False) -> RobotModel:
    """Load a robot from a URDF, or from a xacro file (by its suffix `.xacro`).

    Fixed joints are merged into what they hang on. Joints are ordered depth first, parents before children, siblings
    as in the file.

    Args:
        path: the file.
        floating: whether the root link, with all that is fixed to it, moves freely as the model's `base`; else it is
            fixed to the world.

    Raises:
        RealityGradError: the file is no sound URDF, or describes a robot that the simulator cannot stand for: mimic,
            floating or planar joints, a moving link (or floating base) without mass or with an impossible inertia,
            limits in the wrong order. The message is one line that names the file and the joint or link.
    """
    robot, warnings = read_description(path)
    try:
        _refuse_joints(robot.joints)
        root = _find_root(robot)
        return _Tree(robot, root).model(warnings, floating)
    except RealityGradError as error:
        raise RealityGradError(f"URDF '{path}': {error}") from error


class _Tree:
    """One walk over the links of a description: gives each a frame, and each inertia to the joint that carries it."""

    def __init__(self, robot: yourdfpy.Robot, root: str) -> None:
        self._robot = robot
        self._root = root
        self._frames: dict[str, Frame] = {}
        self._moving: list[tuple[_Described, Frame]] = []
        """Each moving joint with the frame, in its parent joint, in which it stands."""
        self._pieces: dict[int, list[Piece]] = {BASE: []}
        """What each moving joint, and the base, carries."""
        self._walk()

    def _walk(self) -> None:
        links = {link.name: link for link in self._robot.links}
        children: dict[str, list[_Described]] = {name: [] for name in links}
        for joint in self._robot.joints:
            children[joint.parent].append(joint)
        self._frames[self._root] = Frame(self._root, BASE, Transform.identity())
        self._pieces[BASE].append(_piece(links[self._root], Transform.identity()))
        pending = children[self._root][::-1]
        while pending:
            joint = pending.pop()
            frame = self._frames[joint.child] = self._attach(joint)
            self._pieces[frame.joint].append(_piece(links[joint.child], frame.placement))
            pending += children[joint.child][::-1]
        lost = [name for name in links if name not in self._frames]
        if lost:
            raise RealityGradError(f"the joints form a loop: link '{lost[0]}' is not reached from '{self._root}'")

    def _attach(self, joint: _Described) -> Frame:
        """The frame of a joint's child link; a moving joint gets its index here."""
        parent = self._frames[joint.parent]
        placement = _snapped(parent.placement @ _transform(joint.origin))
        if joint.type == "fixed":
            return Frame(joint.child, parent.joint, placement)
        self._moving.append((joint, Frame(joint.name, parent.joint, placement)))
        self._pieces[len(self._moving) - 1] = []
        return Frame(joint.child, len(self._moving) - 1, Transform.identity())

    def model(self, warnings: Sequence[str], floating: bool) -> RobotModel:
        """The finished model; `warnings` come before those of the base and the joints."""
        if not self._moving:
            raise RealityGradError("the robot has no moving joint")
        gathered = list(warnings)
        base = _body(self._pieces[BASE], "floating base", gathered) if floating else None
        joints = tuple(
            _joint(joint, stand, self._pieces[index], gathered) for index, (joint, stand) in enumerate(self._moving)
        )
        for limit in ("velocity", "effort"):
            free = [joint.name for joint in joints if np.isinf(getattr(joint, f"{limit}_limit"))]
            if free:
                gathered.append(f"no {limit} limit, or a zero, is given for {', '.join(free)}; taken as unlimited")
        rubbing = [joint.name for joint, _ in self._moving if _has_friction(joint)]
        if rubbing:
            gathered.append(
                f"<dynamics> is not used, but given for {', '.join(rubbing)}; damping and friction belong in the "
                "robot's configuration"
            )
        return RobotModel(self._robot.name, joints, self._frames, tuple(gathered), self._root, base)


def _refuse_joints(joints: Sequence[_Described]) -> None:
    """Refuse the kinds of joints that the dynamics have no place for."""
    mimics = [joint.name for joint in joints if joint.mimic is not None and joint.type != "fixed"]
    if mimics:
        raise RealityGradError(
            f"mimic joints are not supported: {', '.join(mimics)}; make them fixed, or remove <mimic> to drive them"
        )
    children = {joint.child for joint in joints}
    for joint in joints:
        if joint.type == "floating" and joint.parent not in children:
            raise RealityGradError(
                f"joint '{joint.name}' has type 'floating'; drop it and link '{joint.parent}', and write "
                "'base: floating' in the robot's configuration"
            )
        if joint.type not in (*_KINDS, "fixed"):
            raise RealityGradError(
                f"joint '{joint.name}' has type '{joint.type}'; only fixed, {', '.join(_KINDS)} are supported"
            )


def _find_root(robot: yourdfpy.Robot) -> str:
    """The one link without parent, after a check that names and references are those of a tree."""
    for what, elements in (("link", robot.links), ("joint", robot.joints)):
        twice = [name for name, count in Counter(element.name for element in elements).items() if count > 1]
        if twice:
            raise RealityGradError(f"{what} '{twice[0]}' is defined more than once")
    names = [link.name for link in robot.links]
    parents: dict[str, str] = {}
    for joint in robot.joints:
        for end in (joint.parent, joint.child):
            if end not in names:
                raise RealityGradError(f"joint '{joint.name}' refers to link '{end}', which does not exist")
        if joint.child in parents:
            raise RealityGradError(
                f"link '{joint.child}' is the child of two joints, '{parents[joint.child]}' and '{joint.name}'"
            )
        parents[joint.child] = joint.name
    roots = [name for name in names if name not in parents]
    if not roots:
        raise RealityGradError("the joints form a loop: every link is a joint's child" if names else "it has no link")
    if len(roots) > 1:
        raise RealityGradError(f"links {', '.join(roots)} have no parent; connect all but one of them by joints")
    return str(roots[0])


def _joint(described: _Described, stand: Frame, pieces: Sequence[Piece], warnings: list[str]) -> Joint:
    body = _body(pieces, "moving link", warnings)
    lower, upper = _position_limits(described)
    if lower == upper:
        warnings.append(f"joint '{described.name}' cannot move: both of its position limits are {lower:g}")
    return Joint(
        name=described.name,
        kind=_KINDS[described.type],
        parent=stand.joint,
        placement=stand.placement,
        axis=_axis(described, warnings),
        lower=lower,
        upper=upper,
        velocity_limit=_magnitude(described, "velocity"),
        effort_limit=_magnitude(described, "effort"),
        body=body,
    )


def _body(pieces: Sequence[Piece], what: str, warnings: list[str]) -> Body:
    body = merge(pieces, what)
    warnings += triangle_warning(pieces, body)
    return body


def _position_limits(joint: _Described) -> tuple[float, float]:
    if joint.type == "continuous":
        return -np.inf, np.inf
    lower, upper = (getattr(joint.limit, side, None) for side in ("lower", "upper"))
    if lower is None or upper is None:
        raise RealityGradError(
            f"joint '{joint.name}' has no position limits; give it <limit lower=... upper=...>, "
            "or type 'continuous' if it turns without end"
        )
    if lower > upper:
        raise RealityGradError(f"joint '{joint.name}' has lower limit {lower:g} above upper limit {upper:g}")
    return lower, upper


def _magnitude(joint: _Described, name: str) -> float:
    """The limit of velocity or effort. A zero is a limit that its author never filled in, and counts as none."""
    value = getattr(joint.limit, name, None)
    if value is not None and value < 0.0:
        raise RealityGradError(f"joint '{joint.name}' has the negative {name} limit {value:g}")
    return float(value) if value else np.inf


def _axis(joint: _Described, warnings: list[str]) -> Float[np.ndarray, "3"]:
    length = float(np.linalg.norm(joint.axis))
    if length < _SNAP:
        raise RealityGradError(f"joint '{joint.name}' has a zero axis")
    if abs(length - 1.0) > _AXIS_SLACK:
        warnings.append(f"joint '{joint.name}' has an axis of length {length:g}; it is taken as a direction")
    return _snap(joint.axis / length)


def _has_friction(joint: _Described) -> bool:
    return joint.dynamics is not None and any(
        float(value or 0.0) != 0.0 for value in (joint.dynamics.damping, joint.dynamics.friction)
    )


def _piece(link: yourdfpy.Link, placement: Transform) -> Piece:
    inertial = link.inertial or yourdfpy.Inertial()
    inertia = np.zeros((3, 3)) if inertial.inertia is None else np.array(inertial.inertia)
    return Piece(link.name, _snapped(placement @ _transform(inertial.origin)), float(inertial.mass or 0.0), inertia)


def _transform(origin: Float[np.ndarray, "4 4"] | None) -> Transform:
    return Transform.identity() if origin is None else _snapped(Transform.from_matrix(origin))


def _snapped(transform: Transform) -> Transform:
    return Transform(_snap(transform.rotation), _snap(transform.translation))


def _snap(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    nearest = np.clip(np.round(values), -1.0, 1.0)
    return np.where(np.abs(values - nearest) < _SNAP, nearest, values) + 0.0
