"""Runs a peer as a child process for the length of a block; it is killed if the bench dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine import THREAD_SETTINGS

ROOT = Path(__file__).resolve().parents[2]
# Becomes its argument after asking Linux to be killed with its parent (prctl 1 is PR_SET_PDEATHSIG).
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def running(
    command: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process in the repository's root, so that it can import our modules; kills it at the end of the block.

    `environment` None is that of peers (`untuned`).
    """
    if sys.platform == "linux":
        command = [sys.executable, "-c", _TIED, *command]
    env = untuned() if environment is None else environment
    process = subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr, env=env)
    try:
        yield process
    finally:
        process.kill()
        # Also closes the pipes.
        process.communicate()


def untuned() -> dict[str, str]:
    """Returns the environment of this process without the engine's settings for its own threads."""
    return {name: value for name, value in os.environ.items() if name not in THREAD_SETTINGS}
