"""The process of a peer: it runs as long as its block, and ends with whoever started it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
# Becomes its argument after asking Linux (prctl 1 is PR_SET_PDEATHSIG) to be killed when its parent is.
_TIED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def running(
    command: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Started in the repository's root, so that it finds our modules; killed at the end of the block."""
    if sys.platform == "linux":
        command = [sys.executable, "-c", _TIED, *command]
    process = subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        # Closes the pipes too.
        process.communicate()
