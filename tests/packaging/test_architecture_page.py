"""Tests for ARCHITECTURE.md: every module has its line there, and no line tells of a module that is gone."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def page(root: Path) -> str:
    return (root / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_the_module_index_is_what_the_modules_say(page: str, root: Path, module_index: ModuleType) -> None:
    written = page.partition(module_index.HEADING)[2].splitlines()
    wanted = module_index.with_index(page, root).partition(module_index.HEADING)[2].splitlines()

    mend = "run: python packaging/module_index.py"
    assert [line for line in wanted if line not in written] == [], f"modules without their line; {mend}"
    assert [line for line in written if line not in wanted] == [], f"lines without their module; {mend}"
    assert written == wanted, f"the index is in another order; {mend}"


def test_the_index_names_every_module(root: Path, module_index: ModuleType) -> None:
    lines = module_index.index(root).count("\n- `") + module_index.index(root).count("\n### ")
    modules = [path for package in module_index.PACKAGES for path in (root / package).rglob("*.py")]
    unopened = [folder for folder in {path.parent for path in modules} if not (folder / "__init__.py").exists()]

    assert lines == len(modules) + len(unopened)


def test_a_module_without_an_opening_sentence_is_refused(tmp_path: Path, module_index: ModuleType) -> None:
    for package in module_index.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text('"""A package."""\n', encoding="utf-8")
    (tmp_path / "engine" / "mute.py").write_text("x = 1\n", encoding="utf-8")

    with pytest.raises(SystemExit, match=r"mute\.py does not open with a sentence"):
        module_index.index(tmp_path)


def test_a_questions_life_has_eight_steps(page: str) -> None:
    life = page.partition("## A question's life")[2].partition("\n## ")[0]

    assert [int(number) for number in re.findall(r"^(\d+)\. ", life, re.MULTILINE)] == list(range(1, 9))


def test_every_module_that_the_prose_names_exists(page: str, root: Path, module_index: ModuleType) -> None:
    prose = page.partition(module_index.HEADING)[0]
    named = set(re.findall(r"`((?:app|engine|resources|tests|packaging)/[\w./-]*\w)`", prose))

    assert named
    assert sorted(name for name in named if not (root / name).exists()) == []
