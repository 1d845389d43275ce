"""Tests for engine.partitions.salvage: one bad file of a table costs the documents in it, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.config import MemorySettings
from engine.memory.ledger import Ledger
from engine.partitions import salvage
from engine.partitions.rows import ChunkRow
from engine.partitions.table import ChunkTable
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, chunk_row

pytestmark = pytest.mark.expects_warnings
EACH = dict.fromkeys(range(1, 7), 3)


def open_table(folder: Path, identity: str = IDENTITY) -> ChunkTable:
    return ChunkTable.open(folder, DIMENSIONS, identity, MemorySettings(), Ledger())


def rows_of(document_id: int) -> list[ChunkRow]:
    return [chunk_row(document_id, ordinal, f"Lemon {ordinal} of {document_id}, 레몬.") for ordinal in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a table with documents 1 to 5, each in a file of its own, of which no older version is there any more."""
    table = open_table(tmp_path)
    for document_id in (1, 2, 3, 6, 4, 5):
        table.put_document(document_id, rows_of(document_id))
    table.delete_documents([6])
    table.close()
    manifests = sorted((tmp_path / "chunks.lance" / "_versions").glob("*.manifest"))
    for older in manifests[1:]:
        older.unlink()
    return tmp_path


def file_of(folder: Path, number: int) -> Path:
    """That of the document that was put as this one, counted from 0."""
    return sorted((folder / "chunks.lance" / "data").glob("*"), key=lambda file: file.stat().st_mtime_ns)[number]


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def taken(table: ChunkTable, wanted: dict[int, int] = EACH) -> dict[int, list[ChunkRow]]:
    return {one: rows for documents in table.rows_set_aside(wanted) for one, rows in documents.items()}


@pytest.mark.parametrize("damage", [emptied, zeroed, cut, Path.unlink])
def test_all_but_what_was_in_the_bad_file_is_salvaged_as_it_was(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(file_of(folder, 1))
    table = open_table(folder)
    assert len(table.set_aside) == 1
    assert table.document_ids() == set()

    found = taken(table)

    assert found.keys() == {1, 3, 4, 5}
    table.put_documents(found)
    for document_id in found:
        for stored, was in zip(table.rows_of(document_id), rows_of(document_id), strict=True):
            assert (stored.row_id, stored.text, stored.content_key) == (was.row_id, was.text, was.content_key)
            assert np.allclose(stored.vector, was.vector)
    assert {one.document_id for one in table.matching("lemon", 50)} == {1, 3, 4, 5}
    table.close()
    # It is there until it is dropped.
    again = open_table(folder)
    assert taken(again).keys() == found.keys()
    again.drop_set_aside()
    assert taken(again) == {}
    again.close()


def test_documents_with_fewer_rows_than_are_known_are_not_salvaged(folder: Path) -> None:
    emptied(file_of(folder, 1))
    table = open_table(folder)

    assert taken(table, {1: 3, 3: 4, 6: 3}).keys() == {1}
    table.close()


def test_a_document_of_which_a_part_is_lost_is_not_salvaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(tmp_path)
    table.put_documents({1: rows_of(1), 2: rows_of(2), 3: rows_of(3)})
    table.close()
    monkeypatch.setattr(salvage, "_PORTION", 2)
    real, calls = salvage._read, list[int]()

    def read(table: object, places: list[int]) -> list[ChunkRow]:
        calls.append(len(places))
        return [] if len(calls) == 2 else real(table, places)

    monkeypatch.setattr(salvage, "_read", read)
    found = list(salvage.salvaged(tmp_path / "chunks.lance", DIMENSIONS, IDENTITY, EACH))

    # The second portion has the end of the first document and the beginning of the second.
    assert [documents.keys() for documents in found] == [{3}]


def test_vectors_of_another_model_are_of_no_use(folder: Path) -> None:
    emptied(file_of(folder, 1))
    open_table(folder).close()
    (aside,) = folder.glob("chunks.broken-*")

    assert list(salvage.salvaged(aside, DIMENSIONS, "other@1", EACH)) == []
    assert list(salvage.salvaged(aside, DIMENSIONS + 1, IDENTITY, EACH)) == []


def test_what_an_earlier_version_set_aside_is_salvaged_as_well(folder: Path) -> None:
    emptied(file_of(folder, 1))
    open_table(folder).close()
    (aside,) = folder.glob("chunks.broken-*")
    aside.rename(aside.with_suffix(""))
    table = open_table(folder)

    assert taken(table).keys() == {1, 3, 4, 5}
    table.drop_set_aside()
    assert [*folder.glob("chunks.broken-*")] == []
    table.close()


def test_of_what_is_no_table_nothing_is_salvaged(folder: Path) -> None:
    for manifest in (folder / "chunks.lance" / "_versions").iterdir():
        manifest.unlink()
    table = open_table(folder)

    assert len(table.set_aside) == 1
    assert taken(table) == {}
    table.close()
