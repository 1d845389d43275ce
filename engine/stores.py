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
from engine.memory.hardware import probe
from engine.memory.ledger import Ledger
from engine.partitions.kernels import best_kernel, quantize
from engine.partitions.partition import Origin
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from engine.phases import Phases

LOADING = "loading libraries"
# Of the machine's memory, for an index that is given no budget: about 16 million chunks in 24 GB.
INDEX_SHARE_OF_RAM = 0.25


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
                self.apply_settings()
            return self._stores

    def close(self) -> None:
        with self._lock:
            if self._stores is not None:
                self._stores.index.close()
                self._stores.embedder.unload()
                self._stores.table.close()
                self._stores = None

    def apply_settings(self) -> None:
        """Tells an open index of its budget and mode; one that is being opened hears of them when it is."""
        stores = self._stores
        if stores is not None:
            settings = self._settings()
            stores.index.cold_slack = settings.retrieval.cold_slack
            stores.index.set_mode(settings.retrieval.index_mode)
            stores.index.set_budget_bytes(self._index_budget_bytes(settings))

    def opened(self) -> Stores | None:
        """The stores if they are open already; waits for nobody."""
        return self._stores

    def _open(self) -> Stores:
        settings = self._settings()
        spec = resolve(settings.embedder)
        embedder = Embedder(spec, settings.embedder, self._ledger, lambda: self._phases.during(LOADING))
        folder = self._library / "lancedb"
        table = ChunkTable.open(folder, embedder.dimensions, embedder.identity, settings.memory, self._ledger)
        try:
            index = self._open_index(table, embedder, settings)
        except BaseException:
            table.close()
            raise
        return Stores(embedder, table, index)

    def _open_index(self, table: ChunkTable, embedder: Embedder, settings: Settings) -> PartitionStore:
        index = PartitionStore(
            table,
            self._library / "shards",
            Origin(embedder.identity, table.table_id, embedder.dimensions),
            best_kernel(),
            quantize,
            self._ledger,
            self._index_budget_bytes(settings),
            settings.retrieval.index_mode,
        )
        index.cold_slack = settings.retrieval.cold_slack
        index.start()
        return index

    def _index_budget_bytes(self, settings: Settings) -> int:
        """What the settings say, or a share of the memory that leaves room for a model beside it."""
        if settings.memory.index_budget_bytes is not None:
            return settings.memory.index_budget_bytes
        return int(probe(self._library).ram_capacity_bytes * INDEX_SHARE_OF_RAM)
