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
    """Calling it gives a searcher, on any thread; it owns the reranker and what is known of files' names."""

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
            catalog: Of the same library.
            settings: As they are now.
            ledger: Is told who holds what.
            sweep_costs: Learns what sweeps of the index take.
            memory: Has room for a reranker, or none.
            tell: Is told why there is no second reading though one was chosen.
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
        """Raises as the stores do."""
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
        """By the reranker that the settings name; None where they name none."""
        return self._named(self._settings().retrieval.reranker)

    @property
    def coming_bytes(self) -> int:
        """What a reranker that is chosen and not loaded yet will take of memory.

        Gives none back: whoever plans memory waits for nobody, and one that was chosen before may be in use.
        """
        name = self._settings().retrieval.reranker
        with self._naming:
            self._begin(name)
            reading = self._reading
        return reading.coming_bytes if reading is not None and reading.name == name else 0

    def apply_settings(self) -> None:
        """Gives back a reranker that the settings name no more."""
        self._named(self._settings().retrieval.reranker)

    def close(self) -> None:
        """Gives the reranker back for good, when those who search have ended."""
        with self._naming:
            self._is_closed = True
            reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def _named(self, name: str) -> SecondReading | None:
        """That by the reranker of this name, "" for none."""
        with self._naming:
            before = self._reading
            if before is not None and before.name != name:
                self._reading = None
            self._begin(name)
            reading = self._reading
        # Outside: whoever plans memory takes the lock too, and to give memory back takes a while.
        if before is not None and before is not reading:
            before.close()
        return reading

    def _begin(self, name: str) -> None:
        """With the lock held: has one by this name where there is none, and one is named."""
        if name and self._reading is None and not self._is_closed:
            self._reading = SecondReading(
                name, self._ledger, self._memory, self._tell, around_loading=self._around_loading
            )
