"""The catalogue's schema and its migrations: they only go forward, and each is recorded in the file.

To change the shape: add a function `m002_…` below and list it in MIGRATIONS. Never edit one that was released.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection
from pathlib import Path

from engine.errors import CatalogBroken


def m001_initial(connection: sqlite3.Connection) -> None:
    """Creates collections, the roots in them, and the documents below the roots.

    Paths are the bytes of `os.fsencode`. A root's documents are those with `first <= path < last`, so a document
    belongs to every collection with a root above it and is stored once. AUTOINCREMENT, because the id of a removed
    document must never be given to another one. `absence` says why a document is out of reach at present ("" if it is
    not); its state is kept meanwhile.
    """
    connection.execute("""
        CREATE TABLE collections (
            collection_id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            name_key TEXT NOT NULL UNIQUE
        ) STRICT""")
    connection.execute("""
        CREATE TABLE roots (
            root_id INTEGER PRIMARY KEY AUTOINCREMENT,
            collection_id INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
            path BLOB NOT NULL,
            first BLOB NOT NULL,
            last BLOB NOT NULL,
            is_folder INTEGER NOT NULL,
            device INTEGER NOT NULL,
            is_surveyed INTEGER NOT NULL DEFAULT 0,
            UNIQUE (collection_id, path)
        ) STRICT""")
    connection.execute("""
        CREATE TABLE documents (
            document_id INTEGER PRIMARY KEY AUTOINCREMENT,
            path BLOB NOT NULL UNIQUE,
            size_bytes INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            content_hash TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'indexed', 'skipped', 'failed')),
            reason TEXT NOT NULL DEFAULT '',
            absence TEXT NOT NULL DEFAULT '',
            format TEXT NOT NULL DEFAULT '',
            title TEXT NOT NULL DEFAULT '',
            num_pages INTEGER NOT NULL DEFAULT 0,
            num_chunks INTEGER NOT NULL DEFAULT 0,
            embedder TEXT NOT NULL DEFAULT '',
            shard INTEGER
        ) STRICT""")
    connection.execute("CREATE INDEX documents_by_size ON documents (size_bytes)")
    connection.execute("CREATE INDEX documents_by_state ON documents (state)")
    # What the user removed although a root above it stays: a rescan must not bring it back.
    connection.execute("CREATE TABLE exclusions (path BLOB PRIMARY KEY) STRICT, WITHOUT ROWID")
    # Chunks ever written, in arrival order; removals do not lower it, so a sealed shard never grows again.
    connection.execute("CREATE TABLE arrivals (num_chunks INTEGER NOT NULL) STRICT")
    connection.execute("INSERT INTO arrivals VALUES (0)")


def m002_documents_found(connection: sqlite3.Connection) -> None:
    """Adds a narrow index of documents with stored chunks: each search counts them, by format and day of change."""
    connection.execute("CREATE INDEX documents_found ON documents (format, mtime_ns, num_chunks) WHERE num_chunks > 0")


def m003_needs_and_passwords(connection: sqlite3.Connection) -> None:
    """Adds what a file needs from the user to be read, and saved passwords, of which a document may have several.

    Files that were skipped as encrypted are recognised by the stored reason, so that a password can be given without
    reading them again first.
    """
    connection.execute("ALTER TABLE documents ADD COLUMN needs TEXT NOT NULL DEFAULT ''")
    skipped = "UPDATE documents SET needs = ? WHERE state = 'skipped' AND reason LIKE ?"
    connection.execute(skipped, ("password", "%password%"))
    connection.execute(skipped, ("ocr", "%need OCR%"))
    connection.execute("""
        CREATE TABLE passwords (
            document_id INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            password TEXT NOT NULL,
            UNIQUE (document_id, password)
        ) STRICT""")
    connection.execute("CREATE INDEX documents_by_need ON documents (needs) WHERE needs != ''")


def m004_root_absence(connection: sqlite3.Connection) -> None:
    """Adds why a root was out of reach when it was last scanned, "" if it was not."""
    connection.execute("ALTER TABLE roots ADD COLUMN absence TEXT NOT NULL DEFAULT ''")


def m005_work_in_hand(connection: sqlite3.Connection) -> None:
    """Adds which documents are read first, which are being read, which may have crashed the engine, and a run's total.

    `begun` is 1 for a document that is read together with others and 2 for one that is read alone. All three are reset
    when the document is no longer pending.
    """
    for column in ("priority", "begun", "suspicion"):
        connection.execute(f"ALTER TABLE documents ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"CREATE INDEX documents_by_{column} ON documents ({column}) WHERE {column} > 0")
    connection.execute("""
        CREATE TRIGGER documents_done AFTER UPDATE OF state ON documents
        WHEN new.state != 'pending' AND (new.priority OR new.begun OR new.suspicion)
        BEGIN
            UPDATE documents SET priority = 0, begun = 0, suspicion = 0 WHERE document_id = new.document_id;
        END""")
    connection.execute("""
        CREATE TABLE run (
            documents_total INTEGER NOT NULL, bytes_total INTEGER NOT NULL, chunks_arrived INTEGER NOT NULL
        ) STRICT""")


def m006_vector_tables(connection: sqlite3.Connection) -> None:
    """Adds the active table and the one to which the library moves; `moved` documents are up to date in the latter.

    Any change of a document's chunks resets `moved`.
    """
    connection.execute("""
        CREATE TABLE vector_tables (
            folder TEXT PRIMARY KEY, identity TEXT NOT NULL, model TEXT NOT NULL, dimensions INTEGER NOT NULL,
            is_active INTEGER NOT NULL UNIQUE CHECK (is_active IN (0, 1))
        ) STRICT""")
    connection.execute("ALTER TABLE documents ADD COLUMN moved INTEGER NOT NULL DEFAULT 0")
    connection.execute("CREATE INDEX documents_moved ON documents (moved) WHERE moved")
    connection.execute("""
        CREATE TRIGGER documents_changed AFTER UPDATE OF num_chunks ON documents WHEN new.moved
        BEGIN
            UPDATE documents SET moved = 0 WHERE document_id = new.document_id;
        END""")


def m007_mounts(connection: sqlite3.Connection) -> None:
    """Adds where drives were mounted below roots: an empty folder without its drive has lost no documents."""
    connection.execute("CREATE TABLE mounts (path BLOB PRIMARY KEY) STRICT")


def m008_former_names(connection: sqlite3.Connection) -> None:
    """Adds former names of collections, except those that another collection has now."""
    connection.execute("""
        CREATE TABLE former_names (
            name_key TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            collection_id INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE
        ) STRICT""")


def m009_beginning(connection: sqlite3.Connection) -> None:
    """Adds the first document id of this catalogue, as long as tables may have rows of a lost one.

    A catalogue that was damaged, moved away or deleted leaves its vectors in the tables. They are kept until the
    folders have been added and read again, so that the same texts need not be embedded again. `has_strangers` says
    whether there are any, NULL until it was checked.
    """
    connection.execute("CREATE TABLE beginning (first_id INTEGER NOT NULL, has_strangers INTEGER) STRICT")
    if not connection.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'documents'").fetchone():
        begin_anew(connection)


def begin_anew(connection: sqlite3.Connection) -> None:
    """Records that tables may have rows of unknown documents, whose ids are lower than those given from now on."""
    connection.execute("DELETE FROM beginning")
    connection.execute("INSERT INTO beginning (first_id) VALUES (?)", (round(time.time() * 1000),))


def m010_names_change(connection: sqlite3.Connection) -> None:
    """Adds the identities of removed files, which may be renamed, and the drives that links lead to."""
    connection.execute("ALTER TABLE exclusions ADD COLUMN identity TEXT NOT NULL DEFAULT ''")
    connection.execute("ALTER TABLE mounts ADD COLUMN drive BLOB")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    m001_initial,
    m002_documents_found,
    m003_needs_and_passwords,
    m004_root_absence,
    m005_work_in_hand,
    m006_vector_tables,
    m007_mounts,
    m008_former_names,
    m009_beginning,
    m010_names_change,
)


def migrate(connection: sqlite3.Connection, file: Path) -> None:
    """Migrates the file to the present schema, each step in a transaction of its own.

    Raises:
        CatalogBroken: The file has a migration that this version does not know.
    """
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at TEXT NOT NULL) STRICT")
    applied = {row[0] for row in connection.execute("SELECT name FROM migrations")}
    refuse_unknown(applied, file)
    for step in MIGRATIONS:
        if step.__name__ not in applied:
            _apply(connection, step)


def refuse_unknown(applied: Collection[str], file: Path) -> None:
    """Raises CatalogBroken if the file has a migration that this version does not know."""
    if set(applied) - {step.__name__ for step in MIGRATIONS}:
        raise CatalogBroken(
            f"The library was last used by a newer Ragdoll; this one cannot read {file}.",
            "Start the newer Ragdoll, or update this one.",
        )


def _apply(connection: sqlite3.Connection, step: Callable[[sqlite3.Connection], None]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        step(connection)
        connection.execute("INSERT INTO migrations VALUES (?, datetime('now'))", (step.__name__,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
