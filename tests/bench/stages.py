"""Busy time of each stage of our indexing, measured by patching the engine's own methods."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from engine.embedder import Embedder
from engine.library.parsers.pool import ParserPool
from engine.library.recording import Recorder
from engine.partitions.table import ChunkTable

STAGES = {
    "parse": (ParserPool, "read"),
    "embed": (Embedder, "embed_documents"),
    "write": (ChunkTable, "put_documents"),
    "optimize": (ChunkTable, "optimize"),
    "look up": (Recorder, "vectors_known"),
    "note": (Recorder, "settle"),
}


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Yields busy seconds by stage, filled within the block; stages overlap, so their sum may exceed the time."""
    busy: defaultdict[str, float] = defaultdict(float)
    adding = threading.Lock()

    def around(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                with adding:
                    busy[name] += time.perf_counter() - begun

        return timed

    with ExitStack() as stack:
        for name, (owner, method) in STAGES.items():
            stack.enter_context(patch.object(owner, method, around(name, getattr(owner, method))))
        yield busy
