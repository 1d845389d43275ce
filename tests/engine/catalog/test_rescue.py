"""Tests for engine.catalog.rescue and engine.catalog.beginning: damage costs no more than the page that it hit."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import Catalog, VectorTable, database, rescue
from engine.catalog.database import Database
from engine.core import Chunk, Document, Filters, FoundFile, ReadDocument
from engine.errors import CatalogBroken

PAGE = 4096
NUM_DOCUMENTS = 200
READ = ReadDocument("markdown", "Leases", 0, (Chunk(0, None, 0, 3, "", "abc"), Chunk(1, None, 3, 6, "", "def")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A library with something in every table."""
    catalog = Catalog.open(tmp_path)
    catalog.add_root("Tea", "/docs", is_folder=True, device=7)
    catalog.add_root("Flat", "/lease.pdf", is_folder=False, device=7)
    catalog.add_documents(FoundFile(f"/docs/{'x' * 200}{number}", number, number) for number in range(NUM_DOCUMENTS))
    catalog.set_active_table(VectorTable("lancedb-b", "minilm@1", "", 16))
    documents = catalog.documents(limit=-1)[0]
    for document in documents[:150]:
        found = FoundFile(document.path, document.size_bytes, document.mtime_ns)
        catalog.mark_indexed(document.document_id, found, "hash", READ, "minilm@1", 0)
    catalog.give_password([documents[0].document_id], "sesame", remember=True)
    catalog.rename_collection("Flat", "Home")
    catalog.forget(documents[-1].path, identities={documents[-1].path: "7 12 made 5"})
    catalog.end_beginning()
    catalog.close()
    return tmp_path / "catalog.sqlite"


def damage(file: Path, *pages: int) -> None:
    content = bytearray(file.read_bytes())
    for page in pages:
        content[page * PAGE : (page + 1) * PAGE] = b"\xa5" * PAGE
    file.write_bytes(content)


