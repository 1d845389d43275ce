"""Libraries for the serving bench: ours, and a copy whose vectors are searched by LanceDB's own index on the disk.

Peers search the copy, and so does our side where its index stays on the disk. In the original, the engine drops that
index as soon as it opens the table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.catalog import Catalog, VectorTable
from engine.config import Home, MemorySettings
from engine.memory.ledger import Ledger
from engine.memory.profile import Profile
from engine.memory.profile_file import profile_file, save_profile
from engine.partitions.table import ChunkTable
from tests.bench.confined import forget_pages

_DONE = "the vectors are indexed on the disk"


@dataclass(frozen=True, slots=True)
class Libraries:
    """Two engine folders with the same documents and vectors, and the table of the second."""

    resident: Path
    on_disk: Path
    table: Path

    def home(self, *, is_on_disk: bool) -> Path:
        return self.on_disk if is_on_disk else self.resident


def libraries(folder: Path) -> Libraries:
    """Returns the libraries of `folder`, which no engine has open; the copy is made by the first call."""
    copy = folder.with_name(f"{folder.name}-on-disk")
    if not (copy / _DONE).exists():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("kv", "config", "logs", "run"))
        _index_vectors(copy)
        (copy / _DONE).touch()
    return Libraries(folder, copy, _table_folder(copy))


@contextmanager
def fresh(home: Path, model: Path, profile: Profile) -> Iterator[None]:
    """Removes cached KV and changed settings before and after the block.

    An engine in the block knows the machine as `profile` describes it. The page cache has nothing of its files: pages
    that another process brought in would be free for a limited side.
    """
    _forget(home)
    save_profile(profile_file(Home.under(home).data), profile)
    for file in (model, *home.rglob("*")):
        if file.is_file():
            forget_pages(file)
    try:
        yield
    finally:
        _forget(home)


def _forget(home: Path) -> None:
    shutil.rmtree(Home.under(home).cache / "kv", ignore_errors=True)
    Home.under(home).settings_file.unlink(missing_ok=True)


def _active(home: Path) -> VectorTable:
    catalog = Catalog.open(Home.under(home).library)
    try:
        active = catalog.active_table()
    finally:
        catalog.close()
    assert active is not None
    return active


def _table_folder(home: Path) -> Path:
    return Home.under(home).library / _active(home).folder


def _index_vectors(home: Path) -> None:
    """Creates the index as the engine does when it keeps its index on the disk."""
    active = _active(home)
    table = ChunkTable.open(_table_folder(home), active.dimensions, active.identity, MemorySettings(), Ledger())
    try:
        table.index_vectors()
    finally:
        table.close()
