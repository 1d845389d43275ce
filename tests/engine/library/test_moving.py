"""Tests for engine.library.moving: to another embedding model, without reading a file again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from engine.catalog import VectorTable
from engine.config import Settings
from engine.errors import Cancelled, DiskFull, EmbedderUnavailable, RagdollError
from engine.events import Event, IndexFailed
from engine.library import moving
from engine.library.moving import AtHand, Mover
from engine.library.reserve import Reserve
from engine.library.rows import content_key
from engine.library.seams import Stores
from engine.library.windows import PORTION_CHUNKS
from engine.library.worker import IndexWorker
from engine.partitions.rows import ChunkRow, Vectors
from tests.helpers.indexing import SmallLibrary
from tests.helpers.library import FakeEmbedder, FakeStores, vector_of

HANG_SECONDS = 20
OTHER = VectorTable("lancedb-2", "fake-2", "two", 16)


class OtherEmbedder(FakeEmbedder):
    """Another model: its vectors point the other way."""

    def __init__(self) -> None:
        super().__init__(identity="fake-2")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return -super().embed_documents(texts)


def other_stores() -> FakeStores:
    return FakeStores(OtherEmbedder())


def mover(library: SmallLibrary, following: FakeStores, at_hand: AtHand | None = None) -> Mover:
    return Mover(library.catalog, library.stores.table, following.embedder, following.table, at_hand=at_hand)


def move(library: SmallLibrary, following: FakeStores) -> None:
    for _ in mover(library, following).run(threading.Event()):
        pass


def check_moved(library: SmallLibrary, following: FakeStores) -> None:
    assert following.table.document_ids() == library.catalog.ids_with_rows()
    for document_id, rows in following.table.rows.items():
        document = library.catalog.document(document_id)
        assert document is not None
        assert [row.ordinal for row in rows] == list(range(document.num_chunks))
        for row in rows:
            np.testing.assert_array_equal(row.vector, -vector_of(row.indexed_text))
            assert row.content_key == content_key(row.indexed_text, "fake-2")


def test_a_move_is_done_where_there_is_no_room_to_tidy_up(
    filled: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    following, tried = other_stores(), list[bool]()

    def refuse() -> None:
        tried.append(True)
        raise DiskFull("The disk is full.")

    monkeypatch.setattr(following.table, "optimize", refuse)
    move(filled, following)
    assert tried
    check_moved(filled, following)


@pytest.fixture
def filled(library: SmallLibrary) -> SmallLibrary:
    library.catalog.set_active_table(VectorTable("lancedb", "fake-1", "one", 16))
    for number in range(5):
        library.write(f"{number}.md", f"first {number}", f"second {number}", "common")
    library.add()
    library.catalog.begin_move(OTHER)
    library.forget_what_was_embedded()
    return library


def test_what_is_embedded_is_the_text_as_it_was_read(filled: SmallLibrary):
    following = other_stores()
    for rows in filled.stores.table.rows.values():
        said = [f"{row.text} sev\u00aden" for row in rows]
        # As a table gives them back.
        rows[:] = [
            replace(row, text=text, indexed_text=text.replace("\u00ad", ""), vector=vector_of(text))
            for row, text in zip(rows, said, strict=True)
        ]
    move(filled, following)
    for rows in following.table.rows.values():
        for row in rows:
            np.testing.assert_array_equal(row.vector, -vector_of(row.text))
            assert row.content_key == content_key(row.text, "fake-2")


def test_every_document_is_moved_from_its_stored_text_and_the_switch_is_one_step(filled: SmallLibrary) -> None:
    following = other_stores()

    assert filled.catalog.moved() == (0, 5)
    assert not filled.catalog.complete_move()
    move(filled, following)

    check_moved(filled, following)
    assert filled.parser.paths_read == filled.embedded == []
    assert len(following.embedder.texts) == 11
    assert filled.catalog.moved() == (5, 5)
    assert filled.catalog.complete_move()
    assert filled.catalog.active_table() == OTHER
    assert filled.catalog.next_table() is None
    assert {document.embedder for document in filled.catalog.documents()[0]} == {"fake-2"}


def test_a_kill_costs_what_was_being_embedded_and_nothing_else(
    filled: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "WINDOW_CHUNKS", 1)
    following = other_stores()
    steps = mover(filled, following).run(threading.Event())
    while filled.catalog.moved()[0] < 2:
        next(steps)
    steps.close()
    embedded = list(following.embedder.texts)
    filled.reopen()

    move(filled, following)

    check_moved(filled, following)
    again = following.embedder.texts[len(embedded) :]
    durable = {f"{word} {number}" for word in ("first", "second") for number in range(2)} | {"common"}
    assert not durable & set(again)


@pytest.mark.expects_warnings
@pytest.mark.parametrize("went_back", [False, True])
def test_what_the_next_table_has_lost_since_is_moved_once_more(filled: SmallLibrary, went_back: bool) -> None:
    following = other_stores()
    move(filled, following)
    assert filled.catalog.moved() == (5, 5)
    rows = following.table.rows
    if went_back:
        # Its newest files were lost, and what they held is there as it was before.
        one = min(rows)
        rows[one] = [replace(row, text="b", content_key="b", vector=vector_of("b")) for row in rows[one]]
        following.table.went_back_to_ns = 1
    else:
        # It could not be opened, and a new one was made.
        rows.clear()
    texts = len(following.embedder.texts)

    move(filled, following)

    check_moved(filled, following)
    assert following.table.went_back_to_ns is None
    assert filled.catalog.complete_move()
    # What is there already is not embedded again.
    assert (len(following.embedder.texts) < texts + 11) == went_back


def test_what_changes_goes_or_comes_during_the_move_is_not_missed(
    filled: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "WINDOW_CHUNKS", 1)
    following = other_stores()
    steps = mover(filled, following).run(threading.Event())
    while filled.catalog.moved()[0] < 2:
        next(steps)

    filled.write("0.md", "changed")
    filled.write("new.md", "new")
    (filled.docs / "1.md").unlink()
    filled.rescan()
    assert filled.catalog.moved() == (0, 5)
    for _ in steps:
        pass

    check_moved(filled, following)
    assert filled.catalog.complete_move()


def test_a_document_that_changes_while_it_is_embedded_is_moved_as_it_is_then(filled: SmallLibrary) -> None:
    following = other_stores()
    steps = mover(filled, following).run(threading.Event())
    next(steps)
    filled.write("0.md", "changed")
    filled.rescan()

    for _ in steps:
        pass

    check_moved(filled, following)


def test_each_turn_goes_on_with_the_batch_at_hand_and_embeds_nothing_twice(filled: SmallLibrary) -> None:
    filled.write("huge.md", *(f"line {number}" for number in range(5 * PORTION_CHUNKS)))
    filled.rescan()
    following, at_hand = other_stores(), AtHand()
    for turn in range(20):
        steps = mover(filled, following, at_hand).run(threading.Event())
        next(steps, None)
        steps.close()
        # A library that is busy: each time something small has come.
        filled.write(f"new {turn}.md", f"new {turn}")
        filled.rescan()
    for _ in mover(filled, following, at_hand).run(threading.Event()):
        pass

    texts = following.embedder.texts
    assert len(texts) == len(set(texts))
    assert at_hand.vectors == {}
    check_moved(filled, following)


def test_what_is_at_hand_is_one_batch_of_one_model(filled: SmallLibrary) -> None:
    following, at_hand = other_stores(), AtHand()
    path = filled.write("huge.md", *(f"line {number}" for number in range(5 * PORTION_CHUNKS)))
    filled.rescan()
    steps = mover(filled, following, at_hand).run(threading.Event())
    while len(at_hand.vectors) < 2 * PORTION_CHUNKS:
        next(steps)
    steps.close()
    path.write_text("changed")
    filled.rescan()

    next(mover(filled, following, at_hand).run(threading.Event()))

    assert len(at_hand.vectors) == 12
    mover(filled, FakeStores(FakeEmbedder(identity="fake-3")), at_hand)
    assert (at_hand.identity, at_hand.vectors, at_hand.document_ids) == ("fake-3", {}, ())


def test_progress_counts_up_to_all_documents(filled: SmallLibrary) -> None:
    steps = list(mover(filled, other_stores()).run(threading.Event()))

    assert {step.documents_total for step in steps} == {5}
    done = [step.documents_done for step in steps]
    assert done == sorted(done)


def test_a_move_can_be_stopped_and_given_up(filled: SmallLibrary) -> None:
    following, cancelled = other_stores(), threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        list(mover(filled, following).run(cancelled))
    move(filled, following)

    filled.catalog.give_up_move()

    assert filled.catalog.moved() == (0, 5)
    assert not filled.catalog.complete_move()
    assert {document.embedder for document in filled.catalog.documents()[0]} == {"fake-1"}


# --- by the worker, when nothing else waits ---


@dataclass
class Shelf:
    """A worker whose library can be moved; `wanted` is what the settings name."""

    library: SmallLibrary
    following: FakeStores = field(default_factory=other_stores)
    wanted: str = "fake-2"
    events: list[Event] = field(default_factory=list)
    fault: Exception | None = None
    reasons: list[str] = field(default_factory=list)
    num_drops: int = 0
    reserve: Reserve | None = None

    def __post_init__(self) -> None:
        self.switched = threading.Event()
        self.present: Stores = self.library.stores
        self.worker = IndexWorker(
            self.library.catalog,
            self.library.parser,
            lambda: self.present,
            Settings,
            self.events.append,
            moving=self,
            reserve=self.reserve,
        )

    def next(self) -> Stores | None:
        if self.fault is not None:
            raise self.fault
        if self.wanted == "fake-1":
            self.library.catalog.give_up_move()
            return None
        return self.following

    def switch(self) -> None:
        self.present = self.following
        self.switched.set()
        if self.fault is not None:
            raise self.fault

    def failed(self, error: EmbedderUnavailable) -> None:
        self.reasons.append(error.sentence)

    def drop_removed(self) -> None:
        self.num_drops += 1
        moving.drop_removed(self.library.catalog, self.following.table)

    def failures(self) -> list[RagdollError]:
        return [event.error for event in self.events if isinstance(event, IndexFailed)]

    def hand_over(self) -> None:
        """The library's own check is about the table that answers, and the vectors of the first model."""
        self.library.stores.table = self.present.table  # type: ignore[assignment]
        for rows in self.library.stores.table.rows.values():
            for row in rows:
                np.copyto(row.vector, vector_of(row.indexed_text))


