"""A duel on a model that does not fit into memory: each pass reads its layers from disk.

Imported, this starts the side that is bound; run, it is that side.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.core import SamplingParams
from engine.generation.model import Model
from tests.bench import confined
from tests.bench.bench_model import plain_tokens
from tests.bench.confined import Group
from tests.bench.duel import Pace, duel
from tests.bench.quoting import SEED, Library
from tests.bench.side_process import Limit, Said, SideProcess, group_of, serve

# What passes still take beside what the process holds when they begin.
_SPARE_BYTES = 32 * 2**20
# Until then.
_PLENTY = 1 << 40


def figures(file: Path, vocabulary: int, num_tokens: int, num_threads: int) -> dict[str, float]:
    """Those of a process whose memory holds half of the model.

    Raises:
        CannotConfine: Memory cannot be limited here.
        PeerFailed: It was killed, or failed.
    """
    limit = Limit(_PLENTY, confined.find())
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        # A copy of its own, so that no page of it is counted as somebody else's.
        copy = Path(folder) / file.name
        shutil.copyfile(file, copy)
        confined.forget_pages(copy)
        settings = {
            "model": str(copy),
            "vocabulary": vocabulary,
            "num_tokens": num_tokens,
            "num_threads": num_threads,
        }
        with SideProcess.started("tests.bench.streamed_duel", settings, limit) as side:
            return side.ask(fights=True)


def _prepared(settings: Said) -> Callable[[Said], Said]:
    return lambda asked: _fought(settings) if asked else {}


def _fought(settings: Said) -> dict[str, float]:
    """Has both sides write in this process."""
    path, group = Path(settings["model"]), group_of(settings)
    assert group is not None
    # Repacked weights would be memory of the process, which cannot be read again from the file.
    model = Model(path, 0, lambda _: True, is_repacked=False)
    library = Library(plain_tokens(settings["vocabulary"]), SEED)
    given = SamplingParams(max_tokens=settings["num_tokens"], seed=SEED)
    recorded = library.quoting(settings["num_tokens"], num_passages=2)
    when_ready = partial(_be_bound, group, path.stat().st_size // 2)
    found = duel(model, [recorded], given, Pace(settings["num_threads"]), when_ready=when_ready)
    model.close()
    return found.figures


def _be_bound(group: Group, model_bytes: int) -> None:
    """What is held by now stays; so much of the model has room beside it."""
    confined.limit(group, group.usage().held_bytes + model_bytes + _SPARE_BYTES)


if __name__ == "__main__":
    serve(_prepared)
