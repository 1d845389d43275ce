"""A library on fakes: a folder of documents, a real catalogue, and an indexer that can be started anew."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from engine.catalog import Catalog
from engine.config import LibrarySettings
from engine.core import Document
from engine.events import IndexFinished, IndexProgressed
from engine.library.indexer import Indexer
from engine.library.jobs import IndexRoots, Job, Refresh, Reindex, Resume
from engine.library.seams import Stores
from tests.helpers.library import FakeParser, FakeStores, check_integrity


@dataclass
class SmallLibrary:
    """`docs` is the folder of documents; `home` holds the catalogue."""

    docs: Path
    home: Path
    stores: FakeStores = field(default_factory=FakeStores)
    parser: FakeParser = field(default_factory=FakeParser)
    settings: LibrarySettings = field(default_factory=LibrarySettings)
    catalog: Catalog = field(init=False)
    indexer: Indexer = field(init=False)
    progress: list[IndexProgressed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.docs.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self.open()

    def open(self) -> None:
        """Opens what is on disk, as after a start."""
        self.catalog = Catalog.open(self.home)
        stores: Stores = self.stores
        self.indexer = Indexer(self.catalog, stores, self.parser, lambda: self.settings)

    def reopen(self) -> None:
        self.catalog.close()
        self.open()
        self.indexer.reconcile()

    def write(self, name: str, *lines: str) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) or f"The text of {name}.")
        return path

    def add(
        self, *paths: Path, collection: str = "Documents", cancelled: threading.Event | None = None
    ) -> IndexFinished:
        chosen = [str(path) for path in paths or (self.docs,)]
        for path in chosen:
            self.catalog.add_root(collection, path, os.path.isdir(path), os.stat(path).st_dev)
        return self.run(IndexRoots(tuple(chosen), retry=True), cancelled)

    def rescan(self) -> IndexFinished:
        return self.run(IndexRoots(None))

    def refresh(self, *paths: Path) -> IndexFinished:
        """A look at just these places, as after the watcher heard of them."""
        return self.run(Refresh(tuple(map(str, paths))))

    def resume(self) -> IndexFinished:
        return self.run(Resume(tuple(root.path for root in self.catalog.roots() if not root.is_surveyed)))

    def reindex(self, *paths: Path) -> IndexFinished:
        return self.run(Reindex(tuple(map(str, paths))))

    def run(self, job: Job, cancelled: threading.Event | None = None) -> IndexFinished:
        steps = self.indexer.run(job, cancelled or threading.Event())
        self.progress.clear()
        while True:
            try:
                self.progress.append(next(steps))
            except StopIteration as end:
                finished: IndexFinished = end.value
                return finished

    def known(self, path: Path) -> Document:
        document = self.catalog.document_by_path(str(path))
        assert document is not None, f"{path} is not in the catalogue"
        return document

    def states(self) -> dict[str, str]:
        documents, _ = self.catalog.documents(limit=-1)
        return {os.path.relpath(document.path, self.docs): document.state for document in documents}

    @property
    def embedded(self) -> list[str]:
        return self.stores.embedder.texts

    def forget_what_was_embedded(self) -> None:
        self.embedded.clear()
        self.parser.paths_read.clear()

    def check(self) -> None:
        check_integrity(self.catalog, self.stores.table)
