"""Tests for engine.library.embedding."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from engine.core import Chunk, Document, FoundFile, ReadDocument
from engine.errors import EmbedderUnavailable
from engine.library import embedding
from engine.library.embedding import Embedded, EmbeddingStage
from engine.library.reading import Ready
from engine.library.rows import content_keys
from engine.library.windows import PORTION_CHUNKS, WINDOW_CHUNKS
from engine.partitions.rows import Vectors
from tests.helpers.library import FakeEmbedder, vector_of

HANG_SECONDS = 20


class GatedEmbedder(FakeEmbedder):
    """Lets through so many portions as it is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.begun.release()
        assert self.allowed.acquire(timeout=HANG_SECONDS)
        return super().embed_documents(texts)


def document(number: int, *texts: str) -> Ready:
    chunks = tuple(Chunk(ordinal, None, 0, len(text), "", text) for ordinal, text in enumerate(texts))
    read = ReadDocument("text", "", 0, chunks)
    of = Document(number, (), f"/d/{number}", "pending", "", 1, 0, "", "", 0)
    return Ready(of, FoundFile(of.path, 1, 0), "hash", read, content_keys(read, "fake-1"))


def lines(number: int, count: int) -> list[str]:
    return [f"{number} {line}" for line in range(count)]


class Stage:
    """A stage and the thread that carries things to and from it."""

    def __init__(self, embedder: FakeEmbedder) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.stage = EmbeddingStage(embedder, self.changed)

    def take(self) -> list[Embedded]:
        with self.changed:
            assert self.changed.wait_for(lambda: self.stage._complete or self.stage._fault, HANG_SECONDS)
        return self.stage.take(10_000)

    def taken(self) -> list[int]:
        return [one.ready.document.document_id for one in self.take()]


@pytest.fixture
def embedder() -> GatedEmbedder:
    return GatedEmbedder()


@pytest.fixture
def made(embedder: GatedEmbedder) -> Iterator[Stage]:
    made = Stage(embedder)
    with made.stage:
        yield made
        embedder.allowed.release(10_000)


def test_a_document_comes_out_with_the_vector_of_each_text(made: Stage, embedder: GatedEmbedder) -> None:
    embedder.allowed.release()
    made.stage.put(document(1, "one", "two", "one"), {})

    (one,) = made.take()

    assert [key in one.vectors for key in one.ready.keys] == [True] * 3
    np.testing.assert_array_equal(one.vectors[one.ready.keys[1]], vector_of("two"))
    assert embedder.calls == [2]


def test_what_is_known_is_not_embedded(made: Stage, embedder: GatedEmbedder) -> None:
    ready = document(1, "one", "two")
    made.stage.put(ready, {key: vector_of("stored") for key in ready.keys})

    (one,) = made.take()

    assert embedder.texts == []
    assert all(np.array_equal(vector, vector_of("stored")) for vector in one.vectors.values())


def test_a_text_of_two_documents_is_embedded_once_even_before_the_first_is_written(
    made: Stage, embedder: GatedEmbedder
) -> None:
    embedder.allowed.release()
    made.stage.put(document(1, "same"), {})
    first = made.take()
    made.stage.put(document(2, "same"), {})
    second = made.take()

    made.stage.release(first)
    made.stage.release(second)

    assert embedder.texts == ["same"]
    assert made.stage._vectors == {}


