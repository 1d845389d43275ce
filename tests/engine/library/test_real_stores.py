"""Tests for engine.library on the real table and with the real parsers: what the fakes promise is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from engine.catalog import Catalog
from engine.config import Settings
from engine.library.rows import content_key
from engine.library.worker import IndexWorker
from engine.partitions.table import ChunkTable
from tests.helpers.indexing_process import RealStores, open_pool, open_table
from tests.helpers.library import FakeEmbedder, vector_of

HANG_SECONDS = 120


class Shelf:
    """A worker on real parts, but for the embedder."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.catalog = Catalog.open(home)
        self.table = open_table(home)
        self.embedder = FakeEmbedder()

    def close(self) -> None:
        self.table.close()
        self.catalog.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "notes").mkdir(parents=True)
    (folder / "lease.md").write_text("# Lease\n\nThe notice period is three months.\n\n## Deposit\n\nTwo rents.\n")
    (folder / "notes" / "zoo.txt").write_text("Okapis are related to giraffes.\n")
    (folder / "page.html").write_text("<html><body><h1>Tea</h1><p>Steep it for four minutes.</p></body></html>")
    (folder / "empty.md").write_text("")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing more")
    return folder


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    opened = Shelf(tmp_path / "home")
    yield opened
    opened.close()


@pytest.fixture
def worker(shelf: Shelf) -> Iterator[IndexWorker]:
    with _worker(shelf) as started:
        yield started


@contextmanager
def _worker(shelf: Shelf, *, resume: bool = False) -> Iterator[IndexWorker]:
    with open_pool() as pool:
        stores = RealStores(shelf.embedder, shelf.table)
        started = IndexWorker(shelf.catalog, pool, lambda: stores, Settings, lambda _: None)
        started.start(resume=resume)
        yield started
        started.stop()


def check(catalog: Catalog, table: ChunkTable) -> None:
    """Catalogue and table agree document by document, and every vector is the text's."""
    claimed = catalog.ids_with_rows()
    assert table.document_ids() == claimed
    for document_id in claimed:
        document, rows = catalog.document(document_id), table.rows_of(document_id)
        assert document is not None
        assert [row.ordinal for row in rows] == list(range(document.num_chunks))
        for row in rows:
            assert row.content_key == content_key(row.indexed_text, FakeEmbedder.identity)
            np.testing.assert_allclose(row.vector, vector_of(row.indexed_text), atol=1e-6)


def test_a_folder_is_indexed_found_moved_and_removed(docs: Path, shelf: Shelf, worker: IndexWorker) -> None:
    finished = worker.add([str(docs)]).wait(HANG_SECONDS)

    assert (finished.indexed, len(finished.skipped) + len(finished.failed)) == (3, 2)
    assert {os.path.basename(path) for path, _ in (*finished.skipped, *finished.failed)} == {"empty.md", "broken.pdf"}
    check(shelf.catalog, shelf.table)
    (hit,) = shelf.table.matching("giraffes", 5)
    zoo = shelf.catalog.document_by_path(str(docs / "notes" / "zoo.txt"))
    assert zoo is not None
    assert hit.document_id == zoo.document_id

    num_embedded = len(shelf.embedder.texts)
    (docs / "notes").rename(docs / "animals")
    (docs / "copy.md").write_bytes((docs / "lease.md").read_bytes())
    again = worker.rescan().wait(HANG_SECONDS)
    assert (again.indexed, again.removed) == (1, 0)
    assert len(shelf.embedder.texts) == num_embedded
    assert shelf.catalog.paths_of([zoo.document_id]) == {zoo.document_id: str(docs / "animals" / "zoo.txt")}
    check(shelf.catalog, shelf.table)

    assert worker.remove([str(docs / "animals")]) == 1
    assert shelf.table.matching("giraffes", 5) == []
    assert shelf.table.count_rows(zoo.document_id) == 0
    assert worker.remove([str(docs)]) == 5
    assert (shelf.table.count_rows(), shelf.catalog.documents()) == (0, ((), 0))


def test_killed_again_and_again_it_loses_no_document_and_embeds_nothing_twice(tmp_path: Path) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    home.mkdir()
    for number in range(30):
        text = "\n\n".join(f"# Part {part} of {number}\n\nWords about {number}, {part}." for part in range(40))
        (docs / f"{number:02}.md").write_text(text)
    durable: set[str] = set()

    for step, num_lines in [("embedded", 2), ("put", 1), ("marked", 2), ("never", 1)]:
        lines, was_killed = _run(docs, home, step, num_lines)
        embedded = {key for line in lines if line.startswith("embedded") for key in line.split()[1:]}
        assert not durable & embedded
        assert was_killed == (step != "never")
        durable = _keys(home)

    assert lines[-1] == "finished"
    catalog, table = Catalog.open(home), open_table(home)
    check(catalog, table)
    assert catalog.documents_by_state()["indexed"] == 30
    table.close()
    catalog.close()


@pytest.mark.expects_warnings
def test_documents_whose_rows_a_power_cut_took_are_read_again(docs: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shelf = Shelf(home)
    with _worker(shelf) as worker:
        worker.add([str(docs)]).wait(HANG_SECONDS)
        (docs / "lease.md").write_text("# Lease\n\nThe notice period is five months.\n")
        (docs / "new.txt").write_text("Tapirs swim well.")
        assert worker.rescan(is_unasked=True).wait(HANG_SECONDS).indexed == 2
    shelf.close()
    newest = max((home / "lancedb" / "chunks.lance" / "data").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(b"")

    shelf = Shelf(home)
    with _worker(shelf, resume=True) as worker:
        worker.rescan().wait(HANG_SECONDS)
        check(shelf.catalog, shelf.table)
        assert shelf.catalog.documents_by_state()["indexed"] == 4
        assert len(shelf.table.matching("tapirs", 5)) == len(shelf.table.matching("five months", 5)) == 1
    shelf.close()


def _run(docs: Path, home: Path, step: str, num_lines: int) -> tuple[list[str], bool]:
    """Indexes in a process of its own, and kills it when it is about to take a step for the so-manieth time."""
    command = [sys.executable, "-m", "tests.helpers.indexing_process", str(docs), str(home)]
    root = Path(__file__).resolve().parents[3]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                lines.append(line.rstrip("\n"))
                if sum(said.split()[0] == step for said in lines) == num_lines:
                    break
            else:
                return lines, child.wait() == -signal.SIGKILL
        finally:
            child.kill()
    return lines, child.returncode == -signal.SIGKILL


def _keys(home: Path) -> set[str]:
    table = open_table(home)
    keys = {row.content_key for document_id in table.document_ids() for row in table.rows_of(document_id)}
    table.close()
    return keys
