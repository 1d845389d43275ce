"""Tests for engine.retrieval.worker over real partitions: a reading that fails costs no other reading twice."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from engine.catalog.scopes import Extent, Located, Named
from engine.config import MemorySettings, RetrievalSettings
from engine.core import Evidence, Filters, Question
from engine.errors import RagdollError
from engine.inflight import QuestionInFlight
from engine.memory.ledger import Ledger
from engine.partitions import open_rows
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from engine.retrieval.joining import Room
from engine.retrieval.query import Query
from engine.retrieval.search import Searcher
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.worker import RetrievalWorker
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, HashEmbedder
from tests.helpers.partition_reads import FOR_GOOD, Reads
from tests.helpers.partitions import document

TIMEOUT = 30.0
SHARDS, DOCUMENTS_PER_SHARD, ROWS = 5, 6, 4
SEALED = SHARDS - 1
QUESTION = "Which row is called number2 of 7?"


class EveryDocument:
    """A catalogue that has all documents, and no collections; paths are the only filter."""

    def located(self, document_ids: Iterable[int]) -> Mapping[int, Located]:
        return {id_: Located(f"/docs/{id_}.txt", False, ROWS) for id_ in document_ids}

    def ids_in_scope(self, collection: str | None, filters: Filters) -> frozenset[int] | None:
        return frozenset(int(Path(path).stem) for path in filters.paths) or None

    def extent(self, collection: str | None, filters: Filters) -> Extent:
        return Extent(SHARDS * DOCUMENTS_PER_SHARD, SHARDS * DOCUMENTS_PER_SHARD * ROWS)

    def only_document(self, collection: str | None, filters: Filters) -> int | None:
        return None

    def collection_names(self) -> tuple[str, ...]:
        return ()

    def paths_named(self, names: Collection[str]) -> Named:
        return Named(frozenset())


class Library:
    """A worker over a table and a store, all of whose sealed partitions lie on the disk; how its questions went."""

    def __init__(self, folder: Path) -> None:
        ledger = Ledger()
        self.table = ChunkTable.open(folder / "lancedb", DIMENSIONS, IDENTITY, MemorySettings(), ledger)
        for place in range(SHARDS * DOCUMENTS_PER_SHARD):
            self.table.put_documents(document(place + 1, ROWS, place // DOCUMENTS_PER_SHARD))
        origin = Origin(IDENTITY, self.table.table_id, DIMENSIONS)
        self.store = PartitionStore(self.table, folder / "shards", origin, NumpyKernel(), quantize, ledger, 0)
        self.store.maintain()
        assert self.store.num_cold == SEALED
        self.searcher = Searcher(
            self.table,
            self.store,
            HashEmbedder(),  # type: ignore[arg-type]
            EveryDocument(),
            RetrievalSettings(whole_document_chunks=0),
            Room(720, 4000),
        )
        self.handed: list[tuple[str, Evidence]] = []
        self.failed: list[RagdollError] = []
        self._ended = threading.Semaphore(0)
        self.worker = RetrievalWorker(
            lambda: self.searcher,
            self._hand_over,
            lambda event: None,
            pytest.fail,
            self._fail,
            SentenceVectors(ledger),
        )
        self.worker.start()

    def close(self) -> None:
        self.worker.stop()
        self.store.close()
        self.table.close()

    def ask(self, text: str = QUESTION, **options: object) -> None:
        self.worker.submit(QuestionInFlight(Question(text, text, **options)))  # type: ignore[arg-type]

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._ended.acquire(timeout=TIMEOUT)

    def _hand_over(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        self.handed.append((in_flight.question.question_id, evidence))
        self._ended.release()

    def _fail(self, in_flight: QuestionInFlight, error: RagdollError) -> None:
        self.failed.append(error)
        self._ended.release()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 16)
    library = Library(tmp_path)
    yield library
    library.close()


@pytest.fixture
def reads(library: Library, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.mark.parametrize("failing", range(SEALED))
def test_a_disk_that_fails_once_costs_nobody_anything(library: Library, reads: Reads, failing: int) -> None:
    [undisturbed] = library.searcher.search([Query(QUESTION)])
    assert len(reads.numbers) == SEALED
    reads.numbers.clear()
    reads.fail([failing], times=1)
    library.ask()
    library.wait()
    assert reads.fails[failing] == 0
    assert sorted(reads.numbers) == list(range(SEALED))
    assert library.store._shards.snapshot().missing == ()
    [(_, evidence)] = library.handed
    assert evidence.passages == undisturbed.passages


@pytest.mark.expects_warnings
def test_a_disk_that_fails_again_and_again_is_done_without(library: Library, reads: Reads) -> None:
    [undisturbed] = library.searcher.search([Query(QUESTION)])
    reads.numbers.clear()
    reads.fail([SEALED - 1], FOR_GOOD)
    library.ask()
    library.wait()
    [(_, evidence)] = library.handed
    assert [one.row_id for one in evidence.passages] == [one.row_id for one in undisturbed.passages]
    assert sorted(reads.numbers) == list(range(SEALED))
    assert library.store._shards.snapshot().missing == (SEALED - 1,)


@pytest.mark.expects_warnings
@pytest.mark.parametrize("failing", range(SEALED))
def test_partitions_that_were_read_before_memory_was_refused_are_not_read_again(
    library: Library, reads: Reads, failing: int
) -> None:
    [undisturbed] = library.searcher.search([Query(QUESTION)])
    reads.numbers.clear()
    reads.no_room[failing] = 1
    library.ask()
    library.wait()
    assert reads.no_room[failing] == 0
    assert sorted(reads.numbers) == list(range(SEALED))
    [(_, evidence)] = library.handed
    assert evidence.passages == undisturbed.passages


@pytest.mark.expects_warnings
def test_a_batch_of_scripts_goes_on_as_a_whole_after_memory_was_refused(library: Library, reads: Reads) -> None:
    reads.no_room[SEALED - 1] = 1
    texts = [f"Which row is called number{n} of {n}?" for n in range(ROWS)]
    # Nothing is searched before all of them wait.
    with library.store._sweeping:
        library.ask()
        for text in texts:
            library.ask(text, priority="batch")
    library.wait(1 + len(texts))
    assert library.failed == []
    assert {question_id for question_id, _ in library.handed} == {QUESTION, *texts}
    # One sweep for whoever came first, one for all the others, and nothing twice in either.
    assert sorted(reads.numbers) == sorted(2 * list(range(SEALED)))


@pytest.mark.expects_warnings
def test_memory_that_is_refused_again_and_again_ends_a_question_once(library: Library, reads: Reads) -> None:
    reads.no_room[SEALED - 1] = 99
    library.ask()
    library.wait()
    assert (len(library.failed), library.handed) == (1, [])
    reads.no_room.clear()
    library.ask("another question")
    library.wait()
    assert [question_id for question_id, _ in library.handed] == ["another question"]


@pytest.mark.expects_warnings
def test_a_person_who_goes_between_and_is_refused_memory_costs_a_script_no_reading_twice(
    library: Library, reads: Reads
) -> None:
    asked, walk = threading.Event(), type(library.store._sweeper)._walk_sealed

    def interrupted(sweeper, sweep, should_pause):
        if not asked.is_set() and len(sweep.waiting) == SEALED:
            asked.set()
            library.ask("a person")
            # Of those that the script has not read, the last is what the person meets as well.
            reads.no_room[SEALED - 1] = 1
        walk(sweeper, sweep, should_pause)

    library.store._sweeper._walk_sealed = interrupted.__get__(library.store._sweeper)  # type: ignore[method-assign]
    library.ask("a script", priority="batch")
    library.wait(2)
    assert [question_id for question_id, _ in library.handed] == ["a person", "a script"]
    assert sorted(reads.numbers) == sorted(2 * list(range(SEALED)))


def test_a_person_goes_after_the_first_of_many_confined_searches_of_scripts(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = {
        f"Which row is called number{id_} of {id_}?": Filters(paths=(f"/docs/{id_}.txt",))
        for id_ in range(1, 2 * DOCUMENTS_PER_SHARD)
    }
    undisturbed = library.searcher.search([Query(text, filters=one) for text, one in filters.items()])
    searches, by_meaning, by_words = list[object](), library.store.search, library.table.matching

    def sweep(vectors, limit, document_ids=None, *others):
        if document_ids is not None and not any(isinstance(done, frozenset) for done in searches):
            library.ask("a person")
        searches.append(document_ids if document_ids is not None else float(vectors.sum()))
        return by_meaning(vectors, limit, document_ids, *others)

    def match(text, *others):
        searches.append(text)
        return by_words(text, *others)

    monkeypatch.setattr(library.store, "search", sweep)
    monkeypatch.setattr(library.table, "matching", match)
    # Nothing is searched before all of them wait.
    with library.store._sweeping:
        library.ask()
        for text, one in filters.items():
            library.ask(text, priority="batch", filters=one)
    library.wait(2 + len(filters))
    # By meaning and by words for whoever came first, then by meaning for a script.
    assert searches[4] == "a person"
    # Each is searched for once by meaning and once by words.
    assert len(searches) == len(set(searches)) == 2 * (2 + len(filters))
    assert [question_id for question_id, _ in library.handed] == [QUESTION, "a person", *filters]
    assert [evidence.passages for _, evidence in library.handed[2:]] == [one.passages for one in undisturbed]
