"""Tests for what Ragdoll depends on: every package it brings along may be shipped with an Apache-2.0 application."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import resources
from tests.helpers.licences import declared, is_allowed

# Metadata that says it in other words; each looked up by hand in the package's own licence file.
READ_BY_HAND = {
    "pypdfium2": "bindings BSD-3-Clause or Apache-2.0; PDFium and what it contains BSD, MIT, FTL, Zlib and alike",
}
# Never to come in, whatever their metadata says.
BANNED = {"pymupdf", "pyqt5", "pyqt6", "pyside6-addons", "pyside6-fluent-widgets", "unstructured"}


def required(root: Path) -> dict[str, metadata.Distribution]:
    """Every installed distribution that our required dependencies lead to on this platform."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, metadata.Distribution] = {}
    open_ends = [Requirement(line) for line in project["dependencies"]]
    while open_ends:
        requirement = open_ends.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = metadata.distribution(name)
        open_ends += [Requirement(line) for line in found[name].requires or ()]
    return found


def test_everything_that_is_installed_along_may_be_shipped(root: Path) -> None:
    closure = required(root)
    refused = {
        name: declared(distribution)
        for name, distribution in closure.items()
        if name not in READ_BY_HAND and not is_allowed(declared(distribution))
    }

    assert len(closure) > 20
    assert refused == {}


def test_nothing_banned_is_required(root: Path) -> None:
    assert not BANNED & set(required(root))


def test_exceptions_are_still_needed(root: Path) -> None:
    closure = required(root)

    assert [name for name in READ_BY_HAND if name not in closure or is_allowed(declared(closure[name]))] == []


def test_every_dependency_is_on_the_page_that_we_ship(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = resources.text("licences/third-party.md")

    assert [line for line in project["dependencies"] if f"| {Requirement(line).name}" not in page] == []


@pytest.mark.parametrize(
    "expression",
    [
        "MIT",
        "Apache License, Version 2.0",
        "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
        "MPL-2.0 AND MIT",
        "BSD License",
        "Apache-2.0 WITH LLVM-exception AND BSL-1.0",
        "Apache 2",
        "ISC License (ISCL)",
        "MIT AND (GPL-3.0-only OR BSD-3-Clause)",
    ],
)
def test_licences_that_let_us_ship(expression: str) -> None:
    assert is_allowed(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "GPL-3.0-only",
        "AGPL-3.0-or-later",
        "MIT AND GPL-2.0-only",
        "GNU General Public License v3 (GPLv3)",
        "Proprietary",
        "MIT AND (GPL-3.0-only OR AGPL-3.0-only)",
        "(MIT AND GPL-3.0-only)",
        "",
        "Apache-2.0 AND Commons-Clause",
    ],
)
def test_licences_that_do_not(expression: str) -> None:
    assert not is_allowed(expression)
