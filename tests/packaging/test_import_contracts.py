"""Tests for the import contracts in pyproject.toml: no module is missing in them, and they name none that is gone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

# What the window may have of the engine: the messages, how they become lines, and what they are made of.
LIGHT = {"engine.protocol", "engine.wire", "engine.core", "engine.errors"}


@pytest.fixture
def contracts(root: Path) -> dict[str, dict[str, Any]]:
    written = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["name"]: contract for contract in written["tool"]["importlinter"]["contracts"]}


def modules(root: Path, package: str) -> set[str]:
    """The modules and packages directly below a package."""
    inside = {path.stem for path in (root / package).glob("*.py")} - {"__init__"}
    return {f"{package}.{name}" for name in inside | {path.parent.name for path in (root / package).glob("*/*.py")}}


def layered(contract: dict[str, Any]) -> set[str]:
    return {module.strip() for layer in contract["layers"] for module in layer.split("|")}


def test_the_window_may_import_only_the_light_modules_of_the_engine(contracts: dict[str, dict[str, Any]], root: Path):
    wall = next(contract for name, contract in contracts.items() if name.startswith("The window knows"))
    forbidden = {module for module in wall["forbidden_modules"] if module.startswith("engine.")}

    assert forbidden == modules(root, "engine") - LIGHT


@pytest.mark.parametrize(("package", "name"), [("engine", "Layers of the engine"), ("app", "Layers of the window")])
def test_every_module_has_its_layer(contracts: dict[str, dict[str, Any]], root: Path, package: str, name: str):
    assert layered(contracts[name]) == modules(root, package)
