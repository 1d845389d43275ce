"""A duel on a model that does not fit into memory: each pass reads its layers from disk.

Imported, this is the side that sets the memory's bound and waits; run, the process that is bound. It needs root and
control groups of version 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.core import SamplingParams
from engine.generation.model import Model
from tests.bench.bench_model import plain_tokens
from tests.bench.duel import Pace, duel
from tests.bench.quoting import SEED, Library

CGROUPS = Path("/sys/fs/cgroup/memory")
# What the process needs beside the model.
_OTHER_BYTES = 400 * 2**20


def figures(file: Path, vocabulary: int, num_tokens: int, num_threads: int) -> dict[str, float]:
    """Those of a process whose memory holds half of the model; {} where that cannot be set up."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        # A copy of its own, so that no page of it is counted as somebody else's.
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        _forget_pages(copy)
        settings = {
            "model": str(copy),
            "limit_bytes": file.stat().st_size // 2 + _OTHER_BYTES,
            "vocabulary": vocabulary,
            "num_tokens": num_tokens,
            "num_threads": num_threads,
        }
        command = [sys.executable, "-m", "tests.bench.streamed_duel", json.dumps(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"quoting_streamed is left out: {''.join(done.stderr.strip().splitlines()[-1:]) or done.returncode}")
        return {}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def fight(settings: dict[str, Any]) -> None:
    """Has both sides write in this process, whose memory is bound meanwhile; the last line tells the figures."""
    with _confined(settings["limit_bytes"]):
        # Repacked weights would be memory of the process, which cannot be read again from the file.
        model = Model(Path(settings["model"]), 0, lambda _: True, is_repacked=False)
        library = Library(plain_tokens(settings["vocabulary"]), SEED)
        given = SamplingParams(max_tokens=settings["num_tokens"], seed=SEED)
        recorded = library.quoting(settings["num_tokens"], num_passages=2)
        found = duel(model, [recorded], given, Pace(settings["num_threads"]))
        model.close()
    print(json.dumps(found.figures))


@contextmanager
def _confined(limit: int) -> Iterator[None]:
    """Bounds this process's memory, its share of the page cache with it (cgroup v1); needs root."""
    group = CGROUPS / f"ragdoll-drafting-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        # All threads: those that compute would otherwise stay behind, and the group with them.
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (CGROUPS / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _forget_pages(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


if __name__ == "__main__":
    fight(json.loads(sys.argv[1]))
