"""Tests for engine.partitions.table and how it is opened."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from engine.config import MemorySettings
from engine.errors import DiskFull, EmbedderMismatch, LibraryError
from engine.library.rows import row_id
from engine.memory.ledger import Ledger
from engine.partitions import reader as reader_module
from engine.partitions import table as table_module
from engine.partitions.faults import as_library_error
from engine.partitions.reader import in_documents
from engine.partitions.rows import ChunkRow, Found, Hit
from engine.partitions.schema import LAYOUT_KEY, chunk_schema, to_arrow
from engine.partitions.table import ChunkTable
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, chunk_row, hashed

ROOT = Path(__file__).resolve().parents[3]
THREADS = "Threads share state through a mutex."
BREAD = "Bread needs flour, water and a cat to watch it."


def open_table(folder: Path, ledger: Ledger | None = None, **changes: object) -> ChunkTable:
    options = {"dimensions": DIMENSIONS, "identity": IDENTITY, "settings": MemorySettings(), **changes}
    return ChunkTable.open(folder, ledger=ledger or Ledger(), **options)  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ChunkTable]:
    table = open_table(tmp_path / "lancedb")
    yield table
    table.close()


@pytest.fixture
def filled(table: ChunkTable) -> ChunkTable:
    table.put_document(1, [chunk_row(1, 0, THREADS, page=3, start=40), chunk_row(1, 1, "Ownership moves values.")])
    table.put_document(2, [chunk_row(2, 0, BREAD)])
    return table


def ids(hits: Sequence[Hit | Found]) -> list[str]:
    return [hit.row_id for hit in hits]


# --- writing -------------------------------------------------------------------------------------


def test_rows_come_back_as_they_were_put(table: ChunkTable):
    rows = [chunk_row(7, ordinal, f"Sentence {ordinal}.", page=ordinal + 1, start=9) for ordinal in range(3)]
    table.put_document(7, rows)
    found = table.rows_of(7)
    assert [(row.row_id, row.content_key, row.page, row.start, row.end, row.text) for row in found] == [
        (row.row_id, row.content_key, row.page, row.start, row.end, row.text) for row in rows
    ]
    np.testing.assert_array_equal(np.stack([row.vector for row in found]), np.stack([row.vector for row in rows]))


def test_putting_a_document_again_leaves_nothing_of_the_old_one(filled: ChunkTable):
    filled.put_document(1, [chunk_row(1, 0, "Something else.")])
    assert [row.text for row in filled.rows_of(1)] == ["Something else."]
    assert filled.count_rows() == 2
    assert filled.matching("mutex", 5) == []


def test_a_document_without_rows_is_gone(filled: ChunkTable):
    filled.put_documents({1: [], 3: [chunk_row(3, 0, "New.")]})
    assert filled.document_ids() == {2, 3}
    filled.put_document(3, [])
    assert filled.document_ids() == {2}


def test_several_documents_are_written_in_one_commit(table: ChunkTable):
    before = table._table.version
    table.put_documents({id_: [chunk_row(id_, 0, f"Document {id_}.")] for id_ in range(20)})
    assert table._table.version == before + 1
    assert table.document_ids() == set(range(20))


def test_a_row_of_another_document_is_refused(table: ChunkTable):
    with pytest.raises(ValueError, match="belongs to another document"):
        table.put_document(1, [chunk_row(2, 0, "Stray.")])
    assert table.count_rows() == 0


def test_a_vector_of_wrong_length_is_refused(table: ChunkTable):
    row = chunk_row(1, 0, "Text.")
    wrong = ChunkRow(**{name: getattr(row, name) for name in row.__slots__} | {"vector": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="no vector of 16"):
        table.put_document(1, [wrong])


def test_documents_that_follow_each_other_are_told_as_runs(table: ChunkTable):
    table.put_documents({number: [chunk_row(number, 0, f"text {number}")] for number in range(1, 13)})
    wanted = {1, 2, 3, 7, 9, 10, 11, 12, 40}
    assert in_documents(wanted) == (
        "((document_id >= 1 AND document_id <= 3) OR (document_id >= 9 AND document_id <= 12)"
        " OR document_id IN (7, 40))"
    )
    assert [in_documents(ids) for ids in ([5], [4, 5, 6, 6], [])] == [
        "document_id IN (5)",
        "(document_id >= 4 AND document_id <= 6)",
        "document_id IN ()",
    ]
    table.delete_documents(wanted)
    assert table.document_ids() == {4, 5, 6, 8}


def test_of_a_large_table_more_may_be_without_an_index(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 4)
    monkeypatch.setattr(table_module, "UNINDEXED_SHARE", 1 / 2)
    table.put_documents({number: [chunk_row(number, 0, f"text {number}")] for number in range(1, 21)})
    table.optimize()
    table.put_documents({number: [chunk_row(number, 0, f"text {number}")] for number in range(21, 30)})
    assert not table.is_optimize_due()
    table.put_documents({30: [chunk_row(30, 0, "text 30")]})
    assert table.is_optimize_due()


def test_while_more_comes_still_more_may_be_without_an_index(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    for name, value in (
        ("UNINDEXED_ROWS_LIMIT", 2),
        ("UNINDEXED_SHARE", 1 / 4),
        ("UNINDEXED_SHARE_MEANWHILE", 1 / 2),
        ("MOST_UNINDEXED_ROWS_MEANWHILE", 7),
        ("COMMITS_LIMIT", 100),
    ):
        monkeypatch.setattr(table_module, name, value)
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(8)})
    table.optimize()
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(10, 13)})
    assert (table.is_optimize_due(), table.is_optimize_due(more_comes=True)) == (True, False)
    table.put_document(13, [chunk_row(13, 0, "Row 13.")])
    assert table.is_optimize_due(more_comes=True)
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(20, 40)})
    table.optimize()
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(40, 47)})
    assert table.is_optimize_due(more_comes=True)


def test_a_run_of_many_small_commits_does_not_write_a_large_table_all_the_time(
    table: ChunkTable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_module, "COMMITS_LIMIT", 2)
    monkeypatch.setattr(table_module, "LEAST_ROWS_OF_COMMITS", 250)
    for number in range(4):
        table.put_document(number, [chunk_row(number, 0, f"Row {number}.")])
        assert table.is_optimize_due() == (number >= 1)
        assert table.is_optimize_due(more_comes=True) == (number >= 3)


@dataclass
class Tidying:
    """Watches the files of rows while a table is tidied up: `found` are those before each of LanceDB's steps."""

    table: ChunkTable
    monkeypatch: pytest.MonkeyPatch
    found: list[set[Path]] = field(default_factory=list)

    def __post_init__(self) -> None:
        optimize = self.table._table.optimize

        def watched(**options: Any) -> None:
            self.found.append(self.files())
            optimize(**options)

        self.monkeypatch.setattr(self.table._table, "optimize", watched)

    def files(self) -> set[Path]:
        return {*(self.table._files / "data").iterdir()}

    def put(self, number: int) -> None:
        ids = range(100 * number, 100 * number + 50)
        self.table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in ids})


