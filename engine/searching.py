"""Opening the searcher: stores, catalogue and settings as they are now, and the cross-encoder if one is named."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.catalog import Catalog
from engine.config import Settings
from engine.embedder.reranker import CrossEncoderReranker
from engine.memory.ledger import Ledger
from engine.retrieval.batching import SweepCosts
from engine.retrieval.joining import Room
from engine.retrieval.named_files import NamedFiles
from engine.retrieval.search import Searcher
from engine.stores import StoresOpener


class SearcherOpener:
    """Calling it gives a searcher, on any thread; it owns the cross-encoder and what is known of files' names."""

    def __init__(
        self,
        stores: StoresOpener,
        catalog: Catalog,
        settings: Callable[[], Settings],
        ledger: Ledger,
        sweep_costs: SweepCosts,
    ) -> None:
        self._stores, self._catalog, self._settings = stores, catalog, settings
        self._ledger, self._sweep_costs = ledger, sweep_costs
        self._names = NamedFiles(catalog)
        self._reranker: CrossEncoderReranker | None = None
        self._naming = threading.Lock()

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
            self._reranker_named(settings.retrieval.reranker),
            kept=stores,
            names=self._names,
        )

    def close(self) -> None:
        """Gives the cross-encoder back, when those who search have ended."""
        self._reranker_named("")

    def _reranker_named(self, name: str) -> CrossEncoderReranker | None:
        """The cross-encoder that the settings name, "" for none."""
        with self._naming:
            if self._reranker is not None and self._reranker.name != name:
                self._reranker.close()
                self._reranker = None
            if name and self._reranker is None:
                self._reranker = CrossEncoderReranker(name, self._ledger)
            return self._reranker
