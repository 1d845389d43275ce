"""Builds llama-server, the peer of the generation benches, from the same source as our own llama.cpp.

    python -m tests.bench.peers [--peers FOLDER]

The source distribution of llama-cpp-python on PyPI contains llama.cpp. This downloads the release that is installed,
compiles its `llama-server` once with the same flags (Release, for this processor, with OpenMP) and keeps it in a cache
folder, so that both sides differ only in what is measured. It needs CMake and a C++ compiler, half a gigabyte, and ten
minutes on four cores. Run as a program, it does only that and prints the path; exit code 1 if it fails.
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
    # The web interface would be downloaded during the build.
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)
_VENDORED = ("vendor", "llama.cpp")
_SYSTEM_NEEDS = Path(__file__).resolve().parents[2] / "packaging" / "system_needs.py"


class PeerFailed(Exception):
    """A peer could not be built, started or queried; the message is a sentence and says where to look."""


def default_folder() -> Path:
    """Returns the folder that keeps peers and bench models between runs."""
    override = os.environ.get(FOLDER_VARIABLE)
    return Path(override) if override else platformdirs.user_cache_path("ragdoll-bench", appauthor=False)


def llama_server(folder: Path) -> Path:
    """Returns the program, built if needed: ten minutes on four cores, half a gigabyte.

    Raises:
        PeerFailed: A tool is missing, the source cannot be downloaded, or it does not compile.
    """
    binary = built(folder)
    if binary.exists():
        return binary
    if shutil.which("cmake") is None:
        raise PeerFailed("llama-server is built by CMake, which is not installed. Install cmake and a C++ compiler.")
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
                raise PeerFailed(f"{TARGET} could not be compiled; see {log}.")
    return binary


def built(folder: Path) -> Path:
    """Returns the path of the program, whether it was built or not."""
    return _place(folder) / "build" / "bin" / TARGET


def _place(folder: Path) -> Path:
    # A flag may contain paths.
    all_flags = [*_chosen_flags(), *_processor_flags().split()]
    flags = [re.sub(r"[^a-z0-9]+", "_", flag.removeprefix("-D").removeprefix("-m").lower()) for flag in all_flags]
    return folder / "-".join(["llama.cpp", _release(), *flags])


def _chosen_flags() -> list[str]:
    """Returns the CMake flags with which our library was compiled for a graphics card (packaging/README.md)."""
    return shlex.split(os.environ.get("CMAKE_ARGS", ""))


def _environment() -> dict[str, str]:
    """Returns the environment for the compilers."""
    flags = _processor_flags()
    return os.environ | {name: f"{os.environ.get(name, '')} {flags}" for name in ("CFLAGS", "CXXFLAGS") if flags}


@cache
def _processor_flags() -> str:
    """Returns the flags for this processor with which our library was compiled (packaging/system_needs.py)."""
    spec = importlib.util.spec_from_file_location("system_needs", _SYSTEM_NEEDS)
    assert spec is not None
    assert spec.loader is not None
    needs = importlib.util.module_from_spec(spec)
    # Its dataclasses look the module up there.
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
    """Downloads llama.cpp of that release to `place`/source."""
    _told(f"downloading the source of {PACKAGE} {release}")
    with tempfile.TemporaryDirectory(dir=place) as name:
        work = Path(name)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(work), f"{PACKAGE}=={release}"]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise PeerFailed(f"The source of {PACKAGE} {release} could not be downloaded from the package index.")
        with tarfile.open(next(work.glob("*.tar.gz"))) as archive:
            archive.extractall(work, members=vendored(archive), filter="data")
        # Moved last, so that a folder named `source` is always complete.
        (next(work.glob("*/")) / Path(*_VENDORED)).replace(place / "source")


def vendored(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields the members of the source distribution that belong to llama.cpp."""
    return (member for member in archive if Path(member.name).parts[1:3] == _VENDORED)


def _told(what: str) -> None:
    print(f"  {what} …", file=sys.stderr, flush=True)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--peers FOLDER`, the same for every bench."""
    told = f"where peers and models are kept (default: ${FOLDER_VARIABLE} or the user's cache)"
    parser.add_argument("--peers", type=Path, metavar="FOLDER", default=default_folder(), help=told)


def add_options(parser: argparse.ArgumentParser, alone: str) -> None:
    """Adds `--peers FOLDER` and `--no-peers`, whose help is `alone`."""
    parser.add_argument("--no-peers", action="store_true", help=alone)
    add_folder_option(parser)


def run_beside(options: argparse.Namespace, measure: Callable[[argparse.Namespace, Path | None], bool]) -> int:
    """Runs a bench with llama-server, if that is wanted, and returns its exit code.

    A quick run does not build the server: it prints so and measures without it. The code is 1 if `measure` finds a
    bound broken, except in quick runs; it is 2 if a peer failed.
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
            f"{TARGET} has not been built, so it is not measured: "
            "`python -m tests.bench.peers` builds it once, in ten minutes on four cores.",
            file=sys.stderr,
        )
        return None
    return llama_server(options.peers)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_folder_option(parser)
    try:
        print(llama_server(parser.parse_args(arguments).peers))
    except PeerFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(ending.run(main))
