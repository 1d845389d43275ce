"""Opening the searcher: stores, catalogue and settings as they are now, and the second reading if one is chosen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

from engine.catalog import Catalog
from engine.config import Settings
from engine.memory.ledger import Ledger
from engine.retrieval.batching import SweepCosts
from engine.retrieval.joining import Room
from engine.retrieval.named_files import NamedFiles
from engine.retrieval.search import Searcher
from engine.second_reading import AroundLoading, Memory, SecondReading
from engine.stores import StoresOpener


class SearcherOpener:
    """Calling it returns a searcher, on any thread; it owns the reranker and what is known of files' names."""

    def __init__(
        self,
        stores: StoresOpener,
        catalog: Catalog,
        settings: Callable[[], Settings],
        ledger: Ledger,
        sweep_costs: SweepCosts,
        memory: Memory,
        tell: Callable[[str], object],
        around_loading: AroundLoading = nullcontext,
    ) -> None:
        """Prepares.

        Args:
            stores: Opened with the first searcher.
            catalog: That of the same library.
            settings: The settings in force.
            ledger: Records who holds what.
            sweep_costs: Learns what sweeps of the index take.
            memory: Has room for a reranker, or not.
            tell: Receives the reason why there is no second reading although one was chosen.
            around_loading: Makes a context for the seconds that loading a reranker takes.
        """
        self._stores, self._catalog, self._settings = stores, catalog, settings
        self._ledger, self._sweep_costs = ledger, sweep_costs
        self._memory, self._tell, self._around_loading = memory, tell, around_loading
        self._names = NamedFiles(catalog)
        self._reading: SecondReading | None = None
        self._naming = threading.Lock()
        self._is_closed = False

    def __call__(self) -> Searcher:
        """Opens the stores if needed, and raises as they do."""
        stores = self._stores()
        stores.index.on_sweep = self._sweep_costs.note
        settings = self._settings()
        return Searcher(
            stores.table,
            stores.index,
            stores.embedder,
            self._catalog,
            settings.retrieval,
            Room.of(settings.generation, settings.library),
            self._named(settings.retrieval.reranker),
            kept=stores,
            names=self._names,
        )

    @property
    def second_reading(self) -> SecondReading | None:
        """The second reading by the reranker that the settings name; None if they name none."""
        return self._named(self._settings().retrieval.reranker)

    @property
    def coming_bytes(self) -> int:
        """The memory that a chosen reranker will take that is not loaded yet.

        No earlier reranker is closed here: it may be in use, and planning memory must not wait.
        """
        name = self._settings().retrieval.reranker
        with self._naming:
            self._begin(name)
            reading = self._reading
        return reading.coming_bytes if reading is not None and reading.name == name else 0

    def apply_settings(self) -> None:
        """Closes a reranker that the settings no longer name."""
        self._named(self._settings().retrieval.reranker)

    def close(self) -> None:
        """Closes the reranker permanently; called when all searches have ended."""
        with self._naming:
            self._is_closed = True
            reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def _named(self, name: str) -> SecondReading | None:
        """Returns the second reading by the reranker of this name ("": none), and closes one of another name."""
        with self._naming:
            before = self._reading
            if before is not None and before.name != name:
                self._reading = None
            self._begin(name)
            reading = self._reading
        # Not under the lock: planning memory takes it too, and freeing memory takes a while.
        if before is not None and before is not reading:
            before.close()
        return reading

    def _begin(self, name: str) -> None:
        """Creates the second reading by this name, if there is none; called under the lock."""
        if name and self._reading is None and not self._is_closed:
            self._reading = SecondReading(
                name, self._ledger, self._memory, self._tell, around_loading=self._around_loading
            )
