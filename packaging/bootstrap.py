"""Sets Ragdoll up in the checkout's own .venv, then opens it, checks it, or runs its command line.

Order: is it set up already (the stamp)? → what the system lacks → the environment → torch → llama.cpp → the rest
→ stamp. Every step may be repeated, and what is done is not done again. Only the standard library is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import system_needs
from pip_steps import Pip, clock, install_torch
from system_needs import Missing

ROOT = Path(__file__).resolve().parent.parent
HELP = """\
usage: ./packaging/bootstrap              set everything up, then open the window
       ./packaging/bootstrap test         set everything up, then run all checks and tests
       ./packaging/bootstrap run ARGS…    the command line: ragdoll ARGS…

The environment is .venv in the checkout; removing that folder undoes everything. Variables that are honoured:
  RAGDOLL_PYTHON   the Python to use (3.11 to 3.14)
  RAGDOLL_HOME     the folder that holds all of Ragdoll's data
  CMAKE_ARGS       how llama.cpp is built, e.g. CMAKE_ARGS=-DGGML_CUDA=on (needs the CUDA toolkit)
  PIP_*            pip's own settings"""

# The files of tests side by side, each in one process; a worker that dies ends the run instead of hanging it.
_SIDE_BY_SIDE = ("-n", "logical", "--maxprocesses", "4", "--dist", "loadfile", "--max-worker-restart", "0")
# pytest is last: its closing line closes the output.
CHECKS: tuple[tuple[str, ...], ...] = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    ("lint-imports",),
    ("python", "-m", "pytest", *_SIDE_BY_SIDE),
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an environment was set up for: a digest of what decides its content, the extras, how llama.cpp was built.

    `flags` are those that the processor needs (`system_needs.flags_for_llama`).
    """

    key: str
    extras: frozenset[str]
    cmake_args: str = ""
    flags: str = ""

    def serves(self, wanted: Stamp) -> bool:
        """Whether nothing needs installing for `wanted`; without a word on llama.cpp's build, what is there will do."""
        same_build = wanted.cmake_args in ("", self.cmake_args) and wanted.flags == self.flags
        return self.key == wanted.key and wanted.extras <= self.extras and same_build

    def after(self, earlier: Stamp | None) -> Stamp:
        """The stamp once this has been installed over what `earlier` had installed."""
        if earlier is None:
            return self
        extras = self.extras | earlier.extras if earlier.key == self.key else self.extras
        return Stamp(self.key, extras, self.cmake_args or earlier.cmake_args, self.flags)

    @classmethod
    def read(cls, file: Path) -> Stamp | None:
        """None where there is no stamp, or none that can be understood: then everything is looked at again."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return cls(content["key"], frozenset(content["extras"]), content["cmake_args"], content.get("flags", ""))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, file: Path) -> None:
        content = {
            "key": self.key,
            "extras": sorted(self.extras),
            "cmake_args": self.cmake_args,
            "flags": self.flags,
        }
        file.write_text(json.dumps(content), encoding="utf-8")


def stamp_key(pyproject: str, root: Path, python: tuple[int, int], machine: str) -> str:
    """A digest of all that decides what pip would install; the settings of linters and tests do not count."""
    tables = tomllib.loads(pyproject)
    parts = [tables["build-system"], tables["project"], tables.get("tool", {}).get("hatch"), str(root), python, machine]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def pinned(pyproject: str, name: str) -> str:
    """The version of a dependency that pyproject.toml pins with `==` or `~=`."""
    for requirement in tomllib.loads(pyproject)["project"]["dependencies"]:
        found = re.fullmatch(rf"{re.escape(name)}\s*(?:==|~=)\s*([\w.]+)", requirement)
        if found:
            return found[1]
    raise Missing(f"pyproject.toml pins no version of {name}.", "Restore that file from the repository.")


def set_up(root: Path, extras: frozenset[str]) -> Path:
    """Brings `.venv` up to date and returns its Python; does next to nothing when it is.

    Raises:
        Missing: Something stands in the way; the sentence says what, and the way out what to do.
    """
    environment = root / ".venv"
    python = environment / "bin" / "python"
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    stamp_file = environment / "ragdoll-stamp.json"
    key = stamp_key(pyproject, root, sys.version_info[:2], platform.machine())
    flags = system_needs.flags_for_llama()
    wanted, found = Stamp(key, extras, os.environ.get("CMAKE_ARGS", ""), flags), Stamp.read(stamp_file)
    if found is not None and found.serves(wanted) and python.exists():
        return python

    say(f"Setting Ragdoll up in {environment}; this is done once.")
    _provide_for(root, environment, python)
    stamp_file.unlink(missing_ok=True)
    built = (found.cmake_args, found.flags) if found else ("", "")
    rebuilds_llama = wanted.cmake_args not in ("", built[0]) or flags != built[1]
    pip = Pip(python, environment / "bootstrap.log", say, sys.stderr)
    _install(pip, root, pyproject, extras, rebuilds_llama, system_needs.known_to_compiler(flags))
    wanted.after(found).write(stamp_file)
    if system_needs.no_fonts_for_chinese():
        say("hint: no installed font has Chinese characters; Debian's are fonts-noto-core and fonts-noto-cjk.")
    return python


def _provide_for(root: Path, environment: Path, python: Path) -> None:
    """The system's part, and an empty environment where there is none that works."""
    needs = [system_needs.missing_build_tools(), system_needs.missing_libraries()]
    works = _version_of(python) == sys.version_info[:2]
    if not works:
        system_needs.check_room(root)
        needs.append(system_needs.missing_venv())
    system_needs.install_with_apt(needs, say)
    if works:
        return
    if lack := system_needs.missing_venv():
        sentence, way_out = system_needs.told(lack, system_needs.is_root(), has_apt=Path("/usr/bin/apt-get").exists())
        raise Missing(sentence, way_out)
    done = subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--clear", str(environment)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Missing(
            f"Python could not make an environment in {environment}.\n    {(done.stdout + done.stderr).strip()[-600:]}",
            "Is the folder writable, and is Python's venv module whole?",
        )


