"""What Ragdoll needs of the system around it: Qt's libraries, a compiler, room on the disk; judged, and told in words.

Libraries are asked for by loading them, not by asking a package manager, so that every distribution passes
that has them. Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
# Measured: 2.3 GiB of environment with a CPU build of torch, and what pip unpacks and builds meanwhile.
SETUP_BYTES = 5 * GIB

# Library → the Debian package that brings it. Qt's other libraries come as dependencies of these.
QT_LIBRARIES = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    # The rest only under X11.
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
# llama-cpp-python is compiled here; pip brings a newer CMake by itself where the system's is too old.
BUILD_TOOLS = {"cc": "build-essential", "c++": "build-essential", "cmake": "cmake"}
# Feature of a processor → how llama.cpp is compiled so as not to use it.
_COMPILED_WITHOUT = {
    "amx_tile": "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16",
    "avx512_fp16": "-mno-avx512fp16",
}


class Missing(Exception):
    """Something Ragdoll cannot do without is not there.

    Args:
        sentence: What is missing, for a person who has never seen this file.
        way_out: What that person can do; may be several lines.
    """

    def __init__(self, sentence: str, way_out: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.way_out = way_out


@dataclass(frozen=True, slots=True)
class Need:
    """Things that are absent (`names`), the Debian packages that bring them, and what fails without them."""

    names: tuple[str, ...]
    packages: tuple[str, ...]
    consequence: str

    def __bool__(self) -> bool:
        return bool(self.names)


def missing_libraries(loads: Callable[[str], bool] | None = None) -> Need:
    """Which of Qt's system libraries cannot be loaded."""
    if platform.system() != "Linux":
        return Need((), (), "")
    loads = loads or _loads
    names = tuple(name for name in QT_LIBRARIES if not loads(name))
    return Need(names, _packages(QT_LIBRARIES, names), "Without them the window cannot open.")


def missing_build_tools(which: Callable[[str], str | None] = shutil.which) -> Need:
    """Which tools are absent that compile llama.cpp; CMake alone is no lack, pip brings one."""
    names = tuple(name for name in BUILD_TOOLS if which(name) is None)
    if names == ("cmake",):
        names = ()
    return Need(names, _packages(BUILD_TOOLS, names), "Without them llama.cpp, which runs the models, cannot be built.")


def flags_for_llama(processor: Path = Path("/proc/cpuinfo")) -> str:
    """What llama.cpp has to be compiled with here: without what it cannot use well, of what server processors have.

    What it tells AMX about its tiles is a value that compilers see nobody read, and leave out: the first prompt ends
    the process (https://github.com/ggml-org/llama.cpp/pull/26954). With the 16-bit arithmetic of AVX-512 its products
    of keys are of 128 numbers at a time, and summed up in 16 bits: those of heads of 64 are computed number by number,
    five times as slow as without.
    """
    try:
        features = set(processor.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ""
    return " ".join(flags for feature, flags in _COMPILED_WITHOUT.items() if feature in features)


def known_to_compiler(flags: str) -> str:
    """The flags that the compiler knows: of the others, it does not know what they are against either."""
    return " ".join(filter(_is_known_to_compiler, flags.split()))


def _is_known_to_compiler(flag: str) -> bool:
    command = [os.environ.get("CC", "cc"), flag, "-E", "-x", "c", os.devnull]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def missing_venv(installed: Callable[[str], bool] | None = None) -> Need:
    """Debian splits `venv` and `ensurepip` off Python into a package of their own."""
    installed = installed or _importable
    if installed("venv") and installed("ensurepip"):
        return Need((), (), "")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    return Need(("Python's venv module",), (version,), "Without it Ragdoll cannot have its own environment.")


def no_fonts_for_chinese() -> bool:
    """True where fontconfig is sure that no installed font has Chinese characters."""
    if shutil.which("fc-list") is None:
        return False
    done = subprocess.run(["fc-list", ":lang=zh", "family"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout.strip()


def told(need: Need, is_root: bool, has_apt: bool) -> tuple[str, str]:
    """The sentence for a lack, and the one line that mends it."""
    sentence = f"Missing on this system: {', '.join(need.names)}. {need.consequence}"
    if not has_apt:
        return sentence, "Install the packages of your distribution that bring them."
    return sentence, f"{'' if is_root else 'sudo '}apt-get install -y {' '.join(need.packages)}"


def install_with_apt(needs: Sequence[Need], say: Callable[[str], None]) -> None:
    """Installs what is missing when we are root on a Debian; else, and when apt fails, says what to run instead."""
    needs = [need for need in needs if need]
    if not needs:
        return
    has_apt = shutil.which("apt-get") is not None
    if is_root() and has_apt and _apt_succeeds(sorted({p for need in needs for p in need.packages}), say):
        return
    for need in needs:
        sentence, way_out = told(need, is_root(), has_apt)
        say(f"warning: {sentence}\n  {way_out}")


def has_nvidia_gpu(driver: Path = Path("/proc/driver/nvidia/version")) -> bool:
    """True where a driver is loaded, or its tool finds a device (WSL has only the tool)."""
    if driver.exists():
        return True
    if shutil.which("nvidia-smi") is None:
        return False
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and b"GPU" in done.stdout


def check_room(folder: Path, needed_bytes: int = SETUP_BYTES) -> None:
    """Looks at the disk before filling it.

    Raises:
        Missing: There are not `needed_bytes` free where `folder` lies.
    """
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise Missing(
            f"The disk of {folder} has {free / GIB:.1f} GiB free; setting up takes about {needed_bytes / GIB:.0f} GiB.",
            "Make room there, or put the checkout on a larger disk.",
        )


def check_display(environment: Mapping[str, str]) -> None:
    """A window needs somewhere to appear.

    Raises:
        Missing: This is a Linux session without X11 or Wayland, and no other Qt platform was asked for.
    """
    if platform.system() != "Linux":
        return
    if not any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")):
        raise Missing(
            "Ragdoll is set up, but there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set).",
            "Start it from a graphical session, or use the command line: ./packaging/bootstrap run --help",
        )


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _apt_succeeds(packages: Sequence[str], say: Callable[[str], None]) -> bool:
    say(f"installing Debian packages: {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A stale or unreachable index is no reason to stop: what is wanted may be in the index that is there.
    _apt(["update", "-qq"], environment)
    done = _apt(["install", "-y", "-qq", "--no-install-recommends", *packages], environment)
    if done.returncode:
        say(f"warning: apt-get could not install them: {(done.stdout or '').strip()[-400:]}")
    return done.returncode == 0


def _apt(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", *arguments],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _packages(table: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(table[name] for name in names))


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _importable(module: str) -> bool:
    importlib.invalidate_caches()  # apt may just have brought it
    try:
        __import__(module)
    except ImportError:
        return False
    return True
