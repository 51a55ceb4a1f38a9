"""What pip and colcon install: the same version, every package, every data file, every executable."""

import ast
import importlib
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import setuptools

from realitygrad_ros.nodes.bringup import HARDWARE, node_specs
from realitygrad_ros.resources import PACKAGE

ROOT = Path(__file__).resolve().parents[1]

DISTRIBUTIONS = {
    "example_robot_data": "example-robot-data",
    "pinocchio": "pin",
    "rsl_rl": "rsl-rl-lib",
    "warp": "warp-lang",
    "yaml": "pyyaml",
}
"""Where a distribution's name is not the name it is imported by."""


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments of `setup` in setup.py."""
    arguments: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: arguments.update(given))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return arguments


@pytest.fixture
def manifest() -> ElementTree.Element:
    """The root of package.xml."""
    return ElementTree.parse(ROOT / "package.xml").getroot()


def test_setup_and_manifest_say_the_same(setup: dict[str, Any], manifest: ElementTree.Element) -> None:
    for entry in ("name", "version", "license", "maintainer", "maintainer_email"):
        element = manifest.find("maintainer" if entry == "maintainer_email" else entry)
        assert element is not None
        assert setup[entry] == (element.get("email") if entry == "maintainer_email" else element.text)


def test_changelog_tells_of_this_version(setup: dict[str, Any]) -> None:
    assert f"\n## {setup['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_package_is_installed(setup: dict[str, Any]) -> None:
    modules = [path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py")]
    assert {".".join(module.parent.parts) for module in modules} == set(setup["packages"])


def test_every_data_file_is_installed(setup: dict[str, Any]) -> None:
    installed = {f"{folder}/{Path(file).name}": ROOT / file for folder, files in setup["data_files"] for file in files}
    for folder in ("config", "launch", "policies", "urdf"):
        for file in (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            assert installed.pop(f"share/{PACKAGE}/{file.relative_to(ROOT)}") == file
    marker = f"share/ament_index/resource_index/packages/{PACKAGE}"
    assert set(installed) == {marker, f"share/{PACKAGE}/package.xml"}
    assert installed[marker].is_file()


def test_every_executable_can_be_called(setup: dict[str, Any]) -> None:
    for script in setup["entry_points"]["console_scripts"]:
        module, _, function = script.partition(" = ")[2].partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_every_node_of_the_graph_is_an_executable(setup: dict[str, Any], tmp_path: Path) -> None:
    scripts = {script.partition(" = ")[0]: script for script in setup["entry_points"]["console_scripts"]}
    for spec in (spec for hardware in HARDWARE for spec in node_specs("ur5", hardware, tmp_path)):
        assert scripts[spec.name] == f"{spec.name} = {PACKAGE}.nodes.{spec.name}:main"


def test_every_import_is_declared(setup: dict[str, Any], manifest: ElementTree.Element) -> None:
    ros = {element.text for element in manifest.iter("exec_depend")}
    runtime = names_of(setup["install_requires"])
    extras = {name for requirements in setup["extras_require"].values() for name in names_of(requirements)}
    package = runtime | ros | names_of(setup["extras_require"]["ppo"])
    for folder, declared in ((PACKAGE, package), ("launch", runtime | ros), ("test", runtime | ros | extras)):
        for file in (ROOT / folder).glob("**/*.py"):
            undeclared = {DISTRIBUTIONS.get(name, name) for name in imported_by(file)} - declared
            assert not undeclared, f"{file.relative_to(ROOT)} imports what nothing declares"


def test_every_dependency_is_explained(setup: dict[str, Any], manifest: ElementTree.Element) -> None:
    explained = (ROOT / "docs" / "dependencies.md").read_text()
    requirements = [*setup["install_requires"], *(name for extra in setup["extras_require"].values() for name in extra)]
    for name in {*names_of(requirements), *(element.text for element in manifest.iter("exec_depend"))}:
        assert f"`{name}`" in explained, name


def test_every_page_is_listed_and_every_link_leads_somewhere() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    index = (ROOT / "docs" / "index.md").read_text()
    for page in pages:
        assert page.name == "index.md" or f"]({page.name})" in index, page.name
    for page in (*pages, ROOT / "README.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links {link}"


def names_of(requirements: list[str]) -> set[str]:
    """Names of distributions, without versions."""
    return {re.split("[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in requirements}


def imported_by(file: Path) -> Iterator[str]:
    """Names of the modules from outside that a file imports anywhere."""
    local = {PACKAGE, "conftest", *(path.stem for path in (ROOT / "test").glob("*.py"))}
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from {name.partition(".")[0] for name in names} - local - sys.stdlib_module_names
