"""Fakes for the indexer's seams: a parser, an embedder and a table that do little, but do it truly."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.catalog import Catalog
from engine.core import Chunk, ReadDocument
from engine.errors import Cancelled, DocumentEmpty, DocumentEncrypted, DocumentNeedsOcr, ParserGaveUp
from engine.library.chunker import indexed_text
from engine.partitions.rows import ChunkRow, Vectors

DIMENSIONS = 16
LEFT_OUT = "2 of its 3 pages were left out."
_PATIENCE_SECONDS = 20


def wait_until(is_so: Callable[[], bool]) -> None:
    """Until another thread has seen to it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@dataclass
class FakeParser:
    """A chunk for each line of a file. "BROKEN" in it has the parser give up; `gate`, closed, has it wait.

    "LOCKED x" at its start takes the password x, "SCAN" takes OCR; of "PARTLY" something is left out.
    """

    gate: threading.Event = field(default_factory=threading.Event)
    paths_read: list[str] = field(default_factory=list)
    patience: list[float] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    has_ocr: bool = False
    num_forgotten: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def forget_recognised(self) -> None:
        self.num_forgotten += 1

    def can_ocr(self, languages: Sequence[str]) -> bool:
        return self.has_ocr

    def read(
        self,
        path: str,
        tokenizer_file: Path | None,
        max_tokens: int,
        overlap_tokens: int,
        max_file_bytes: int,
        max_chunks: int,
        cancelled: threading.Event | None = None,
        passwords: Sequence[str] = (),
        ocr_languages: Sequence[str] = (),
        patience: float = 1.0,
    ) -> ReadDocument:
        self.paths_read.append(path)
        self.patience.append(patience)
        self.began.set()
        while not self.gate.wait(0.005):
            if cancelled is not None and cancelled.is_set():
                raise Cancelled("Reading the file was cancelled.")
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        if "BROKEN" in text:
            raise ParserGaveUp("The parser crashed on this file.", "Open it and save it again.")
        if text.startswith("LOCKED ") and text.split()[1] not in passwords:
            raise DocumentEncrypted("The password does not open it." if passwords else "The file needs a password.")
        if text.startswith("SCAN") and not self.has_ocr:
            raise DocumentNeedsOcr("The pages are pictures.")
        if not text.strip():
            raise DocumentEmpty("There is no text in it.")
        lines = [line for line in text.splitlines() if line.strip()]
        chunks = tuple(Chunk(number, None, 0, len(line), "", line) for number, line in enumerate(lines))
        return ReadDocument("text", "", 0, chunks, remark=LEFT_OUT if "PARTLY" in text else "")


@dataclass
class FakeEmbedder:
    """Vectors by hash: equal texts have equal ones. Remembers what it embedded."""

    identity: str = "fake-1"
    tokenizer_file: Path | None = None
    texts: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts.extend(texts)
        self.calls.append(len(texts))
        return np.stack([vector_of(text) for text in texts])


def vector_of(text: str) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
    vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


@dataclass
class FakeTable:
    """Rows by document, in memory: what is in it counts as durable."""

    rows: dict[int, list[ChunkRow]] = field(default_factory=dict)
    num_optimized: int = 0
    went_back_to_ns: int | None = None
    set_aside: tuple[Path, ...] = ()
    rows_aside: dict[int, list[ChunkRow]] = field(default_factory=dict)
    is_removed_kept: bool = False
    is_hurried: bool = False
    is_set_aside_dropped: bool = False
    lacks_room: bool = False

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        for document_id, rows in documents.items():
            assert rows
            assert {row.document_id for row in rows} == {document_id}
            self.rows[document_id] = list(rows)

    def delete_documents(self, document_ids: Collection[int]) -> None:
        for document_id in document_ids:
            del self.rows[document_id]
            self.is_removed_kept = True

    def vectors_by_content_key(self, keys: Collection[str]) -> dict[str, Vectors]:
        wanted = set(keys)
        return {row.content_key: row.vector for rows in self.rows.values() for row in rows if row.content_key in wanted}

    def rows_of(self, document_id: int) -> list[ChunkRow]:
        return list(self.rows.get(document_id, ()))

    def document_ids(self) -> set[int]:
        return set(self.rows)

    def is_optimize_due(self, *, more_comes: bool = False) -> bool:
        return False

    def optimize(self) -> None:
        self.num_optimized += 1

    def is_forgetting_due(self, can_spare: Callable[[], bool] = lambda: True) -> bool:
        return self.is_removed_kept and (self.is_hurried or can_spare())

    def forget_soon(self) -> None:
        self.is_hurried = True

    def forget_removed(self) -> bool:
        was_hurried = self.is_hurried
        self.is_removed_kept = self.is_hurried = False
        return was_hurried

    def forget_loss(self) -> None:
        self.went_back_to_ns = None

    def rows_set_aside(self, wanted: Mapping[int, int]) -> Iterable[dict[int, list[ChunkRow]]]:
        for document_id, rows in self.rows_aside.items():
            if len(rows) == wanted.get(document_id):
                yield {document_id: rows}

    def drop_set_aside(self) -> None:
        self.is_set_aside_dropped = True


@dataclass
class FakeStores:
    embedder: FakeEmbedder = field(default_factory=FakeEmbedder)
    table: FakeTable = field(default_factory=FakeTable)


def check_integrity(catalog: Catalog, table: FakeTable) -> None:
    """Every indexed document has exactly its rows, with the right vectors; no row belongs to anybody else."""
    indexed = {document.document_id: document for document in catalog.documents(limit=-1)[0] if document.embedder}
    assert table.document_ids() == indexed.keys()
    row_ids = [row.row_id for rows in table.rows.values() for row in rows]
    assert len(set(row_ids)) == len(row_ids)
    for document_id, rows in table.rows.items():
        assert [row.ordinal for row in rows] == list(range(indexed[document_id].num_chunks))
        assert all(np.array_equal(row.vector, vector_of(indexed_text(row))) for row in rows)
