"""The catalogue's file: one connection that writes, and a few that read, each lent to one thread at a time.

With write-ahead logging, readers never wait for the writer's fsync, so a question is not delayed while a document is
being recorded. With several readers, it is not delayed by a window that counts and searches a large library either.
SQLite's errors are converted to ours here.
"""

from __future__ import annotations

import logging
import queue
import shutil
import sqlite3
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.catalog import rescue
from engine.catalog.migrations import migrate
from engine.catalog.path_log import PathLog
from engine.errors import CatalogBroken, DiskFull, RagdollError, is_disk_full

log = logging.getLogger(__name__)

_BUSY_SECONDS = 30.0
# One each for the window, a question, the indexer and another caller.
_READERS = 4
# The size of SQLite's side files when they are created.
_LEAST_ROOM_BYTES = 2**16
# Columns that say what is in which collection; changes of other columns do not matter.
_COLUMNS_OF_PLACE = {"roots": "collection_id, path, first, last, is_folder", "collections": "name, name_key"}

_MENDED = "The catalogue of the library was damaged and has been repaired; nothing of it is lost."
_SAVED = (
    "The catalogue of the library was damaged. What can be read of it was saved, {num_documents:,} documents among it,"
    " and the file is kept as {kept}. If a folder is missing, add it again: what was embedded of its files is found."
)
_NOTHING_SAVED = (
    "The catalogue of the library was damaged, and nothing can be read of it. It is kept as {kept}. Add your folders"
    " again: what was embedded of their files is found."
)


class Database:
    """Queries and transactions, safe from any thread. Transactions of one thread nest, those of others wait."""

    def __init__(self, file: Path) -> None:
        """Opens `file`, creating or migrating it.

        If it is damaged, everything readable is saved into a new one; `problem` is a sentence about that.

        Raises:
            CatalogBroken: The file cannot be opened, or comes from a newer Ragdoll. It is left as it is.
            DiskFull: There is no room to create it.
        """
        self._file = file
        self._write_lock = threading.RLock()
        # LIFO, so that the connection with the warmest page cache is used first.
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._writing_thread: int | None = None
        # The number of transactions that changed roots or collections, and whether the present one does.
        self._num_root_changes, self._changes_roots = 0, False
        self.path_log = PathLog()
        with self._errors_told():
            self._writer, self.problem = _opened(file)
            try:
                self._watch_roots()
                self._watch_paths()
                for _ in range(_READERS):
                    self._readers.put(_connect(file))
                    with self._reader() as reader:
                        reader.execute("PRAGMA query_only = ON")
            except BaseException:
                self._close(self._readers.qsize())
                raise

    def close(self) -> None:
        """Closes all connections, once nobody uses them. A second call does nothing."""
        self._close(_READERS)

    def _close(self, num_readers: int) -> None:
        with self._write_lock, ExitStack() as lent:
            for reader in [lent.enter_context(self._reader()) for _ in range(num_readers)]:
                reader.close()
            self._writer.close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Returns all rows of a query; within a transaction of this thread including its uncommitted changes."""
        with self._errors_told():
            if self._writing_thread == threading.get_ident():
                return self._writer.execute(sql, parameters).fetchall()
            with self._reader() as reader:
                return reader.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Row | None:
        rows = self.rows(sql, parameters)
        return rows[0] if rows else None

    @property
    def roots_version(self) -> int | None:
        """A number that changes with roots or collections; None within this thread's transaction that changes them."""
        is_ours = self._writing_thread == threading.get_ident()
        return None if is_ours and self._changes_roots else self._num_root_changes

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs the block as a transaction, durable at its end. An inner transaction is part of the outer one."""
        with self._write_lock, self._errors_told():
            if self._writing_thread is not None:
                yield self._writer
                return
            self._writer.execute("BEGIN IMMEDIATE")
            self._writing_thread = threading.get_ident()
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # A full disk has rolled it back already.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            finally:
                # After the commit, so that readers see the changes; counting a rollback does no harm.
                self._num_root_changes += self._changes_roots
                self._writing_thread, self._changes_roots = None, False
                self.path_log.close_transaction()

    def _watch_roots(self) -> None:
        """Notes all changes of roots and collections by triggers, including cascading deletions."""
        self._writer.create_function("note_root_change", 0, self._note_root_change)
        for table in ("roots", "collections"):
            for change in ("INSERT", "DELETE", f"UPDATE OF {_COLUMNS_OF_PLACE[table]}"):
                name = f"{table}_{change.split()[0]}"
                self._writer.execute(
                    f"CREATE TEMP TRIGGER {name} AFTER {change} ON {table} BEGIN SELECT note_root_change(); END"
                )

    def _note_root_change(self) -> None:
        self._changes_roots = True

    def _watch_paths(self) -> None:
        self._writer.create_function("note_path_change", 1, self.path_log.note)
        for change, row in (("INSERT", "new"), ("DELETE", "old"), ("UPDATE OF path", "new")):
            self._writer.execute(
                f"CREATE TEMP TRIGGER documents_{change.split()[0]} AFTER {change} ON documents"
                f" BEGIN SELECT note_path_change({row}.document_id); END"
            )

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        reader = self._readers.get()
        try:
            yield reader
        finally:
            self._readers.put(reader)

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if rescue.is_damage(error):
                rescue.note_damage(self._file)
            told = _told(error, self._file)
            if told is None:
                raise
            raise told from error


def _opened(file: Path) -> tuple[sqlite3.Connection, str]:
    """Opens the file, intact and migrated; returns also a sentence about a repair, "" if it was not damaged."""
    with suppress(OSError):
        rescue.finish(file)
    is_noted = rescue.is_noted(file)
    try:
        if is_noted:
            raise sqlite3.DatabaseError("malformed: as was met when it was used")
        return _whole(file), ""
    except sqlite3.DatabaseError as error:
        if not rescue.is_damage(error):
            raise
        log.warning("%s is damaged: %s", file, error)
    if not is_noted and _are_indices_mended(file):
        return _whole(file), _MENDED
    try:
        saved = rescue.replace(file)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error}") from error
    log.warning("%s is set aside as %s; %d documents saved", file.name, saved.kept.name, saved.num_documents)
    words = _SAVED if saved.num_folders or saved.num_documents else _NOTHING_SAVED
    return _whole(file), words.format(num_documents=saved.num_documents, kept=saved.kept)


def _whole(file: Path) -> sqlite3.Connection:
    _make_private(file)
    connection = _connect(file)
    try:
        _configure(connection)
        migrate(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def _are_indices_mended(file: Path) -> bool:
    """Rebuilds all indices; returns whether that repaired everything, so that nothing is lost."""
    try:
        with closing(_connect(file)) as connection:
            connection.execute("REINDEX")
            return [row[0] for row in connection.execute("PRAGMA quick_check(1)")] == ["ok"]
    except sqlite3.DatabaseError as error:
        if not (rescue.is_damage(error) or isinstance(error, sqlite3.IntegrityError)):
            raise
        return False


def _make_private(file: Path) -> None:
    """Makes the file readable by its owner only; SQLite's side files inherit that."""
    # If that fails, opening the file reports why.
    with suppress(OSError):
        file.touch(mode=0o600)
        file.chmod(0o600)


