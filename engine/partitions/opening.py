"""Opening the table: what a killed process left unfinished is set aside, what is missing is created.

A killed `create_table` leaves a folder that LanceDB lists but cannot open. It is renamed, not deleted; the catalogue
still knows the documents, so they are indexed again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import lancedb
import pyarrow as pa  # type: ignore[import-untyped]
from lancedb.db import DBConnection
from lancedb.table import Table

from engine.config import MemorySettings
from engine.errors import EmbedderMismatch, LibraryError
from engine.partitions.faults import is_the_systems
from engine.partitions.indices import complete_indices
from engine.partitions.recovery import Whole, whole_table
from engine.partitions.schema import (
    FORM,
    FORM_IN_PART,
    FORM_KEY,
    IDENTITY_KEY,
    LAYOUT,
    LAYOUT_KEY,
    LAYOUT_WITHOUT_PLACE,
    NO_PLACE,
    PLACE_COLUMN,
    TEXT_COLUMN,
    chunk_schema,
    indexed,
)
from engine.partitions.searchable import searchable

log = logging.getLogger(__name__)

TABLE = "chunks"
# The most rows whose text is migrated at the start: two or three seconds and 150 MB; ten times as many take 2 GB.
_MOST_ROWS_TO_CHANGE = 20_000


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """An open table, the session that bounds its caches, and the folders of tables that could not be opened.

    `went_back_to_ns` is the time of its rows if later ones were lost, in nanoseconds since 1970.
    """

    table: Table
    session: lancedb.Session
    set_aside: tuple[Path, ...]
    went_back_to_ns: int | None


def open_table(folder: Path, dimensions: int, identity: str, settings: MemorySettings) -> OpenedTable:
    """Opens `chunks` in `folder`, or creates it, with all its indices."""
    folder.mkdir(parents=True, exist_ok=True)
    # Arrow's own allocator keeps freed memory, and nobody can measure it. Memory from the system's allocator is
    # measured, and returned between batches.
    pa.set_memory_pool(pa.system_memory_pool())
    session = lancedb.Session(
        index_cache_size_bytes=settings.lance_index_cache_bytes,
        metadata_cache_size_bytes=settings.lance_metadata_cache_bytes,
    )
    connection = lancedb.connect(folder, session=session)
    whole, set_aside = _whole_or_set_aside(connection, folder / f"{TABLE}.lance")
    if whole is not None:
        table = whole.table
        _bring_up(table)
        _check(table, identity, dimensions)
    else:
        table = connection.create_table(TABLE, schema=chunk_schema(dimensions, identity, uuid4().hex))
    complete_indices(table)
    _bring_up_texts(table)
    return OpenedTable(table, session, set_aside, whole.went_back_to_ns if whole is not None else None)


def _whole_or_set_aside(connection: DBConnection, files: Path) -> tuple[Whole | None, tuple[Path, ...]]:
    """Returns the table, if there is one, or where it was moved because no version of it can be read."""
    if TABLE not in connection.list_tables().tables:
        return None, ()
    try:
        whole = whole_table(connection, TABLE, files)
    except (RuntimeError, ValueError, OSError) as error:
        if is_the_systems(error):
            raise
        log.warning("The table %r cannot be opened: %s", TABLE, error)
        whole = None
    return (whole, ()) if whole is not None else (None, (_set_aside(files),))


def _set_aside(folder: Path) -> Path:
    # With LanceDB's suffix, so that `salvage` can open it.
    aside = folder.with_name(f"{folder.stem}.broken-{time.time_ns()}{folder.suffix}")
    folder.rename(aside)
    return aside


def _bring_up(table: Table) -> None:
    """Adds the column that a table of the first layout lacks, in one commit; its rows are not rewritten."""
    schema = table.schema
    if (schema.metadata or {}).get(LAYOUT_KEY) == LAYOUT_WITHOUT_PLACE and PLACE_COLUMN not in schema.names:
        table.add_columns({PLACE_COLUMN: NO_PLACE})


def _bring_up_texts(table: Table) -> None:
    """Migrates the texts of rows that an older Ragdoll wrote to the present form of the word index.

    This runs once and takes some seconds. If too many rows would change, they keep their form until they are written
    again, because time and memory grow with their number; most words still find them. If it fails, the next start tries
    again.
    """
    if (table.schema.field(TEXT_COLUMN).metadata or {}).get(FORM_KEY) in (FORM, FORM_IN_PART):
        return
    try:
        ids, texts = _old_texts(table)
        if len(ids) > _MOST_ROWS_TO_CHANGE:
            log.info("The texts of the index stay as they are: more than %d would change", _MOST_ROWS_TO_CHANGE)
            _note_form(table, FORM_IN_PART)
            return
        if ids:
            table.merge_insert("row_id").when_matched_update_all().execute(indexed(ids, texts, table.schema))
            # The update removed whole files from the word index, including rows that did not change.
            table.optimize()
        _note_form(table, FORM)
    except (RuntimeError, ValueError, OSError) as error:
        log.warning("The texts of the index could not be brought up: %s", error)


def _note_form(table: Table, form: bytes) -> None:
    table.update_field_metadata({"path": TEXT_COLUMN, "metadata": {FORM_KEY.decode(): form.decode()}})


def _old_texts(table: Table) -> tuple[list[str], list[str]]:
    """Returns ids of rows with texts in an old form, and their texts in the present form; stops at too many."""
    ids, texts = list[str](), list[str]()
    for batch in table.search().select(["row_id", TEXT_COLUMN]).to_batches():
        for row_id, text in zip(*(batch.column(name).to_pylist() for name in ("row_id", TEXT_COLUMN)), strict=True):
            if searchable(text) != text:
                ids.append(row_id)
                texts.append(searchable(text))
        if len(ids) > _MOST_ROWS_TO_CHANGE:
            break
    return ids, texts


def _check(table: Table, identity: str, dimensions: int) -> None:
    metadata = table.schema.metadata or {}
    if metadata.get(LAYOUT_KEY) not in (LAYOUT, LAYOUT_WITHOUT_PLACE):
        raise LibraryError(
            "The index was made by another version of Ragdoll.", "Use that version, or choose another data folder."
        )
    made_by = metadata.get(IDENTITY_KEY, b"").decode()
    if made_by != identity or table.schema != chunk_schema(dimensions, identity):
        raise EmbedderMismatch(
            f"The library was indexed with the embedding model {made_by!r}, but {identity!r} is set.",
            "Choose the first one again in the settings, or use a new data folder for the other.",
        )