@pytest.fixture
def tidying(table: ChunkTable, monkeypatch: pytest.MonkeyPatch) -> Tidying:
    """A table that was tidied up twice, so that a copy of all rows is kept that nobody needs."""
    tidying = Tidying(table, monkeypatch)
    for number in range(2):
        tidying.put(number)
        table.optimize()
    tidying.put(2)
    return tidying


def _versions_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_KEEP_VERSIONS", timedelta(milliseconds=1))
    time.sleep(0.002)


def test_copies_of_before_are_dropped_before_all_rows_are_written_once_more(
    tidying: Tidying, monkeypatch: pytest.MonkeyPatch
):
    before = tidying.files()
    _versions_are_old(monkeypatch)
    tidying.found.clear()
    tidying.table.optimize()
    joining = tidying.found[1]
    # What is left is what has all but the newest rows, and these, once more by themselves.
    assert len(before & joining) <= 2 < len(before)
    assert tidying.table.count_rows() == 150
    assert tidying.table._table.stats()["fragment_stats"]["num_fragments"] == 1


def test_a_table_that_there_is_no_room_to_copy_fills_no_disk_and_drops_what_nobody_needs(
    tidying: Tidying, monkeypatch: pytest.MonkeyPatch
):
    table, before = tidying.table, tidying.files()
    _versions_are_old(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(table_module.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10_000))
        for _ in range(3):
            with pytest.raises(DiskFull):
                table.optimize()
            assert len(before & tidying.files()) < len(before)
            assert len(tidying.files()) <= 3
        tidying.put(3)
        assert len(table.matching("row", 500)) == 200
    table.optimize()
    assert len(table.matching("row", 500)) == 200
    assert table._table.stats()["fragment_stats"]["num_fragments"] == 1


def _has_free(monkeypatch: pytest.MonkeyPatch, num_bytes: float) -> None:
    monkeypatch.setattr(table_module.shutil, "disk_usage", lambda folder: SimpleNamespace(free=num_bytes))


def _total_bytes(table: ChunkTable) -> int:
    statistics: Any = table._table.stats()
    return int(statistics["total_bytes"])


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_was_removed_takes_no_room_to_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reopened: bool):
    table = open_table(tmp_path)
    texts = [f"Row {number}. " + "Words and more words. " * 20 for number in range(1000)]
    table.put_documents({id_: [chunk_row(id_, 0, text)] for id_, text in enumerate(texts)})
    table.optimize()
    table.delete_documents(range(900))
    if is_reopened:
        table.close()
        table = open_table(tmp_path)
    before = table.num_bytes()
    _has_free(monkeypatch, 0.5 * _total_bytes(table))
    _versions_are_old(monkeypatch)
    for _ in ("files are written anew", "old versions are dropped"):
        table.forget_removed()
        time.sleep(0.002)
    assert table.num_bytes() < before / 2
    assert table.document_ids() == {*range(900, 1000)}
    table.close()


