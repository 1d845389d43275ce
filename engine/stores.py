"""The heavy pair, embedder and LanceDB table: opened once, by whichever worker needs it first, and closed at the end.

Importing torch and lancedb takes seconds (8-42 s cold on a busy machine), so it never happens on the thread that
answers pings, and the window is informed meanwhile. The embedder loads at its first text: a job that finds nothing
changed never waits for it.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.catalog import Catalog, VectorTable
from engine.closing import close_all
from engine.config import EmbedderSettings, Home, Settings
from engine.embedder import Embedder, EmbedderSpec
from engine.errors import EmbedderUnavailable
from engine.giving_way import GivingWay
from engine.library.moving import drop_removed
from engine.memory.hardware import probe
from engine.memory.ledger import Ledger
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from engine.phases import Phases
from engine.protocol import EmbedderState
from engine.tables import Tables, delete_all

log = logging.getLogger(__name__)
LOADING = "loading libraries"
# Of the machine's memory, for an index that is given no budget: about 16 million chunks in 24 GB.
INDEX_SHARE_OF_RAM = 0.25
# Settings that are read only when the stores are opened, each with its name for users.
_OF_AN_OPENING = {
    "embedder": {
        "batch_size": "how many texts are embedded at once",
        "num_threads": "the embedding model's threads",
        "backend": "what runs the embedding model",
        "number_format": "the embedding model's number format",
    },
    "memory": {
        "lance_index_cache_bytes": "LanceDB's cache of its index",
        "lance_metadata_cache_bytes": "LanceDB's cache of metadata",
    },
}
# How often to check whether the stores from before a switch are still in use.
_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stores:
    """The opened stores. A caller that uses one of them keeps this object as well, which shows that they are in use."""

    embedder: Embedder
    table: ChunkTable
    index: PartitionStore


@dataclass(frozen=True, slots=True)
class NextStores:
    """What the library moves to: the other model with its settings, and the table that is being filled."""

    embedder: Embedder
    run_as: EmbedderSettings
    table: ChunkTable


@dataclass(frozen=True, slots=True, eq=False)
class _Retired:
    """Stores from before a switch; `handle` is dead when they are no longer used."""

    handle: weakref.ref[Stores]
    embedder: Embedder
    table: ChunkTable
    index: PartitionStore

    @classmethod
    def of(cls, stores: Stores) -> _Retired:
        return cls(weakref.ref(stores), stores.embedder, stores.table, stores.index)

    def close(self) -> None:
        close_all(self.index.close, self.embedder.unload, self.table.close)


class StoresOpener:
    """Calling it returns the stores, and opens them the first time; safe from any thread."""

    def __init__(
        self,
        home: Home,
        catalog: Catalog,
        settings: Callable[[], Settings],
        ledger: Ledger,
        phases: Phases,
        giving_way: GivingWay | None = None,
    ) -> None:
        self._library, self._cache, self._settings = home.library, home.cache, settings
        self._catalog, self._ledger, self._phases, self._giving_way = catalog, ledger, phases, giving_way
        self._tables = Tables(home.library, catalog, settings)
        self._lock = threading.Lock()
        # Held while stores that are no longer used are closed, and taken before the other lock: questions do not wait.
        self._closing = threading.Lock()
        self._stores: Stores | None = None
        # The settings with which they were opened.
        self._opened_by: Settings | None = None
        self._next: NextStores | None = None
        self._retired: list[_Retired] = []
        self._timer: threading.Timer | None = None
        self._partition_bytes: int | None = None
        # Why the move stopped; "" if it did not.
        self._fault = ""

    def __call__(self) -> Stores:
        """Returns the stores, and opens them the first time.

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
        with self._closing, self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._stores is not None:
                self._retired.append(_Retired.of(self._stores))
                self._stores = None
            retired, self._retired = self._retired, []
            close_all(self._close_next, *(one.close for one in retired))

    # --- moving to another model ---

    def next(self) -> NextStores | None:
        """Opens what the library is to be moved to; None if the settings name its present model.

        A move to a model that is no longer wanted is given up.

        Raises:
            LibraryError: The table cannot be opened or made.
        """
        with self._lock:
            self._fault = ""
            found = self._tables.following()
            if found is None:
                self._close_next()
            elif self._next is None or self._next.embedder.identity != found[1].identity:
                self._close_next()
                with self._phases.during(LOADING):
                    run_as = self._settings().embedder
                    self._next = NextStores(self._embedder(found[1], run_as), run_as, self._table(found[0]))
            self._drop_strays()
            return self._next

    def switch(self) -> None:
        """Switches to the next table; the old one is dropped once no search uses it.

        Raises:
            EmbedderUnavailable: The next call for the stores tries again.
            LibraryError: The table cannot be opened; likewise.
        """
        with self._lock:
            following, self._next = self._next, None
            if self._stores is not None:
                self._retired.append(_Retired.of(self._stores))
                self._stores = None
                self._look_later()
            if following is not None:
                following.table.close()
            try:
                self._stores = self._open(following)
            except BaseException:
                if following is not None:
                    following.embedder.unload()
                raise
            self.apply_settings()

    def failed(self, error: EmbedderUnavailable) -> None:
        """Records that the model to which the library was moving does not load."""
        self._fault = f"{error.sentence} {error.way_out}".strip()

    def drop_removed(self) -> None:
        """Deletes removed documents from the table that is being filled; its model is not needed for that.

        Called on the thread that moves the library, the only one that opens or closes that table.

        Raises:
            LibraryError: Rows are left, or the table cannot be opened.
        """
        if self._next is not None:
            drop_removed(self._catalog, self._next.table)
        elif (following := self._catalog.next_table()) is not None and self._tables.is_made(following):
            table = self._table(following)
            try:
                drop_removed(self._catalog, table)
            finally:
                table.close()

    def state(self) -> EmbedderState:
        """Returns the model in use and how far the library has moved to another one; loads nothing."""
        stores, active, following = self._stores, self._catalog.active_table(), self._catalog.next_table()
        moved, to_move = self._catalog.moved() if following is not None else (0, 0)
        problem = " ".join(part for part in (self._tables.problem, self._fault) if part)
        words = (stores.embedder.description if stores is not None else "", problem)
        return EmbedderState(
            name=active.name if active is not None else "",
            identity=active.identity if active is not None else "",
            description=" ".join(part for part in words if part),
            problem=problem,
            next_name=following.name if following is not None else "",
            documents_moved=moved,
            documents_to_move=to_move,
        )

    def index_problem(self) -> str:
        """Returns why nothing is found although documents were indexed; "" if all is well, or not known yet."""
        stores = self._stores
        if stores is None or not self._catalog.num_chunks() or not stores.table.is_empty():
            return ""
        return "The index was lost or could not be read, and holds no document."

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_GRACE_SECONDS, self._close_retired)
            self._timer.daemon = True
            self._timer.start()

    def _close_retired(self) -> None:
        """Closes them on a timer's thread, since an index may wait for minutes for a file that is being written."""
        with self._closing:
            with self._lock:
                if self._timer is None:
                    return
                self._timer = None
                unused = [retired for retired in self._retired if retired.handle() is None]
            for retired in unused:
                try:
                    retired.close()
                except Exception:
                    log.exception("what answered before could not be closed in order")
            with self._lock:
                self._retired = [retired for retired in self._retired if retired not in unused]
                if self._retired:
                    self._look_later()
                self._drop_strays()

    def _close_next(self) -> None:
        following, self._next = self._next, None
        if following is not None:
            close_all(following.embedder.unload, following.table.close)

    def _drop_strays(self) -> None:
        """Deletes them on a thread of its own: gigabytes take seconds, for which no question should wait."""
        if not self._retired and (strays := self._tables.set_strays_aside()):
            threading.Thread(target=delete_all, args=(strays,), name="strays", daemon=True).start()

    def apply_settings(self) -> None:
        """Applies budget and mode to an open index; one that is being opened gets them when it is open."""
        stores = self._stores
        if stores is not None:
            settings = self._settings()
            stores.index.cold_slack = settings.retrieval.cold_slack
            stores.index.set_mode(settings.retrieval.index_mode)
            stores.index.set_budget_bytes(self._index_budget_bytes(settings))
            if self._partition_bytes is not None:
                stores.index.set_partition_bytes(self._partition_bytes)

    @property
    def pending(self) -> str:
        """Which settings were changed and wait for a restart, in a sentence; "" if none."""
        then, now = self._opened_by, self._settings()
        if then is None:
            return ""
        changed = [
            words
            for table, settings in _OF_AN_OPENING.items()
            for name, words in settings.items()
            if getattr(getattr(then, table), name) != getattr(getattr(now, table), name)
        ]
        told = f"Changed in the settings, and in force once Ragdoll is started again: {', '.join(changed)}."
        return told if changed else ""

    @property
    def partition_bytes(self) -> int | None:
        """What partitions may hold in memory by the plan; None as long as there is none."""
        return self._partition_bytes

    def set_partition_bytes(self, num_bytes: int) -> None:
        """Sets what partitions may hold in memory from the next sweep on, or once the index is opened."""
        self._partition_bytes = num_bytes
        stores = self._stores
        if stores is not None:
            stores.index.set_partition_bytes(num_bytes)

    def opened(self) -> Stores | None:
        """Returns the stores if they are open already; never blocks."""
        return self._stores

    def _open(self, following: NextStores | None = None) -> Stores:
        """Opens the stores; `following` holds a model that is already loaded, if it is the right one."""
        settings = self._settings()
        active, spec = self._tables.active()
        if following is not None and following.embedder.identity == active.identity:
            embedder, run_as = following.embedder, following.run_as
        else:
            embedder, run_as = self._embedder(spec, settings.embedder), settings.embedder
        table = self._table(active)
        try:
            index = self._open_index(table, embedder, self._tables.folders(active)[1])
        except BaseException:
            table.close()
            raise
        self._drop_strays()
        self._opened_by = settings.model_copy(update={"embedder": run_as})
        return Stores(embedder, table, index)

    def _embedder(self, spec: EmbedderSpec, run_as: EmbedderSettings) -> Embedder:
        return Embedder(
            spec,
            run_as,
            self._ledger,
            lambda: self._phases.during(LOADING),
            self._cache,
            giving_way=self._giving_way,
        )

    def _table(self, table: VectorTable) -> ChunkTable:
        folder = self._tables.folders(table)[0]
        return ChunkTable.open(folder, table.dimensions, table.identity, self._settings().memory, self._ledger)

    def _open_index(self, table: ChunkTable, embedder: Embedder, folder: Path) -> PartitionStore:
        settings = self._settings()
        index = PartitionStore(
            table,
            folder,
            Origin(embedder.identity, table.table_id, embedder.dimensions),
            NumpyKernel(),
            quantize,
            self._ledger,
            self._index_budget_bytes(settings),
            settings.retrieval.index_mode,
        )
        index.cold_slack = settings.retrieval.cold_slack
        index.start()
        return index

    def _index_budget_bytes(self, settings: Settings) -> int:
        """Returns the budget of the settings, or a share of the memory that leaves room for a model."""
        if settings.memory.index_budget_bytes is not None:
            return settings.memory.index_budget_bytes
        return int(probe(self._library).ram_capacity_bytes * INDEX_SHARE_OF_RAM)