@pytest.fixture
def shelf(filled: SmallLibrary) -> Iterator[Shelf]:
    made = Shelf(filled)
    yield made
    made.worker.stop()
    made.hand_over()


def test_the_worker_moves_by_itself_and_goes_on_with_the_other_model(shelf: Shelf) -> None:
    shelf.worker.start()
    assert shelf.switched.wait(HANG_SECONDS)
    shelf.library.write("late.md", "late")

    shelf.worker.add([str(shelf.library.docs)]).wait(HANG_SECONDS)

    assert shelf.following.embedder.texts[-1] == "late"
    assert shelf.library.embedded == []


def test_removing_a_document_takes_it_from_the_next_table_as_well(shelf: Shelf) -> None:
    shelf.library.indexer.reconcile()
    move(shelf.library, shelf.following)
    shelf.worker.start(resume=False)

    shelf.worker.remove([str(shelf.library.docs / "1.md")])

    assert len(shelf.following.table.document_ids()) == 4
    assert shelf.num_drops == 1


def test_new_documents_come_before_the_move(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "WINDOW_CHUNKS", 1)
    gate, began = threading.Event(), threading.Event()
    embed = shelf.following.embedder.embed_documents

    def embed_when_allowed(texts: Sequence[str]) -> Vectors:
        began.set()
        assert gate.wait(HANG_SECONDS)
        return embed(texts)

    shelf.following.embedder.embed_documents = embed_when_allowed  # type: ignore[method-assign]
    shelf.worker.start()
    assert began.wait(HANG_SECONDS)
    new = shelf.library.write("new.md", "new")
    job = shelf.worker.add([str(new)])
    gate.set()

    assert job.wait(HANG_SECONDS).indexed == 1
    assert shelf.library.embedded == ["new"]
    assert shelf.switched.wait(HANG_SECONDS)
    assert shelf.library.known(new).document_id in shelf.following.table.document_ids()


