"""Tests for engine.stores: the library moves to another embedding model on real tables, with models of our own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import stores, tables
from engine.catalog import Catalog
from engine.config import EmbedderSettings, Home, MemorySettings, Settings
from engine.embedder import EmbedderSpec
from engine.errors import DiskFull, EmbedderUnavailable, LibraryError
from engine.events import Event, IndexFailed
from engine.library.moving import Mover
from engine.library.runs import Runs
from engine.library.worker import IndexWorker
from engine.memory.ledger import Ledger
from engine.partitions.table import ChunkTable
from engine.phases import Phases
from engine.stores import Stores, StoresOpener
from tests.helpers.embedders import LoadedEmbedder, resolved
from tests.helpers.library import FakeParser, vector_of

HANG_SECONDS = 60


class Library:
    """A home with a worker on real tables; `model` is what the settings name."""

    def __init__(self, folder: Path) -> None:
        self.home = Home.under(folder / "home")
        self.home.create()
        self.docs = folder / "docs"
        self.docs.mkdir()
        self.model = "a"
        self.events: list[Event] = []
        self.switched = threading.Event()
        self.ledger = Ledger()
        self.open()

    def open(self) -> None:
        self.catalog = Catalog.open(self.home.library)
        self.opener = StoresOpener(self.home, self.catalog, self.settings, self.ledger, Phases(self.events.append))
        self.worker = IndexWorker(
            self.catalog, FakeParser(), self.opener, self.settings, self.events.append, moving=self.opener
        )
        switch = self.opener.switch
        self.opener.switch = lambda: (switch(), self.switched.set())  # type: ignore[method-assign,assignment]
        self.worker.start()

    def close(self) -> None:
        self.worker.stop()
        self.opener.close()
        self.catalog.close()

    def settings(self) -> Settings:
        return Settings(embedder=EmbedderSettings(model=self.model), memory=MemorySettings(index_budget_bytes=2**20))

    def nearest(self, text: str, sign: int = 1) -> str:
        opened = self.opener()
        ((found, *_),) = opened.index.search(sign * vector_of(text)[np.newaxis], 1)
        (row,) = opened.table.rows_of(found.document_id)
        return row.text

    def folders(self) -> set[str]:
        return {path.name for path in self.home.library.iterdir() if path.is_dir()}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(tables, "resolve", resolved)
    monkeypatch.setattr(stores, "Embedder", LoadedEmbedder)
    made = Library(tmp_path)
    for name in ("okapi", "zebra", "lion"):
        (made.docs / name).write_text(f"The {name} is an animal.")
    made.worker.add([str(made.docs)]).wait(HANG_SECONDS)
    yield made
    made.close()
    assert made.ledger.spans() == ()


def count_looks(opener: StoresOpener, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows whenever it is looked whether what was before is still in use."""
    looks: list[None] = []
    look_later = opener._look_later

    def look() -> None:
        looks.append(None)
        look_later()

    monkeypatch.setattr(opener, "_look_later", look)
    return looks


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(HANG_SECONDS * 100):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to be")


