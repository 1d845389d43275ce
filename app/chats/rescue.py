"""Saves what can still be read of a damaged file of chats into a new one, row by row, without the search index.

The index is most of the file and is rebuilt from the turns, so damage mostly costs nothing. It cannot be dropped in the
damaged file, because SQLite reads what it drops.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from app.chats.columns import decoded

_TABLES = ("conversations", "turns", "runs", "run_files", "run_evidence", "presets")
_PORTION = 64
# Rows are numbered from 1 on. A higher number is damage; if the highest cannot be read at all, fewer are tried.
_HIGHEST_NUMBER = 2**24
_TRIED_BLINDLY = 2**16

_MENDING = (
    # A chat whose own row is lost is named by its first question.
    """INSERT INTO conversations (conversation_id, title, created, updated)
        SELECT conversation_id, substr(question, 1, 80), created,
            (SELECT max(created) FROM turns WHERE conversation_id = first.conversation_id)
        FROM turns AS first
        WHERE conversation_id NOT IN (SELECT conversation_id FROM conversations)
            AND number = (SELECT min(number) FROM turns WHERE conversation_id = first.conversation_id)""",
    # A turn whose parent is lost follows the turn before that.
    """UPDATE turns SET parent_id = (
            SELECT turn_id FROM turns AS earlier
            WHERE earlier.conversation_id = turns.conversation_id AND earlier.number < turns.number
            ORDER BY earlier.number DESC LIMIT 1)
        WHERE parent_id NOT IN (SELECT turn_id FROM turns)""",
    "DELETE FROM run_files WHERE run_id NOT IN (SELECT run_id FROM runs)",
    "DELETE FROM run_evidence WHERE file_id NOT IN (SELECT file_id FROM run_files)",
)


def rescue(damaged: Path, into: sqlite3.Connection) -> int:
    """Copies all rows that can be read into empty tables of the newest version; returns the number of chats.

    Raises:
        sqlite3.OperationalError: The new file cannot be written. Damage of the old one raises nothing.
    """
    with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        source.text_factory = decoded
        into.execute("PRAGMA foreign_keys = OFF")
        into.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            _copy(source, into, table)
        for mending in _MENDING:
            into.execute(mending)
        (num_chats,) = into.execute("SELECT count(*) FROM conversations WHERE deleted_at IS NULL").fetchone()
        into.execute("COMMIT")
    return int(num_chats)


def _copy(source: sqlite3.Connection, into: sqlite3.Connection, table: str) -> None:
    try:
        columns = _columns(source, table) & _columns(into, table)
    except sqlite3.DatabaseError:
        # Nothing at all can be read.
        return
    if not columns:
        # The file is of a version that had no such table yet.
        return
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    # IGNORE, because damage may have given two rows the same id.
    put = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
    last = _last_number(source, table)
    for first in range(1, last + 1, _PORTION):
        into.executemany(put, _readable(source, f"SELECT {names} FROM {table}", first, first + _PORTION - 1))


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _last_number(source: sqlite3.Connection, table: str) -> int:
    for asked in (
        f"SELECT max(rowid) FROM {table}",
        # The index of the ids holds the numbers as well.
        f"SELECT max(+rowid) FROM {table} INDEXED BY sqlite_autoindex_{table}_1",
    ):
        try:
            (last,) = source.execute(asked).fetchone()
        except sqlite3.DatabaseError:
            continue
        return min(last or 0, _HIGHEST_NUMBER)
    return _TRIED_BLINDLY


def _readable(source: sqlite3.Connection, select: str, first: int, last: int) -> Iterator[tuple[object, ...]]:
    """Yields the rows with these numbers that can be read: where reading fails, the range is halved down to one row."""
    try:
        rows = source.execute(f"{select} WHERE rowid BETWEEN ? AND ?", (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            return
        middle = (first + last) // 2
        yield from _readable(source, select, first, middle)
        yield from _readable(source, select, middle + 1, last)
    else:
        yield from rows