def root_page(file: Path, name: str) -> int:
    """Counted from 0."""
    with closing(sqlite3.connect(file)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return int(page) - 1


def kept(file: Path) -> Path:
    (one,) = (one for one in file.parent.glob("*.set-aside-*.sqlite"))
    return one


def leaves(file: Path, table: str) -> list[int]:
    """The pages that hold the rows of a table of two levels, in their order; counted from 0."""
    content = file.read_bytes()
    page = content[root_page(file, table) * PAGE :][:PAGE]
    assert page[0] == 5, "its root is no inner page"
    num_cells = int.from_bytes(page[3:5])
    cells = [int.from_bytes(page[12 + 2 * number :][:2]) for number in range(num_cells)]
    children = [int.from_bytes(page[cell : cell + 4]) for cell in cells]
    return [child - 1 for child in (*children, int.from_bytes(page[8:12]))]


def documents(file: Path) -> dict[int, Document]:
    catalog = Catalog(Database(file))
    found = {one.document_id: one for one in catalog.documents(limit=-1)[0]}
    catalog.close()
    return found


@pytest.mark.expects_warnings
def test_of_a_page_of_documents_the_others_are_saved(file: Path) -> None:
    before, pages = documents(file), leaves(file, "documents")
    damage(file, pages[len(pages) // 2])

    catalog = Catalog(Database(file))

    after = {one.document_id: one for one in catalog.documents(limit=-1)[0]}
    assert len(before) - 20 < len(after) < len(before)
    assert after.items() <= before.items()
    assert catalog.ids_with_rows() >= {one.document_id for one in after.values() if one.num_chunks}
    assert [(root.collection, root.path, root.is_surveyed) for root in catalog.roots()] == [
        ("Home", "/lease.pdf", False),
        ("Tea", "/docs", False),
    ]
    assert catalog.active_table() == VectorTable("lancedb-b", "minilm@1", "", 16)
    assert catalog.num_chunks_arrived() == 300
    # What was removed is still known under another name.
    assert list(catalog.identities_removed().values()) == ["7 12 made 5"]
    assert catalog.require_collection("Flat") == "Home"
    assert str(kept(file)) in catalog.problem
    assert f"{len(after)} documents" in catalog.problem
    assert (file.stat().st_mode & 0o777, kept(file).stat().st_mode & 0o777) == (0o600, 0o600)
    catalog.close()
    # It is whole from now on.
    again = Catalog(Database(file))
    assert again.problem == ""
    again.close()


@pytest.mark.expects_warnings
def test_what_was_removed_stays_so_where_nobody_noted_down_what_it_was(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE exclusions DROP COLUMN identity")
        connection.execute("DELETE FROM migrations WHERE name = 'm010_names_change'")
        connection.commit()
    pages = leaves(file, "documents")
    damage(file, pages[len(pages) // 2])

    catalog = Catalog(Database(file))

    assert list(catalog.identities_removed().values()) == [""]
    catalog.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("has_index", [True, False])
def test_what_lies_between_two_damaged_pages_is_saved(
    file: Path, monkeypatch: pytest.MonkeyPatch, has_index: bool
) -> None:
    before, pages = len(documents(file)), leaves(file, "documents")
    lost = [pages[2], pages[-3]]
    if has_index:
        # It tells which there are, however far apart.
        monkeypatch.setattr(rescue, "_MOST_PROBES", 0)
    else:
        with closing(sqlite3.connect(file)) as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'documents'"
            ).fetchall()
        lost += [root_page(file, name) for (name,) in names]
    damage(file, *lost)

    catalog = Catalog(Database(file))

    assert catalog.documents(limit=-1)[1] > before - 40
    catalog.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("table", ["roots", "collections"])
def test_folders_and_collections_are_known_by_the_indices_of_their_names(file: Path, table: str) -> None:
    damage(file, root_page(file, table))

    catalog = Catalog(Database(file))

    roots = [(root.collection.casefold(), root.path, root.is_folder) for root in catalog.roots()]
    assert roots == [("home", "/lease.pdf", False), ("tea", "/docs", True)]
    assert catalog.documents("tea")[1] == catalog.documents()[1] == NUM_DOCUMENTS - 1
    catalog.close()


@pytest.mark.expects_warnings
def test_a_folder_on_a_share_that_hangs_keeps_nothing_from_being_rescued(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(file, root_page(file, "roots"))
    answers, stat = threading.Event(), os.stat
    monkeypatch.setattr(rescue, "_LOOK_SECONDS", 0.05)

    def hanging(path: str | bytes | Path, **options: Any) -> Any:
        if path == b"/docs":
            answers.wait(60)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", hanging)

    catalog = Catalog(Database(file))

    answers.set()
    assert [(root.path, root.is_folder) for root in catalog.roots()] == [("/lease.pdf", False), ("/docs", True)]
    catalog.close()


@pytest.mark.expects_warnings
def test_damage_in_an_index_alone_costs_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An index of other rows than the table has: SQLite's quick look passes it over, so it is looked at closely here.
    monkeypatch.setattr(rescue, "replace", lambda _: pytest.fail("rows were rescued"))
    faults = iter(["wrong # of entries in index"])
    real = database._configure

    def configure(connection: sqlite3.Connection) -> None:
        real(connection)
        if fault := next(faults, ""):
            raise sqlite3.DatabaseError(f"malformed: {fault}")

    monkeypatch.setattr(database, "_configure", configure)

    catalog = Catalog(Database(file))

    assert "nothing of it is lost" in catalog.problem
    assert catalog.documents()[1] == NUM_DOCUMENTS - 1
    assert not catalog.is_beginning
    catalog.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("content", [b"not a database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_of_what_is_no_catalogue_at_all_nothing_is_saved_and_all_is_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "catalog.sqlite"
    file.write_bytes(content)

    catalog = Catalog(Database(file))

    assert kept(file).read_bytes() == content
    assert "nothing can be read of it" in catalog.problem
    assert catalog.is_beginning
    catalog.close()


@pytest.mark.expects_warnings
def test_a_damaged_catalogue_of_a_newer_ragdoll_is_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as newer:
        newer.execute("INSERT INTO migrations VALUES ('m999_of_tomorrow', '2090-01-01')")
        newer.commit()
    damage(file, leaves(file, "documents")[1])
    content = file.read_bytes()

    with pytest.raises(CatalogBroken, match="newer Ragdoll"):
        Database(file)

    assert file.read_bytes() == content
    assert not [*file.parent.glob("*.set-aside-*"), *file.parent.glob("*.rescued*")]


@pytest.mark.expects_warnings
@pytest.mark.parametrize("step", ["_rescue", "_set_aside"])
def test_a_rescue_that_is_cut_off_is_made_at_the_next_start(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    damage(file, leaves(file, "documents")[1])
    real: Callable[..., object] = getattr(rescue, step)

    def cut_off(*arguments: object) -> object:
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rescue, step, cut_off)
        with pytest.raises(KeyboardInterrupt):
            Database(file)

    catalog = Catalog(Database(file))

    assert NUM_DOCUMENTS - 40 < catalog.documents()[1] < NUM_DOCUMENTS
    assert kept(file).exists()
    assert not [*file.parent.glob("*.rescued*")]
    catalog.close()


@pytest.mark.expects_warnings
def test_damage_that_only_shows_in_use_is_rescued_at_the_next_start(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE documents SET title = CAST(x'4cff' AS TEXT) WHERE size_bytes = 3")
        connection.commit()
    catalog = Catalog(Database(file))
    assert catalog.problem == ""
    with pytest.raises(CatalogBroken, match=r"damaged.*Start Ragdoll again"):
        catalog.documents(limit=-1)
    catalog.close()

    catalog = Catalog(Database(file))

    found = {one.size_bytes: one.title for one in catalog.documents(limit=-1)[0]}
    assert (len(found), found[3]) == (NUM_DOCUMENTS - 1, "L\N{REPLACEMENT CHARACTER}")
    assert "was saved" in catalog.problem
    catalog.close()
    # It is whole now.
    catalog = Catalog(Database(file))
    assert catalog.problem == ""
    catalog.close()


# --- what a lost catalogue left ---


def test_ids_of_a_lost_catalogue_are_strangers_and_never_given_again(tmp_path: Path) -> None:
    ahead = 2**53
    catalog = Catalog.open(tmp_path)
    assert catalog.is_beginning
    catalog.meet_strangers({5, ahead})
    catalog.add_documents([FoundFile("/docs/a", 1, 1)])
    (document,) = catalog.documents()[0]

    assert document.document_id > ahead
    assert catalog.strangers_among({5, ahead, document.document_id}) == {5, ahead}
    # Whoever is removed from now on is no stranger.
    catalog.meet_strangers({5, ahead, document.document_id})
    assert catalog.strangers_among({document.document_id}) == frozenset()
    catalog.end_beginning()
    assert catalog.strangers_among({5}) == frozenset()
    catalog.close()


def test_what_came_after_the_copy_that_was_put_back_is_a_stranger(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    catalog.add_documents([FoundFile("/docs/a", 1, 1), FoundFile("/docs/b", 1, 1)])
    removed, stays = (document.document_id for document in catalog.documents()[0])
    catalog.remove_documents([removed])
    catalog.end_beginning()

    catalog.meet_strangers({removed})
    assert not catalog.is_beginning
    catalog.meet_strangers({stays + 1})
    assert catalog.strangers_among({stays + 1}) == {stays + 1}
    catalog.close()


def test_a_search_is_confined_to_what_is_known_while_there_are_strangers(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    assert catalog.ids_in_scope(None, Filters()) is None
    catalog.meet_strangers({1, 2, 3})
    catalog.add_documents([FoundFile("/docs/a", 1, 1)])
    (document,) = catalog.documents()[0]
    catalog.mark_indexed(document.document_id, FoundFile("/docs/a", 1, 1), "hash", READ, "minilm@1", 0)

    assert catalog.ids_in_scope(None, Filters()) == {document.document_id}
    catalog.end_beginning()
    assert catalog.ids_in_scope(None, Filters()) is None
    catalog.close()
