"""Files of chats that were set aside: renamed with all that belongs to them, and put back once they are of use.

Earlier versions set aside what a newer one had written; that comes back once it can be read, unless the present file
has held chats: what a user has deleted from it may be in the older file too.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

log = logging.getLogger(__name__)
_MARK = ".set-aside-"
# The tables of what users make that depend on no other table; older files lack some of them.
_TABLES = ("conversations", "runs", "presets")
# SQLite's `application_id` of a file that has held chats beside an older one; it is 0 in all others.
_USED = 0x52616764


def set_aside(file: Path) -> Path:
    """Renames the database and the files that SQLite keeps beside it; returns the new path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = file.with_name(f"{file.stem}{_MARK}{stamp}{file.suffix}")
    number = 1
    while kept.exists():
        number += 1
        kept = file.with_name(f"{file.stem}{_MARK}{stamp}-{number}{file.suffix}")
    move(file, kept)
    return kept


def readable(file: Path, newest_version: int) -> Path | None:
    """Returns the newest undamaged file that was set aside and has a version up to this one, or None."""
    return next((one for one in _set_aside(file) if _is_readable(one, newest_version)), None)


def take_back(kept: Path, file: Path) -> None:
    """Puts a file that was set aside in the place of one without chats."""
    remove(file)
    move(kept, file)
    log.info("%s is back from %s", file.name, kept.name)


def is_used(connection: sqlite3.Connection) -> bool:
    """Returns whether the file holds chats, or is marked because it has held some; True as well if it is damaged."""
    return holds_chats(connection) or _is_marked(connection)


def mark_used(file: Path, connection: sqlite3.Connection) -> None:
    """Marks a file that holds chats if an older one lies beside it, from which deleted chats must not come back."""
    if _set_aside(file) and holds_chats(connection) and not _is_marked(connection):
        # On a full disk it is marked at a later start.
        with suppress(sqlite3.DatabaseError):
            connection.execute(f"PRAGMA application_id = {_USED}")


def holds_chats(connection: sqlite3.Connection) -> bool:
    """Returns whether the file holds chats; True as well if it is damaged, which its readers then find."""
    try:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return any(
            connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]
            for table in _TABLES
            if table in there
        )
    except sqlite3.DatabaseError:
        return True


def move(file: Path, to: Path) -> None:
    """Moves the database last: the files beside it mean nothing without it."""
    for suffix in ("-wal", "-shm", ""):
        part = file.with_name(file.name + suffix)
        if part.exists():
            part.rename(to.with_name(to.name + suffix))


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _set_aside(file: Path) -> list[Path]:
    """Returns the files that were set aside, the newest first."""
    return sorted(file.parent.glob(f"{file.stem}{_MARK}*{file.suffix}"), reverse=True)


def _is_marked(connection: sqlite3.Connection) -> bool:
    try:
        (number,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError:
        return True
    return bool(number == _USED)


def _is_readable(kept: Path, newest_version: int) -> bool:
    try:
        with closing(sqlite3.connect(f"{kept.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > newest_version or not holds_chats(connection):
                return False
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            return bool(verdict == "ok")
    except (sqlite3.Error, UnicodeDecodeError):
        return False
