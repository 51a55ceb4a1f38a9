"""The file of a robot's description: URDF or xacro on disk -> links and joints of yourdfpy, checked as XML.

Only what the dynamics need is kept. Shapes are dropped before anything reads them, so that a missing mesh or an
exotic shape never stops a robot.
"""

import io
import os
from pathlib import Path

import numpy as np
import yourdfpy
from lxml import etree

from realitygrad_ros.errors import RealityGradError

_NUMBERS = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), 1),
    "limit": dict.fromkeys(("lower", "upper", "velocity", "effort"), 1),
    "dynamics": dict.fromkeys(("damping", "friction"), 1),
    "mimic": dict.fromkeys(("multiplier", "offset"), 1),
}
"""How many numbers each attribute of each element holds."""

_KEPT = {"robot": {"link", "joint"}, "link": {"inertial"}, "joint": {"parent", "child", *_NUMBERS}}
"""The children of each element that the dynamics need."""

_REQUIRED = {"mass": ("value",), "inertia": ("ixx", "iyy", "izz")}


def read_description(path: Path) -> tuple[yourdfpy.Robot, list[str]]:
    """Read the links and joints of a URDF, or of a xacro file (by its suffix `.xacro`).

    Returns:
        The robot as yourdfpy has it, without shapes, and warnings of one line each.

    Raises:
        RealityGradError: the file is missing, empty, no XML, no URDF, or an element lacks a name, a parent, a child,
            or a number; the message names the file and the element.
    """
    root = _parse(_read_text(path), path)
    warnings = _mesh_warnings(root, path)
    _strip(root)
    for element in root:
        _strip(element)
        _check_element(element, path)
    checked = yourdfpy.URDF.load(io.BytesIO(etree.tostring(root)), build_scene_graph=False)
    return checked.robot, warnings


def _strip(element: etree._Element) -> None:
    """Drop every child that the dynamics do not need, and attributes with a prefix, which may be undeclared."""
    for child in list(element):
        if child.tag not in _KEPT[element.tag]:
            element.remove(child)
    for attribute in [name for name in element.attrib if ":" in name]:
        del element.attrib[attribute]


def _read_text(path: Path) -> bytes:
    if path.suffix == ".xacro":
        return _expand_xacro(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RealityGradError(f"URDF '{path}' cannot be read: {error.strerror}") from error
    if not text.strip():
        raise RealityGradError(f"URDF '{path}' is empty")
    return text


def _expand_xacro(path: Path) -> bytes:
    try:
        import xacro  # only those who bring xacro files need it
    except ImportError as error:
        raise RealityGradError(
            f"'{path}' is a xacro file, and xacro is not installed: 'pip install xacro', or with ROS 2 the package "
            "ros-<distro>-xacro"
        ) from error
    if not path.is_file():
        raise RealityGradError(f"xacro file '{path}' does not exist")
    try:
        expanded: bytes = xacro.process_file(str(path)).toxml(encoding="utf-8")
    except Exception as error:  # the file holds expressions, and xacro passes on whatever evaluating them raises
        reason = " ".join(f"{error}".split()) or type(error).__name__
        raise RealityGradError(f"xacro file '{path}' cannot be expanded: {reason}") from error
    return expanded


def _parse(text: bytes, path: Path) -> etree._Element:
    """The root element, without comments.

    Prefixes that nobody declares are common in descriptions for Gazebo, and harmless: every other error counts.
    """
    parser = etree.XMLParser(recover=True, remove_comments=True, remove_pis=True, resolve_entities=False)
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        raise RealityGradError(f"URDF '{path}' is not XML: {error.msg}") from error
    for problem in parser.error_log:
        if problem.domain != etree.ErrorDomains.NAMESPACE:
            raise RealityGradError(f"URDF '{path}' is not XML: line {problem.line}: {problem.message.strip()}")
    document_type = None if root is None else root.getroottree().docinfo.internalDTD
    if document_type is not None and document_type.entities():
        name = document_type.entities()[0].name
        raise RealityGradError(
            f"URDF '{path}' declares the entity '{name}'; write out what it stands for, or use xacro"
        )
    if root is None or root.tag != "robot":
        raise RealityGradError(f"'{path}' is no URDF: its outermost element is not <robot>")
    if not root.get("name"):
        raise RealityGradError(f"URDF '{path}': <robot> has no name")
    return root


def _check_element(element: etree._Element, path: Path) -> None:
    """Check a link or a joint for everything that yourdfpy takes for granted."""
    name = element.get("name")
    if not name:
        raise RealityGradError(f"URDF '{path}', line {element.sourceline}: <{element.tag}> has no name")
    place = f"URDF '{path}': {element.tag} '{name}'"
    if element.tag == "joint":
        for end in ("parent", "child"):
            found = element.find(end)
            if found is None or not found.get("link"):
                raise RealityGradError(f"{place} has no <{end} link=...>")
    for child in element.iter(*_NUMBERS):
        for attribute in _REQUIRED.get(child.tag, ()):
            if child.get(attribute) is None:
                raise RealityGradError(f"{place}: <{child.tag}> has no '{attribute}'")
        for attribute, count in _NUMBERS[child.tag].items():
            value = child.get(attribute)
            if value is not None and not _holds_numbers(value, count, finite=child.tag != "limit"):
                what = "a number" if count == 1 else f"{count} numbers"
                raise RealityGradError(f'{place}: {attribute}="{value}" of <{child.tag}> is not {what}')


def _holds_numbers(text: str, count: int, finite: bool) -> bool:
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        return False
    return len(values) == count and bool(np.isfinite(values).all() if finite else not np.isnan(values).any())


def _mesh_warnings(root: etree._Element, path: Path) -> list[str]:
    missing = [
        name for name in (mesh.get("filename", "") for mesh in root.iter("mesh")) if not _mesh_exists(name, path)
    ]
    if not missing:
        return []
    count = len(set(missing))
    return [
        f"{count} mesh file{'s are' if count > 1 else ' is'} not found, such as '{missing[0]}'; "
        "the dynamics do not need them"
    ]


def _mesh_exists(name: str, path: Path) -> bool:
    """Whether a mesh lies where its name says; `package://` is looked up in the sourced ROS 2 installation."""
    if name.startswith("package://"):
        relative = name.removeprefix("package://")
        prefixes = [Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
        return any((prefix / "share" / relative).is_file() for prefix in prefixes)
    return (path.parent / name.removeprefix("file://")).is_file()