def test_changing_back_midway_leaves_the_library_where_it_is(shelf: Shelf) -> None:
    shelf.worker.pause()
    shelf.worker.start()
    shelf.wanted = "fake-1"
    considered = shelf.worker.consider_move()
    shelf.worker.resume()
    considered.wait(HANG_SECONDS)
    shelf.worker.stop()

    assert not shelf.switched.is_set()
    assert shelf.library.catalog.next_table() is None
    assert shelf.following.table.rows == {}


def test_a_next_model_that_is_not_there_leaves_the_library_where_it_is(shelf: Shelf) -> None:
    shelf.fault = EmbedderUnavailable("It is not on this computer.")
    shelf.worker.start()

    assert shelf.worker.rescan().wait(HANG_SECONDS).unchanged == 5
    shelf.worker.stop()

    assert not shelf.switched.is_set()
    assert shelf.failures() == []


def test_the_library_can_be_moved_to_a_folder_that_held_the_same_model_before(
    filled: SmallLibrary, tmp_path: Path
) -> None:
    following = other_stores()
    move(filled, following)
    num_embedded = len(following.embedder.texts)
    filled.catalog.give_up_move()
    filled.catalog.begin_move(OTHER)

    move(filled, following)

    assert len(following.embedder.texts) == num_embedded
    check_moved(filled, following)


