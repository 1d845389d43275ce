"""The tables of the chats, and the migrations of older files; what can be read of a damaged file is saved.

Migrations are functions in a row, each applied once and in one transaction; `PRAGMA user_version` counts them.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from PySide6.QtCore import QCoreApplication

from app.chats import aside, search
from app.chats.columns import decoded
from app.chats.errors import ChatsUnusable
from app.chats.rescue import rescue
from app.private import keep_private

log = logging.getLogger(__name__)
# SQLite's name for a database without a file.
_IN_MEMORY = Path(":memory:")
_BUSY_SECONDS = 5.0
# A smaller file is checked in a moment. Answers to "Every file" keep their passages: 10,000 files are some hundred
# megabytes, and the window would wait for a check of all of them.
_LARGE_BYTES = 32 * 2**20


class _Unusable(Exception):
    """The file is damaged; the text goes into the sentence."""


def open_database(file: Path) -> tuple[sqlite3.Connection, str]:
    """Opens the database and migrates it; also returns a sentence if the old file had to be set aside (else "").

    Raises:
        ChatsUnusable: A newer Ragdoll has written the file. It is left as it is.
        sqlite3.OperationalError: The folder cannot be written, or the disk has no room to save a damaged file.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    rescued = file.with_name(f"{file.stem}.rescued{file.suffix}")
    if rescued.exists() and not file.exists():
        # Ragdoll was ended between the last two steps of `_replace`.
        aside.move(rescued, file)
    connection, told = _opened(file, rescued)
    if not aside.is_used(connection) and (kept := aside.readable(file, len(_MIGRATIONS))) is not None:
        connection.close()
        aside.take_back(kept, file)
        connection, _ = _opened(file, rescued)
    aside.mark_used(file, connection)
    return connection, told


def open_copy(file: Path) -> sqlite3.Connection:
    """Returns a temporary copy of the database in `file`, which need not be writable; it lasts until it is closed.

    Raises:
        ChatsUnusable: A newer Ragdoll has written the file.
        sqlite3.Error: It is not there, cannot be read or is damaged, or there is no room for a copy of it.
        OSError: Likewise.
    """
    # "" is a temporary database, which SQLite keeps in memory only while there is enough.
    connection = sqlite3.connect("", isolation_level=None)
    connection.text_factory = decoded
    try:
        with ExitStack() as reading:
            _read_only(file, reading).backup(connection)
        _check(connection, looks_through=True)
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, _Unusable):
            raise sqlite3.DatabaseError(str(error)) from error
        raise
    return connection


def _read_only(file: Path, reading: ExitStack) -> sqlite3.Connection:
    """Opens the file for reading while `reading` is open, even if nothing can be written beside it. Raises as above."""
    uri, wal = file.absolute().as_uri(), file.with_name(f"{file.name}-wal")
    if not wal.exists() or not wal.stat().st_size:
        # Nobody writes, so no shared-memory file beside it is needed.
        return _readable(f"{uri}?mode=ro&immutable=1", reading)
    with suppress(sqlite3.OperationalError):
        return _readable(f"{uri}?mode=ro", reading)
    # The log holds part of the data: copy both to where SQLite can merge them.
    folder = Path(reading.enter_context(TemporaryDirectory(prefix="ragdoll-chats-")))
    for part in (file, wal):
        shutil.copyfile(part, folder / part.name)
    return _readable((folder / file.name).as_uri(), reading)


def _readable(uri: str, reading: ExitStack) -> sqlite3.Connection:
    connection = reading.enter_context(closing(sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True)))
    # SQLite reports most errors only at the first query.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _opened(file: Path, rescued: Path) -> tuple[sqlite3.Connection, str]:
    try:
        return _open(file), ""
    except _Unusable as error:
        num_saved, kept = _replace(file, rescued)
        log.warning("%s set aside as %s: %s; %d chats saved", file.name, kept.name, error, num_saved)
        return _open(file), _told(error, num_saved, kept)
    except sqlite3.OperationalError as error:
        if not _lacks_room(error):
            raise
        return _open(file, is_alone=True), ""


def _told(error: _Unusable, num_saved: int, kept: Path) -> str:
    if not num_saved:
        words = _tr("Your earlier chats could not be opened (%1). They are kept in %2.")
    elif num_saved == 1:
        words = _tr("The file of your chats could not be used (%1): 1 chat was saved from it. It is kept in %2.")
    else:
        words = _tr("The file of your chats could not be used (%1): %3 chats were saved from it. It is kept in %2.")
    return words.replace("%3", str(num_saved)).replace("%1", str(error)).replace("%2", str(kept))


