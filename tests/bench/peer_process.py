"""The process of a peer: it runs as long as its block, and ends with whoever started it."""

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
# Becomes its argument after asking Linux (prctl 1 is PR_SET_PDEATHSIG) to be killed when its parent is.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def running(
    command: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Started in the repository's root, so that it finds our modules; killed at the end of the block.

    `environment`: None for that of peers (`untuned`).
    """
    if sys.platform == "linux":
        command = [sys.executable, "-c", _TIED, *command]
    env = untuned() if environment is None else environment
    process = subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr, env=env)
    try:
        yield process
    finally:
        process.kill()
        # Closes the pipes too.
        process.communicate()


def untuned() -> dict[str, str]:
    """The environment of this process, without what the engine has set in it for its own threads."""
    return {name: value for name, value in os.environ.items() if name not in THREAD_SETTINGS}
