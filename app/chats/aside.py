"""Files of chats that were set aside: moved out of the way with all that belongs to them, and back where that serves.

Earlier versions set aside what a newer one had written; that comes back once it can be read.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

log = logging.getLogger(__name__)
_MARK = ".set-aside-"


def set_aside(file: Path) -> Path:
    """Moves the database and what SQLite keeps beside it out of the way; returns where it is now."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = file.with_name(f"{file.stem}{_MARK}{stamp}{file.suffix}")
    number = 1
    while kept.exists():
        number += 1
        kept = file.with_name(f"{file.stem}{_MARK}{stamp}-{number}{file.suffix}")
    move(file, kept)
    return kept


def take_back(file: Path, newest_version: int) -> None:
    """Where there are no chats, puts the newest whole file in their place that was set aside and holds some."""
    aside = sorted(file.parent.glob(f"{file.stem}{_MARK}*{file.suffix}"), reverse=True)
    if not aside or (file.exists() and _holds_chats(file) is not False):
        return
    for kept in aside:
        if _holds_chats(kept, newest_version):
            remove(file)
            move(kept, file)
            log.info("%s is back from %s", file.name, kept.name)
            return


def move(file: Path, to: Path) -> None:
    """The database last: without it, what SQLite keeps beside it is nothing."""
    for suffix in ("-wal", "-shm", ""):
        part = file.with_name(file.name + suffix)
        if part.exists():
            part.rename(to.with_name(to.name + suffix))


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _holds_chats(file: Path, newest_version: int | None = None) -> bool | None:
    """None where that cannot be told; of a version beyond `newest_version`, and of a damaged file, it cannot."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if newest_version is not None and version > newest_version:
                return None
            asked = "SELECT EXISTS (SELECT 1 FROM conversations) OR EXISTS (SELECT 1 FROM runs)"
            (holds_some,) = connection.execute(asked).fetchone()
            if newest_version is not None and holds_some:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                return True if verdict == "ok" else None
            return bool(holds_some)
    except sqlite3.Error:
        return None
