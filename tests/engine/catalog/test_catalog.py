"""Tests for engine.catalog.catalog and engine.catalog.reader."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.catalog import Catalog, Root
from engine.core import Chunk, Document, FoundFile, ReadDocument
from engine.errors import BadRequest, DocumentEmpty, DocumentNeedsOcr, NothingThere, ParserGaveUp

READ = ReadDocument("markdown", "Leases", 0, (Chunk(0, None, 0, 3, "", "abc"), Chunk(1, None, 3, 6, "", "def")))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def enter(catalog: Catalog, *paths: str, size: int = 10) -> list[Document]:
    catalog.add_documents(FoundFile(path, size, 1) for path in paths)
    return [known(catalog, path) for path in paths]


def known(catalog: Catalog, path: str) -> Document:
    document = catalog.document_by_path(path)
    assert document is not None
    return document


def index(catalog: Catalog, document: Document, embedder: str = "e") -> None:
    catalog.mark_indexed(document.document_id, FoundFile(document.path, 10, 1), f"h{document.path}", READ, embedder, 0)


def test_a_new_document_waits_to_be_read(catalog: Catalog) -> None:
    catalog.add_root("Documents", "/docs", is_folder=True, device=7)

    (document,) = enter(catalog, "/docs/a.md")

    assert (document.state, document.collections, document.size_bytes) == ("pending", ("Documents",), 10)
    assert catalog.documents_in_state("pending") == (document,)


def test_an_indexed_document_bears_what_was_read(catalog: Catalog) -> None:
    (document,) = enter(catalog, "/docs/a.md")

    catalog.mark_indexed(document.document_id, FoundFile("/docs/a.md", 99, 5), "abcd", READ, "minilm", 3)

    assert known(catalog, "/docs/a.md") == Document(
        document.document_id, (), "/docs/a.md", "indexed", "", 99, 5, "abcd", "markdown", 2, "Leases", 0, "minilm"
    )
    assert catalog.num_chunks() == catalog.num_chunks_arrived() == 2


def test_entering_a_known_path_again_changes_nothing(catalog: Catalog) -> None:
    (document,) = enter(catalog, "/docs/a.md")
    index(catalog, document)
    before = known(catalog, "/docs/a.md")

    (after,) = enter(catalog, "/docs/a.md", size=77)

    assert after == before


def test_names_that_are_not_utf8_come_back_as_they_were(catalog: Catalog) -> None:
    path = os.fsdecode(b"/docs/caf\xe9 \xff.txt")
    catalog.add_root("Documents", os.fsdecode(b"/docs"), is_folder=True, device=1)

    (document,) = enter(catalog, path)

    assert os.fsencode(document.path) == b"/docs/caf\xe9 \xff.txt"
    assert document.collections == ("Documents",)
    assert catalog.paths_of([document.document_id, 999]) == {document.document_id: path}


def test_a_file_in_two_collections_is_stored_once(catalog: Catalog) -> None:
    catalog.add_root("Work", "/docs", is_folder=True, device=1)
    catalog.add_root("Home", "/docs/lease.md", is_folder=False, device=1)

    enter(catalog, "/docs/lease.md", "/docs/lease.md2", "/docs2/x.md")

    assert catalog.documents()[1] == 3
    assert known(catalog, "/docs/lease.md").collections == ("Home", "Work")
    assert known(catalog, "/docs/lease.md2").collections == ("Work",)
    assert known(catalog, "/docs2/x.md").collections == ()
    lease = known(catalog, "/docs/lease.md").document_id
    assert catalog.document_ids_in_collection("Home") == {lease}
    assert len(catalog.document_ids_in_collection("Work")) == 2


def test_a_collection_keeps_its_spelling_and_answers_to_others(catalog: Catalog) -> None:
    catalog.add_root("Straße", "/a", is_folder=True, device=1)
    catalog.add_root("STRASSE", "/b", is_folder=True, device=1)

    assert catalog.collection_names() == ("Straße",)
    assert catalog.require_collection(" strasse ") == "Straße"
    assert [root.path for root in catalog.roots("straße")] == ["/a", "/b"]


def test_an_unknown_collection_is_refused_with_the_names_there_are(catalog: Catalog) -> None:
    with pytest.raises(NothingThere, match="The library is empty"):
        catalog.require_collection("Work")
    catalog.add_root("Home", "/a", is_folder=True, device=1)

    for ask in (catalog.require_collection, catalog.document_ids_in_collection, catalog.documents):
        with pytest.raises(NothingThere, match=r"'Work'.*There are: Home"):
            ask("Work")


def test_a_collection_without_a_name_is_refused(catalog: Catalog) -> None:
    with pytest.raises(BadRequest):
        catalog.add_root("  ", "/a", is_folder=True, device=1)


def test_documents_come_in_pages_ordered_by_path(catalog: Catalog) -> None:
    catalog.add_root("Documents", "/d", is_folder=True, device=1)
    enter(catalog, *(f"/d/{i:02}" for i in reversed(range(10))))
    index(catalog, known(catalog, "/d/03"))

    page, total = catalog.documents("documents", offset=2, limit=3)
    indexed, num_indexed = catalog.documents(states=("indexed", "failed"))

    assert ([document.path for document in page], total) == (["/d/02", "/d/03", "/d/04"], 10)
    assert ([document.path for document in indexed], num_indexed) == (["/d/03"], 1)


def test_documents_are_found_by_the_words_of_their_path_in_whatever_case(catalog: Catalog) -> None:
    enter(catalog, "/d/Lease/Übersicht 2024.pdf", "/d/Lease/notes.txt", "/d/100%.txt")
    index(catalog, known(catalog, "/d/Lease/notes.txt"))

    found, total = catalog.documents(name="u\u0308BERSICHT lease")

    assert ([document.path for document in found], total) == (["/d/Lease/Übersicht 2024.pdf"], 1)
    assert [document.path for document in catalog.documents(name="%")[0]] == ["/d/100%.txt"]
    by_state = catalog.documents_by_state(name="lease")
    assert (by_state["indexed"], by_state["pending"]) == (1, 1)


def test_documents_are_asked_for_by_their_ids_and_those_removed_are_not_among_them(catalog: Catalog) -> None:
    enter(catalog, "/d/a", "/d/b", "/d/c")
    wanted = [known(catalog, path).document_id for path in ("/d/c", "/d/a")]

    assert [d.path for d in catalog.documents(document_ids=[*wanted, 999])[0]] == ["/d/a", "/d/c"]
    assert catalog.documents(document_ids=())[1] == 0
    assert catalog.documents_by_state(document_ids=wanted)["pending"] == 2


def test_what_lies_under_a_folder_stops_at_its_slash(catalog: Catalog) -> None:
    enter(catalog, "/d/a", "/d/a/1", "/d/a/b/2", "/d/a.txt", "/d/a0", "/d/b")

    assert [document.path for document in catalog.documents_under("/d/a")] == ["/d/a", "/d/a/1", "/d/a/b/2"]
    assert len(catalog.documents_under("/")) == 6


def test_counts_name_every_state(catalog: Catalog) -> None:
    catalog.add_root("Documents", "/d", is_folder=True, device=1)
    documents = enter(catalog, "/d/1", "/d/2", "/d/3", "/d/4", "/d/5", "/elsewhere")
    index(catalog, documents[0])
    catalog.mark_unreadable(documents[1].document_id, DocumentEmpty("No text."))
    catalog.mark_unreadable(documents[2].document_id, ParserGaveUp("Too slow."))
    catalog.mark_offline([documents[3].document_id], "The drive is gone.")

    assert catalog.documents_by_state("Documents") == {
        "pending": 1, "indexed": 1, "skipped": 1, "failed": 1, "offline": 1,
    }  # fmt: skip
    assert catalog.documents_by_state()["pending"] == 2
    (collection,) = catalog.collections()
    assert (collection.name, collection.folders, collection.num_chunks) == ("Documents", ("/d",), 2)


def test_an_unreadable_document_bears_the_reason_and_no_chunks(catalog: Catalog) -> None:
    (document,) = enter(catalog, "/d/1")
    index(catalog, document)

    error = ParserGaveUp("The parser ran out of time.", "Split the file.")
    catalog.mark_unreadable(document.document_id, error, FoundFile("/d/1", 20, 30), "hash")

    failed = known(catalog, "/d/1")
    assert (failed.state, failed.reason) == ("failed", "The parser ran out of time. Split the file.")
    assert (failed.num_chunks, failed.embedder, failed.content_hash) == (0, "", "hash")
    assert (failed.size_bytes, failed.mtime_ns) == (20, 30)


def test_a_document_out_of_reach_takes_its_state_up_again(catalog: Catalog) -> None:
    good, bad = enter(catalog, "/d/1", "/d/2")
    index(catalog, good)
    catalog.mark_unreadable(bad.document_id, ParserGaveUp("Too slow."))
    before = catalog.documents()

    catalog.mark_offline([good.document_id, bad.document_id], "The drive is gone.")

    assert {(d.state, d.reason) for d in catalog.documents()[0]} == {("offline", "The drive is gone.")}
    assert catalog.documents_in_state("indexed") == ()
    catalog.mark_present([good.document_id, bad.document_id])
    assert catalog.documents() == before


def test_a_moved_document_keeps_its_id_and_state(catalog: Catalog) -> None:
    (document,) = enter(catalog, "/d/old")
    index(catalog, document)

    catalog.relocate(document.document_id, FoundFile("/d/new", 10, 9))

    moved = known(catalog, "/d/new")
    assert (moved.document_id, moved.state, moved.num_chunks) == (document.document_id, "indexed", 2)
    assert catalog.document_by_path("/d/old") is None


def test_the_id_of_a_removed_document_is_never_given_again(catalog: Catalog) -> None:
    first, last = enter(catalog, "/d/1", "/d/2")

    catalog.remove_documents([first.document_id, last.document_id])
    (fresh,) = enter(catalog, "/d/2")

    assert fresh.document_id > last.document_id
    assert catalog.documents_by_id([first.document_id, last.document_id, fresh.document_id]).keys() == {
        fresh.document_id
    }


def test_forgetting_a_root_takes_its_documents_in_every_collection(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    catalog.add_root("Home", "/d/sub", is_folder=True, device=1)
    documents = enter(catalog, "/d/1", "/d/sub/2")

    assert catalog.forget("/d") == {document.document_id for document in documents}

    assert catalog.documents() == ((), 0)
    assert catalog.roots() == ()
    assert catalog.collection_names() == ()
    assert catalog.exclusions() == frozenset()


def test_what_is_forgotten_below_a_root_is_excluded_until_it_is_added_again(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    enter(catalog, "/d/1", "/d/sub/2", "/d/sub/3")

    assert len(catalog.forget("/d/sub")) == 2

    assert catalog.exclusions() == {"/d/sub"}
    assert [document.path for document in catalog.documents()[0]] == ["/d/1"]
    catalog.add_root("Work", "/d/sub", is_folder=True, device=1)
    assert catalog.exclusions() == frozenset()
    catalog.forget("/d/sub")
    catalog.forget("/d")
    assert catalog.exclusions() == frozenset()


def test_forgetting_several_paths_is_all_or_nothing(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    catalog.add_root("Files", "/e/5", is_folder=False, device=1)
    first, *_, last = enter(catalog, "/d/1", "/d/2", "/d/3", "/e/5")

    with pytest.raises(NothingThere, match="/elsewhere"):
        catalog.forget("/d/1", "/elsewhere", "/e/5")
    assert (len(catalog.roots()), catalog.documents()[1], catalog.exclusions()) == (2, 4, frozenset())

    assert catalog.forget("/d/1", "/e/5") == {first.document_id, last.document_id}
    assert catalog.exclusions() == {"/d/1"}
    assert catalog.collection_names() == ("Work",)
    assert [document.path for document in catalog.documents()[0]] == ["/d/2", "/d/3"]


def test_what_lies_where_something_was_removed_is_noted_and_goes_along(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    enter(catalog, "/d/1", "/d/2", "/d/3")
    catalog.forget("/d/1", "/d/2", identities={"/d/1": "one"})
    assert catalog.identities_removed() == {"/d/1": "one", "/d/2": ""}

    catalog.note_exclusions({"/d/2": "two", "/d/3": "not removed"})
    catalog.move_exclusion("/d/1", "/d/a")
    catalog.move_exclusion("/d/2", "/d/b", leaves=False)
    assert catalog.identities_removed() == {"/d/a": "one", "/d/2": "two", "/d/b": "two"}

    # What was added again meanwhile is out nowhere.
    catalog.move_exclusion("/d/1", "/d/c")
    catalog.move_exclusion("/d/a", "/elsewhere")
    assert catalog.exclusions() == {"/d/2", "/d/b"}


def test_drives_are_noted_with_where_they_are_mounted(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    catalog.note_mounts({"/d/vault": "/d/vault", "/d/nas": "/mnt/nas", "/elsewhere": "/elsewhere"}, [])
    assert catalog.mounts() == {"/d/nas": "/mnt/nas", "/d/vault": "/d/vault"}

    catalog.note_mounts({"/d/nas": "/mnt/other"}, ["/d/vault"])
    assert catalog.mounts() == {"/d/nas": "/mnt/other"}


def test_the_collections_of_a_document_follow_every_change_of_the_roots(catalog: Catalog) -> None:
    def collections(path: str = "/d/1") -> tuple[str, ...]:
        return known(catalog, path).collections

    enter(catalog, "/d/1")
    assert collections() == ()
    root = catalog.add_root("Work", "/d", is_folder=True, device=1)
    assert collections() == ("Work",)
    catalog.add_root("Files", "/d/1", is_folder=False, device=1)
    assert collections() == ("Files", "Work")
    catalog.relink_root(root, "/e")
    assert collections() == ("Files",)
    catalog.relink_root(replace(root, path="/e"), "/d")
    assert collections() == ("Files", "Work")
    # It takes its roots along.
    catalog.delete_collection("Work")
    assert collections() == ("Files",)
    with catalog.transaction():
        catalog.add_root("Files", "/d", is_folder=True, device=1)
        enter(catalog, "/d/2")
        assert collections("/d/2") == ("Files",)
        catalog.forget("/d/2")
    assert collections() == ("Files",)


def test_roots_that_are_not_entered_after_all_are_no_documents_collections(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    enter(catalog, "/d/1")
    seen_elsewhere = list[tuple[str, ...]]()

    def look() -> None:
        seen_elsewhere.append(known(catalog, "/d/1").collections)

    with suppress(ZeroDivisionError), catalog.transaction():
        catalog.add_root("Files", "/d/1", is_folder=False, device=1)
        assert known(catalog, "/d/1").collections == ("Files", "Work")
        other = threading.Thread(target=look)
        other.start()
        other.join()
        raise ZeroDivisionError
    assert seen_elsewhere == [("Work",)]
    assert known(catalog, "/d/1").collections == ("Work",)


def test_roots_are_read_once_while_they_stay_as_they_are(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = catalog.add_root("Work", "/d", is_folder=True, device=1)
    (document,) = enter(catalog, "/d/1")
    num_times, roots = 0, catalog.roots

    def counted() -> tuple[Root, ...]:
        nonlocal num_times
        num_times += 1
        return roots()

    monkeypatch.setattr(catalog, "roots", counted)
    for _ in range(3):
        index(catalog, document)
        catalog.mark_surveyed(root)
        assert known(catalog, "/d/1").collections == ("Work",)
    assert num_times <= 1


def test_forgetting_what_is_not_there_is_refused(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)

    with pytest.raises(NothingThere, match="/elsewhere"):
        catalog.forget("/elsewhere")

    assert len(catalog.roots()) == 1


def test_a_deleted_collection_takes_only_what_no_other_has(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    catalog.add_root("Home", "/d/shared", is_folder=True, device=1)
    own, shared = enter(catalog, "/d/1", "/d/shared/2")

    assert catalog.delete_collection("work") == {own.document_id}

    assert known(catalog, "/d/shared/2").collections == ("Home",)
    assert catalog.document_ids_in_collection("Home") == {shared.document_id}
    with pytest.raises(NothingThere):
        catalog.delete_collection("Work")


def test_pending_documents_set_aside_keep_what_is_stored(catalog: Catalog) -> None:
    stored, _ = enter(catalog, "/d/1", "/d/2")
    index(catalog, stored)
    catalog.mark_pending([stored.document_id])

    catalog.set_pending_aside("Cancelled.")

    assert known(catalog, "/d/1").state == "indexed"
    assert (known(catalog, "/d/2").state, known(catalog, "/d/2").reason) == ("skipped", "Cancelled.")


def test_pending_documents_out_of_reach_are_not_set_aside(catalog: Catalog) -> None:
    stored, new, here = enter(catalog, "/away/1", "/away/2", "/d/3")
    index(catalog, stored)
    away = [stored.document_id, new.document_id]
    catalog.mark_pending(away)
    catalog.mark_offline(away, "Its drive is not connected.")

    catalog.set_pending_aside("Cancelled.")
    catalog.mark_present(away)

    assert [known(catalog, path).state for path in ("/away/1", "/away/2")] == ["pending", "pending"]
    assert known(catalog, here.path).state == "skipped"


def test_what_a_document_needs_is_told_again_when_its_reading_was_cancelled(catalog: Catalog) -> None:
    (scan,) = enter(catalog, "/d/1")
    catalog.mark_unreadable(scan.document_id, DocumentNeedsOcr("Its pages are pictures."))

    catalog.mark_pending([scan.document_id], forget_content=True)
    assert (known(catalog, "/d/1").needs, catalog.documents_needing("ocr")) == ("", ())
    catalog.set_pending_aside("Cancelled.")

    assert known(catalog, "/d/1").needs == "ocr"
    assert [document.document_id for document in catalog.documents_needing("ocr")] == [scan.document_id]


def test_a_document_whose_rows_are_lost_is_read_anew(catalog: Catalog) -> None:
    (document,) = enter(catalog, "/d/1")
    index(catalog, document)
    assert catalog.ids_with_rows() == {document.document_id}

    catalog.mark_lost([document.document_id])

    assert catalog.ids_with_rows() == frozenset()
    assert catalog.ids_to_read() == {document.document_id}
    assert known(catalog, "/d/1").content_hash == ""


def test_surveys_given_up_forget_roots_without_documents(catalog: Catalog) -> None:
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    catalog.add_root("Empty", "/e", is_folder=True, device=1)
    catalog.add_root("Next", "/n", is_folder=True, device=1)
    enter(catalog, "/d/1")

    catalog.give_up_surveys(keep=["/n"])

    assert [(root.path, root.is_surveyed) for root in catalog.roots()] == [("/n", False), ("/d", True)]
    assert catalog.collection_names() == ("Next", "Work")


def test_a_surveyed_root_stays_so_until_it_is_added_again(catalog: Catalog) -> None:
    root = catalog.add_root("Work", "/d", is_folder=True, device=1)

    catalog.mark_surveyed(root, device=9)

    (surveyed,) = catalog.roots()
    assert (surveyed.is_surveyed, surveyed.device) == (True, 9)
    assert not catalog.add_root("Work", "/d", is_folder=True, device=9).is_surveyed


def test_all_is_there_after_opening_again(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    catalog.add_root("Work", "/d", is_folder=True, device=1)
    (document,) = enter(catalog, "/d/1")
    index(catalog, document)
    before = (catalog.documents(), catalog.roots(), catalog.collections())
    catalog.close()

    reopened = Catalog.open(tmp_path)

    assert (reopened.documents(), reopened.roots(), reopened.collections()) == before
    reopened.close()
    reopened.close()
