"""Tests for engine.library.flow: how much is read and embedded ahead of what comes behind."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence

import pytest

from engine.events import IndexFinished, IndexProgressed
from engine.library import embedding, flow, read_ahead
from engine.library.jobs import IndexRoots
from engine.partitions.rows import ChunkRow, Vectors
from tests.helpers.indexing import SmallLibrary

HANG_SECONDS = 30
MAX_AHEAD, MAX_WAITING, WINDOW = 8, 8, 4
NUM_DOCUMENTS = 60
# What a stage lacks of its bound when it takes something in, it may exceed it by.
MOST_IN_THE_STAGE = MAX_WAITING - 1 + WINDOW
MOST_READ = MAX_AHEAD + MOST_IN_THE_STAGE
# Nothing moves any more once so many steps, of which each waits for news, have brought none.
QUIET_STEPS = 5

Steps = Generator[IndexProgressed, None, IndexFinished]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Closed until the test opens it, or is over."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def many(library: SmallLibrary, monkeypatch: pytest.MonkeyPatch) -> SmallLibrary:
    """Documents of one chunk each, and bounds of a few of them."""
    monkeypatch.setattr(read_ahead, "MAX_CHUNKS_AHEAD", MAX_AHEAD)
    monkeypatch.setattr(embedding, "MAX_CHUNKS_WAITING", MAX_WAITING)
    monkeypatch.setattr(flow, "WINDOW_CHUNKS", WINDOW)
    for number in range(NUM_DOCUMENTS):
        library.write(f"{number:02}.md", f"line {number}")
    return library


def begun(library: SmallLibrary) -> Steps:
    docs = str(library.docs)
    library.catalog.add_root("Documents", docs, True, library.docs.stat().st_dev)
    return library.indexer.run(IndexRoots((docs,)), threading.Event())


def run_until_quiet(steps: Steps, counted: Sequence[object], enough: int) -> None:
    """Goes on until `enough` are counted, and then until no more come."""
    for _ in range(int(HANG_SECONDS / 0.1)):
        if len(counted) >= enough:
            break
        next(steps)
    for _ in range(QUIET_STEPS):
        next(steps)


def run_out(steps: Steps) -> IndexFinished:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            finished: IndexFinished = end.value
            return finished


def test_no_more_is_read_than_an_embedder_that_stands_still_leaves_room_for(
    many: SmallLibrary, gate: threading.Event
) -> None:
    embed = many.stores.embedder.embed_documents

    def embed_when_allowed(texts: Sequence[str]) -> Vectors:
        assert gate.wait(HANG_SECONDS)
        return embed(texts)

    many.stores.embedder.embed_documents = embed_when_allowed  # type: ignore[method-assign]
    steps = begun(many)
    run_until_quiet(steps, many.parser.paths_read, enough=MAX_AHEAD + MAX_WAITING)

    assert MAX_AHEAD + MAX_WAITING <= len(many.parser.paths_read) <= MOST_READ
    assert many.stores.table.rows == {}
    gate.set()
    assert run_out(steps).indexed == NUM_DOCUMENTS


def test_no_more_is_embedded_than_a_table_that_stands_still_leaves_room_for(
    many: SmallLibrary, gate: threading.Event
) -> None:
    put = many.stores.table.put_documents
    began = threading.Event()

    def put_when_allowed(documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        began.set()
        assert gate.wait(HANG_SECONDS)
        put(documents)

    many.stores.table.put_documents = put_when_allowed  # type: ignore[method-assign]
    ended: list[IndexFinished] = []
    job = threading.Thread(target=lambda: ended.append(run_out(begun(many))), daemon=True)
    job.start()
    assert began.wait(HANG_SECONDS)
    # The job's own thread stands at the table: what is read and embedded meanwhile stays within the bounds.
    num_embedded, num_read = settled(many.stores.embedder.texts), settled(many.parser.paths_read)
    gate.set()
    job.join(HANG_SECONDS)

    assert num_embedded <= MOST_IN_THE_STAGE
    assert num_read <= num_embedded + MOST_READ
    assert [finished.indexed for finished in ended] == [NUM_DOCUMENTS]


def settled(counted: Sequence[object]) -> int:
    """How many there are once no more come."""
    num_before = -1
    while num_before != len(counted):
        num_before = len(counted)
        threading.Event().wait(0.3)
    return num_before