def test_new_rows_come_into_the_indices_where_there_is_no_room_to_join_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also after a restart, and again and again."""
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 20)
    table = open_table(tmp_path)
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(1000)})
    table.optimize()
    table.close()
    table = open_table(tmp_path)
    largest = {*(table._files / "data").iterdir()}
    for number in range(10, 15):
        ids_ = range(100 * number, 100 * number + 20)
        table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in ids_})
        _has_free(monkeypatch, 0.9 * _total_bytes(table))
        with pytest.raises(DiskFull):
            table.optimize()
        assert table_module._unindexed_rows(table._table) == 0
        assert largest <= {*(table._files / "data").iterdir()}
        assert len(table.matching("row", 2000)) == table.count_rows() == 1020 + 20 * (number - 10)
        if number == 12:
            table.close()
            table = open_table(tmp_path)
    _has_free(monkeypatch, 2 * _total_bytes(table))
    table.optimize()
    assert table._table.stats()["fragment_stats"]["num_fragments"] == 1
    assert len(table.matching("row", 2000)) == table.count_rows() == 1100
    table.close()


def test_where_there_was_no_room_it_is_due_again_when_as_much_has_come(
    table: ChunkTable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 5)
    monkeypatch.setattr(table_module, "COMMITS_LIMIT", 4)
    for number in range(5):
        table.put_document(number, [chunk_row(number, 0, f"Row {number}.")])
    assert table.is_optimize_due()
    _has_free(monkeypatch, 0)
    with pytest.raises(DiskFull):
        table.optimize()
    assert not table.is_optimize_due()
    table.put_document(6, [chunk_row(6, ordinal, f"Row {ordinal}.") for ordinal in range(4)])
    assert not table.is_optimize_due()
    table.put_document(7, [chunk_row(7, 0, "Row.")])
    assert table.is_optimize_due()
    _has_free(monkeypatch, 1e12)
    table.optimize()
    table.put_document(8, [chunk_row(8, ordinal, f"Row {ordinal}.") for ordinal in range(5)])
    assert table.is_optimize_due()


def test_new_documents_are_added_without_a_look_at_the_others(filled: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filled._table, "merge_insert", None)
    version = filled.version
    filled.put_documents({3: [chunk_row(3, 0, "New.")], 4: [chunk_row(4, 0, "Newer.")], 5: []})
    assert filled.version == version + 1
    assert filled.document_ids() == {1, 2, 3, 4}


def test_some_new_and_some_changed_documents_are_one_commit(filled: ChunkTable):
    version = filled.version
    filled.put_documents({1: [chunk_row(1, 0, "Changed.")], 3: [chunk_row(3, 0, "New.")]})
    assert filled.version == version + 1
    assert {id_: [row.text for row in filled.rows_of(id_)] for id_ in (1, 2, 3)} == {
        1: ["Changed."],
        2: [BREAD],
        3: ["New."],
    }


@pytest.mark.expects_warnings
@pytest.mark.parametrize("words", ["_indices/page_data.lance not found", "odd"])
def test_what_was_added_in_spite_of_an_error_is_not_added_twice(
    filled: ChunkTable, monkeypatch: pytest.MonkeyPatch, words: str
):
    add = filled._table.add

    def failing(rows: pa.Table) -> None:
        add(rows)
        raise RuntimeError(f"lance error: LanceError(IO): {words}")

    with monkeypatch.context() as patched:
        patched.setattr(filled._table, "add", failing)
        with suppress(LibraryError):
            filled.put_document(3, [chunk_row(3, ordinal, f"Row {ordinal}.") for ordinal in range(3)])
    filled.put_document(3, [chunk_row(3, ordinal, f"Row {ordinal}.") for ordinal in range(3)])
    assert filled.count_rows(3) == 3
    assert filled.count_rows() == 6


def test_deleted_documents_leave_no_row(filled: ChunkTable):
    filled.delete_documents([1, 99])
    assert (filled.document_ids(), filled.count_rows(1)) == ({2}, 0)
    assert ids(filled.nearest(hashed(THREADS)[None], 5)[0]) == ["2-0"]


def test_a_deletion_that_leaves_rows_is_told(filled: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filled._table, "delete", lambda where: SimpleNamespace(num_deleted_rows=0))
    with pytest.raises(LibraryError, match="2 passages of removed documents"):
        filled.delete_documents([1])


def test_vectors_are_found_again_by_content(filled: ChunkTable):
    key = chunk_row(1, 0, THREADS).content_key
    found = filled.vectors_by_content_key([key, "never seen", "quote'd"])
    assert found.keys() == {key}
    np.testing.assert_array_equal(found[key], hashed(THREADS))


def test_more_keys_than_one_lookup_takes(table: ChunkTable):
    rows = [chunk_row(1, ordinal, f"Text number {ordinal}.") for ordinal in range(1200)]
    table.put_document(1, rows)
    assert len(table.vectors_by_content_key([row.content_key for row in rows])) == 1200
    assert len(table.rows_of(1)) == 1200


def test_text_that_is_not_utf8_keeps_its_length(table: ChunkTable):
    text = "Name: \udcff\udcfe and more"
    table.put_document(1, [chunk_row(1, 0, text)])
    assert len(table.rows_of(1)[0].text) == len(text)


# --- searching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [False, True], ids=["just written", "optimized"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("mutex", ["1-0"]),
        ("MUTEXES and threading", ["1-0"]),
        ("cat", ["2-0"]),
        ("ownership flour", ["1-1", "2-0"]),
        ("北京", ["3-0"]),
        ("서울", ["3-1"]),
        ("東京", ["3-2"]),
        ("nothing of the kind", []),
    ],
)
def test_words_find_their_rows(filled: ChunkTable, is_indexed: bool, query: str, expected: list[str]):
    filled.put_document(
        3,
        [
            chunk_row(3, 0, "我们在北京学习中文。"),
            chunk_row(3, 1, "서울에서 만나요."),
            chunk_row(3, 2, "東京で会いましょう。"),
        ],
    )
    if is_indexed:
        filled.optimize()
    assert sorted(ids(filled.matching(query, 5))) == expected


def animals(first: int, last: int) -> dict[int, list[ChunkRow]]:
    """Documents of three rows; every row is about animals, and the first of each tenth about an okapi."""
    texts = {id_: ["okapi animals" if id_ % 10 == 3 else "animals", *["animals"] * 2] for id_ in range(first, last)}
    return {
        id_: [chunk_row(id_, ordinal, text) for ordinal, text in enumerate(of_one)] for id_, of_one in texts.items()
    }


@pytest.mark.parametrize("query", ["okapi", "okapi animals"])
@pytest.mark.parametrize("num_indexed", [0, 10, 50, 90, 100])
def test_a_row_scores_alike_wherever_a_search_is_confined_to(table: ChunkTable, num_indexed: int, query: str):
    """Also while its words wait to be indexed, when LanceDB knows too little of how rare they are."""
    if num_indexed:
        table.put_documents(animals(1, 1 + num_indexed))
        table.optimize()
    if num_indexed < 100:
        table.put_documents(animals(1 + num_indexed, 101))
    everywhere = {row.row_id: row.score for row in table.matching(query, 500)}
    for document_id in (3, 93):
        confined = table.matching(query, 5, [document_id])
        assert {row.document_id for row in confined} == {document_id}
        assert confined[0].score == pytest.approx(everywhere[confined[0].row_id], rel=0.15)
    table.optimize()
    indexed = table.matching(query, 1, [93])[0]
    assert confined[0].row_id == indexed.row_id
    assert confined[0].score == pytest.approx(indexed.score, rel=0.2)


@pytest.mark.parametrize("query", ["", "  \n", "the", "!?", "\0", "\udcff", "()", '"'])
def test_a_query_without_words_finds_nothing(filled: ChunkTable, query: str):
    assert filled.matching(query, 5) == []


@pytest.mark.parametrize(
    "query",
    [
        '"mutex', "mutex AND", "NOT (mutex", "mutex^9~2", "text:mutex", "mutex*", "+mutex -", "mutex'; DROP TABLE",
        "mutex \0 \udcff", "mutex " * 5000, '{"match": {"query": "mutex"}}', "indexed_text:[a TO mutex]", "\\mutex",
    ],
)  # fmt: skip
def test_operators_are_words_like_others(filled: ChunkTable, query: str):
    assert ids(filled.matching(query, 1)) == ["1-0"]


@pytest.mark.parametrize("query", ["mutex " + "x " * 9000, "x " * 9000 + "mutex"])
def test_words_before_and_after_a_long_text_are_searched_for(filled: ChunkTable, query: str):
    assert ids(filled.matching(query, 1)) == ["1-0"]


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("Donau\u00addampf\u00adschiff", ["Donaudampfschiff", "Donau\u00addampfschiff"]),
        ("long\u200bword", ["longword"]),
        ("\u05e9\u05dc\u05d5\u05dd\u200f", ["\u05e9\u05dc\u05d5\u05dd"]),
        ("e\u0301cole", ["école", "e\u0301cole", "ecole", "ecoles"]),
        ("ecole", ["école", "Écoles"]),
        ("Résumé", ["resume", "résumé", "resumes"]),
        ("x\u0304 is the mean", ["x is the mean"]),
        ("un thé", ["thé", "Thé"]),
        ("Äußerungen", ["äußerungen", "außerungen"]),
        ("of\ufb01cial", ["official", "of\ufb01cial"]),
        ("ＡＢＣ１２３４", ["ABC1234", "ＡＢＣ１２３４"]),
        ("ﾊﾟｿｺﾝ", ["パソコン", "ﾊﾟｿｺﾝ"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8\u1109\u1161", ["한국사"]),
        ("CO₂", ["CO2"]),
        ("Lamp™ word¹", ["lamp", "word"]),
    ],
)
def test_a_word_is_found_however_it_was_typeset(table: ChunkTable, is_indexed: bool, text: str, queries: list[str]):
    table.put_document(1, [chunk_row(1, 0, text), chunk_row(1, 1, BREAD)])
    if is_indexed:
        table.optimize()
    for query in queries:
        found = table.matching(query, 5)
        assert ids(found) == ["1-0"]
        assert table.hits(ids(found))["1-0"].text == text


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("คำสั่งศาลให้ทำงานต่อ", "ทำงาน", "เขาจำได้ว่าน้ำท่วม"),
        ("ພາສາລາວ ນ້ຳ", "ນ້ຳ", "ທຳ"),
        ("ភាសា\u200bខ្មែរ", "ខ្មែរ", "អក្សរ"),
        ("5㎞", "5", "km15"),
        ("Nr.№7", "7", "no7"),
    ],
)
def test_words_are_found_where_no_space_parts_them(
    table: ChunkTable, is_indexed: bool, text: str, word: str, other: str
):
    table.put_document(1, [chunk_row(1, 0, text), chunk_row(1, 1, other)])
    if is_indexed:
        table.optimize()
    assert ids(table.matching(word, 5)) == ["1-0"]


def test_a_hit_tells_where_it_stands(filled: ChunkTable):
    [found] = filled.matching("mutex", 1)
    hit = filled.hits([found.row_id])[found.row_id]
    assert (hit.document_id, hit.page, hit.ordinal, hit.start, hit.end, hit.text) == (1, 3, 0, 40, 76, THREADS)
    assert found.score > 0


def test_vectors_find_their_nearest_rows_in_order(filled: ChunkTable):
    found = filled.nearest(np.stack([hashed(THREADS), hashed(BREAD)]), 3)
    assert [hits[0].row_id for hits in found] == ["1-0", "2-0"]
    assert [len(hits) for hits in found] == [3, 3]
    for hits in found:
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_nearest_rows_may_be_confined_to_shards(table: ChunkTable):
    for number in range(3):
        table.put_document(number, [replace(chunk_row(number, 0, THREADS), shard=number)])
    query = hashed(THREADS)[None]
    assert ids(table.nearest(query, 5, shards=[0, 2])[0]) == ["0-0", "2-0"]
    assert ids(table.nearest(query, 5, [1, 2], [0, 2])[0]) == ["2-0"]
    assert table.nearest(query, 5, shards=[]) == [[]]
    assert [row.document_id for row in table.nearest(query, 5)[0]] == [0, 1, 2]


def test_rows_are_told_by_their_identities(table: ChunkTable):
    rows = [replace(chunk_row(id_, 0, f"Text {id_}."), row_id=row_id(id_, 0), shard=id_ % 2) for id_ in range(300)]
    table.put_documents({row.document_id: [row] for row in rows})
    found = [entry for of in table.identities() for entry in zip(of.ids, of.documents, of.shards, of.keys, strict=True)]
    assert sorted(found) == sorted(
        (int(row.row_id, 16), row.document_id, row.shard, int(row.content_key[:16], 16)) for row in rows
    )
    vectors = {
        int(id_): vector for of, part in table.vectors_of_shard(1) for id_, vector in zip(of.ids, part, strict=True)
    }
    assert vectors.keys() == {int(row.row_id, 16) for row in rows if row.shard == 1}
    assert all(np.array_equal(vectors[int(row.row_id, 16)], row.vector) for row in rows if row.shard == 1)


def test_followers_hear_of_every_change_after_it_is_durable(table: ChunkTable):
    heard: list[object] = []

    class Follower:
        def put(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
            heard.append(("put", set(documents), table.count_rows()))

        def delete(self, document_ids: Collection[int]) -> None:
            heard.append(("delete", set(document_ids), table.count_rows()))

        def optimized(self) -> None:
            heard.append("optimized")

    table.follow(Follower())
    table.put_documents({1: [chunk_row(1, 0, THREADS)], 2: [chunk_row(2, 0, BREAD)]})
    table.put_documents({1: []})
    table.delete_documents([2])
    table.delete_documents([])
    table.optimize()
    assert heard == [("put", {1, 2}, 2), ("delete", {1}, 1), ("delete", {2}, 0), "optimized"]


def test_a_new_table_has_a_name_of_its_own(table: ChunkTable, tmp_path: Path):
    other = open_table(tmp_path / "other")
    assert table.table_id != other.table_id
    assert open_table(tmp_path / "lancedb").table_id == table.table_id
    before = table.version
    table.put_document(1, [chunk_row(1, 0, THREADS)])
    assert table.version > before


def test_a_vector_index_finds_the_same_and_goes_again(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    rows = [chunk_row(1, ordinal, f"word{ordinal} other{ordinal % 7}") for ordinal in range(600)]
    table.put_document(1, rows)
    queries = np.stack([hashed(f"word{ordinal}") for ordinal in range(20)])
    table.index_vectors()
    assert "vector" not in _indexed(table)
    monkeypatch.setattr(table_module, "_MIN_ROWS_TO_INDEX", 500)
    table.index_vectors()
    assert "vector" in _indexed(table)
    exact = [ids(found) for found in table.nearest(queries, 10)]
    indexed = [ids(found) for found in table.nearest(queries, 10, is_exact=False)]
    assert sum(len({*a} & {*b}) for a, b in zip(exact, indexed, strict=True)) >= 0.98 * 200
    table.put_document(2, [chunk_row(2, 0, THREADS)])
    assert ids(table.nearest(hashed(THREADS)[None], 1, is_exact=False)[0]) == ["2-0"]
    table.optimize()
    assert ids(table.nearest(hashed(THREADS)[None], 1, is_exact=False)[0]) == ["2-0"]
    table.drop_vector_index()
    table.drop_vector_index()
    assert "vector" not in _indexed(table)


def _indexed(table: ChunkTable) -> set[str]:
    return {column for index in table._table.list_indices() for column in index.columns}


def test_hits_tell_of_rows_by_their_ids(filled: ChunkTable):
    hits = filled.hits(["1-0", "2-0", "9-9", "quote'd"])
    assert {row_id: (hit.text, hit.page, hit.place, hit.score) for row_id, hit in hits.items()} == {
        "1-0": (THREADS, 3, "", 0.0),
        "2-0": (BREAD, None, "", 0.0),
    }
    assert filled.hits([]) == {}


def test_a_hit_says_its_place(table: ChunkTable):
    table.put_document(1, [replace(chunk_row(1, 0, THREADS), place="slide 4")])
    assert [table.rows_of(1)[0].place, table.hits(["1-0"])["1-0"].place] == ["slide 4", "slide 4"]


def test_no_vectors_find_nothing(filled: ChunkTable):
    assert filled.nearest(np.zeros((0, DIMENSIONS), np.float32), 3) == []


def test_many_queries_at_once_find_what_each_finds_alone(table: ChunkTable):
    rows = [chunk_row(1, ordinal, f"word{ordinal} other{ordinal % 7}") for ordinal in range(200)]
    table.put_document(1, rows)
    queries = np.stack([hashed(f"word{ordinal}") for ordinal in range(40)])
    together = table.nearest(queries, 5)
    assert [ids(hits) for hits in together] == [ids(table.nearest(query[None], 5)[0]) for query in queries]


@pytest.mark.parametrize("scope", [[2], {2, 99}, frozenset({2})])
def test_a_search_stays_in_its_documents(filled: ChunkTable, scope: list[int]):
    assert ids(filled.matching("mutex flour", 5, scope)) == ["2-0"]
    assert ids(filled.nearest(hashed(THREADS)[None], 5, scope)[0]) == ["2-0"]


def test_a_search_in_no_documents_finds_nothing(filled: ChunkTable):
    assert filled.matching("mutex", 5, []) == []
    assert filled.nearest(hashed(THREADS)[None], 5, set()) == [[]]


def test_the_limit_holds_for_korean_too(table: ChunkTable):
    table.put_document(1, [chunk_row(1, ordinal, f"서울 서울에서 {ordinal}") for ordinal in range(9)])
    assert len(table.matching("서울", 4)) == 4


@pytest.mark.parametrize("query", ["Kubernetes 배포 방법은?", "Kubernetes 휴가신청", "Kubernetes 안내"])
def test_rows_of_a_korean_query_have_scores_that_fall_as_they_are_ranked(table: ChunkTable, query: str):
    texts = [
        "Kubernetes 배포 절차와 롤백",
        "배포 일정은 매주 화요일에 정해진다. 배포팀이 배포를 담당한다.",
        "휴가 신청은 인사팀에 문의한다",
        "Kubernetes cluster networking guide",
        "회의실 예약 방법",
        "서버 점검 안내",
    ]
    table.put_documents({id_: [chunk_row(id_, 0, text)] for id_, text in enumerate(texts, start=1)})
    table.optimize()
    found = table.matching(query, 10)
    scores = [row.score for row in found]
    assert len(found) > 2
    assert scores == sorted(scores, reverse=True)


# --- opening -------------------------------------------------------------------------------------


def test_what_was_written_is_there_after_reopening(filled: ChunkTable, tmp_path: Path):
    filled.close()
    again = open_table(tmp_path / "lancedb")
    assert again.document_ids() == {1, 2}
    assert ids(again.matching("mutex", 5)) == ["1-0"]
    assert again.set_aside == ()


@pytest.mark.parametrize("changes", [{"identity": "other@2"}, {"dimensions": 8}])
def test_another_embedder_is_refused_by_name(filled: ChunkTable, tmp_path: Path, changes: dict[str, object]):
    with pytest.raises(EmbedderMismatch, match="'hash@1'") as refused:
        open_table(tmp_path / "lancedb", **changes)
    assert refused.value.way_out


def test_a_table_without_places_gets_them_and_loses_nothing(tmp_path: Path):
    old = chunk_schema(DIMENSIONS, IDENTITY)
    old = old.remove(old.get_field_index("place")).with_metadata({**old.metadata, LAYOUT_KEY: b"1"})
    rows = to_arrow([chunk_row(1, 0, THREADS), chunk_row(1, 1, BREAD)], chunk_schema(DIMENSIONS, IDENTITY))
    lancedb.connect(tmp_path).create_table("chunks", rows.drop_columns(["place"]).cast(old), schema=old)
    for _ in range(2):
        table = open_table(tmp_path)
        assert [(row.text, row.place) for row in table.rows_of(1)] == [(THREADS, ""), (BREAD, "")]
        table.close()
    table = open_table(tmp_path)
    table.put_document(2, [replace(chunk_row(2, 0, "New."), place="page 7")])
    assert table.hits(["2-0"])["2-0"].place == "page 7"
    assert ids(table.matching("mutex", 5)) == ["1-0"]


def _older_schema() -> pa.Schema:
    """As tables were before they said in which form their texts are."""
    new = chunk_schema(DIMENSIONS, IDENTITY)
    column = new.get_field_index("indexed_text")
    return new.set(column, new.field(column).remove_metadata())


def _make_older_table(folder: Path, texts: Sequence[str]) -> None:
    old = _older_schema()
    rows = to_arrow([chunk_row(1, ordinal, text) for ordinal, text in enumerate(texts)], old).to_pydict()
    rows |= {"indexed_text": texts, "text_ngram": [None] * len(texts)}
    lancedb.connect(folder).create_table("chunks", pa.table(rows, schema=old), schema=old)


def test_texts_of_an_older_table_become_searchable_and_all_else_stays(tmp_path: Path):
    texts = ["Donau\u00addampf\u00adschiff", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u1109\u1161", THREADS]
    _make_older_table(tmp_path, texts)
    for _ in range(2):
        table = open_table(tmp_path)
        assert [ids(table.matching(query, 5)) for query in ("donaudampfschiff", "국사", "mutex")] == [
            ["1-0"],
            ["1-1"],
            ["1-2"],
        ]
        found = table.rows_of(1)
        assert [row.text for row in found] == texts
        np.testing.assert_array_equal(np.stack([row.vector for row in found]), np.stack([*map(hashed, texts)]))
        version = table.version
        table.close()
    assert open_table(tmp_path).version == version


def test_texts_of_an_older_table_stay_where_too_many_would_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.partitions.opening._MOST_ROWS_TO_CHANGE", 1)
    _make_older_table(tmp_path, ["of\ufb01cial papers of an école", "Lamp\u00adshade blue", THREADS])
    versions = set[int]()
    for _ in range(3):
        table = open_table(tmp_path)
        queries = ("papers", "blue", "mutex", "école")
        assert [ids(table.matching(query, 5)) for query in queries] == [["1-0"], ["1-1"], ["1-2"], ["1-0"]]
        versions.add(table.version)
        table.close()
    # That they stay is written down once, and they are not looked through again.
    assert len(versions) == 1
    table = open_table(tmp_path)
    table.put_document(1, table.rows_of(1))
    assert ids(table.matching("official", 5)) == ["1-0"]


@pytest.mark.expects_warnings
def test_a_table_whose_texts_cannot_be_brought_up_answers_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    old = _older_schema()
    lancedb.connect(tmp_path).create_table("chunks", to_arrow([chunk_row(1, 0, THREADS)], old), schema=old)

    def refuse(*_: object) -> None:
        raise RuntimeError("LanceError(IO): No space left on device (os error 28)")

    monkeypatch.setattr(lancedb.table.LanceTable, "update_field_metadata", refuse)
    assert ids(open_table(tmp_path).matching("mutex", 5)) == ["1-0"]


def _without_manifests(table: Path) -> None:
    shutil.rmtree(table / "_versions")


def _with_garbage_for_manifests(table: Path) -> None:
    for manifest in (table / "_versions").iterdir():
        manifest.write_bytes(b"garbage")


def _without_data(table: Path) -> None:
    """Long after it was tidied up, when there are no older versions."""
    shutil.rmtree(table / "data")
    for older in sorted((table / "_versions").glob("*.manifest"))[1:]:
        older.unlink()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("damage", [_without_manifests, _with_garbage_for_manifests, _without_data])
def test_a_broken_table_is_set_aside_and_a_new_one_made(
    filled: ChunkTable, tmp_path: Path, damage: Callable[[Path], None]
):
    filled.close()
    damage(tmp_path / "lancedb" / "chunks.lance")
    again = open_table(tmp_path / "lancedb")
    assert again.document_ids() == set()
    again.put_document(5, [chunk_row(5, 0, "New life.")])
    assert ids(again.matching("life", 1)) == ["5-0"]
    [aside] = again.set_aside
    assert aside.is_dir()
    assert open_table(tmp_path / "lancedb").set_aside == ()
    again.drop_set_aside()
    assert not aside.exists()
    assert again.document_ids() == {5}


def test_indices_that_a_kill_left_out_are_made_at_the_next_start(filled: ChunkTable, tmp_path: Path):
    for index in filled._table.list_indices():
        filled._table.drop_index(index.name)
    filled.close()
    again = open_table(tmp_path / "lancedb")
    assert {column for index in again._table.list_indices() for column in index.columns} == {
        "row_id", "document_id", "shard", "content_key", "indexed_text", "text_ngram",
    }  # fmt: skip
    assert ids(again.matching("mutex", 1)) == ["1-0"]


def test_a_killed_writer_leaves_whole_documents_only(tmp_path: Path):
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.engine.partitions.test_table import open_table, chunk_row\n"
        "table = open_table(Path(sys.argv[1]))\n"
        "for id_ in range(10_000):\n"
        "    table.put_document(id_, [chunk_row(id_, n, f'Row {n} of {id_}.') for n in range(7)])\n"
        "    print(id_, flush=True)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lancedb")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer, writer.stdout:
        acknowledged = [int(writer.stdout.readline()) for _ in range(12)]
        writer.kill()
    table = open_table(tmp_path / "lancedb")
    assert set(acknowledged) <= table.document_ids()
    assert {table.count_rows(id_) for id_ in table.document_ids()} == {7}


# --- failing and tidying up ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "lance error: LanceError(IO): Generic LocalFileSystem error: No space left on device (os error 28)"
        ),
        OSError(28, "No space left on device"),
        RuntimeError("lance error: LanceError(IO): Disk quota exceeded (os error 122)"),
    ],
)
def test_a_full_disk_is_called_so(error: Exception, filled: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(filled._table, "merge_insert", refuse)
    with pytest.raises(DiskFull):
        filled.put_document(1, [chunk_row(1, 0, "Too much.")])
    assert filled.count_rows(1) == 2


def test_other_failures_keep_what_was_said():
    error = as_library_error("The index could not be read", RuntimeError("lance error: odd\nat line 3"))
    assert error.kind == "LibraryError"
    assert "lance error: odd" in error.sentence
    assert "line 3" not in error.sentence


def test_a_reader_whose_version_was_cleaned_up_begins_anew(filled: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def lost_then_found() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("lance error: Not found: data/1.lance")
        return "rows"

    latest: list[int] = []
    monkeypatch.setattr(filled._table, "checkout_latest", lambda: latest.append(1))
    assert filled._read(lost_then_found) == "rows"
    assert latest == [1]


def test_optimizing_is_due_after_many_rows_or_many_commits(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 5)
    monkeypatch.setattr(table_module, "COMMITS_LIMIT", 3)
    table.put_document(1, [chunk_row(1, 0, "One.")])
    assert not table.is_optimize_due()
    table.put_document(2, [chunk_row(2, ordinal, f"Row {ordinal}.") for ordinal in range(5)])
    assert table.is_optimize_due()
    table.optimize()
    assert not table.is_optimize_due()
    for _ in range(3):
        table.delete_documents([77])
    assert table.is_optimize_due()


def test_optimizing_is_due_after_many_removals(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 5)
    table.put_document(1, [chunk_row(1, ordinal, f"Row {ordinal}.") for ordinal in range(4)])
    table.optimize()
    table.put_document(1, [chunk_row(1, ordinal, f"Another row {ordinal}.") for ordinal in range(2)])
    assert not table.is_optimize_due()
    table.delete_documents([1])
    assert table.is_optimize_due()


@pytest.mark.parametrize("num_removed", [1, 29, 30])
@pytest.mark.filterwarnings("ignore:optimize.cleanup_older_than=0")
def test_what_was_removed_leaves_the_disk_in_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_removed: int
):
    seconds, ledger, files = 0.0, Ledger(), tmp_path / "chunks.lance"
    table = open_table(tmp_path, ledger)
    table._clock = lambda: seconds
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(30)})
    table.optimize()
    assert not table.is_forgetting_due()
    before = {*(files / "data").iterdir()}

    table.delete_documents(range(num_removed))
    assert table.is_forgetting_due()
    table.forget_removed()
    assert not table.is_forgetting_due()
    monkeypatch.setattr(table_module, "_KEEP_VERSIONS", timedelta(0))
    seconds += 600.0
    assert table.is_forgetting_due()
    table.forget_removed()

    assert not before & {*(files / "data").iterdir()}
    assert not any(files.glob("_deletions/*"))
    assert ledger.held_bytes("disk", "index") == table.num_bytes()
    assert table.document_ids() == {*range(num_removed, 30)}
    assert {found.document_id for found in table.matching("row", 50)} == table.document_ids()
    seconds += 10_000.0
    assert not table.is_forgetting_due()
    table.close()


@pytest.mark.parametrize("removed", [[1], [1, 2]])
def test_what_was_removed_before_the_start_is_remembered(table: ChunkTable, tmp_path: Path, removed: list[int]):
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in (1, 2)})
    table.put_document(3, [chunk_row(3, 0, "Row 3.")])
    table.close()
    again = open_table(tmp_path / "lancedb")
    assert not again.is_forgetting_due()
    again.delete_documents(removed)
    again.close()
    assert open_table(tmp_path / "lancedb").is_forgetting_due()


def test_files_are_not_written_anew_all_the_time(table: ChunkTable):
    seconds, num_times = 0.0, 0
    table._clock = lambda: seconds
    for minute in range(180):
        seconds = 60.0 * minute
        table.put_document(1, [chunk_row(1, 0, f"Row of minute {minute}.")])
        if table.is_forgetting_due():
            table.forget_removed()
            num_times += 1
    assert num_times <= 4


def test_large_tables_are_written_anew_once_a_day_unless_a_person_removes_something(
    table: ChunkTable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_module, "_MANY_ROWS", 1)
    minutes, times = 0, list[int]()
    table._clock = lambda: 60.0 * minutes

    def pass_to(end: int) -> None:
        nonlocal minutes
        for minutes in range(minutes, end, 10):  # noqa: B020 - the clock
            if not minutes % 60:
                table.put_document(1, [chunk_row(1, 0, f"Row of minute {minutes}.")])
            if table.is_forgetting_due():
                table.forget_removed()
                times.append(minutes)

    table.put_document(2, [chunk_row(2, 0, "Row 2.")])
    pass_to(3 * 24 * 60)
    assert 2 <= len(times) <= 6
    times.clear()
    table.forget_soon()
    table.delete_documents([2])
    pass_to(minutes + 60)
    # Files are written anew at once, and old versions are dropped ten minutes later.
    assert [time - times[0] for time in times] == [0, 10]


def test_what_no_person_removed_waits_for_power_to_spare(table: ChunkTable):
    seconds, can_spare = 0.0, False
    table._clock = lambda: seconds
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in (1, 2)})
    table.put_document(1, [chunk_row(1, 0, "Another row.")])
    assert not table.is_forgetting_due(lambda: can_spare)
    can_spare = True
    assert table.is_forgetting_due(lambda: can_spare)
    can_spare = False
    table.forget_soon()
    table.delete_documents([2])
    for step in ("files are written anew", "old versions are dropped"):
        assert table.is_forgetting_due(lambda: can_spare)
        assert table.forget_removed() is (step == "old versions are dropped")
        assert not table.is_forgetting_due(lambda: can_spare)
        seconds += 600.0
    assert not table.forget_removed()


def test_after_a_restart_only_what_a_person_removed_is_hurried(table: ChunkTable, tmp_path: Path):
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in (1, 2)})
    table.put_document(1, [chunk_row(1, 0, "Another row.")])
    table.close()
    table = open_table(tmp_path / "lancedb")
    assert table.is_forgetting_due()
    assert not table.is_forgetting_due(lambda: False)
    table.forget_soon()
    table.delete_documents([2])
    table.close()
    for _ in ("files are written anew", "old versions are dropped"):
        table = open_table(tmp_path / "lancedb")
        assert table.is_forgetting_due(lambda: False)
        table.forget_removed()
        table.close()
    # Each start takes both steps, for it is not known which were done before.
    table = open_table(tmp_path / "lancedb")
    table.forget_removed()
    table.forget_removed()
    table.put_document(1, [chunk_row(1, 0, "Yet another row.")])
    table.close()
    table = open_table(tmp_path / "lancedb")
    assert not table.is_forgetting_due(lambda: False)
    table.close()


def test_a_removal_is_hurried_also_where_that_cannot_be_noted(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table_module, "write_durably", refuse)
    table.put_document(1, [chunk_row(1, 0, "Row.")])
    table.forget_soon()
    table.delete_documents([1])
    assert table.is_forgetting_due(lambda: False)


def test_what_is_joined_with_new_rows_is_not_written_once_more(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(30)})
    table.optimize()
    table.put_documents({id_: [chunk_row(id_, 0, "Another row.")] for id_ in (1, 2)})
    assert table_module._dead_rows(table._table)
    monkeypatch.setattr(table._table, "merge_insert", None)
    table.forget_removed()
    assert table_module._dead_rows(table._table) == 0
    assert {row.text for row in table.rows_of(1)} == {"Another row."}


def test_rows_left_unindexed_are_remembered_by_the_next_start(table: ChunkTable, tmp_path: Path):
    table.put_document(
        1, [chunk_row(1, ordinal, f"Row {ordinal}.") for ordinal in range(table_module.UNINDEXED_ROWS_LIMIT)]
    )
    table.close()
    assert open_table(tmp_path / "lancedb").is_optimize_due()


def test_ledger_knows_disk_and_caches_until_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "_LEDGER_STEP_BYTES", 1)
    ledger = Ledger()
    table = open_table(tmp_path / "lancedb", ledger)
    table.put_document(1, [chunk_row(1, ordinal, f"Row number {ordinal}. " * 20) for ordinal in range(2000)])
    table.optimize()
    table.matching("number", 50)
    assert ledger.held_bytes("disk", "index") == table.num_bytes() > 100_000
    assert 0 < ledger.held_bytes("ram", "index") <= 192 * 2**20
    table.close()
    table.close()
    assert ledger.spans() == ()


def test_tidying_up_after_the_end_does_nothing(tmp_path: Path):
    ledger = Ledger()
    table = open_table(tmp_path / "lancedb", ledger)
    table.put_document(1, [chunk_row(1, 0, THREADS)])
    version = table.version
    table.close()
    table.optimize()
    assert ledger.spans() == ()
    assert table.version == version


def test_a_read_that_ends_after_the_table_was_closed_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "_LEDGER_STEP_BYTES", 1)
    ledger = Ledger()
    table = open_table(tmp_path / "lancedb", ledger)
    table.put_document(1, [chunk_row(1, 0, THREADS)])
    table.close()
    assert ids(table.matching("mutex", 5)) == ["1-0"]
    assert ledger.spans() == ()


def test_readers_on_other_threads_never_see_half_a_document(table: ChunkTable):
    stop, seen, failures = threading.Event(), set(), []

    def read() -> None:
        try:
            while not stop.is_set():
                seen.add(len(table.rows_of(1)))
                table.matching("row", 5)
                table.nearest(hashed("row")[None], 5)
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for size in (3, 6, 9) * 5:
        table.put_document(1, [chunk_row(1, ordinal, f"row {ordinal} of {size}") for ordinal in range(size)])
        if size == 9:
            table.optimize()
    stop.set()
    for reader in readers:
        reader.join(60)
    assert failures == []
    assert seen <= {0, 3, 6, 9}
    assert len(table.rows_of(1)) == 9


def test_matching_ranks_by_the_words(table: ChunkTable):
    table.put_document(1, [chunk_row(1, 0, "A mutex guards the value."), chunk_row(1, 1, "Bread needs flour.")])
    table.put_document(2, [chunk_row(2, 0, "Two threads want one mutex.")])
    found = table.matching("the mutex of threads", 5)
    assert [(row.row_id, row.document_id) for row in found] == [("2-0", 2), ("1-0", 1)]
    assert found[0].score > found[1].score > 0
    assert ids(table.matching("mutex", 5, document_ids=[1])) == ["1-0"]


def test_all_rows_of_documents_come_in_the_order_of_their_text(table: ChunkTable):
    for id_ in (2, 1, 3):
        table.put_document(id_, [chunk_row(id_, n, f"text {id_} {n}", start=10 * n) for n in (1, 0, 2)])
    assert [hit.row_id for hit in table.hits_of([3, 1])] == ["1-0", "1-1", "1-2", "3-0", "3-1", "3-2"]
    assert table.hits_of([]) == []


def test_what_arrow_allocates_comes_from_the_allocator_that_is_looked_after(table: ChunkTable):
    assert pa.default_memory_pool().backend_name == "system"


def test_what_there_was_no_room_for_is_due_again_once_there_is(table: ChunkTable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_module, "UNINDEXED_ROWS_LIMIT", 20)
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(30)})
    table.optimize()
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in range(100, 130)})
    table.delete_documents(range(30))
    usage = shutil.disk_usage
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=0))
        assert table.is_optimize_due()
        with pytest.raises(DiskFull):
            table.optimize()
        assert not table.is_optimize_due()
    assert table.is_optimize_due()
    table.optimize()
    assert not table.is_optimize_due()


def test_nobody_is_hurried_for_what_another_clean_up_has_let_go(table: ChunkTable):
    seconds = 0.0
    table._clock = lambda: seconds
    table.put_documents({id_: [chunk_row(id_, 0, f"Row {id_}.")] for id_ in (1, 2)})
    table.forget_soon()
    table.delete_documents([2])
    table.forget_removed()
    assert table._hurried.exists()
    seconds += 120.0
    table.optimize()
    assert not table._hurried.exists()
