"""Tests for packaging/pip_steps.py: where torch comes from, and what a failed pip run means."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CUDA = ['nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"', "filelock"]


def report(version: str, requires: list[str]) -> dict[str, Any]:
    return {"install": [{"metadata": {"name": "torch", "version": version, "requires_dist": requires}}]}


@pytest.mark.parametrize(
    ("what_pip_would_install", "has_gpu", "system", "machine", "source"),
    [
        (report("2.13.0+cpu", ["filelock"]), False, "Linux", "x86_64", "plain"),
        (report("2.13.0", CUDA), False, "Linux", "x86_64", "cpu index"),
        (report("2.13.0", CUDA), True, "Linux", "x86_64", "plain"),
        (report("2.13.0", CUDA), False, "Darwin", "arm64", "plain"),
        (report("2.13.0", ["filelock"]), False, "Linux", "x86_64", "plain"),
        (report("2.13.0", ["triton==3; platform_machine == 'x86_64'"]), False, "Linux", "aarch64", "plain"),
        (report("2.13.0", ["triton==3; platform_machine == 'x86_64'"]), False, "Linux", "x86_64", "cpu index"),
        ({"install": []}, False, "Linux", "x86_64", "plain"),
        (None, False, "Linux", "x86_64", "plain"),
    ],
)
def test_torch_comes_from_where_its_build_fits(
    pip_steps: ModuleType,
    what_pip_would_install: dict[str, Any] | None,
    has_gpu: bool,
    system: str,
    machine: str,
    source: str,
) -> None:
    assert pip_steps.torch_source(what_pip_would_install, has_gpu, system, machine) == source


class FakePip:
    """Plays pip for install_torch: answers from values and keeps the arguments it was given."""

    def __init__(self, *, installed: bool = False, index_answers: bool = True) -> None:
        self.installed, self.index_answers = installed, index_answers
        self.asked: list[tuple[str, ...]] = []
        self.said: list[str] = []
        self.say = self.said.append

    def has(self, name: str, version: str) -> bool:
        return self.installed

    def report(self, requirement: str) -> dict[str, Any]:
        return report("2.13.0", CUDA)

    def try_install(self, title: str, *arguments: str) -> bool:
        self.asked.append(arguments)
        return self.index_answers

    def install(self, title: str, *arguments: str) -> None:
        self.asked.append(arguments)


@pytest.fixture
def on_linux(pip_steps: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_steps.platform, "system", lambda: "Linux")
    monkeypatch.setattr(pip_steps.platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("on_linux")
def test_the_cpu_index_is_tried_with_a_short_timeout(pip_steps: ModuleType) -> None:
    pip = FakePip()

    pip_steps.install_torch(pip, "2.13.0", has_gpu=False)

    (arguments,) = pip.asked
    assert pip_steps.PYTORCH_CPU_INDEX in arguments
    assert int(arguments[arguments.index("--timeout") + 1]) <= 15


@pytest.mark.usefixtures("on_linux")
def test_an_index_that_does_not_answer_falls_back_to_plain_pip(pip_steps: ModuleType) -> None:
    pip = FakePip(index_answers=False)

    pip_steps.install_torch(pip, "2.13.0", has_gpu=False)

    assert pip.asked[-1] == ("torch==2.13.0",)
    assert "does not answer" in pip.said[0]


def test_an_installed_torch_is_left_alone(pip_steps: ModuleType) -> None:
    pip = FakePip(installed=True)

    pip_steps.install_torch(pip, "2.13.0", has_gpu=True)

    assert not pip.asked


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full."),
        ("CMake Error: CMAKE_C_COMPILER not set, after EnableLanguage", "llama.cpp could not be built."),
        ("ERROR: Failed building wheel for llama-cpp-python", "llama.cpp could not be built."),
        (
            "Failed to establish a new connection: [Errno -2] Name or service not known\n"
            "ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)",
            "The package index cannot be reached.",
        ),
        ("SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))", "certificate that is not trusted"),
        ("ERROR: No matching distribution found for torch==2.13.0", "not offered for this Python"),
        ("OSError: [Errno 13] Permission denied: '.venv/lib'", "may not be written"),
    ],
)
def test_a_failure_is_a_sentence_and_a_way_out(pip_steps: ModuleType, log: str, sentence: str) -> None:
    told, way_out = pip_steps.meaning(log)

    assert sentence in told
    assert way_out


def test_a_failure_nobody_foresaw_is_quoted(pip_steps: ModuleType) -> None:
    told, _ = pip_steps.meaning("first\n\nERROR: something quite new")

    assert told.endswith("ERROR: something quite new")


def test_pips_own_failure_is_read_from_this_runs_part_of_the_log(pip_steps: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "bootstrap.log"
    log.write_text("$ pip install earlier\nNo space left on device\n", encoding="utf-8")
    said: list[str] = []
    pip = pip_steps.Pip(Path(sys.executable), log, said.append, io.StringIO())
    there_is_no_such = str(tmp_path / "no-such.whl")

    with pytest.raises(pip_steps.Missing) as caught:
        pip.install("nothing", "--no-index", there_is_no_such)

    assert "disk is full" not in caught.value.sentence
    assert str(log) in caught.value.way_out
    assert said == [line for line in said if line.startswith("  nothing: failed after ")]


def test_the_version_of_a_distribution_is_known_without_its_local_tag(pip_steps: ModuleType, tmp_path: Path) -> None:
    pip = pip_steps.Pip(Path(sys.executable), tmp_path / "log", print, io.StringIO())

    assert pip.has("pytest", pytest.__version__)
    assert not pip.has("pytest", "0.1")
    assert not pip.has("there-is-no-such-distribution", "1.0")


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (61, "1:01"), (3605, "60:05")])
def test_the_clock_shows_minutes(pip_steps: ModuleType, seconds: float, shown: str) -> None:
    assert pip_steps.clock(seconds) == shown


def test_flags_for_the_compiler_are_added_to_those_of_the_environment(pip_steps: ModuleType) -> None:
    assert pip_steps.with_flags({"CFLAGS": "-O2"}, "-mno-x") == {"CFLAGS": "-O2 -mno-x", "CXXFLAGS": "-mno-x"}
    assert pip_steps.with_flags({"CFLAGS": "-O2"}, "") == {}
