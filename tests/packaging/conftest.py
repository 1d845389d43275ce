"""The scripts in packaging/, imported as they find each other: as neighbours."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEIGHBOURS = ("system_needs", "pip_steps", "bootstrap", "module_index", "translations")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="module")
def _neighbours() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(ROOT / "packaging"))
    try:
        yield {name: importlib.import_module(name) for name in NEIGHBOURS}
    finally:
        sys.path.remove(str(ROOT / "packaging"))
        for name in NEIGHBOURS:
            sys.modules.pop(name, None)


@pytest.fixture
def bootstrap(_neighbours: dict[str, ModuleType]) -> ModuleType:
    return _neighbours["bootstrap"]


@pytest.fixture
def pip_steps(_neighbours: dict[str, ModuleType]) -> ModuleType:
    return _neighbours["pip_steps"]


@pytest.fixture
def system_needs(_neighbours: dict[str, ModuleType]) -> ModuleType:
    return _neighbours["system_needs"]


@pytest.fixture
def module_index(_neighbours: dict[str, ModuleType]) -> ModuleType:
    return _neighbours["module_index"]


@pytest.fixture
def translations(_neighbours: dict[str, ModuleType]) -> ModuleType:
    return _neighbours["translations"]