def _connect(file: Path) -> sqlite3.Connection:
    # isolation_level None: we begin transactions explicitly; the sqlite3 module begins none by itself.
    connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.create_function("folded", 1, folded, deterministic=True)
    return connection


def folded(path: bytes) -> str:
    """Folds a path for comparison with typed text: case and composition are ignored, invalid UTF-8 is replaced.

    SQLite's own `lower` and LIKE only fold ASCII letters.
    """
    return unicodedata.normalize("NFC", path.decode("utf-8", "replace")).casefold()


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL, which is usual with WAL but may lose the last commits in a power cut. A lost removal would bring
    # a document back, and a lost id would be given to another file while LanceDB still has the first one's rows under
    # it. An fsync per document is cheap compared to embedding it.
    connection.execute("PRAGMA synchronous = FULL")
    faults = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    if faults != ["ok"]:
        raise sqlite3.DatabaseError(f"malformed: {faults[0]}")


def _told(error: sqlite3.DatabaseError, file: Path) -> RagdollError | None:
    """Converts an error of SQLite to ours; None if the fault is in our use of it."""
    if is_disk_full(error) or (_is_of_the_disk(error) and _has_no_room(file)):
        return DiskFull(
            f"The disk that holds {file.parent} is full.",
            "Free some space and try again; what is indexed so far is kept.",
        )
    text = str(error)
    if "disk I/O error" in text:
        return CatalogBroken(
            f"The disk does not let the catalogue of the library, {file}, be read or written ({text}).",
            "Check the disk, and start Ragdoll again. Your documents are untouched.",
        )
    if any(words in text for words in ("malformed", "not a database", "not decode to UTF-8")):
        return CatalogBroken(
            f"The catalogue of the library, {file}, is damaged ({text}).",
            "Start Ragdoll again: what can be read of it is saved then. Your documents are untouched.",
        )
    if any(words in text for words in ("unable to open", "readonly", "locked")):
        return CatalogBroken(
            f"The catalogue of the library, {file}, cannot be opened for writing ({text}).",
            "Check that the folder and the file belong to you and that no other program holds them.",
        )
    return None


def _is_of_the_disk(error: sqlite3.DatabaseError) -> bool:
    # The errors of SQLite when it cannot create or extend its side files.
    return any(words in str(error) for words in ("disk I/O error", "unable to open"))


def _has_no_room(file: Path) -> bool:
    try:
        return shutil.disk_usage(file.parent).free < _LEAST_ROOM_BYTES
    except OSError:
        return False
