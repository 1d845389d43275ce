"""A process that indexes on the real table and with the real parsers, made to be killed: it says each step first.

    python -m tests.helpers.indexing_process DOCS HOME

Lines: "embedded KEY …" before vectors leave the embedder, "put" and "marked" around what makes a document durable,
"finished" at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.catalog import Catalog
from engine.config import MemorySettings, Settings
from engine.core import FoundFile, ReadDocument
from engine.library.parsers.pool import ParserPool
from engine.library.rows import content_key
from engine.library.worker import IndexWorker
from engine.memory.ledger import Ledger
from engine.partitions.rows import ChunkRow, Vectors
from engine.partitions.table import ChunkTable
from tests.helpers.library import DIMENSIONS, FakeEmbedder
from tests.helpers.parsing import pool_of


@dataclass(frozen=True)
class RealStores:
    embedder: FakeEmbedder
    table: ChunkTable


def open_table(home: Path) -> ChunkTable:
    return ChunkTable.open(home / "lancedb", DIMENSIONS, FakeEmbedder.identity, MemorySettings(), Ledger())


@contextmanager
def open_pool() -> Iterator[ParserPool]:
    with pool_of(1, seconds=60, memory_bytes=2**30) as pool:
        yield pool


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    # For whoever is to kill us at this line.
    time.sleep(0.1)


class TellingEmbedder(FakeEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        say("embedded " + " ".join(content_key(text, self.identity) for text in texts))
        return super().embed_documents(texts)


class TellingTable(ChunkTable):
    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        say("put")
        super().put_documents(documents)


class TellingCatalog(Catalog):
    def mark_indexed(
        self, document_id: int, file: FoundFile, content_hash: str, read: ReadDocument, embedder: str, shard: int
    ) -> None:
        say("marked")
        super().mark_indexed(document_id, file, content_hash, read, embedder, shard)


def main(docs: Path, home: Path) -> None:
    def open_stores() -> RealStores:
        folder = home / "lancedb"
        table = TellingTable.open(folder, DIMENSIONS, FakeEmbedder.identity, MemorySettings(), Ledger())
        return RealStores(TellingEmbedder(), table)

    catalog = TellingCatalog.open(home)
    with open_pool() as pool:
        worker = IndexWorker(catalog, pool, open_stores, Settings, lambda _: None)
        is_first = not catalog.roots()
        worker.start()
        # What was interrupted goes on by itself, before any look at what is new.
        (worker.add([str(docs)]) if is_first else worker.rescan()).wait()
        worker.stop()
    say("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
