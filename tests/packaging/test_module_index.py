"""Tests for engine/README.md and app/README.md: every module has its line there, and no line is of one that is gone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.parametrize("package", ["engine", "app"])
def test_the_module_index_is_what_the_modules_say(package: str, root: Path, module_index: ModuleType) -> None:
    written = (root / package / module_index.PAGE).read_text(encoding="utf-8").splitlines()
    wanted = module_index.page(root, package).splitlines()

    way_out = "run: python packaging/module_index.py"
    assert [line for line in wanted if line not in written] == [], f"modules without their line; {way_out}"
    assert [line for line in written if line not in wanted] == [], f"lines without their module; {way_out}"
    assert written == wanted, f"the index is in another order; {way_out}"


@pytest.mark.parametrize("package", ["engine", "app"])
def test_the_index_names_every_module(package: str, root: Path, module_index: ModuleType) -> None:
    page = module_index.page(root, package)
    lines = page.count("\n- `") + page.count("\n## ")
    modules = list((root / package).rglob("*.py"))
    unopened = [folder for folder in {path.parent for path in modules} if not (folder / "__init__.py").exists()]

    assert lines == len(modules) + len(unopened)


def test_a_module_without_an_opening_sentence_is_refused(tmp_path: Path, module_index: ModuleType) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text('"""A package."""\n', encoding="utf-8")
    (tmp_path / "engine" / "mute.py").write_text("x = 1\n", encoding="utf-8")

    with pytest.raises(SystemExit, match=r"mute\.py does not open with a sentence"):
        module_index.page(tmp_path, "engine")
