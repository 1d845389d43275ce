"""Salvage: the documents of a table that had to be set aside, of which every row can still be read.

One file that is lost or damaged in all versions makes a table unreadable as a whole, though the others are as they
were. LanceDB reads rows by where they lie, so these are read a portion after another, and what fails is passed over.
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
# Of where a row lies, those below the number of its file.
_PLACE_BITS = 32
# Rows of documents that are not complete yet; those of which a part is lost never become so.
_MOST_ROWS_WAITING = 50_000
# As LanceDB names the folders of its tables.
_SUFFIX = ".lance"

_Documents = dict[int, list[ChunkRow]]


def salvaged(folder: Path, dimensions: int, identity: str, wanted: Mapping[int, int]) -> Iterator[_Documents]:
    """Whole documents out of the table whose files are in `folder`, some at a time.

    Args:
        folder: Of its files.
        dimensions: Of its vectors.
        identity: Of the model that made them; vectors of others are of no use.
        wanted: The documents that are looked for, and how many rows each has.
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
    """Raises what LanceDB raises, and OSError."""
    if folder.suffix != _SUFFIX:
        # As earlier versions named it.
        folder = folder.rename(folder.with_name(folder.name + _SUFFIX))
    return lancedb.connect(folder.parent).open_table(folder.name.removesuffix(_SUFFIX))


def _is_alike(table: Table, dimensions: int, identity: str) -> bool:
    made_by = (table.schema.metadata or {}).get(IDENTITY_KEY, b"").decode()
    return bool(made_by == identity and table.schema == chunk_schema(dimensions, identity))


def _places(table: Table) -> list[int]:
    """Where the rows lie that were not removed: by the manifest alone, so that no file of rows is read for it."""
    batches: Any = table.search().with_row_id(True).select(["_rowid"]).to_batches()
    found = [batch.column("_rowid").to_numpy() for batch in batches]
    places: list[int] = np.concatenate(found).tolist() if found else []
    return places


def _portions(places: list[int]) -> Iterator[list[int]]:
    """Some places of one file at a time, so that another that is damaged costs none of them."""
    for _, of_one in groupby(places, key=lambda place: place >> _PLACE_BITS):
        in_file = list(of_one)
        for start in range(0, len(in_file), _PORTION):
            yield in_file[start : start + _PORTION]


def _read(table: Table, places: list[int]) -> list[ChunkRow]:
    """The rows that lie there; none of them where one cannot be read."""
    try:
        return to_rows(table.take_row_ids(places).to_arrow().select(table.schema.names))
    except (RuntimeError, ValueError, OSError) as error:
        log.info("%d rows of a table that was set aside cannot be read: %s", len(places), error)
        return []


def _in_order(rows: list[ChunkRow]) -> list[ChunkRow]:
    """All rows of a document in the order of its text; [] where they are not each there once."""
    ordered = sorted(rows, key=lambda row: row.ordinal)
    return ordered if [row.ordinal for row in ordered] == list(range(len(ordered))) else []


def _bound(waiting: _Documents) -> None:
    """Whoever waits longest has lost a part."""
    num_rows = sum(map(len, waiting.values()))
    while num_rows > _MOST_ROWS_WAITING:
        num_rows -= len(waiting.pop(next(iter(waiting))))
