"""Who may import whom: the rooms of CONTRIBUTING.md, read from the source."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "realitygrad_ros"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

HALL = {"errors", "files", "progress", "resources"}
"""Modules that belong to no room."""

ROOMS = {
    "robot": {"jaxtyping", "lxml", "numpy", "xacro", "yaml", "yourdfpy"},
    "physics": {"robot", "jaxtyping", "numpy", "torch", "warp"},
    "control": {"robot", "physics", "jaxtyping", "numpy", "safetensors", "torch"},
    "identification": {"robot", "physics", "jaxtyping", "numpy", "rosbags", "scipy", "torch"},
    "iteration": {
        *("robot", "physics", "control", "identification"),
        *("jaxtyping", "matplotlib", "numpy", "safetensors", "torch"),
    },
    "twin": {"robot", "jaxtyping", "mujoco", "numpy", "yaml", "yourdfpy"},
}
"""What each room without ROS may import, of the package and from outside."""

EXTRAS = {"control/ppo.py": {"rsl_rl", "tensordict"}}
"""What one file alone may import besides: an extra of setup.py."""

ON_THE_ROBOT = ("policy_node", "recorder_node")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_may_and_nothing_else(room: str) -> None:
    for file in (ROOT / room).rglob("*.py"):
        imported = {_room_or_distribution(module) for module in imports(file)} - sys.stdlib_module_names
        path = file.relative_to(ROOT)
        assert imported <= ROOMS[room] | HALL | {room} | EXTRAS.get(path.as_posix(), set()), path


@pytest.mark.parametrize("node", ON_THE_ROBOT)
def test_what_runs_on_the_robot_reaches_neither_torch_nor_warp(node: str) -> None:
    pending, reached = [f"{PACKAGE}.nodes.{node}"], set[str]()
    while pending:
        module = pending.pop()
        if module not in reached:
            reached.add(module)
            file = ROOT.parent / Path(*module.split(".")).with_suffix(".py")
            pending += imports(file) if file.is_file() else []
    assert not {"torch", "warp"} & {module.partition(".")[0] for module in reached}


def test_nobody_unpickles() -> None:
    for file in ROOT.rglob("*.py"):
        assert not {"pickle", "marshal", "shelve", "joblib", "dill"} & {m.partition(".")[0] for m in imports(file)}, (
            file
        )


def test_no_class_of_rclpy_is_subscripted() -> None:
    """Those of Jazzy are not generic: `Parameter[Any]` in an annotation fails there when the module is imported."""
    for file in ROOT.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        origins = [
            node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rclpy")
        ]
        names = {alias.name for origin in origins for alias in origin.names}
        subscripted = {ast.unparse(node.value) for node in nodes if isinstance(node, ast.Subscript)}
        assert not names & subscripted, file


def imports(file: Path) -> Iterator[str]:
    """Modules that a file imports when it runs, anywhere in it; what only a type checker imports is left out."""
    tree = ast.parse(file.read_text())
    checks = (node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    unseen = {inner for check in checks for inner in ast.walk(check)}
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{file}: imports are absolute"
            yield node.module
            # `from package import module` names a module, too.
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module.startswith(PACKAGE))


def _room_or_distribution(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else parts[0]
