"""Runs: pending documents on their way through the stages, in the order in which they are wanted.

A run may cut in on another one, which rests meanwhile. Prioritised documents go first; files on which the parser gave
up, and those suspected of crashing the engine, are read at the end, each alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from engine.catalog import Catalog
from engine.config import LibrarySettings
from engine.core import Document
from engine.library.flow import Flow
from engine.library.pace import Before, Clock, Pace
from engine.library.reading import FileReader
from engine.library.recording import Recorder, Steps, Work
from engine.library.seams import Embedder, Parser
from engine.library.tally import Tally


class Runs:
    """The runs in progress; the innermost one is active. `hurry` may be called from any thread."""

    def __init__(
        self,
        catalog: Catalog,
        recorder: Recorder,
        embedder: Embedder,
        parser: Parser,
        settings: Callable[[], LibrarySettings],
        clock: Clock,
    ) -> None:
        self._catalog, self._recorder, self._embedder = catalog, recorder, embedder
        self._parser, self._settings, self._clock = parser, settings, clock
        self._works: list[Work] = []
        self._flows: list[Flow] = []

    @property
    def in_hand(self) -> frozenset[int]:
        """Documents that a run has not finished yet."""
        return frozenset[int]().union(*(work.left.copy() for work in tuple(self._works)))

    def index(
        self, documents: Sequence[Document], tally: Tally, cancelled: threading.Event, *, goes_on: bool = False
    ) -> Steps:
        """Reads, embeds and records documents. `goes_on`: this continues an interrupted run."""
        work = Work(tally, self._pace(documents, goes_on), cancelled, {one.document_id for one in documents})
        self._works.append(work)
        try:
            yield from work.pace.timed(self._all(documents, work))
        finally:
            self._works.remove(work)
            self._catalog.clear_begun(document.document_id for document in documents)
        if not self._works:
            self._catalog.end_run()

    def hold(self, is_held: bool) -> None:
        """Pauses the stages while no steps are taken, or continues them."""
        for flow in self._flows[-1:]:
            flow.hold(is_held)

    def hurry(self, document_ids: frozenset[int]) -> None:
        """Moves these documents before all others, as far as they are in progress."""
        for flow in tuple(self._flows):
            flow.hurry(document_ids)

    def _pace(self, documents: Sequence[Document], goes_on: bool) -> Pace:
        num_documents, num_bytes = len(documents), sum(document.size_bytes for document in documents)
        if self._works:
            return Pace.of(documents, self._clock)
        run = self._catalog.begin_run(num_documents, num_bytes, goes_on=goes_on)
        before = Before(
            run.documents_total - num_documents,
            run.bytes_total - num_bytes,
            max(0, self._catalog.num_chunks_arrived() - run.chunks_arrived),
        )
        return Pace.of(documents, self._clock, before)

    def _all(self, documents: Sequence[Document], work: Work) -> Steps:
        suspects, priorities = self._catalog.suspects(), self._catalog.priorities()
        wanted = sorted(documents, key=lambda document: -priorities.get(document.document_id, 0))
        together = [document for document in wanted if document.document_id not in suspects]
        settings = self._settings()
        if together:
            yield from self._through(together, work, settings, is_last_try=False)
        suspected = [document for document in wanted if document.document_id in suspects]
        # The most suspicious one last: if the engine crashes again, all others have been read.
        suspected.sort(key=lambda document: suspects[document.document_id])
        for document in [*work.postponed, *suspected]:
            yield from self._through([document], work, settings, is_last_try=True)

    def _through(
        self, documents: Sequence[Document], work: Work, settings: LibrarySettings, *, is_last_try: bool
    ) -> Steps:
        enough = threading.Event()
        read = FileReader(
            self._parser, settings, self._embedder, enough, self._catalog.passwords_of, is_last_try=is_last_try
        )
        note = partial(self._note, alone=len(documents) == 1 and len(self._works) == 1)
        with (
            self._outer_at_rest(),
            Flow(documents, read, enough, self._embedder, self._recorder, settings.parser_processes, note) as flow,
        ):
            self._flows.append(flow)
            try:
                yield from flow.run(work)
            finally:
                self._flows.remove(flow)

    def _note(self, documents: Sequence[Document], *, alone: bool) -> None:
        self._catalog.mark_begun((document.document_id for document in documents), alone=alone)

    @contextmanager
    def _outer_at_rest(self) -> Iterator[None]:
        outer = self._flows[-1:]
        for flow in outer:
            flow.hold(True)
        try:
            yield
        finally:
            for flow in outer:
                flow.hold(False)
