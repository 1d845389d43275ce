"""Saves what can still be read of a damaged catalogue into a new one, row by row, as the window does with its chats.

The damaged file is kept beside it. Lost documents are found again by scanning the folders, and their vectors are still
in the table (see `m009_beginning`), so they are read again, but not embedded again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.catalog.migrations import begin_anew, migrate, refuse_unknown

log = logging.getLogger(__name__)

# Not runs and migrations, which the new file has of its own.
_TABLES = ("collections", "roots", "documents", "arrivals", "passwords", "vector_tables", "mounts", "former_names")
_LEAST_NUMBER, _HIGHEST_NUMBER = -(2**63), 2**63 - 1
# How long a drive may take to say what is at a path.
_LOOK_SECONDS = 2.0
# The most queries between two unreadable pages if no index lists the rows.
_MOST_PROBES = 4096
_MENDING = (
    "DELETE FROM passwords WHERE document_id NOT IN (SELECT document_id FROM documents)",
    "DELETE FROM former_names WHERE collection_id NOT IN (SELECT collection_id FROM collections)",
    # If it is lost, the number of stored chunks is its lower bound.
    "INSERT INTO arrivals SELECT coalesce(sum(num_chunks), 0) FROM documents WHERE NOT EXISTS (SELECT 1 FROM arrivals)",
    # All folders are scanned again, which finds lost documents.
    "UPDATE roots SET is_surveyed = 0",
)

_Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Rescued:
    """What was saved of a file, and where it is now."""

    num_folders: int
    num_documents: int
    kept: Path


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether an error means that the file is damaged; other errors have classes of their own."""
    return type(error) is sqlite3.DatabaseError or "not decode to UTF-8" in str(error)


def note_damage(file: Path) -> None:
    """Makes the next opening rescue the file: damage was found that a check of its pages may not detect."""
    with suppress(OSError):
        _mark(file).touch()


def is_noted(file: Path) -> bool:
    return _mark(file).exists()


def _mark(file: Path) -> Path:
    return file.with_name(f"{file.name}-damaged")


def finish(file: Path) -> None:
    """Completes a rescue that was killed between its last two steps. Raises OSError."""
    rescued = _rescued(file)
    if rescued.exists() and not file.exists():
        rescued.replace(file)


def replace(file: Path) -> Rescued:
    """Replaces a damaged file with a new one that has everything readable.

    Raises:
        CatalogBroken: A newer version has written the file. It is left unchanged.
        sqlite3.OperationalError: The new file cannot be written, for example because the disk is full. Likewise.
        OSError: Likewise.
    """
    rescued = _rescued(file)
    _remove(rescued)
    try:
        rescued.touch(mode=0o600)
        with closing(sqlite3.connect(rescued, isolation_level=None)) as into:
            # It is written in one transaction and not used before it is complete, so it needs no write-ahead log.
            into.execute("PRAGMA journal_mode = DELETE")
            into.execute("PRAGMA foreign_keys = OFF")
            migrate(into, file)
            num_folders, num_documents = _rescue(file, into)
    except BaseException:
        _remove(rescued)
        raise
    kept = _set_aside(file)
    rescued.replace(file)
    _mark(file).unlink(missing_ok=True)
    return Rescued(num_folders, num_documents, kept)


def _rescued(file: Path) -> Path:
    return file.with_name(f"{file.stem}.rescued{file.suffix}")


