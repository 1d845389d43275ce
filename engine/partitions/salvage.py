"""Salvage: the documents of a table that had to be set aside, of which every row can still be read.

A single file that is lost or damaged in all versions makes the whole table unreadable, although the other files are
intact. LanceDB can read rows by address, so they are read in portions, and portions that fail are skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
from lancedb.table import Table

from engine.partitions.rows import ChunkRow
from engine.partitions.schema import IDENTITY_KEY, chunk_schema, to_rows

log = logging.getLogger(__name__)

_PORTION = 500
# The bits of an address below the number of the file.
_PLACE_BITS = 32
# The most rows kept of documents that are incomplete so far; those with lost rows never become complete.
_MOST_ROWS_WAITING = 50_000
# The suffix of LanceDB's table folders.
_SUFFIX = ".lance"

_Documents = dict[int, list[ChunkRow]]


def salvaged(folder: Path, dimensions: int, identity: str, wanted: Mapping[int, int]) -> Iterator[_Documents]:
    """Yields complete documents from the table whose files are in `folder`, some at a time.

    Args:
        folder: The folder of its files.
        dimensions: The length of its vectors.
        identity: The embedding model that made them; a table of another model is ignored.
        wanted: The documents to look for, and how many rows each has.
    """
    try:
        table = _opened(folder)
        if not _is_alike(table, dimensions, identity):
            return
        places = _places(table)
    except (RuntimeError, ValueError, OSError) as error:
        log.info("nothing can be read of %s: %s", folder.name, error)
        return
    waiting: _Documents = {}
    for portion in _portions(places):
        complete: _Documents = {}
        for row in _read(table, portion):
            if row.document_id in wanted:
                waiting.setdefault(row.document_id, []).append(row)
                if len(waiting[row.document_id]) == wanted[row.document_id]:
                    complete[row.document_id] = waiting.pop(row.document_id)
        _bound(waiting)
        if whole := {one: in_order for one, rows in complete.items() if (in_order := _in_order(rows))}:
            yield whole


def _opened(folder: Path) -> Table:
    """Opens the table. Raises what LanceDB raises, and OSError."""
    if folder.suffix != _SUFFIX:
        # Earlier versions named it without the suffix.
        folder = folder.rename(folder.with_name(folder.name + _SUFFIX))
    return lancedb.connect(folder.parent).open_table(folder.name.removesuffix(_SUFFIX))


def _is_alike(table: Table, dimensions: int, identity: str) -> bool:
    made_by = (table.schema.metadata or {}).get(IDENTITY_KEY, b"").decode()
    return bool(made_by == identity and table.schema == chunk_schema(dimensions, identity))


def _places(table: Table) -> list[int]:
    """Returns the addresses of all rows that were not removed, from the manifest, without reading files of rows."""
    batches: Any = table.search().with_row_id(True).select(["_rowid"]).to_batches()
    found = [batch.column("_rowid").to_numpy() for batch in batches]
    places: list[int] = np.concatenate(found).tolist() if found else []
    return places


def _portions(places: list[int]) -> Iterator[list[int]]:
    """Yields some addresses at a time, all of one file, so that a damaged file affects no others."""
    for _, of_one in groupby(places, key=lambda place: place >> _PLACE_BITS):
        in_file = list(of_one)
        for start in range(0, len(in_file), _PORTION):
            yield in_file[start : start + _PORTION]


def _read(table: Table, places: list[int]) -> list[ChunkRow]:
    """Reads the rows at these addresses; returns none if any of them cannot be read."""
    try:
        return to_rows(table.take_row_ids(places).to_arrow().select(table.schema.names))
    except (RuntimeError, ValueError, OSError) as error:
        log.info("%d rows of a table that was set aside cannot be read: %s", len(places), error)
        return []


def _in_order(rows: list[ChunkRow]) -> list[ChunkRow]:
    """Returns the rows of a document in the order of its text; [] if one is missing or there twice."""
    ordered = sorted(rows, key=lambda row: row.ordinal)
    return ordered if [row.ordinal for row in ordered] == list(range(len(ordered))) else []


def _bound(waiting: _Documents) -> None:
    """Drops the oldest incomplete documents, which have probably lost rows."""
    num_rows = sum(map(len, waiting.values()))
    while num_rows > _MOST_ROWS_WAITING:
        num_rows -= len(waiting.pop(next(iter(waiting))))
