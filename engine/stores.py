"""The heavy pair, embedder and LanceDB table: opened once, by whichever worker needs it first, and closed at the end.

Importing torch and lancedb takes seconds (8-42 s cold on a busy machine), so it never happens on the thread that
answers pings, and the window is told while it does. The embedder loads at its first text: a job that finds nothing
changed never waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.config import Settings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from engine.phases import Phases

LOADING = "loading libraries"


@dataclass(frozen=True, slots=True)
class Stores:
    embedder: Embedder
    table: ChunkTable
    index: PartitionStore


class StoresOpener:
    """Calling it gives the stores, loading them the first time; safe from any thread."""

    def __init__(self, library: Path, settings: Callable[[], Settings], ledger: Ledger, phases: Phases) -> None:
        self._library, self._settings, self._ledger, self._phases = library, settings, ledger, phases
        self._lock = threading.Lock()
        self._stores: Stores | None = None

    def __call__(self) -> Stores:
        """The stores.

        Raises:
            EmbedderUnavailable: There is no such embedding model; the next call tries again.
            LibraryError: The table cannot be opened.
        """
        with self._lock:
            if self._stores is None:
                with self._phases.during(LOADING):
                    self._stores = self._open()
            return self._stores

    def close(self) -> None:
        with self._lock:
            if self._stores is not None:
                self._stores.embedder.unload()
                self._stores.table.close()
                self._stores = None

    def _open(self) -> Stores:
        settings = self._settings()
        spec = resolve(settings.embedder)
        embedder = Embedder(spec, settings.embedder, self._ledger, lambda: self._phases.during(LOADING))
        folder = self._library / "lancedb"
        table = ChunkTable.open(folder, embedder.dimensions, embedder.identity, settings.memory, self._ledger)
        return Stores(embedder, table, PartitionStore(table))
