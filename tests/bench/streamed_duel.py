"""A duel on a model that does not fit into memory: each pass reads its layers from disk.

Imported, this is the side that sets the memory's bound and waits; run, the process that is bound.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from engine.core import SamplingParams
from engine.generation.model import Model
from tests.bench import confined
from tests.bench.bench_model import Shape, plain_tokens
from tests.bench.duel import Pace, duel
from tests.bench.quoting import SEED, Library

# What passes still take beside what the process holds by then.
_SPARE_BYTES = 32 * 2**20
_PLENTY = 1 << 40


def figures(file: Path, shape: Shape, num_tokens: int, num_threads: int) -> dict[str, float]:
    """Those of a process whose memory holds half of the model.

    Raises:
        CannotConfine: Memory cannot be limited here.
    """
    parent = confined.find()
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        # A copy of its own, so that no page of it is counted as somebody else's.
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        confined.forget_pages(copy)
        settings = {
            "model": str(copy),
            "vocabulary": shape.vocabulary,
            "num_tokens": num_tokens,
            "num_threads": num_threads,
        }
        command = [sys.executable, "-m", "tests.bench.streamed_duel", json.dumps(settings)]
        with confined.confined(_PLENTY, parent) as group, _started(group.entered(command)) as fighting:
            assert fighting.stdin is not None
            assert fighting.stdout is not None
            fighting.stdout.readline()
            confined.limit(group, group.usage().held_bytes + file.stat().st_size // 2 + _SPARE_BYTES)
            told, _ = fighting.communicate("\n")
    return dict(json.loads(told.splitlines()[-1]))


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def fight(settings: dict[str, Any]) -> None:
    """Has both sides write in this process; the last line tells the figures."""
    # Repacked weights would be memory of the process, which cannot be read again from the file.
    model = Model(Path(settings["model"]), 0, lambda _: True, is_repacked=False)
    library = Library(plain_tokens(settings["vocabulary"]), SEED)
    given = SamplingParams(max_tokens=settings["num_tokens"], seed=SEED)
    recorded = library.quoting(settings["num_tokens"], num_passages=2)
    found = duel(model, [recorded], given, Pace(settings["num_threads"]), when_ready=_wait_for_the_bound)
    model.close()
    print(json.dumps(found.figures))


def _wait_for_the_bound() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    fight(json.loads(sys.argv[1]))
