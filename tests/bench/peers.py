"""Peers for the benches of generation: llama-server, built from the very source our own llama.cpp was built from.

The source distribution of llama-cpp-python on PyPI carries llama.cpp whole. The same release as the one installed is
fetched, its `llama-server` is compiled once with the flags of the wheel (Release, for this processor, OpenMP), and kept
in a cache folder: both sides then differ in nothing but what is measured. `python -m tests.bench.peers` does only that.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import platformdirs

from tests.bench import ending

FOLDER_VARIABLE = "RAGDOLL_BENCH_CACHE"
PACKAGE = "llama-cpp-python"
TARGET = "llama-server"
CMAKE_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DGGML_OPENMP=ON",
    "-DGGML_CCACHE=OFF",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_SERVER=ON",
    # Its web page would be fetched while it is built.
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)
_VENDORED = ("vendor", "llama.cpp")
_SYSTEM_NEEDS = Path(__file__).resolve().parents[2] / "packaging" / "system_needs.py"


class PeerFailed(Exception):
    """A peer could not be built, started or asked; the message is a sentence and what to look at."""


def default_folder() -> Path:
    """Where peers and models of the benches are kept between runs."""
    override = os.environ.get(FOLDER_VARIABLE)
    return Path(override) if override else platformdirs.user_cache_path("ragdoll-bench", appauthor=False)


def llama_server(folder: Path) -> Path:
    """The program, built if need be: ten minutes on four cores, and half a gigabyte.

    Raises:
        PeerFailed: A tool is missing, the source cannot be fetched, or it does not compile.
    """
    binary = built(folder)
    if binary.exists():
        return binary
    if shutil.which("cmake") is None:
        raise PeerFailed("llama-server is built by CMake, which is not installed: install cmake and a C++ compiler.")
    release, place = _release(), _place(folder)
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "source").is_dir():
        _fetch(release, place)
    _told(f"compiling {TARGET} {release} (once)")
    log = place / "build.log"
    with log.open("w", encoding="utf-8") as lines:
        for command in build_commands(place, os.cpu_count() or 1):
            made = subprocess.run(command, stdout=lines, stderr=subprocess.STDOUT, env=_environment(), check=False)
            if made.returncode:
                raise PeerFailed(f"{TARGET} could not be compiled; {log} says why.")
    return binary


def built(folder: Path) -> Path:
    """Where the program is once it was built."""
    return _place(folder) / "build" / "bin" / TARGET


def _place(folder: Path) -> Path:
    # A flag may hold paths.
    all_flags = [*_chosen_flags(), *_processor_flags().split()]
    flags = [re.sub(r"[^a-z0-9]+", "_", flag.removeprefix("-D").removeprefix("-m").lower()) for flag in all_flags]
    return folder / "-".join(["llama.cpp", _release(), *flags])


def _chosen_flags() -> list[str]:
    """Those with which ours was compiled for a graphics card as well (packaging/README.md)."""
    return shlex.split(os.environ.get("CMAKE_ARGS", ""))


def _environment() -> dict[str, str]:
    """That of compilers."""
    flags = _processor_flags()
    return os.environ | {name: f"{os.environ.get(name, '')} {flags}" for name in ("CFLAGS", "CXXFLAGS") if flags}


@cache
def _processor_flags() -> str:
    """Those that ours was compiled with on this processor (packaging/system_needs.py)."""
    spec = importlib.util.spec_from_file_location("system_needs", _SYSTEM_NEEDS)
    assert spec is not None
    assert spec.loader is not None
    needs = importlib.util.module_from_spec(spec)
    # Its dataclasses look for it there.
    sys.modules.setdefault("system_needs", needs)
    spec.loader.exec_module(needs)
    return str(needs.known_to_compiler(needs.flags_for_llama()))


def _release() -> str:
    return importlib.metadata.version(PACKAGE)


def build_commands(place: Path, jobs: int) -> list[list[str]]:
    build = str(place / "build")
    return [
        ["cmake", "-S", str(place / "source"), "-B", build, *CMAKE_FLAGS, *_chosen_flags()],
        ["cmake", "--build", build, "--target", TARGET, "-j", str(jobs)],
    ]


def _fetch(release: str, place: Path) -> None:
    """Puts the llama.cpp of that release into `place`/source."""
    _told(f"fetching the source of {PACKAGE} {release}")
    with tempfile.TemporaryDirectory(dir=place) as name:
        work = Path(name)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(work), f"{PACKAGE}=={release}"]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise PeerFailed(f"The source of {PACKAGE} {release} could not be fetched from the package index.")
        with tarfile.open(next(work.glob("*.tar.gz"))) as archive:
            archive.extractall(work, members=vendored(archive), filter="data")
        # Last, so that a folder named `source` is always a whole one.
        (next(work.glob("*/")) / Path(*_VENDORED)).replace(place / "source")


def vendored(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of the source distribution that are llama.cpp's."""
    return (member for member in archive if Path(member.name).parts[1:3] == _VENDORED)


def _told(what: str) -> None:
    print(f"  {what} …", file=sys.stderr, flush=True)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    """`--peers FOLDER`, the same for every bench."""
    told = f"where peers and models are kept (or ${FOLDER_VARIABLE}; default: the user's cache)"
    parser.add_argument("--peers", type=Path, metavar="FOLDER", default=default_folder(), help=told)


def add_options(parser: argparse.ArgumentParser, alone: str) -> None:
    """`--peers FOLDER`, and `--no-peers`, with which only what `alone` says is measured."""
    parser.add_argument("--no-peers", action="store_true", help=alone)
    add_folder_option(parser)


def run_beside(options: argparse.Namespace, measure: Callable[[argparse.Namespace, Path | None], bool]) -> int:
    """Has a bench measure beside llama-server, unless that is not wanted: its exit code.

    A quick run builds nothing: it says so and goes on without. Where `measure` finds a bound broken, the code is 1, but
    for a quick run, which binds nothing; it is 2 where a peer failed.
    """
    try:
        is_kept = measure(options, _wanted_server(options))
    except PeerFailed as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if is_kept or options.quick else 1


def _wanted_server(options: argparse.Namespace) -> Path | None:
    if options.no_peers:
        return None
    if options.quick and not built(options.peers).exists():
        print(
            f"{TARGET} has not been built, so nothing is measured beside it: "
            "`python -m tests.bench.peers` builds it, once and in ten minutes on four cores.",
            file=sys.stderr,
        )
        return None
    return llama_server(options.peers)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__.partition("\n")[0])
    add_folder_option(parser)
    try:
        print(llama_server(parser.parse_args(arguments).peers))
    except PeerFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(ending.run(main))