def test_another_model_takes_over_and_what_was_before_is_dropped(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_GRACE_SECONDS", 0.05)
    before = library.opener()
    embedder = before.embedder
    assert library.nearest("The zebra is an animal.") == "The zebra is an animal."

    library.model = "b"
    library.worker.consider_move()
    assert library.switched.wait(HANG_SECONDS)

    assert library.nearest("The zebra is an animal.", -1) == "The zebra is an animal."
    assert library.opener.state().name == "b"
    looks = count_looks(library.opener, monkeypatch)
    wait_for(lambda: len(looks) >= 2)
    assert not embedder.is_unloaded  # type: ignore[attr-defined]
    assert "lancedb" in library.folders()

    del before
    wait_for(lambda: embedder.is_unloaded)  # type: ignore[attr-defined]
    wait_for(lambda: not library.folders() & {"lancedb", "shards"} and len(library.folders()) == 2)


def test_questions_wait_for_no_index_that_ends_and_no_folder_that_is_deleted(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_GRACE_SECONDS", 0.05)
    ends, may_end, may_delete = threading.Event(), threading.Event(), threading.Event()
    before = library.opener()
    close = before.index.close

    def ends_slowly() -> None:
        ends.set()
        assert may_end.wait(HANG_SECONDS)
        close()

    def delete_slowly(folders: object, delete: Callable[..., None] = tables.delete_all) -> None:
        assert may_delete.wait(HANG_SECONDS)
        delete(folders)

    monkeypatch.setattr(before.index, "close", ends_slowly)
    monkeypatch.setattr(stores, "delete_all", delete_slowly)
    library.model = "b"
    library.worker.consider_move()
    assert library.switched.wait(HANG_SECONDS)
    del before
    assert ends.wait(HANG_SECONDS)
    assert library.nearest("The zebra is an animal.", -1) == "The zebra is an animal."
    may_end.set()
    wait_for(lambda: not library.folders() & {"lancedb", "shards"})
    assert library.nearest("The zebra is an animal.", -1) == "The zebra is an animal."
    assert len(library.folders()) == 4
    may_delete.set()
    wait_for(lambda: len(library.folders()) == 2)


@pytest.mark.expects_warnings
def test_a_table_that_does_not_open_at_the_switch_is_opened_for_the_next_job(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = library.opener()
    opened = library.opener._open
    failed = threading.Event()

    def full(embedder: object = None) -> Stores:
        monkeypatch.setattr(library.opener, "_open", opened)
        failed.set()
        raise DiskFull("The disk is full.")

    monkeypatch.setattr(library.opener, "_open", full)
    library.model = "b"
    library.worker.consider_move()
    assert failed.wait(HANG_SECONDS)
    (library.docs / "late").write_text("The rhea came late.")
    library.worker.rescan().wait(HANG_SECONDS)

    assert library.nearest("The rhea came late.", -1) == "The rhea came late."
    assert library.opener().embedder.identity == "b@1"
    assert before.table.document_ids() < library.opener().table.document_ids()
    assert [retired.table for retired in library.opener._retired] == [before.table]


def test_a_model_that_does_not_load_is_told_of_and_the_state_says_why(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(self: LoadedEmbedder, texts: object) -> np.ndarray:
        raise EmbedderUnavailable("Its weights are damaged.", "Download it again.")

    monkeypatch.setattr(LoadedEmbedder, "embed_documents", damaged)
    library.model = "b"
    library.worker.consider_move()
    wait_for(lambda: any(isinstance(event, IndexFailed) for event in library.events))
    library.worker.rescan().wait(HANG_SECONDS)

    assert [event.error.sentence for event in library.events if isinstance(event, IndexFailed)] == [
        "Its weights are damaged."
    ]
    assert library.opener.state().description == "by hash Its weights are damaged. Download it again."
    assert not library.switched.is_set()


def test_what_is_removed_goes_from_the_next_table_as_well(library: Library) -> None:
    library.worker.stop()
    assert library.opener.next() is None
    following = filled(library)
    assert len(following.table.document_ids()) == 3

    library.catalog.forget(str(library.docs / "lion"))
    library.opener.drop_removed()

    assert len(following.table.document_ids()) == 2


def filled(library: Library) -> Stores:
    """The stores of model "b", into whose table everything has been moved."""
    library.model = "b"
    following = library.opener.next()
    assert following is not None
    mover = Mover(library.catalog, library.opener().table, following.embedder, following.table)
    for _ in mover.run(threading.Event()):
        pass
    return following


@pytest.fixture
def half_moved(library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    """All is in the table of model "b" but the library has not switched, and the model has gone with its drive."""
    library.worker.stop()
    filled(library)
    library.close()
    away(monkeypatch)
    library.open()
    library.worker.rescan().wait(HANG_SECONDS)
    return library


def away(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_first(settings: EmbedderSettings) -> EmbedderSpec:
        if settings.model == "b":
            raise EmbedderUnavailable("It is not on this computer.")
        return resolved(settings)

    monkeypatch.setattr(tables, "resolve", only_the_first)


def texts_on_the_way(library: Library) -> set[str]:
    """What stands in the table that is being filled, whoever has it open."""
    following = library.catalog.next_table()
    assert following is not None
    folder = library.home.library / following.folder
    table = ChunkTable.open(folder, following.dimensions, following.identity, MemorySettings(), Ledger())
    try:
        return {row.text for document_id in table.document_ids() for row in table.rows_of(document_id)}
    finally:
        table.close()


ZEBRA, OKAPI, LION = (f"The {name} is an animal." for name in ("zebra", "okapi", "lion"))


def test_what_is_removed_goes_from_the_next_table_though_its_model_is_not_there(half_moved: Library) -> None:
    assert texts_on_the_way(half_moved) == {ZEBRA, OKAPI, LION}

    half_moved.worker.remove([str(half_moved.docs / "lion")])

    assert texts_on_the_way(half_moved) == {ZEBRA, OKAPI}


def test_what_a_look_finds_gone_or_unreadable_goes_from_the_next_table(half_moved: Library) -> None:
    (half_moved.docs / "lion").unlink()
    (half_moved.docs / "zebra").write_text("BROKEN")

    half_moved.worker.rescan().wait(HANG_SECONDS)

    assert texts_on_the_way(half_moved) == {OKAPI}


def test_what_a_look_removed_before_it_failed_goes_from_the_next_table(
    half_moved: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    (half_moved.docs / "lion").unlink()
    (half_moved.docs / "new").write_text("The rhea is new.")
    with monkeypatch.context() as patched:
        patched.setattr(Runs, "index", full_disk)
        with pytest.raises(DiskFull):
            half_moved.worker.rescan().wait(HANG_SECONDS)

    assert texts_on_the_way(half_moved) == {ZEBRA, OKAPI}


@pytest.mark.expects_warnings
def test_a_job_is_done_though_the_next_table_cannot_be_opened(
    half_moved: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    (half_moved.docs / "lion").unlink()
    (half_moved.docs / "new").write_text("The rhea is new.")
    with monkeypatch.context() as patched:
        patched.setattr(half_moved.opener, "drop_removed", cannot_be_opened)
        finished = half_moved.worker.rescan().wait(HANG_SECONDS)

    assert (finished.indexed, finished.removed) == (1, 1)
    half_moved.worker.rescan().wait(HANG_SECONDS)
    assert texts_on_the_way(half_moved) == {ZEBRA, OKAPI}


def full_disk(*arguments: object, **options: object) -> Iterator[object]:
    raise DiskFull("The disk is full.")
    yield


def cannot_be_opened() -> None:
    raise LibraryError("The index cannot be opened.", "Restore the library's folder.")


def test_a_removal_that_a_kill_kept_from_the_next_table_reaches_it_at_the_next_start(half_moved: Library) -> None:
    half_moved.worker.stop()
    half_moved.catalog.forget(str(half_moved.docs / "lion"))
    assert LION in texts_on_the_way(half_moved)
    half_moved.close()

    half_moved.open()
    half_moved.worker.rescan().wait(HANG_SECONDS)

    assert texts_on_the_way(half_moved) == {ZEBRA, OKAPI}


@pytest.mark.parametrize("model", ["a", "b"])
def test_what_was_removed_meanwhile_is_nowhere_whether_the_move_is_given_up_or_ends(
    half_moved: Library, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr(stores, "_GRACE_SECONDS", 0.05)
    half_moved.worker.remove([str(half_moved.docs / "lion")])
    monkeypatch.setattr(tables, "resolve", resolved)
    half_moved.model = model

    half_moved.worker.consider_move().wait(HANG_SECONDS)

    assert half_moved.catalog.next_table() is None
    assert half_moved.opener().embedder.identity == f"{model}@1"
    table = half_moved.opener().table
    assert {row.text for id_ in table.document_ids() for row in table.rows_of(id_)} == {ZEBRA, OKAPI}
    wait_for(lambda: len(half_moved.folders()) == 2)


def test_the_present_model_answers_until_the_move_is_over(library: Library) -> None:
    library.worker.pause()
    library.model = "b"
    library.worker.consider_move()

    assert library.nearest("The lion is an animal.") == "The lion is an animal."

    library.worker.resume()
    assert library.switched.wait(HANG_SECONDS)


def test_a_move_that_was_interrupted_goes_on_at_the_next_start(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.worker.stop()
    library.model = "b"
    following = library.opener.next()
    assert following is not None
    (first, *_) = library.catalog.ids_to_move(1)
    library.close()

    library.open()

    assert library.switched.wait(HANG_SECONDS)
    (row,) = library.opener().table.rows_of(first)
    np.testing.assert_allclose(row.vector, -vector_of(row.indexed_text), atol=1e-6)
    assert library.opener.state().next_name == ""


def test_a_library_whose_model_is_gone_moves_to_another_and_reads_what_came_meanwhile(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.close()
    gone, embed = EmbedderUnavailable("It is gone."), LoadedEmbedder.embed_documents

    def found(settings: EmbedderSettings) -> EmbedderSpec:
        if settings.model == "a":
            raise gone
        return resolved(settings)

    def embedded(self: LoadedEmbedder, texts: object) -> np.ndarray:
        if self.spec.is_gone:
            raise gone
        return embed(self, texts)

    monkeypatch.setattr(tables, "resolve", found)
    monkeypatch.setattr(LoadedEmbedder, "embed_documents", embedded)
    library.model = "b"
    (library.docs / "late").write_text("The rhea came late.")
    library.open()
    library.worker.rescan()

    assert library.switched.wait(HANG_SECONDS)
    wait_for(lambda: library.nearest("The rhea came late.", -1) == "The rhea came late.")
    assert library.nearest(ZEBRA, -1) == ZEBRA


def test_changing_back_drops_what_was_begun(library: Library) -> None:
    library.worker.pause()
    library.model = "b"
    assert library.opener.next() is not None
    assert library.opener.state().next_name == "b"
    assert library.opener.state().documents_to_move == 3
    assert any(name.startswith("lancedb-") for name in library.folders())

    library.model = "a"

    assert library.opener.next() is None
    wait_for(lambda: library.folders() == {"lancedb", "shards"})
    assert library.opener.state().description == "by hash"
