"""Tests for the wheel: it carries both programs and everything they read that is not code, and nothing else."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from engine import __version__


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    with ZipFile(built) as opened:
        yield opened


def names(wheel: ZipFile) -> set[str]:
    return set(wheel.namelist())


def test_it_is_named_for_the_project(wheel: ZipFile) -> None:
    assert Path(str(wheel.filename)).name == f"ragdoll_desktop-{__version__}-py3-none-any.whl"


@pytest.mark.parametrize("package", ["app", "engine", "resources"])
def test_it_carries_every_file_of_its_packages(wheel: ZipFile, root: Path, package: str) -> None:
    ours = {
        file.relative_to(root).as_posix()
        for file in (root / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
    }

    assert ours <= names(wheel)


def test_it_carries_icons_theme_prompts_and_translations(wheel: ZipFile) -> None:
    for name in (
        "resources/icons/ragdoll.svg",
        "resources/theme/window.qss",
        "resources/prompts/answer.txt",
        "resources/translations/ragdoll_zh_CN.qm",
    ):
        assert name in names(wheel)


def test_it_carries_neither_tests_nor_packaging(wheel: ZipFile) -> None:
    about = f"ragdoll_desktop-{__version__}.dist-info"

    assert {name.partition("/")[0] for name in names(wheel)} == {"app", "engine", "resources", about}
    assert any(name.endswith("licenses/LICENSE") for name in names(wheel))


def test_its_two_programs_start_in_modules_that_it_carries(wheel: ZipFile) -> None:
    scripts = configparser.ConfigParser(delimiters=("=",))
    entry_points = next(name for name in names(wheel) if name.endswith("entry_points.txt"))
    scripts.read_string(wheel.read(entry_points).decode())
    starts = {**scripts["console_scripts"], **scripts["gui_scripts"]}

    assert set(starts) == {"ragdoll", "ragdoll-gui"}
    for start in starts.values():
        module, _, function = start.partition(":")
        file = module.replace(".", "/")
        package = f"{file}/__init__.py"
        source = wheel.read(package if package in names(wheel) else f"{file}.py").decode()
        assert f"def {function}(" in source
