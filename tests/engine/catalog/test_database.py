"""Tests for engine.catalog.database and engine.catalog.migrations."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from engine.catalog import Catalog, database
from engine.catalog.database import Database
from engine.catalog.migrations import MIGRATIONS
from engine.core import FoundFile
from engine.errors import CatalogBroken, DiskFull


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.sqlite"


def test_a_new_catalogue_is_created_and_opened_again(file: Path) -> None:
    Database(file).close()

    reopened = Database(file)

    assert [row["name"] for row in reopened.rows("SELECT name FROM migrations ORDER BY rowid")] == [
        step.__name__ for step in MIGRATIONS
    ]
    reopened.close()


def test_a_catalogue_of_a_newer_ragdoll_is_refused_and_kept(file: Path) -> None:
    Database(file).close()
    with sqlite3.connect(file) as newer:
        newer.execute("INSERT INTO migrations VALUES ('m999_of_tomorrow', '2090-01-01')")
    newer.close()

    with pytest.raises(CatalogBroken, match=r"newer Ragdoll.*update"):
        Database(file)

    assert file.exists()


def test_damage_that_is_met_in_use_is_told_with_the_way_out(file: Path) -> None:
    opened = Database(file)

    with (
        pytest.raises(CatalogBroken, match=r"damaged.*Start Ragdoll again.*untouched") as refusal,
        opened.transaction(),
    ):
        raise sqlite3.DatabaseError("database disk image is malformed")

    assert str(file) in refusal.value.sentence
    opened.close()


def test_a_disk_that_fails_is_not_taken_for_a_damaged_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(file).close()
    content = file.read_bytes()

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(database, "_configure", fail)
    with pytest.raises(CatalogBroken, match=r"disk does not let.*Check the disk"):
        Database(file)

    assert file.read_bytes() == content
    assert [*file.parent.glob("*.set-aside-*")] == []


def test_a_folder_in_the_files_place_is_told(file: Path) -> None:
    file.mkdir()

    with pytest.raises(CatalogBroken, match="cannot be opened"):
        Database(file)


def test_a_full_disk_is_told_and_nothing_of_the_transaction_stays(file: Path) -> None:
    opened = Database(file)
    with opened.transaction() as writer:
        writer.execute("CREATE TABLE notes (text TEXT)")
    pages = opened.row("PRAGMA page_count")
    assert pages is not None
    opened._writer.execute(f"PRAGMA max_page_count = {pages[0] + 2}")

    def write_much() -> None:
        with opened.transaction() as writer:
            for _ in range(100):
                writer.execute("INSERT INTO notes VALUES (?)", ("x" * 4000,))

    with pytest.raises(DiskFull, match=r"full.*Free some space"):
        write_much()

    assert opened.rows("SELECT * FROM notes") == []
    with opened.transaction() as writer:
        writer.execute("INSERT INTO notes VALUES ('fits')")
    opened.close()


def test_a_failed_migration_leaves_the_old_shape(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Database(file).close()

    def m002_half(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (a)")
        raise RuntimeError("power cut")

    from engine.catalog import migrations

    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, m002_half))
    with pytest.raises(RuntimeError):
        Database(file)
    monkeypatch.undo()

    reopened = Database(file)
    assert reopened.rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []
    reopened.close()


def test_no_id_of_a_catalogue_that_is_gone_is_given_again(tmp_path: Path) -> None:
    given = list[set[int]]()
    for name in ("first", "second"):
        catalog = Catalog(Database(tmp_path / f"{name}.sqlite"))
        catalog.add_documents(FoundFile(f"/docs/{name}{number}", 1, 1) for number in range(100))
        given.append({document.document_id for document in catalog.documents()[0]})
        catalog.close()
        time.sleep(0.2)

    assert len(given[0] | given[1]) == 200


def test_nor_is_one_that_was_given_after_the_copy_that_was_put_back(tmp_path: Path) -> None:
    file, copy = tmp_path / "catalog.sqlite", tmp_path / "copy.sqlite"
    given = list[set[int]]()
    for name in ("before", "lost", "after"):
        catalog = Catalog(Database(file))
        catalog.add_documents(FoundFile(f"/docs/{name}{number}", 1, 1) for number in range(50))
        given.append({document.document_id for document in catalog.documents()[0]})
        catalog.close()
        if name == "before":
            copy.write_bytes(file.read_bytes())
        if name == "lost":
            file.write_bytes(copy.read_bytes())
        time.sleep(0.1)

    assert given[0] < given[1]
    assert given[0] < given[2]
    assert (given[1] - given[0]).isdisjoint(given[2])


def test_what_is_not_committed_is_seen_by_the_writing_thread_alone(file: Path) -> None:
    opened = Database(file)
    seen: list[int] = []

    def look() -> None:
        seen.append(len(opened.rows("SELECT * FROM collections")))

    with opened.transaction() as writer:
        writer.execute("INSERT INTO collections (name, name_key) VALUES ('A', 'a')")
        look()
        other = threading.Thread(target=look)
        other.start()
        other.join()
    look()

    assert seen == [1, 0, 1]
    opened.close()


def test_an_inner_transaction_falls_with_the_outer_one(file: Path) -> None:
    opened = Database(file)

    def crash() -> None:
        with opened.transaction():
            with opened.transaction() as writer:
                writer.execute("INSERT INTO collections (name, name_key) VALUES ('A', 'a')")
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        crash()

    assert opened.rows("SELECT * FROM collections") == []
    opened.close()


def test_commits_are_synced_to_the_disk(file: Path) -> None:
    opened = Database(file)

    with opened.transaction() as writer:
        assert writer.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert writer.execute("PRAGMA journal_mode").fetchone()[0] == "wal"

    opened.close()


def test_faults_of_our_own_are_not_dressed_up(file: Path) -> None:
    opened = Database(file)

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        opened.rows("SELECT * FROM nowhere")

    assert database._told(sqlite3.OperationalError("no such table: nowhere"), file) is None
    opened.close()


def test_a_long_look_holds_no_other_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(path: bytes) -> str:
        begun.set()
        assert may_end.wait(30)
        return path.decode()

    monkeypatch.setattr(database, "folded", slow)
    opened = Database(file)
    looking = threading.Thread(target=opened.rows, args=("SELECT folded(x'61')",))
    looking.start()
    assert begun.wait(30)

    assert [row[0] for row in opened.rows("SELECT 1")] == [1]

    may_end.set()
    looking.join()
    opened.close()