def test_a_small_document_is_done_long_before_a_huge_one_that_came_first(made: Stage, embedder: GatedEmbedder) -> None:
    made.stage.put(document(1, *lines(1, 10 * WINDOW_CHUNKS)), {})
    assert embedder.begun.acquire(timeout=HANG_SECONDS)
    made.stage.put(document(2, "short"), {})
    embedder.allowed.release(2 * WINDOW_CHUNKS // PORTION_CHUNKS)

    assert made.taken() == [2]


def test_an_urgent_document_is_next(made: Stage, embedder: GatedEmbedder) -> None:
    made.stage.put(document(1, *lines(1, 200)), {})
    for _ in range(2):
        assert embedder.begun.acquire(timeout=HANG_SECONDS)
    made.stage.put(document(2, *lines(2, 200)), {})
    made.stage.put(document(3, "urgent"), {})
    made.stage.hurry(frozenset({3}))
    # The two portions that the model is at, and the next two.
    embedder.allowed.release(4)

    assert made.taken() == [3]


def test_partial_progress_is_told_once(made: Stage, embedder: GatedEmbedder) -> None:
    made.stage.put(document(1, *lines(1, 2 * PORTION_CHUNKS)), {})
    embedder.allowed.release()
    with made.changed:
        assert made.changed.wait_for(lambda: made.stage.has_news, HANG_SECONDS)

    assert [(ready.document.document_id, count) for ready, count in made.stage.advanced()] == [(1, PORTION_CHUNKS)]
    assert made.stage.advanced() == []


def test_a_held_stage_begins_nothing_until_it_goes_on(made: Stage, embedder: GatedEmbedder) -> None:
    embedder.allowed.release(10)
    made.stage.hold(True)
    made.stage.put(document(1, "one"), {})
    assert not embedder.begun.acquire(timeout=0.05)

    made.stage.hold(False)

    assert made.taken() == [1]


def test_there_is_room_until_enough_waits_and_a_huge_document_takes_none_of_it(
    made: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "MAX_CHUNKS_WAITING", 100)
    made.stage.put(document(1, *lines(1, 2 * WINDOW_CHUNKS)), {})
    assert made.stage.has_room
    made.stage.put(document(2, *lines(2, 60)), {})
    assert made.stage.has_room
    made.stage.put(document(3, *lines(3, 60)), {})
    assert not made.stage.has_room


def test_what_is_urgent_has_room_of_its_own_until_enough_of_it_waits(
    made: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "MAX_CHUNKS_WAITING", 100)
    made.stage.put(document(1, *lines(1, 100)), {})
    assert not made.stage.has_room
    made.stage.put(document(2, *lines(2, 60)), {}, is_urgent=True)
    assert made.stage.has_urgent_room
    known = document(3, *lines(3, 60))
    made.stage.put(known, {key: vector_of("stored") for key in known.keys}, is_urgent=True)
    assert not made.stage.has_urgent_room


def test_what_is_complete_but_not_written_slows_the_reader_too(made: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "MAX_CHUNKS_WAITING", 2)
    ready = document(1, "one", "two")
    made.stage.put(ready, {key: vector_of("stored") for key in ready.keys})

    assert not made.stage.has_room
    made.take()
    assert made.stage.has_room


def test_a_fault_is_raised_after_what_was_complete_before_it(made: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = document(1, "one")
    made.stage.put(ready, {key: vector_of("stored") for key in ready.keys})
    monkeypatch.setattr(made.stage, "_embedder", object())
    made.stage.put(document(2, "two"), {})
    with made.changed:
        assert made.changed.wait_for(lambda: made.stage._fault, HANG_SECONDS)

    assert made.taken() == [1]
    with pytest.raises(AttributeError):
        made.stage.take(1)


def test_two_portions_are_under_way_at_once_and_no_text_twice(made: Stage, embedder: GatedEmbedder) -> None:
    made.stage.put(document(1, *lines(1, 3 * PORTION_CHUNKS)), {})
    for _ in range(2):
        assert embedder.begun.acquire(timeout=HANG_SECONDS)
    # What is urgent opens another window, in which nothing is that the model is at.
    made.stage.put(document(2, *lines(2, PORTION_CHUNKS + 1)), {}, is_urgent=True)
    made.stage.put(document(3, *lines(1, 2)), {})
    embedder.allowed.release(10_000)
    taken: list[int] = []
    while len(taken) < 3:
        taken += made.taken()
    assert sorted(embedder.texts) == sorted([*lines(1, 3 * PORTION_CHUNKS), *lines(2, PORTION_CHUNKS + 1)])
    assert made.stage.is_empty


def test_a_failure_ends_both_threads(made: Stage, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(texts: Sequence[str]) -> Vectors:
        raise EmbedderUnavailable("The model is gone.")

    monkeypatch.setattr(embedder, "embed_documents", fail)
    made.stage.put(document(1, *lines(1, 3 * PORTION_CHUNKS)), {})
    with pytest.raises(EmbedderUnavailable):
        made.take()
    for thread in made.stage._threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def test_closing_leaves_no_thread(embedder: GatedEmbedder) -> None:
    with EmbeddingStage(embedder) as stage:
        stage.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "embedding"]


def test_what_batches_leave_in_the_heap_is_given_back_once_in_a_while_and_at_the_end(
    made: Stage, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[int] = []
    monkeypatch.setattr(embedding, "trim_heap", lambda: trimmed.append(len(embedder.texts)))
    monkeypatch.setattr(embedding, "UNTIDY_CHUNKS", WINDOW_CHUNKS)

    made.stage.put(document(1, *lines(1, WINDOW_CHUNKS)), {})
    made.stage.put(document(2, *lines(2, WINDOW_CHUNKS + PORTION_CHUNKS)), {})
    embedder.allowed.release(10_000)
    taken: list[int] = []
    while len(taken) < 2:
        taken += made.taken()
    made.stage.close()
    made.stage.close()

    assert trimmed.pop() == 2 * WINDOW_CHUNKS + PORTION_CHUNKS
    # The other thread may be a portion ahead by then.
    late = [num_embedded - turn * WINDOW_CHUNKS for turn, num_embedded in enumerate(trimmed, start=1)]
    assert len(late) == 2
    assert all(0 <= num_chunks <= PORTION_CHUNKS for num_chunks in late)