def test_a_move_that_met_a_full_disk_goes_on_when_there_is_room(
    filled: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(filled.home, lambda: 2**20)
    shelf = Shelf(filled, reserve=reserve)
    free_bytes, put, full = 0, shelf.following.table.put_documents, threading.Event()
    monkeypatch.setattr(Reserve, "free_bytes", lambda self: free_bytes)
    monkeypatch.setattr(moving, "WINDOW_CHUNKS", 1)

    def put_while_there_is_room(documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        if len(shelf.following.table.rows) >= 2 and not free_bytes:
            full.set()
            raise DiskFull("The disk is full.", "Free some space.")
        put(documents)

    monkeypatch.setattr(shelf.following.table, "put_documents", put_while_there_is_room)
    shelf.worker.start()
    try:
        assert full.wait(HANG_SECONDS)
        # Behind the move, so it is over; and nothing is tried again while the disk is as it was.
        shelf.worker.rescan().wait(HANG_SECONDS)
        shelf.worker.go_on_if_there_is_room()
        assert shelf.worker.rescan().wait(HANG_SECONDS).unchanged == 5
        assert filled.catalog.moved() == (2, 5)
        assert [type(error) for error in shelf.failures()] == [DiskFull]
        embedded = len(shelf.following.embedder.texts)

        free_bytes = 2**30
        shelf.worker.go_on_if_there_is_room()
        assert shelf.switched.wait(HANG_SECONDS)
    finally:
        shelf.worker.stop()
    check_moved(filled, shelf.following)
    # Of what was moved before nothing is embedded again.
    assert len(shelf.following.embedder.texts) - embedded <= 6
    assert reserve.hold()
    shelf.hand_over()
