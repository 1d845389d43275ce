"""Tests for packaging/bootstrap: nothing is installed twice, nothing ends in a traceback, and the checks all run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PYPROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "x"
dependencies = ["torch~=2.13.0", "llama-cpp-python==0.3.36", "numpy>=2"]
[tool.ruff]
line-length = 100
"""
ANYWHERE = Path("/somewhere/ragdoll")


def key(bootstrap: ModuleType, pyproject: str = PYPROJECT, root: Path = ANYWHERE, minor: int = 11) -> str:
    return str(bootstrap.stamp_key(pyproject, root, (3, minor), "x86_64"))


def test_the_key_changes_with_what_decides_the_environment(bootstrap: ModuleType) -> None:
    same = key(bootstrap)

    assert key(bootstrap) == same
    assert key(bootstrap, PYPROJECT.replace("numpy>=2", "numpy>=3")) != same
    assert key(bootstrap, minor=12) != same
    assert key(bootstrap, root=Path("/moved/ragdoll")) != same


def test_a_linters_setting_does_not_bring_pip_back(bootstrap: ModuleType) -> None:
    assert key(bootstrap, PYPROJECT.replace("line-length = 100", "line-length = 120")) == key(bootstrap)


def test_an_environment_for_tests_serves_the_application_but_not_the_other_way_round(bootstrap: ModuleType) -> None:
    plain, with_tests = bootstrap.Stamp("k", frozenset()), bootstrap.Stamp("k", frozenset({"test"}))

    assert with_tests.serves(plain)
    assert not plain.serves(with_tests)
    assert not bootstrap.Stamp("other", frozenset()).serves(plain)


def test_only_another_wish_for_llamas_build_rebuilds_it(bootstrap: ModuleType) -> None:
    cuda = bootstrap.Stamp("k", frozenset(), "-DGGML_CUDA=on")

    assert cuda.serves(bootstrap.Stamp("k", frozenset()))
    assert cuda.serves(cuda)
    assert not cuda.serves(bootstrap.Stamp("k", frozenset(), "-DGGML_VULKAN=on"))
    assert not bootstrap.Stamp("k", frozenset()).serves(cuda)


def test_a_stamp_remembers_what_earlier_runs_installed(bootstrap: ModuleType, tmp_path: Path) -> None:
    earlier = bootstrap.Stamp("k", frozenset({"test"}), "-DGGML_CUDA=on")
    bootstrap.Stamp("k", frozenset({"ocr"})).after(earlier).write(tmp_path / "stamp")

    read = bootstrap.Stamp.read(tmp_path / "stamp")

    assert read == bootstrap.Stamp("k", frozenset({"test", "ocr"}), "-DGGML_CUDA=on")
    assert bootstrap.Stamp("new", frozenset()).after(earlier).extras == frozenset()


@pytest.mark.parametrize("content", ["", "{}", "[1]", "nonsense", json.dumps({"key": "k", "extras": None})])
def test_a_stamp_that_cannot_be_read_is_none(bootstrap: ModuleType, tmp_path: Path, content: str) -> None:
    (tmp_path / "stamp").write_text(content, encoding="utf-8")

    assert bootstrap.Stamp.read(tmp_path / "stamp") is None
    assert bootstrap.Stamp.read(tmp_path / "there-is-none") is None


def test_versions_come_from_pyproject_alone(bootstrap: ModuleType, root: Path) -> None:
    assert bootstrap.pinned(PYPROJECT, "torch") == "2.13.0"
    assert bootstrap.pinned(PYPROJECT, "llama-cpp-python") == "0.3.36"
    with pytest.raises(bootstrap.Missing, match="pins no version of numpy"):
        bootstrap.pinned(PYPROJECT, "numpy")

    ours = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert bootstrap.pinned(ours, "torch")
    assert bootstrap.pinned(ours, "llama-cpp-python")


