"""Reconciling: which sealed files still match the table, found out when the store opens.

After a normal end, a note beside the files has the table's version and the rows that were dead; while the table still
has that version, nothing else is read. Otherwise the id and key of every row are compared, which takes about a second
for a million. LanceDB is always right: a file that lacks rows is rewritten, and surplus rows in it are dead.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engine.config import write_atomically
from engine.partitions.files import drop_others, open_all
from engine.partitions.layout import Origin, PartitionDamaged
from engine.partitions.packed import Identities, Mask, Packed, Quantize, empty, joined, packed
from engine.partitions.partition import Partition
from engine.partitions.rows import Vectors
from engine.partitions.shards import Contents
from engine.partitions.snapshot import Snapshot

log = logging.getLogger(__name__)

NOTE = "alive.json"


class Rows(Protocol):
    """The methods of the table that are used here."""

    @property
    def version(self) -> int: ...

    @property
    def table_id(self) -> str: ...

    def identities(self) -> Iterator[Identities]: ...

    def vectors_of_shard(self, shard: int) -> Iterator[tuple[Identities, Vectors]]: ...


@dataclass(frozen=True, slots=True)
class Note:
    """The state of all shards at a version of the table. `sealed` has the block's CRC and the dead rows of each file.

    Dead rows are packed bits in base64, "" if every row is alive.
    """

    table_id: str
    table_version: int
    newest: int
    open: tuple[int, ...]
    missing: tuple[int, ...]
    sealed: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, snapshot: Snapshot, rows: Rows) -> Note:
        """Makes a note of a snapshot that is in step with the table."""
        sealed = {
            str(part.partition.number): (part.partition.header.block_crc, _packed_bits(part.alive))
            for part in snapshot.sealed
        }
        return cls(rows.table_id, rows.version, snapshot.newest, snapshot.open_numbers, snapshot.missing, sealed)

    def write(self, folder: Path) -> None:
        """Writes it into the folder. Raises OSError."""
        words = {name: getattr(self, name) for name in self.__slots__}
        content = json.dumps(words).encode()
        write_atomically(folder / NOTE, f"{zlib.crc32(content):08x}\n".encode() + content)

    @classmethod
    def read(cls, folder: Path) -> Note | None:
        """Reads the note; None if it is missing or damaged."""
        try:
            crc, _, content = (folder / NOTE).read_bytes().partition(b"\n")
            if int(crc, 16) != zlib.crc32(content):
                return None
            words: dict[str, Any] = json.loads(content)
            words |= {name: tuple(words[name]) for name in ("open", "missing")}
            return cls(**words)
        except (OSError, ValueError, TypeError, KeyError):
            return None


def load(rows: Rows, folder: Path, origin: Origin, quantize: Quantize) -> tuple[list[Contents], int]:
    """Opens the files, deletes unusable ones, and reads the open rows; returns all shards and the newest number.

    Raises:
        LibraryError: The table cannot be read.
        OSError: The folder cannot be written, or the system does not open a file now; nothing is deleted then.
    """
    partitions = open_all(folder, origin)
    note = Note.read(folder)
    if note is not None and (noted := _noted(note, rows, partitions)) is not None:
        contents, newest = noted, note.newest
    else:
        contents, newest = _compared(rows, partitions)
    # The others are closed first, because Windows deletes no open file.
    partitions.clear()
    drop_others(folder, {content.partition.path for content in contents if content.partition is not None})
    return [_with_rows(content, rows, origin.dimensions, quantize) for content in contents], newest


def rows_of(number: int, rows: Rows, dimensions: int, quantize: Quantize) -> Packed:
    """Reads all rows of a shard from the table. Raises LibraryError."""
    portions = [
        packed(of.ids, of.documents, of.keys, vectors, quantize)
        for of, vectors in rows.vectors_of_shard(number)
        if len(of)
    ]
    return joined([empty(dimensions), *portions])


def _noted(note: Note, rows: Rows, partitions: Mapping[int, Partition]) -> list[Contents] | None:
    """Returns the state of the note; None if something has changed since, or a file exists that it does not name."""
    if (note.table_id, note.table_version) != (rows.table_id, rows.version):
        return None
    if partitions.keys() - {*note.missing, *note.open, *map(int, note.sealed)}:
        return None
    contents = {number: Contents(number, is_missing=True) for number in note.missing}
    contents |= {number: Contents(number, rows=_TO_BE_READ) for number in note.open}
    for name, (crc, dead) in note.sealed.items():
        partition = partitions.get(number := int(name))
        if partition is not None and partition.header.block_crc != crc:
            return None
        # Rows of this shard that arrived late are in no file, so the file is rewritten.
        if partition is None or number in contents:
            contents[number] = Contents(number, is_missing=True)
        else:
            contents[number] = Contents(number, partition, _mask(dead, partition.count))
    return list(contents.values())


def _compared(rows: Rows, partitions: Mapping[int, Partition]) -> tuple[list[Contents], int]:
    """Determines the state by comparing the identity of every row."""
    by_shard = _by_shard(rows)
    newest = max(by_shard, default=0)
    contents = []
    for number, of in by_shard.items():
        partition = partitions.get(number)
        if number == newest:
            contents.append(Contents(number, rows=_TO_BE_READ))
        elif partition is not None and (alive := _alive(partition, of)) is not None:
            contents.append(Contents(number, partition, None if alive.all() else alive))
        else:
            contents.append(Contents(number, is_missing=True))
    return contents, newest


def _by_shard(rows: Rows) -> dict[int, Identities]:
    portions: dict[int, list[Identities]] = {}
    for of in rows.identities():
        for number in np.unique(of.shards).tolist():
            portions.setdefault(number, []).append(of.take(of.shards == number))
    return {number: Identities.joined(parts) for number, parts in portions.items()}


def _alive(partition: Partition, of: Identities) -> Mask | None:
    """Returns a mask of the rows of a file that the table still has; None if the file lacks rows."""
    try:
        ids, keys = partition.identities()
    except PartitionDamaged as error:
        log.info("partition dropped: %s", error)
        return None
    order = np.argsort(ids)
    places = order[np.minimum(np.searchsorted(ids, of.ids, sorter=order), len(ids) - 1)]
    if not np.all((ids[places] == of.ids) & (keys[places] == of.keys)):
        return None
    alive = np.zeros(len(ids), np.bool_)
    alive[places] = True
    return alive


def _with_rows(content: Contents, rows: Rows, dimensions: int, quantize: Quantize) -> Contents:
    if content.rows is not _TO_BE_READ:
        return content
    return Contents(content.number, rows=rows_of(content.number, rows, dimensions, quantize))


def _packed_bits(alive: Mask | None) -> str:
    return "" if alive is None else base64.b64encode(np.packbits(~alive).tobytes()).decode()


def _mask(dead: str, count: int) -> Mask | None:
    if not dead:
        return None
    alive: Mask = np.unpackbits(np.frombuffer(base64.b64decode(dead), np.uint8), count=count) == 0
    return alive


# A placeholder for the rows of an open shard until they are read.
_TO_BE_READ = empty(0)