def _set_aside(file: Path) -> Path:
    """Renames SQLite's side files and then the database; returns its new path."""
    stamp, number = time.strftime("%Y%m%d-%H%M%S"), 1
    kept = file.with_name(f"{file.stem}.set-aside-{stamp}{file.suffix}")
    while kept.exists():
        number += 1
        kept = file.with_name(f"{file.stem}.set-aside-{stamp}-{number}{file.suffix}")
    for suffix in ("-wal", "-shm", ""):
        part = file.with_name(file.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    return kept


def _remove(file: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _rescue(damaged: Path, into: sqlite3.Connection) -> tuple[int, int]:
    wal = damaged.with_name(f"{damaged.name}-wal")
    # Without a write-ahead log, SQLite need not create side files.
    mode = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?{mode}", uri=True)) as source:
        source.text_factory = _decoded
        _refuse_newer(source, damaged)
        into.execute("BEGIN IMMEDIATE")
        into.execute("DELETE FROM arrivals")
        for table in _TABLES:
            _copy(source, into, table)
        _copy_exclusions(source, into)
        _put_roots_back(source, into)
    for mending in _MENDING:
        into.execute(mending)
    begin_anew(into)
    num_folders, num_documents = into.execute(
        "SELECT (SELECT count(*) FROM roots), (SELECT count(*) FROM documents)"
    ).fetchone()
    into.execute("COMMIT")
    return int(num_folders), int(num_documents)


def _decoded(text: bytes) -> str:
    # A damaged character is replaced, so that the row is not lost.
    return text.decode(errors="replace")


def _refuse_newer(source: sqlite3.Connection, damaged: Path) -> None:
    """Raises CatalogBroken if the file has migrations that this version does not know."""
    with suppress(sqlite3.DatabaseError):
        refuse_unknown({name for (name,) in source.execute("SELECT name FROM migrations")}, damaged)


def _copy(source: sqlite3.Connection, into: sqlite3.Connection, table: str) -> None:
    columns = _common_columns(source, into, table)
    if columns:
        for _, *values in _rows(source, table, ", ".join(columns)):
            _put(into, table, columns, values)


def _copy_exclusions(source: sqlite3.Connection, into: sqlite3.Connection) -> None:
    """Copies exclusions from both ends, because this table has no row ids."""
    columns = _common_columns(source, into, "exclusions")
    select = f"SELECT {', '.join(columns)} FROM exclusions"
    for order in ("ASC", "DESC") if "path" in columns else ():
        for values in _until_damage(source, f"{select} ORDER BY path {order}")[0]:
            _put(into, "exclusions", columns, values)
            # With its path only, if the other columns are invalid.
            _put(into, "exclusions", ["path"], [values[columns.index("path")]])


def _put_roots_back(source: sqlite3.Connection, into: sqlite3.Connection) -> None:
    """Restores unreadable roots and collections from their indices, which have paths and names.

    They are few, so each index is on a single page.
    """
    for row_id, collection_id, path in _until_damage(
        source, "SELECT rowid, collection_id, path FROM roots INDEXED BY sqlite_autoindex_roots_1"
    )[0]:
        if not isinstance(path, bytes):
            continue
        # As in `span`. If the path is out of reach, it is a folder if documents are below it.
        first, last = path.rstrip(b"/") + b"/", path.rstrip(b"/") + b"0"
        below = into.execute("SELECT 1 FROM documents WHERE path >= ? AND path < ? LIMIT 1", (first, last)).fetchone()
        mode, device = _mode_and_device(path)
        is_folder = below is not None or stat.S_ISDIR(mode)
        bounds = (first, last) if is_folder else (path, path + b"\0")
        columns = ["root_id", "collection_id", "path", "first", "last", "is_folder", "device"]
        _put(into, "roots", columns, (row_id, collection_id, path, *bounds, is_folder, device))
    keys = "SELECT rowid, name_key FROM collections INDEXED BY sqlite_autoindex_collections_1"
    names = {row[0]: row[1] for row in _until_damage(source, keys)[0]}
    lacking = into.execute(
        "SELECT DISTINCT collection_id FROM roots WHERE collection_id NOT IN (SELECT collection_id FROM collections)"
    ).fetchall()
    for (collection_id,) in lacking:
        name = names.get(collection_id) or f"Recovered {collection_id}"
        key = str(name).casefold()
        _put(into, "collections", ["collection_id", "name", "name_key"], (collection_id, name, key))


def _mode_and_device(path: bytes) -> tuple[int, int]:
    """Returns both as the system has them; zeros if nothing is there, or if its drive does not answer in time."""
    seen = [(0, 0)]

    def look() -> None:
        with suppress(OSError, ValueError):
            found = os.stat(path)
            seen.append((found.st_mode, found.st_dev))

    # A look at a share that hangs cannot be stopped, and no engine would open.
    looking = threading.Thread(target=look, name="rescue-look", daemon=True)
    looking.start()
    looking.join(_LOOK_SECONDS)
    return seen[-1]


def _put(into: sqlite3.Connection, table: str, columns: list[str], values: list[object] | _Row) -> None:
    """Inserts a row; rows that exist already or that have invalid values are skipped."""
    marks = ", ".join("?" * len(columns))
    with suppress(sqlite3.IntegrityError):
        into.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)


def _common_columns(source: sqlite3.Connection, into: sqlite3.Connection, table: str) -> list[str]:
    """Returns the columns that the table has in both files; none if it cannot be read at all."""
    try:
        return sorted(_columns(source, table) & _columns(into, table))
    except sqlite3.DatabaseError:
        return []


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _rows(source: sqlite3.Connection, table: str, columns: str) -> Iterator[_Row]:
    """Yields all readable rows, each with its row id first: from both ends to the damage, then those in between."""
    select = f"SELECT rowid, {columns} FROM {table}"
    between = f"{select} WHERE rowid > ? AND rowid < ? ORDER BY rowid"
    rows, gap = _from_both_ends(source, between, _LEAST_NUMBER, _HIGHEST_NUMBER)
    yield from rows
    if gap is None:
        return
    low, high = gap
    numbers = _numbers_in_indices(source, table)
    if numbers is None:
        yield from _probed(source, between, low, high)
        return
    for number in sorted(number for number in numbers if low < number < high):
        yield from _until_damage(source, f"{select} WHERE rowid = ?", (number,))[0]


def _probed(source: sqlite3.Connection, between: str, low: int, high: int) -> Iterator[_Row]:
    """Yields rows in a gap by bisection, widest gaps first: ids are times, so row ids are sparse."""
    gaps, probes = deque([(low, high)]), 0
    while gaps and probes < _MOST_PROBES:
        low, high = gaps.popleft()
        if high - low < 2:
            continue
        middle = (low + high) // 2
        for first, last in ((low, middle + 1), (middle, high)):
            probes += 1
            rows, gap = _from_both_ends(source, between, first, last)
            yield from rows
            # A single unreadable row id need not be divided.
            if gap is not None and gap[1] - gap[0] > 2:
                gaps.append(gap)


def _from_both_ends(
    source: sqlite3.Connection, between: str, low: int, high: int
) -> tuple[list[_Row], tuple[int, int] | None]:
    """Returns the rows from both ends to the damage, and the row ids around it; None if there is no damage."""
    upwards, is_damaged = _until_damage(source, between, (low, high))
    if not is_damaged:
        return upwards, None
    low = _number(upwards, low)
    downwards, _ = _until_damage(source, f"{between} DESC", (low, high))
    return upwards + downwards, (low, _number(downwards, high))


def _number(rows: list[_Row], otherwise: int) -> int:
    """Returns the row id of the last row."""
    number = rows[-1][0] if rows else otherwise
    return number if isinstance(number, int) else otherwise


def _numbers_in_indices(source: sqlite3.Connection, table: str) -> set[int] | None:
    """Returns all row ids from an index that can be read completely; None if there is none."""
    try:
        indices = source.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?", (table,))
        names = [name for (name,) in indices]
    except sqlite3.DatabaseError:
        return None
    for name in names:
        # SQLite itself refuses a partial index here.
        found, is_damaged = _until_damage(source, f'SELECT rowid FROM {table} INDEXED BY "{name}"')
        if found and not is_damaged:
            return {number for (number,) in found if isinstance(number, int)}
    return None


def _until_damage(source: sqlite3.Connection, select: str, parameters: tuple[int, ...] = ()) -> tuple[list[_Row], bool]:
    """Returns the rows up to the first unreadable one, and whether there is one."""
    rows: list[_Row] = []
    try:
        for row in source.execute(select, parameters):
            rows.append(row)
    except sqlite3.DatabaseError:
        return rows, True
    return rows, False
