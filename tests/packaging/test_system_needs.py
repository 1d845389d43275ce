"""Tests for packaging/system_needs.py: what is missing is told in a sentence, and apt is asked only where it may be."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def on_linux(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_needs.platform, "system", lambda: "Linux")


@pytest.mark.usefixtures("on_linux")
def test_libraries_that_load_are_not_missed(system_needs: ModuleType) -> None:
    assert not system_needs.missing_libraries(lambda name: True)


@pytest.mark.usefixtures("on_linux")
def test_a_missing_library_names_its_debian_package(system_needs: ModuleType) -> None:
    need = system_needs.missing_libraries(lambda name: name != "libxcb-cursor.so.0")

    assert need.names == ("libxcb-cursor.so.0",)
    assert need.packages == ("libxcb-cursor0",)


def test_other_systems_bring_qts_libraries_themselves(
    system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_needs.platform, "system", lambda: "Darwin")

    assert not system_needs.missing_libraries(lambda name: False)


def test_a_library_is_asked_for_by_loading_it(system_needs: ModuleType) -> None:
    assert not system_needs._loads("libthere-is-no-such-library.so.7")


def test_no_compiler_is_one_package(system_needs: ModuleType) -> None:
    need = system_needs.missing_build_tools(lambda name: None if name in ("cc", "c++") else f"/usr/bin/{name}")

    assert need.names == ("cc", "c++")
    assert need.packages == ("build-essential",)


def test_pip_brings_cmake(system_needs: ModuleType) -> None:
    assert not system_needs.missing_build_tools(lambda name: None if name == "cmake" else name)


@pytest.mark.parametrize(("content", "has_flags"), [("flags : fpu amx_tile amx_int8", True), ("flags : fpu", False)])
def test_llama_cpp_is_compiled_without_what_would_end_the_process(
    system_needs: ModuleType, tmp_path: Path, content: str, has_flags: bool
) -> None:
    (processor := tmp_path / "cpuinfo").write_text(content)

    flags = system_needs.flags_for_llama(processor)

    assert ("-mno-amx-tile" in flags) == bool(flags) == has_flags
    assert system_needs.flags_for_llama(tmp_path / "nothing") == ""


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        ("flags : fpu avx512f avx512_fp16", "-mno-avx512fp16"),
        ("flags : amx_tile avx512_fp16", "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16 -mno-avx512fp16"),
        ("flags : fpu avx512f avx512_bf16", ""),
    ],
)
def test_llama_cpp_is_compiled_without_arithmetic_that_heads_of_64_are_too_small_for(
    system_needs: ModuleType, tmp_path: Path, content: str, flags: str
) -> None:
    (processor := tmp_path / "cpuinfo").write_text(content)

    assert system_needs.flags_for_llama(processor) == flags


def test_a_compiler_is_asked_whether_it_knows_a_flag(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert system_needs.known_to_compiler("-O1") == "-O1"
    assert system_needs.known_to_compiler("-mno-such-thing-as-this") == ""
    assert system_needs.known_to_compiler("-O1 -mno-such-thing-as-this -O2") == "-O1 -O2"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert system_needs.known_to_compiler("-O1") == ""


def test_debians_venv_package_bears_the_version(system_needs: ModuleType) -> None:
    need = system_needs.missing_venv(lambda module: module != "ensurepip")

    assert need.packages[0].startswith("python3.")
    assert need.packages[0].endswith("-venv")


@pytest.mark.parametrize(
    ("is_root", "has_apt", "way_out"),
    [
        (False, True, "sudo apt-get install -y libgl1"),
        (True, True, "apt-get install -y libgl1"),
        (False, False, "Install the packages of your distribution that bring them."),
    ],
)
def test_the_way_out_is_one_line(system_needs: ModuleType, is_root: bool, has_apt: bool, way_out: str) -> None:
    need = system_needs.Need(("libGL.so.1",), ("libgl1",), "Without them the window cannot open.")

    sentence, told = system_needs.told(need, is_root, has_apt)

    assert sentence == "Missing on this system: libGL.so.1. Without them the window cannot open."
    assert told == way_out


class Apt:
    """Stands in for subprocess.run and remembers what apt-get was asked."""

    def __init__(self, install_code: int) -> None:
        self.commands: list[list[str]] = []
        self._install_code = install_code

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        code = self._install_code if "install" in command else 0
        return subprocess.CompletedProcess(command, code, stdout="E: Unable to locate package")


def _as(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch, *, root: bool, apt: Apt) -> None:
    monkeypatch.setattr(system_needs, "is_root", lambda: root)
    monkeypatch.setattr(system_needs.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(system_needs.subprocess, "run", apt)


def test_root_installs_all_that_is_missing_at_once(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    apt, said = Apt(0), []
    _as(system_needs, monkeypatch, root=True, apt=apt)
    needs = [system_needs.Need(("cc",), ("build-essential",), ""), system_needs.Need(("a", "b"), ("liba", "libb"), "")]

    system_needs.install_with_apt(needs, said.append)

    assert [command[1] for command in apt.commands] == ["update", "install"]
    assert apt.commands[1][-3:] == ["build-essential", "liba", "libb"]
    assert not any("warning" in line for line in said)


def test_a_failing_apt_is_a_warning_with_the_line_to_run(
    system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    _as(system_needs, monkeypatch, root=True, apt=Apt(100))

    system_needs.install_with_apt([system_needs.Need(("a",), ("liba",), "It matters.")], said.append)

    assert "Unable to locate package" in said[1]
    assert said[2] == "warning: Missing on this system: a. It matters.\n  apt-get install -y liba"


def test_without_root_nothing_is_run(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    apt, said = Apt(0), []
    _as(system_needs, monkeypatch, root=False, apt=apt)

    system_needs.install_with_apt([system_needs.Need(("a",), ("liba",), "It matters.")], said.append)

    assert not apt.commands
    assert "sudo apt-get install -y liba" in said[0]


def test_nothing_missing_says_nothing(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    apt, said = Apt(0), []
    _as(system_needs, monkeypatch, root=True, apt=apt)

    system_needs.install_with_apt([system_needs.Need((), (), "")], said.append)

    assert not apt.commands
    assert not said


def test_a_full_disk_is_told_before_it_is_filled(system_needs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(system_needs.Missing) as caught:
        system_needs.check_room(tmp_path, needed_bytes=2**60)

    assert "GiB free" in caught.value.sentence
    assert caught.value.way_out


def test_no_display_is_a_sentence(system_needs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_needs.platform, "system", lambda: "Linux")

    with pytest.raises(system_needs.Missing, match="no display"):
        system_needs.check_display({})
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        system_needs.check_display({name: "x"})


def test_a_loaded_driver_is_a_gpu(system_needs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = tmp_path / "version"
    monkeypatch.setattr(system_needs.shutil, "which", lambda name: None)

    assert not system_needs.has_nvidia_gpu(driver)
    driver.touch()
    assert system_needs.has_nvidia_gpu(driver)
