"""A library on the real catalogue, table and partitions, made to be killed: parser and embedder are ours and quick.

    python -m tests.helpers.killed_library DOCS HOME

It looks at the folder, removes what the file REMOVALS beside the catalogue lists, tidies up, and ends; each step that
changes something on the disk is said before it is taken. Shards are of a few rows, so that they are sealed and
rewritten all the time. Lines that acknowledge something are "indexed ID …" and "removed PATH".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.catalog import Catalog
from engine.config import MemorySettings, Settings
from engine.core import FoundFile, ReadDocument
from engine.errors import NothingThere
from engine.library import flow, recording
from engine.library.reserve import Reserve
from engine.library.worker import IndexWorker
from engine.memory.ledger import Ledger
from engine.partitions import upkeep
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.rows import ChunkRow, Vectors
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from tests.helpers.library import DIMENSIONS, FakeEmbedder, FakeParser

CHUNKS_PER_SHARD = 24
CHUNKS_PER_COMMIT = 8
REMOVALS = "removals"
EMBEDDED = "embedded"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def quiet(line: str) -> None:
    """For a library in the test's own process."""


@dataclass
class LoggingEmbedder(FakeEmbedder):
    """Writes down durably what it is given, before it gives anything back."""

    log: Path = Path(EMBEDDED)
    tell: Callable[[str], None] = quiet

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        with self.log.open("a") as stream:
            stream.writelines(f"{text}\n" for text in texts)
            stream.flush()
            os.fsync(stream.fileno())
        self.tell("embed")
        return super().embed_documents(texts)


class TellingTable(ChunkTable):
    """Says what it is about to do."""

    tell: Callable[[str], None] = staticmethod(quiet)

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        known = self.document_ids()
        self.tell("change" if known & documents.keys() else "add")
        super().put_documents(documents)

    def delete_documents(self, document_ids: Any) -> None:
        self.tell("remove")
        super().delete_documents(document_ids)

    def optimize(self) -> None:
        self.tell("optimise")
        super().optimize()


class TellingCatalog(Catalog):
    """Says which documents it has durably called indexed."""

    tell: Callable[[str], None] = staticmethod(quiet)
    _marked: tuple[int, ...] = ()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with super().transaction():
            yield
        marked, self._marked = self._marked, ()
        if marked:
            self.tell("indexed " + " ".join(map(str, marked)))

    def mark_indexed(
        self, document_id: int, file: FoundFile, content_hash: str, read: ReadDocument, embedder: str, shard: int
    ) -> None:
        super().mark_indexed(document_id, file, content_hash, read, embedder, shard)
        self._marked = (*self._marked, document_id)


@dataclass(frozen=True)
class Stores:
    embedder: LoggingEmbedder
    table: TellingTable
    index: PartitionStore


@dataclass
class KilledLibrary:
    """All parts that keep something on the disk, opened on what is there."""

    home: Path
    tell: Callable[[str], None] = quiet
    reserve: Reserve | None = None
    catalog: TellingCatalog = field(init=False)
    stores: Stores = field(init=False)
    worker: IndexWorker = field(init=False)

    def __enter__(self) -> KilledLibrary:
        self.catalog = TellingCatalog.open(self.home)
        self.catalog.tell = self.tell
        table = TellingTable.open(
            self.home / "lancedb", DIMENSIONS, FakeEmbedder.identity, MemorySettings(), ledger := Ledger()
        )
        table.tell = self.tell
        index = PartitionStore(
            table,
            self.home / "shards",
            Origin(FakeEmbedder.identity, table.table_id, DIMENSIONS),
            NumpyKernel(),
            quantize,
            ledger,
            budget_bytes=2**30,
        )
        self.stores = Stores(LoggingEmbedder(log=self.home / EMBEDDED, tell=self.tell), table, index)
        self.worker = IndexWorker(
            self.catalog, FakeParser(), lambda: self.stores, Settings, lambda _: None, reserve=self.reserve
        )
        return self

    def start(self) -> None:
        """Begins to work; what was left undone comes first."""
        self.stores.index.start()
        self.worker.start()

    def __exit__(self, *error: object) -> None:
        self.worker.stop()
        self.stores.index.close()
        self.stores.table.close()
        self.catalog.close()

    def live(self, docs: Path) -> None:
        """Brings the library in step with the folder and with what the user wanted removed, to the end."""
        if not self.catalog.roots():
            self.worker.add([str(docs)]).wait()
        self.worker.rescan().wait()
        # It may have cut in on what was left undone, which then goes on.
        while self.catalog.ids_to_read():
            self.worker.rescan().wait()
        for path in self.to_remove():
            try:
                self.worker.remove([path])
            except NothingThere:
                continue
            self.tell(f"removed {path}")
        self.stores.index.maintain()

    def to_remove(self) -> list[str]:
        file = self.home / REMOVALS
        return file.read_text().splitlines() if file.exists() else []


def use_small_portions(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Many shards and many commits, where a library of this size would have one of each."""
    set_attribute(recording, "CHUNKS_PER_SHARD", CHUNKS_PER_SHARD)
    set_attribute(flow, "_CHUNKS_PER_COMMIT", CHUNKS_PER_COMMIT)


def main(docs: Path, home: Path) -> None:
    use_small_portions(setattr)
    written = upkeep.write_partition

    def write_partition(*arguments: Any) -> None:
        say("rewrite")
        written(*arguments)

    upkeep.write_partition = write_partition
    with KilledLibrary(home, say) as library:
        library.start()
        library.live(docs)
    say("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