@pytest.fixture
def ready(bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose environment bears the right stamp, and which pip would find empty."""
    monkeypatch.setattr(bootstrap.system_needs, "flags_for_llama", lambda: "")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    stamp = bootstrap.stamp_key(PYPROJECT, tmp_path, sys.version_info[:2], bootstrap.platform.machine())
    bootstrap.Stamp(stamp, frozenset({"test"})).write(tmp_path / ".venv" / "ragdoll-stamp.json")
    return tmp_path


def test_a_second_start_asks_neither_pip_nor_apt(
    bootstrap: ModuleType, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap.subprocess, "run", _must_not_run)
    monkeypatch.setattr(bootstrap.subprocess, "Popen", _must_not_run)

    assert bootstrap.set_up(ready, frozenset()) == ready / ".venv" / "bin" / "python"
    assert bootstrap.set_up(ready, frozenset({"test"})) == ready / ".venv" / "bin" / "python"


def test_a_changed_dependency_is_installed_and_a_failure_leaves_no_stamp(
    bootstrap: ModuleType, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ready / "pyproject.toml").write_text(PYPROJECT.replace("numpy>=2", "numpy>=3"), encoding="utf-8")
    monkeypatch.setattr(bootstrap, "_provide_for", lambda *places: None)

    def fails(*arguments: object) -> None:
        raise bootstrap.Missing("No network.", "Plug it in.")

    monkeypatch.setattr(bootstrap, "_install", fails)

    with pytest.raises(bootstrap.Missing, match="No network"):
        bootstrap.set_up(ready, frozenset())
    assert not (ready / ".venv" / "ragdoll-stamp.json").exists()


def _must_not_run(*arguments: object, **options: object) -> None:
    raise AssertionError(f"nothing should be run: {arguments}")


@pytest.mark.parametrize("flags", ["", "-mno-x"])
def test_llama_cpp_is_compiled_with_the_flags_that_the_processor_needs(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    asked: list[tuple[tuple[str, ...], str]] = []

    class FakePip:
        def has(self, name: str, version: str) -> bool:
            return False

        def install(self, title: str, *arguments: str, patience: str = "", compiler_flags: str = "") -> None:
            asked.append((arguments, compiler_flags))

    monkeypatch.setattr(bootstrap, "install_torch", lambda *arguments: None)
    bootstrap._install(FakePip(), ANYWHERE, PYPROJECT, frozenset(), bool(flags), flags)

    (llama, its_flags), (_, others) = asked
    assert (its_flags, others) == (flags, "")
    # One that pip has kept was compiled without them.
    assert ("--no-cache-dir" in llama) == bool(flags)


def test_an_environment_on_another_processor_or_of_before_its_flags_is_built_anew(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    before, needed = bootstrap.Stamp("k", frozenset()), bootstrap.Stamp("k", frozenset(), flags="-mno-x")
    assert not before.serves(needed)
    assert not needed.serves(before)
    needed.after(before).write(file := tmp_path / "stamp")
    assert bootstrap.Stamp.read(file).serves(needed)
    file.write_text('{"key": "k", "extras": [], "cmake_args": ""}')
    assert bootstrap.Stamp.read(file) == before


def test_what_is_missing_is_told_without_a_traceback(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> None:
        raise bootstrap.Missing("The disk is full.", "Make room.")

    monkeypatch.setattr(bootstrap, "set_up", fails)

    assert bootstrap.main([]) == 1
    assert capsys.readouterr().err == "\nThe disk is full.\nMake room.\n"


def test_an_unknown_command_is_refused(bootstrap: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.main(["instal"]) == 2
    assert "instal" in capsys.readouterr().err


def test_run_hands_its_arguments_to_the_command_line(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(bootstrap, "set_up", lambda root, extras: Path("/env/bin/python"))

    def becomes(program: Path, arguments: list[str]) -> None:
        became.append((program, arguments))
        raise SystemExit

    monkeypatch.setattr(bootstrap, "_become", becomes)
    with pytest.raises(SystemExit):
        bootstrap.main(["run", "ask", "Why?", "--json"])

    assert became == [(Path("/env/bin/ragdoll"), ["ask", "Why?", "--json"])]


def test_the_window_keeps_its_data_where_a_relative_folder_is_from_here(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGDOLL_HOME", "mine")
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(bootstrap, "set_up", lambda root, extras: Path("/env/bin/python"))
    monkeypatch.setattr(bootstrap.system_needs, "missing_libraries", lambda: None)
    monkeypatch.setattr(bootstrap.system_needs, "check_display", lambda environment: None)
    started_in: list[tuple[Path, str]] = []

    def becomes(program: Path, arguments: list[str]) -> None:
        started_in.append((Path.cwd(), os.environ["RAGDOLL_HOME"]))
        raise SystemExit

    monkeypatch.setattr(bootstrap, "_become", becomes)
    with pytest.raises(SystemExit):
        bootstrap.main([])

    assert started_in == [(tmp_path / "checkout", str(tmp_path / "mine"))]


@pytest.mark.usefixtures("capfd")
def test_all_checks_run_and_the_first_failure_decides(bootstrap: ModuleType, tmp_path: Path) -> None:
    python = Path(sys.executable)
    checks = [
        (python.name, "-c", f"open({str(tmp_path / name)!r}, 'w'); raise SystemExit({code})")
        for name, code in (("one", 0), ("two", 3), ("three", 4))
    ]

    assert bootstrap.run_checks(python, tmp_path, checks) == 3
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["one", "three", "two"]


def test_pytest_has_the_last_word(bootstrap: ModuleType) -> None:
    assert bootstrap.CHECKS[-1][:3] == ("python", "-m", "pytest")
    assert {"ruff", "mypy", "lint-imports"} <= {program for program, *_ in bootstrap.CHECKS}


def test_the_script_finds_a_python_and_hands_over(root: Path) -> None:
    done = subprocess.run(
        [str(root / "packaging" / "bootstrap"), "--help"], capture_output=True, text=True, check=False, cwd="/"
    )

    assert done.returncode == 0
    assert "./packaging/bootstrap test" in done.stdout


def test_without_any_python_the_script_says_so(root: Path, tmp_path: Path) -> None:
    script = tmp_path / "packaging" / "bootstrap"
    script.parent.mkdir()
    script.write_text((root / "packaging" / "bootstrap").read_text(encoding="utf-8"), encoding="utf-8")

    done = subprocess.run(
        ["/bin/sh", str(script)], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith("Ragdoll needs Python 3.11")
    assert "not found" not in done.stderr
