"""Tests for engine.partitions.recovery and what is safe on the disk: no power cut costs more than the last moments."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from engine.config import MemorySettings
from engine.errors import EmbedderMismatch, LibraryError
from engine.memory.ledger import Ledger
from engine.partitions.table import ChunkTable
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, chunk_row


def open_table(folder: Path, settings: MemorySettings | None = None) -> ChunkTable:
    return ChunkTable.open(folder, DIMENSIONS, IDENTITY, settings or MemorySettings(), Ledger())


def put(table: ChunkTable, document_id: int) -> None:
    table.put_document(document_id, [chunk_row(document_id, ordinal, f"Lemon {ordinal}.") for ordinal in range(3)])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Those of a table to which documents 1 to 4 were added, and from which the first one was removed at last."""
    table = open_table(tmp_path)
    put(table, 1)
    put(table, 2)
    table.optimize()
    put(table, 3)
    put(table, 4)
    table.delete_documents([1])
    table.close()
    return tmp_path / "chunks.lance"


def newest(folder: Path, pattern: str = "*") -> Path:
    return max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


LOSSES = [emptied, zeroed, Path.unlink]


def check_whole(folder: Path, documents: set[int]) -> None:
    """Opened again and again it has these, takes in more, and can be tidied up."""
    for _ in range(2):
        table = open_table(folder)
        assert table.set_aside == ()
        assert table.document_ids() == documents
        assert {found.document_id for found in table.matching("lemon", 50)} == documents
        table.close()
    table = open_table(folder)
    put(table, 9)
    table.delete_documents([2])
    table.optimize()
    assert table.document_ids() == documents - {2} | {9}
    table.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_file_of_rows_costs_what_was_written_since(files: Path, lose: Callable[[Path], None]) -> None:
    lose(newest(files / "data"))
    check_whole(files.parent, {1, 2, 3})


@pytest.mark.expects_warnings
@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_file_of_deletions_costs_the_removal(files: Path, lose: Callable[[Path], None]) -> None:
    lose(newest(files / "_deletions"))
    check_whole(files.parent, {1, 2, 3, 4})


@pytest.mark.expects_warnings
@pytest.mark.parametrize("lose", [emptied, zeroed])
def test_a_lost_manifest_costs_its_version(files: Path, lose: Callable[[Path], None]) -> None:
    lose(newest(files / "_versions", "*.manifest"))
    check_whole(files.parent, {1, 2, 3, 4})


@pytest.mark.expects_warnings
def test_manifest_and_rows_may_be_lost_together(files: Path) -> None:
    emptied(newest(files / "_versions", "*.manifest"))
    emptied(newest(files / "data"))
    check_whole(files.parent, {1, 2, 3})


@pytest.mark.expects_warnings
def test_a_lost_manifest_of_before_costs_nothing(files: Path) -> None:
    emptied(sorted((files / "_versions").glob("*.manifest"))[2])
    check_whole(files.parent, {2, 3, 4})


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM, errno.EACCES])
def test_files_that_the_system_does_not_give_now_are_not_lost(
    files: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        with pytest.raises(LibraryError, match=re.escape(os.strerror(number))):
            open_table(files.parent)
    check_whole(files.parent, {2, 3, 4})


@pytest.mark.expects_warnings
@pytest.mark.parametrize("folder", ["data", "_versions"])
def test_a_table_that_went_back_has_no_number_that_it_had_before(files: Path, folder: str) -> None:
    before = open_table(files.parent)
    version = before.version
    before.close()
    emptied(newest(files / folder, "*.[lm]an*"))
    table = open_table(files.parent)
    assert table.version > version
    table.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("kind", ["page_data", "page_lookup", "metadata", "*_tokens", "*_invert", "*_docs", "*"])
@pytest.mark.parametrize("lose", LOSSES)
def test_lost_files_of_indices_are_made_anew_at_the_start(files: Path, lose: Callable[[Path], None], kind: str) -> None:
    lost = [*(files / "_indices").glob(f"*/{kind}.lance")]
    assert lost
    for file in lost:
        lose(file)
    check_whole(files.parent, {2, 3, 4})


@pytest.mark.expects_warnings
@pytest.mark.parametrize(
    "use",
    [
        lambda table: table.matching("lemon", 5),
        lambda table: table.rows_of(3),
        lambda table: table.delete_documents([2]),
        lambda table: table.put_document(3, [chunk_row(3, 0, "New.")]),
    ],
)
def test_missing_files_of_indices_are_made_anew_when_they_are_missed(
    files: Path, use: Callable[[ChunkTable], object]
) -> None:
    # Nothing of an index stays in memory.
    table = open_table(files.parent, MemorySettings(lance_index_cache_bytes=0))
    shutil.rmtree(files / "_indices")
    use(table)
    assert table.matching("lemon", 5)
    assert len(table.rows_of(4)) == 3
    table.close()


@pytest.mark.expects_warnings
def test_a_loss_is_told_of_until_somebody_makes_up_for_it(files: Path) -> None:
    emptied(newest(files / "data"))
    with pytest.raises(EmbedderMismatch):
        ChunkTable.open(files.parent, DIMENSIONS, "another model", MemorySettings(), Ledger())
    told = set[int | None]()
    for _ in range(2):
        table = open_table(files.parent)
        told.add(table.went_back_to_ns)
        table.close()
    assert len(told) == 1
    assert None not in told
    table.forget_loss()
    table = open_table(files.parent)
    assert table.went_back_to_ns is None
    table.close()


class Listening:
    """Hears of changes, and notes what was safe on the disk by then."""

    def __init__(self, files: Path, safe: set[int]) -> None:
        self._files, self._safe = files, safe
        self.unsafe: list[Path] = []

    def put(self, documents: object) -> None:
        folders = [self._files / name for name in ("data", "_deletions", "_versions", "_indices")]
        there = [
            file for folder in folders for file in folder.rglob("*") if file.suffix in (".lance", ".arrow", ".manifest")
        ]
        self.unsafe += [file for file in there if file.stat().st_ino not in self._safe]

    delete = put

    def optimized(self) -> None:
        self.put({})


def test_what_was_written_is_safe_before_anybody_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safe, sync = set[int](), os.fsync

    def noting(descriptor: int) -> None:
        safe.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    table = open_table(tmp_path)
    listening = Listening(tmp_path / "chunks.lance", safe)
    table.follow(listening)
    put(table, 1)
    put(table, 2)
    table.delete_documents([1])
    table.optimize()
    for number in range(3, 6):
        put(table, number)
    table.optimize()
    table.forget_removed()
    table.close()
    assert listening.unsafe == []
    assert (tmp_path / "chunks.lance" / "_versions").stat().st_ino in safe


def test_each_commit_makes_durable_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = open_table(tmp_path)
    put(table, 1)
    synced, counts = list[int](), list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    for number in range(2, 12):
        put(table, number)
        counts.append(len(synced))
        synced.clear()
    assert len(set(counts)) == 1
    table.close()
