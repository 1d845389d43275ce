"""Tests for tests.bench.ending: a bench that is ended by a signal removes what it created."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import ending
from tests.bench.peer_process import ROOT

# Creates a folder as the benches do, prints its path, waits for a signal, and prints that it cleans up.
_BENCH = """
import tempfile, time
from tests.bench import ending

def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(folder, flush=True)
            # In pieces: a signal that comes just before one is seen after it.
            while True:
                time.sleep(0.05)
        finally:
            print("put away", flush=True)
            {at_the_end}
    return 0

raise SystemExit(ending.run(main))
"""
# A second signal during the clean-up must not leave anything behind.
_AGAIN = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal that asks a process to end")


@pytest.mark.parametrize("at_the_end", ["pass", _AGAIN])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_bench_that_is_told_to_end_removes_what_it_made(number: signal.Signals, at_the_end: str) -> None:
    command = [sys.executable, "-c", _BENCH.format(at_the_end=at_the_end)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        folder = Path(bench.stdout.readline().strip())
        assert folder.is_dir()
        bench.send_signal(number)
        assert bench.stdout.read() == "put away\n"
    assert bench.returncode == 128 + number
    assert not folder.exists()


def test_whoever_ends_by_itself_says_how_and_leaves_signals_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def main() -> int:
        seen.append(signal.getsignal(signal.SIGTERM))
        return 3

    assert ending.run(main) == 3
    assert seen != [before]
    assert signal.getsignal(signal.SIGTERM) == before


def test_every_bench_ends_so() -> None:
    benches = [
        file
        for file in Path(ending.__file__).parent.glob("*.py")
        if "def main(arguments" in file.read_text(encoding="utf-8") and not file.name.startswith("test_")
    ]
    assert len(benches) > 15
    without = [file.name for file in benches if "sys.exit(ending.run(main))" not in file.read_text(encoding="utf-8")]
    assert without == []
