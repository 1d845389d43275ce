"""Tests for engine.__main__: the process ends when it is told to, whatever its main thread is at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUSY = {
    # Between the bytecodes of Thread.start a handler that starts a thread waits for itself.
    "starting a thread": "threading._active_limbo_lock.acquire()",
    "swallowing what handlers raise": "sys.unraisablehook = lambda _: None",
}
CHILD = """
import os, signal, sys, threading, time
import engine.__main__ as main

class Swallows:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass

main._behave_as_a_child(os.getppid())
{busy}
Swallows()
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there, nobody sends SIGTERM")
@pytest.mark.parametrize("busy", BUSY.values(), ids=BUSY)
def test_sigterm_ends_it_whatever_the_main_thread_is_at(busy: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD.format(busy=busy)], cwd=ROOT, timeout=50, check=False)
    assert done.returncode == 0