def _install(pip: Pip, root: Path, pyproject: str, extras: frozenset[str], rebuilds_llama: bool, flags: str) -> None:
    install_torch(pip, pinned(pyproject, "torch"), system_needs.has_nvidia_gpu())
    llama = pinned(pyproject, "llama-cpp-python")
    # A wheel in pip's cache was built with whatever CMAKE_ARGS, or flags, held then.
    rebuild = ("--no-cache-dir", "--force-reinstall", "--no-deps") if rebuilds_llama else ()
    if rebuild or not pip.has("llama-cpp-python", llama):
        patience = (
            f"llama.cpp is compiled here, once: about {_build_minutes(os.cpu_count() or 1)} minutes on this machine"
        )
        its = f"llama-cpp-python=={llama}"
        pip.install("llama-cpp-python", *rebuild, its, patience=patience, compiler_flags=flags)
    what = f"{root}[{','.join(sorted(extras))}]" if extras else str(root)
    pip.install("Ragdoll and the rest", "--editable", what)


def _build_minutes(num_cores: int) -> int:
    # Measured: 7 minutes on 2 cores; the compiler runs once a core.
    return max(1, round(14 / num_cores))


def _version_of(python: Path) -> tuple[int, int] | None:
    """The version of an environment's Python; None when it is not there or does not run."""
    probe = "import sys, pip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([str(python), "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return None
    if done.returncode:
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def _warn_of(need: system_needs.Need) -> None:
    if need:
        sentence, way_out = system_needs.told(need, system_needs.is_root(), has_apt=Path("/usr/bin/apt-get").exists())
        say(f"warning: {sentence}\n  {way_out}")


def run_checks(python: Path, root: Path, checks: Sequence[tuple[str, ...]] = CHECKS) -> int:
    """Runs them all, whatever fails, and returns the exit code of the first that did."""
    codes: list[int] = []
    for program, *arguments in checks:
        name = " ".join([program, *arguments])
        say(f"── {name}")
        began = time.monotonic()
        command = [str(python.with_name(program)), *arguments]
        codes.append(subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, check=False).returncode)
        if len(codes) < len(checks):
            say(f"── {name}: {_outcome(codes[-1])} in {clock(time.monotonic() - began)}")
    return next((code for code in codes if code), 0)


def _outcome(code: int) -> str:
    return "passed" if code == 0 else f"FAILED ({code})"


def say(line: str) -> None:
    """To stderr: stdout belongs to what `run` prints."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    try:
        return _obey(arguments)
    except Missing as missing:
        say(f"\n{missing.sentence}\n{missing.way_out}".rstrip())
        return 1
    except KeyboardInterrupt:
        say("\nStopped. Starting again takes up where this stopped.")
        return 130


def _obey(arguments: Sequence[str]) -> int:
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("open", [])
    if command in ("-h", "--help", "help"):
        print(HELP)
        return 0
    if command == "test" and not rest:
        return run_checks(set_up(ROOT, frozenset({"test"})), ROOT)
    if command == "run":
        _become(set_up(ROOT, frozenset()).with_name("ragdoll"), rest)
    if command == "open":
        python = set_up(ROOT, frozenset())
        _warn_of(system_needs.missing_libraries())
        system_needs.check_display(os.environ)
        _name_home_from_here()
        os.chdir(ROOT)
        _become(python, ["-m", "app"])
    say(f"There is no such command: {' '.join(arguments)}\n{HELP}")
    return 2


def _name_home_from_here() -> None:
    """The window is started in our folder, where a relative RAGDOLL_HOME would be another one."""
    if home := os.environ.get("RAGDOLL_HOME"):
        os.environ["RAGDOLL_HOME"] = str(Path(home).expanduser().absolute())


def _become(program: Path, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process, so that signals and exit codes are the application's own."""
    os.execv(program, [str(program), *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