def _replace(file: Path, rescued: Path) -> tuple[int, Path]:
    """Replaces a damaged file by one with all that can be read; returns the number of chats and the old one's path."""
    aside.remove(rescued)
    try:
        with closing(_open(rescued)) as connection:
            num_saved = rescue(file, connection)
    except BaseException:
        aside.remove(rescued)
        raise
    kept = aside.set_aside(file)
    aside.move(rescued, file)
    _mark_of_damage(file).unlink(missing_ok=True)
    return num_saved, kept


def _lacks_room(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _open(file: Path, *, is_alone: bool = False) -> sqlite3.Connection:
    looks_through = _may_be_damaged(file)
    _keep_private(file)
    connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.text_factory = decoded
    try:
        if is_alone:
            # A full disk has no room for the shared-memory file; an exclusive lock does without it.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        _check(connection, looks_through=looks_through)
        # With NORMAL a killed window loses nothing; only a power cut may lose the last moments.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        # What a user deletes is erased from the file as well.
        connection.execute("PRAGMA secure_delete = ON")
        _migrate(connection)
        if is_noted_as_damaged(file):
            # The check does not verify the content of the search index, so that is rebuilt.
            search.forget(connection)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _Unusable(str(error)) from error
    except BaseException:
        connection.close()
        raise
    if looks_through:
        _mark_of_damage(file).unlink(missing_ok=True)
    return connection


def _keep_private(file: Path) -> None:
    """Makes the chats readable for their owner only, including files that were set aside or made by older versions."""
    if file == _IN_MEMORY:
        return
    with suppress(OSError):
        # SQLite would make it readable for others, and copies its mode to the files beside it. SQLite reports errors.
        file.touch(mode=0o600, exist_ok=False)
    for part in file.parent.glob(f"{file.stem}*{file.suffix}*"):
        keep_private(part)


def note_damage(file: Path) -> None:
    """Makes the next opening check the whole file."""
    with suppress(OSError):
        _mark_of_damage(file).touch()


def is_noted_as_damaged(file: Path) -> bool:
    """Returns whether damage was found, so that the next opening checks the whole file."""
    return _mark_of_damage(file).exists()


def _mark_of_damage(file: Path) -> Path:
    return file.with_name(f"{file.name}-damaged")


def _may_be_damaged(file: Path) -> bool:
    """Returns whether the whole file is to be checked: it is small, or was not closed in order (a log is left)."""
    try:
        is_small = file.stat().st_size < _LARGE_BYTES
    except OSError:
        return True
    return is_small or file.with_name(f"{file.name}-wal").exists() or is_noted_as_damaged(file)


def _check(connection: sqlite3.Connection, *, looks_through: bool) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(_MIGRATIONS):
        raise ChatsUnusable(
            _tr("Your chats were last used by a newer Ragdoll; this one cannot read them."),
            _tr("Start the newer Ragdoll, or update this one."),
        )
    if looks_through:
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except UnicodeDecodeError:
            # The verdict quotes names as they are, which may be damaged as well.
            verdict = ""
        if verdict != "ok":
            raise _Unusable("the file is damaged")


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, migration in enumerate(_MIGRATIONS[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            migration(connection)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            # On a full disk, SQLite has rolled back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _m001_conversations_and_turns(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE conversations (
            conversation_id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            is_pinned INTEGER NOT NULL DEFAULT 0,
            collection TEXT,
            leaf_id TEXT,
            deleted_at REAL
        )"""
    )
    connection.execute(
        """CREATE TABLE turns (
            number INTEGER PRIMARY KEY,  -- in the order they were asked
            turn_id TEXT NOT NULL UNIQUE,
            conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
            parent_id TEXT,
            question TEXT NOT NULL,
            created REAL NOT NULL,
            state TEXT NOT NULL,
            text TEXT NOT NULL,
            error_sentence TEXT NOT NULL,
            passages TEXT NOT NULL,
            quotes TEXT NOT NULL,
            citations TEXT NOT NULL,
            segments TEXT NOT NULL,
            scope TEXT NOT NULL,
            timings TEXT NOT NULL,
            model TEXT,
            finish_reason TEXT
        )"""
    )
    connection.execute("CREATE INDEX turns_of_conversation ON turns (conversation_id, number)")


def _m002_filters(connection: sqlite3.Connection) -> None:
    for table in ("conversations", "turns"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN filters TEXT NOT NULL DEFAULT '{{}}'")


def _m003_refreshes(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE turns ADD COLUMN refreshes TEXT NOT NULL DEFAULT '[]'")


def _m004_runs(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY,
            run_id TEXT NOT NULL UNIQUE,
            question TEXT NOT NULL,
            collection TEXT,
            created REAL NOT NULL
        )"""
    )
    connection.execute(
        """CREATE TABLE run_files (
            number INTEGER PRIMARY KEY,  -- in the order they are asked
            file_id TEXT NOT NULL UNIQUE,
            run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
            document_id INTEGER NOT NULL,
            path TEXT NOT NULL,
            state TEXT NOT NULL,
            text TEXT NOT NULL,
            error_sentence TEXT NOT NULL,
            passages TEXT NOT NULL,
            quotes TEXT NOT NULL,
            citations TEXT NOT NULL,
            segments TEXT NOT NULL,
            scope TEXT NOT NULL,
            timings TEXT NOT NULL,
            model TEXT,
            finish_reason TEXT,
            refreshes TEXT NOT NULL
        )"""
    )
    connection.execute("CREATE INDEX files_of_run ON run_files (run_id, number)")


def _m005_places(connection: sqlite3.Connection) -> None:
    """Adds where in its file an answer was found, for people."""
    connection.execute("ALTER TABLE run_files ADD COLUMN places TEXT NOT NULL DEFAULT '[]'")


def _m006_model_of_a_chat(connection: sqlite3.Connection) -> None:
    """Adds the model as JSON, because file names may hold any bytes; older chats use the chosen model."""
    connection.execute("""ALTER TABLE conversations ADD COLUMN model TEXT NOT NULL DEFAULT '""'""")


def _m007_thoughts(connection: sqlite3.Connection) -> None:
    for table in ("turns", "run_files"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN thoughts TEXT NOT NULL DEFAULT ''")


def _m008_without_files(connection: sqlite3.Connection) -> None:
    for table in ("conversations", "turns"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN searches INTEGER NOT NULL DEFAULT 1")


def _m009_manners_and_presets(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE conversations ADD COLUMN manner TEXT NOT NULL DEFAULT '{}'")
    connection.execute(
        """CREATE TABLE presets (
            number INTEGER PRIMARY KEY,
            preset_id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            manner TEXT NOT NULL,
            is_for_new_chats INTEGER NOT NULL DEFAULT 0
        )"""
    )


def _m010_waiting_files(connection: sqlite3.Connection) -> None:
    """Adds an index that tells whether a run waits without reading it, which may be some hundred megabytes."""
    connection.execute("CREATE INDEX files_waiting ON run_files (run_id) WHERE state NOT IN ('finished', 'failed')")


def _m011_evidence_of_files(connection: sqlite3.Connection) -> None:
    """Adds a table for the passages of answers; existing ones stay where they are, as a move may fill the disk.

    Also lets a question be deleted in steps.
    """
    connection.execute(
        """CREATE TABLE run_evidence (
            number INTEGER PRIMARY KEY,
            file_id TEXT NOT NULL UNIQUE REFERENCES run_files (file_id) ON DELETE CASCADE,
            passages TEXT NOT NULL,
            quotes TEXT NOT NULL,
            citations TEXT NOT NULL,
            segments TEXT NOT NULL,
            scope TEXT NOT NULL,
            refreshes TEXT NOT NULL,
            thoughts TEXT NOT NULL
        )"""
    )
    connection.execute("ALTER TABLE runs ADD COLUMN deleted_at REAL")


def _m012_several_collections(connection: sqlite3.Connection) -> None:
    """Adds several collections as JSON; a single one stays in its old column."""
    for table in ("conversations", "runs"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN collections TEXT NOT NULL DEFAULT '[]'")


def _m013_deleted_turns(connection: sqlite3.Connection) -> None:
    """Lets a turn be hidden until the next start, so that deleting it can be undone."""
    connection.execute("ALTER TABLE turns ADD COLUMN deleted_at REAL")
    # Every start looks for deleted turns, and must not read all chats for it.
    connection.execute("CREATE INDEX deleted_turns ON turns (turn_id) WHERE deleted_at IS NOT NULL")


_MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _m001_conversations_and_turns,
    _m002_filters,
    _m003_refreshes,
    _m004_runs,
    _m005_places,
    _m006_model_of_a_chat,
    _m007_thoughts,
    _m008_without_files,
    _m009_manners_and_presets,
    _m010_waiting_files,
    _m011_evidence_of_files,
    _m012_several_collections,
    _m013_deleted_turns,
)


def _tr(text: str) -> str:
    return QCoreApplication.translate("chats", text)
