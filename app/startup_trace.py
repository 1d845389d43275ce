"""How long a start takes, seen from where the user stands: since the process began, not since we got control."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

VARIABLE = "RAGDOLL_TRACE_STARTUP"


def seconds_since_process_start() -> float | None:
    """Returns the age of this process, to 10 ms; None where the system does not tell."""
    try:
        stat = Path("/proc/self/stat").read_text()
        # The command name, in brackets, may hold spaces; `starttime` is the 20th field after it (proc(5)).
        started_ticks = int(stat.rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return None


def tell(name: str) -> None:
    """Prints `name` and the age of the process to standard error, if the environment asks for it."""
    if os.environ.get(VARIABLE) != "1":
        return
    age = seconds_since_process_start()
    if age is not None:
        print(f"{name}={age:.3f}", file=sys.stderr, flush=True)
