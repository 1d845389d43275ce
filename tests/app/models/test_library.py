"""Tests for app.models.library and app.models.documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from app.models.documents import CHUNKS, NAME, PAGE_ROWS, REASON, SIZE, STATE, DocumentsTable
from app.models.library import LibraryModel
from engine import protocol
from engine.protocol import Collection, Document


def document(number: int, **changes) -> Document:
    fields = {
        "document_id": number,
        "collections": ("Documents",),
        "path": f"/docs/{number:05}.md",
        "state": "indexed",
        "reason": "",
        "size_bytes": 1000 + number,
        "mtime_ns": 0,
        "content_hash": "",
        "format": "markdown",
        "num_chunks": 3,
    }
    return Document(**{**fields, **changes})


def page(*documents: Document, total: int | None = None) -> protocol.DocumentsReply:
    return protocol.DocumentsReply(documents=documents, total=len(documents) if total is None else total)


def progress(**changes) -> protocol.IndexProgress:
    return protocol.IndexProgress(**{"documents_done": 1, "documents_total": 4, "chunks_done": 9, **changes})


def finished() -> protocol.IndexFinished:
    return protocol.IndexFinished(indexed=4, unchanged=0, removed=0, skipped=(), failed=(), chunks=9, seconds=1.0)


@pytest.fixture
def library(client) -> LibraryModel:
    made = LibraryModel(client)
    made.documents.set_shown(True)
    return made


@pytest.fixture
def table(client) -> DocumentsTable:
    made = DocumentsTable(client)
    made.set_shown(True)
    made.tester = QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Fatal)
    return made


def names(table: DocumentsTable) -> list[str]:
    return [table.index(row, NAME).data() for row in range(table.rowCount())]


def test_a_ready_engine_is_asked_for_everything(library, client):
    assert not library.is_known
    client.become_ready()
    flat = Collection("Flat", ("/flat",), {"indexed": 3, "failed": 1}, 40)
    client.answer(protocol.LIBRARY, protocol.LibraryReply(collections=(flat,), disk_bytes=7, num_documents=4))
    client.answer(protocol.DOCUMENTS, page(document(9, state="failed", reason="It is encrypted.")))
    client.answer(protocol.DOCUMENTS, page(document(1)))
    assert library.is_known
    assert library.collections == (flat,)
    assert (library.disk_bytes, library.num_documents) == (7, 4)
    assert [problem.reason for problem in library.problems] == ["It is encrypted."]
    assert client.asked(protocol.DOCUMENTS)[0].states == ("failed", "skipped")
    assert names(library.documents) == ["00001.md"]


def test_documents_are_requested_only_once_their_table_is_shown(client):
    library = LibraryModel(client)
    client.become_ready()
    library.documents.show("Flat")
    assert all(wanted.states == ("failed", "skipped") for wanted in client.asked(protocol.DOCUMENTS))
    library.documents.set_shown(True)
    listed = client.asked(protocol.DOCUMENTS)[-1]
    assert (listed.collection, listed.states) == ("Flat", ())


def test_added_paths_are_absolute_and_go_to_the_default_collection(library, client, monkeypatch, tmp_path, qtbot):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    with qtbot.wait_signal(library.paths_added) as added:
        library.add(["notes", "~/lease.pdf", Path("/x")])
    paths = (str(tmp_path / "notes"), "/home/me/lease.pdf", "/x")
    assert client.asked(protocol.ADD) == [protocol.AddPaths(paths=paths, collection="Documents")]
    assert added.args == [paths, "Documents"]
    library.add([])
    library.add(["/y"], "Flat")
    assert [params.collection for params in client.asked(protocol.ADD)] == ["Documents", "Flat"]


def test_what_is_to_be_read_first_is_asked_for_once_the_engine_knows_it(library, client):
    assert library.add(["/docs/../a.pdf"], is_first=True) == ("/a.pdf",)
    assert library.is_entering("/a.pdf")
    assert client.asked(protocol.PRIORITISE) == []
    client.answer(protocol.ADD, protocol.Nothing())
    assert not library.is_entering("/a.pdf")
    assert client.asked(protocol.PRIORITISE) == [protocol.Paths(paths=("/a.pdf",))]
    library.add(["/b.pdf"])
    client.answer(protocol.ADD, protocol.Nothing())
    assert len(client.asked(protocol.PRIORITISE)) == 1


def test_paths_that_the_engine_does_not_take_are_told_to_whoever_added_them(library, client):
    refused = []
    library.add(["/a.pdf"], is_first=True, on_refused=refused.append)
    library.add(["/b.pdf"])
    for _ in range(2):
        client.refuse(protocol.ADD, "That is not there.", "NothingThere", "Look again.")
    assert refused == [("/a.pdf",)]
    assert not library.is_entering("/a.pdf")


@pytest.mark.parametrize(
    ("wish", "method"),
    [
        (lambda library: library.add(["/x"]), protocol.ADD),
        (lambda library: library.remove(["/x"]), protocol.REMOVE),
        (lambda library: library.reindex(["/x"]), protocol.REINDEX),
        (lambda library: library.pause(), protocol.PAUSE),
        (lambda library: library.resume(), protocol.RESUME),
        (lambda library: library.cancel(), protocol.CANCEL_INDEXING),
    ],
)
def test_a_wish_that_is_refused_is_told_with_its_way_out(library, client, qtbot, wish, method):
    wish(library)
    with qtbot.wait_signal(library.request_failed) as failed:
        client.refuse(method, "That is not there.", "NothingThere", "Look again.")
    assert failed.args == ["That is not there.", "Look again."]


def test_after_removing_the_lists_are_asked_for_again(library, client, qtbot):
    library.remove(["/x"])
    with qtbot.wait_signal(library.documents_removed) as removed:
        client.answer(protocol.REMOVE, protocol.Removed(documents=2))
    assert removed.args == [2]
    assert len(client.asked(protocol.LIBRARY)) == 1


def test_progress_is_shown_until_the_job_is_over(library, client, qtbot):
    client.tell(progress())
    assert library.progress == progress()
    with qtbot.wait_signal(library.job_finished) as over:
        client.tell(finished())
    assert over.args == [finished()]
    assert library.progress is None
    assert len(client.asked(protocol.LIBRARY)) == 1


def test_a_job_that_fails_is_told(library, client, qtbot):
    client.tell(progress())
    with qtbot.wait_signal(library.request_failed) as failed:
        client.tell(protocol.IndexFailed(kind="DiskFull", sentence="The disk is full.", way_out="Free some."))
    assert failed.args == ["The disk is full.", "Free some."]
    assert library.progress is None


def test_a_dead_engine_has_no_progress(library, client):
    client.tell(progress())
    client.die()
    assert library.progress is None


def test_a_death_in_the_middle_of_a_refresh_is_no_second_message(library, client, qtbot):
    client.become_ready()
    with qtbot.assert_not_emitted(library.request_failed):
        client.die()
    client.become_ready()
    assert len(client.asked(protocol.LIBRARY)) == 2
    assert len(client.asked(protocol.DOCUMENTS)) == 4


def test_many_changes_are_one_refresh(library, client, qtbot):
    for _ in range(50):
        client.tell(protocol.LibraryChanged())
    assert client.asked(protocol.LIBRARY) == []
    qtbot.wait_until(lambda: len(client.asked(protocol.LIBRARY)) == 1)


def test_an_engine_that_answers_slowly_is_not_asked_again_before_it_has(library, client, qtbot):
    client.become_ready()
    for _ in range(3):
        library.refresh()
    assert len(client.asked(protocol.LIBRARY)) == 1
    client.answer(protocol.LIBRARY, protocol.LibraryReply(collections=(), disk_bytes=0))
    qtbot.wait_until(lambda: len(client.asked(protocol.LIBRARY)) == 2)
    client.refuse(protocol.LIBRARY, "The catalogue is damaged.", "CatalogBroken", "")
    library.refresh()
    assert len(client.asked(protocol.LIBRARY)) == 3


# --- documents ---


def test_documents_are_fetched_as_they_are_scrolled_to(table, client):
    table.show("Flat")
    total = PAGE_ROWS + 2
    client.answer(protocol.DOCUMENTS, page(*(document(n) for n in range(PAGE_ROWS)), total=total))
    assert (table.rowCount(), table.total) == (PAGE_ROWS, total)
    assert table.canFetchMore(QModelIndex())
    table.fetchMore(QModelIndex())
    assert not table.canFetchMore(QModelIndex())
    wanted = client.asked(protocol.DOCUMENTS)[-1]
    assert (wanted.collection, wanted.offset, wanted.limit) == ("Flat", PAGE_ROWS, PAGE_ROWS)
    client.answer(protocol.DOCUMENTS, page(document(PAGE_ROWS), document(PAGE_ROWS + 1), total=total))
    assert table.rowCount() == total
    assert not table.canFetchMore(QModelIndex())


def test_a_refresh_keeps_what_stayed_and_asks_for_all_that_is_loaded(table, client, qtbot):
    table.show(None)
    client.answer(protocol.DOCUMENTS, page(document(1), document(3)))
    table.refresh()
    with qtbot.wait_signals([table.rowsInserted, table.dataChanged]):
        client.answer(protocol.DOCUMENTS, page(document(1), document(2), document(3, state="failed", reason="Broken.")))
    assert names(table) == ["00001.md", "00002.md", "00003.md"]
    assert table.index(2, REASON).data() == "Broken."


def test_a_refresh_asked_for_while_fetching_comes_after_it(table, client):
    table.show(None)
    table.refresh()
    table.refresh()
    assert len(client.asked(protocol.DOCUMENTS)) == 1
    client.answer(protocol.DOCUMENTS, page(document(1)))
    assert len(client.asked(protocol.DOCUMENTS)) == 2
    client.answer(protocol.DOCUMENTS, page(document(1)))
    assert len(client.asked(protocol.DOCUMENTS)) == 2


def test_a_reply_for_the_collection_before_is_not_shown(table, client):
    table.show("Flat")
    table.show("Tea")
    client.answer(protocol.DOCUMENTS, page(document(1)))
    assert table.rowCount() == 0
    client.answer(protocol.DOCUMENTS, page(document(2)))
    assert names(table) == ["00002.md"]


def test_a_document_that_moved_between_two_pages_is_not_shown_twice(table, client):
    table.show(None)
    client.answer(protocol.DOCUMENTS, page(document(1), document(2), total=3))
    table.fetchMore(QModelIndex())
    client.answer(protocol.DOCUMENTS, page(document(2), total=2))
    assert names(table) == ["00001.md", "00002.md"]


def test_cells_say_it_in_words_and_give_numbers_to_delegates(table, client):
    table.show(None)
    client.answer(protocol.DOCUMENTS, page(document(1, path="/d/na\udcefve.md", size_bytes=5 * 2**30)))
    cells = [table.index(0, column).data() for column in (NAME, STATE, CHUNKS, SIZE, REASON)]
    assert cells == ["na\ufffdve.md", "indexed", "3", str(5 * 2**30), ""]
    assert table.index(0, CHUNKS).data(Qt.ItemDataRole.EditRole) == 3
    assert table.index(0, NAME).data(DocumentsTable.DOCUMENT_ROLE).document_id == 1
    assert table.headerData(STATE, Qt.Orientation.Horizontal) == "State"
