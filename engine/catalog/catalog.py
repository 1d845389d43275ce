"""The catalogue as its owner sees it: every change to the truth about collections, roots and documents.

The index worker alone changes documents; roots may be entered by whoever takes the user's wish, so that it is
kept from that moment on. Each method is one transaction, durable when it returns.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.catalog.database import Database
from engine.catalog.folders import KEPT, FolderReader
from engine.catalog.indices import IndexReader
from engine.catalog.names import NameReader, checked_name, give_up_former
from engine.catalog.passwords import PasswordReader
from engine.catalog.reader import Root, id_list, name_key, span
from engine.catalog.scopes import ScopeReader
from engine.catalog.work import WorkReader
from engine.core import FoundFile, ReadDocument
from engine.errors import DocumentUnreadable, NothingThere

CATALOG_NAME = "catalog.sqlite"

_IDS = "document_id IN (SELECT value FROM json_each(?))"
_NO_ROWS = "format = '', title = '', num_pages = 0, num_chunks = 0, embedder = '', shard = NULL"
# What was said of a stored document (pages left out) holds until it is read again.
_OUTLIVED = "reason = iif(embedder = '', '', reason)"
_COVERED = "EXISTS (SELECT 1 FROM roots r WHERE {path} >= r.first AND {path} < r.last)"


class Catalog(ScopeReader, FolderReader, NameReader, PasswordReader, WorkReader, IndexReader):
    """Reads as `CatalogReader` and `ScopeReader`, and writes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._opened_ms = round(time.time() * 1000)

    @classmethod
    def open(cls, library: Path) -> Catalog:
        """Opens the catalogue in the folder `library`, creating or migrating it.

        Raises:
            CatalogBroken: It is damaged, cannot be opened, or comes from a newer Ragdoll. It is left as it is.
            DiskFull: There is no room to create it.
        """
        return cls(Database(library / CATALOG_NAME))

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes all changes in the block one: after a crash either all of them happened, or none."""
        with self._database.transaction():
            yield

    # --- roots and collections ---

    def add_root(self, collection: str, path: str, is_folder: bool, device: int) -> Root:
        """Enters a folder or file into a collection, which is created if need be; its survey is still to come.

        What the user removed at or below the path before is wanted again.

        Raises:
            BadRequest: The collection's name is blank, or no text.
        """
        collection = checked_name(collection)
        first, last = span(path, is_folder)
        raw = os.fsencode(path)
        with self._database.transaction() as writer:
            collection_id = _collection_id(writer, collection)
            writer.execute(
                "INSERT INTO roots (collection_id, path, first, last, is_folder, device) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET first = excluded.first, last = excluded.last, device = excluded.device,"
                " is_folder = excluded.is_folder, is_surveyed = 0",
                (collection_id, raw, first, last, is_folder, device),
            )
            writer.execute("DELETE FROM exclusions WHERE path = ? OR (path >= ? AND path < ?)", (raw, first, last))
            return self.root(collection_id, path)

    def mark_surveyed(self, root: Root, device: int | None = None) -> None:
        """The root's files have been entered; `device` is where the root is now, if that has changed."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE roots SET is_surveyed = 1, absence = '', device = coalesce(?, device) WHERE root_id = ?",
                (device, root.root_id),
            )

    def mark_absent(self, root: Root, reason: str) -> None:
        """The root has been looked at and is out of reach; what becomes of its documents is told apart."""
        with self._database.transaction() as writer:
            writer.execute("UPDATE roots SET is_surveyed = 1, absence = ? WHERE root_id = ?", (reason, root.root_id))

    def relink_root(self, root: Root, path: str) -> None:
        """The root lies at `path` now, all of it; where its collection has that path already, it has it once."""
        first, last = span(path, root.is_folder)
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE OR IGNORE roots SET path = ?, first = ?, last = ?, absence = '' WHERE root_id = ?",
                (os.fsencode(path), first, last, root.root_id),
            )
            writer.execute("DELETE FROM roots WHERE root_id = ? AND path = ?", (root.root_id, os.fsencode(root.path)))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")

    def give_up_surveys(self, keep: Collection[str] = ()) -> None:
        """Surveys are not wanted any more, but for those of the paths `keep`; roots never looked at are forgotten."""
        kept = frozenset(keep)
        unwanted = [root for root in self.roots() if not root.is_surveyed and root.path not in kept]
        with self._database.transaction() as writer:
            for root in unwanted:
                is_empty = not self.has_below(root.path)
                what = "DELETE FROM roots" if is_empty else "UPDATE roots SET is_surveyed = 1"
                writer.execute(f"{what} WHERE root_id = ?", (root.root_id,))
            _drop_empty_collections(writer)

    def forget(self, *paths: str) -> frozenset[int]:
        """Takes paths and all below them out of the library, in every collection; returns the ids of the documents.

        Where a root above one of them stays, it is excluded, so that a rescan does not bring it back.

        Raises:
            NothingThere: Nothing at or below one of the paths is in the library; then nothing is removed.
        """
        with self._database.transaction() as writer:
            ids = frozenset[int]().union(*(self._unlinked(path, writer) for path in paths))
            covered = _COVERED.format(path="?1")
            writer.executemany(
                f"INSERT OR IGNORE INTO exclusions SELECT ?1 WHERE {covered}", [(os.fsencode(path),) for path in paths]
            )
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")
            _drop_empty_collections(writer)
            self.remove_documents(ids)
        return ids

    def _unlinked(self, path: str, writer: sqlite3.Connection) -> frozenset[int]:
        """Removes the roots at and below a path; returns the documents there. Raises as `forget`."""
        ids = self.ids_below(path)
        found = writer.execute(
            "DELETE FROM roots WHERE path = ? OR (path >= ? AND path < ?)",
            (os.fsencode(path), *span(path, is_folder=True)),
        )
        if not ids and not found.rowcount:
            raise NothingThere(f"Nothing at {_shown(path)} is in the library.", "The library page lists what is.")
        return ids

    def move_exclusion(self, path: str, place: str) -> None:
        """What was removed from the library lies at `place` now."""
        with self._database.transaction() as writer:
            writer.execute("INSERT OR IGNORE INTO exclusions VALUES (?)", (os.fsencode(place),))
            writer.execute("DELETE FROM exclusions WHERE path = ?", (os.fsencode(path),))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")

    def note_mounts(self, found: Iterable[str], ended: Iterable[str]) -> None:
        """Where drives are mounted below roots, and where none will be again; those below no root are forgotten."""
        with self._database.transaction() as writer:
            writer.executemany("INSERT OR IGNORE INTO mounts VALUES (?)", [(os.fsencode(path),) for path in found])
            writer.executemany("DELETE FROM mounts WHERE path = ?", [(os.fsencode(path),) for path in ended])
            writer.execute(f"DELETE FROM mounts WHERE NOT {_COVERED.format(path='mounts.path')}")

    def delete_collection(self, name: str) -> frozenset[int]:
        """Deletes a collection with its roots; returns the ids of the documents that were in no other.

        Raises:
            NothingThere: No collection is called so now.
        """
        with self._database.transaction() as writer:
            orphans = self.ids_only_in(name)
            writer.execute("DELETE FROM collections WHERE name_key = ?", (name_key(name),))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")
            self.remove_documents(orphans)
        return orphans

    # --- documents: coming and going ---

    def add_documents(self, files: Iterable[FoundFile]) -> None:
        """Enters new files as pending; paths that are known already stay as they are."""
        with self._database.transaction() as writer:
            _begin_ids_at(writer, self._opened_ms)
            writer.executemany(
                "INSERT INTO documents (path, size_bytes, mtime_ns) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                ((os.fsencode(file.path), file.size_bytes, file.mtime_ns) for file in files),
            )

    def relocate(self, document_id: int, file: FoundFile) -> None:
        """The document lies at another path now; its id, rows and state stay."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET path = ?, size_bytes = ?, mtime_ns = ?, absence = '' WHERE document_id = ?",
                (os.fsencode(file.path), file.size_bytes, file.mtime_ns, document_id),
            )

    def vacate(self, document_ids: Iterable[int]) -> None:
        """Documents that are about to be relocated leave their paths to others; call it in the same transaction."""
        with self._database.transaction() as writer:
            # No path has a zero byte.
            writer.execute(
                f"UPDATE documents SET path = CAST(x'00' || document_id AS BLOB) WHERE {_IDS}", (id_list(document_ids),)
            )

    def remove_documents(self, document_ids: Iterable[int]) -> None:
        """Forgets documents. Their ids are never given again, so rows they leave behind belong to nobody."""
        with self._database.transaction() as writer:
            writer.execute(f"DELETE FROM documents WHERE {_IDS}", (id_list(document_ids),))

    def mark_offline(self, document_ids: Iterable[int], reason: str) -> None:
        """The files are out of reach for `reason`; what is indexed of them stays and can be searched."""
        with self._database.transaction() as writer:
            writer.execute(f"UPDATE documents SET absence = ? WHERE {_IDS}", (reason, id_list(document_ids)))

    def keep_gone(self, document_ids: Iterable[int]) -> None:
        """The user keeps what was read of these although the files are gone; not asked again until they return."""
        self.mark_offline(document_ids, KEPT)

    def mark_present(self, document_ids: Iterable[int]) -> None:
        """The files are within reach; their state is what it was before."""
        with self._database.transaction() as writer:
            writer.execute(f"UPDATE documents SET absence = '' WHERE {_IDS}", (id_list(document_ids),))

    # --- documents: their states ---

    def mark_pending(self, document_ids: Iterable[int], forget_content: bool = False) -> None:
        """The files are to be read (again); until then what is stored of them stays.

        `forget_content` has them read even if their content turns out to be the same. What they need is kept, though
        not told, in case the reading is cancelled.
        """
        forgotten = ", content_hash = ''" if forget_content else ""
        with self._database.transaction() as writer:
            writer.execute(
                f"UPDATE documents SET state = 'pending', {_OUTLIVED}{forgotten} WHERE {_IDS}", (id_list(document_ids),)
            )

    def mark_lost(self, document_ids: Iterable[int]) -> None:
        """The rows of these documents are gone, nobody knows why; they are to be read anew."""
        with self._database.transaction() as writer:
            writer.execute(
                f"UPDATE documents SET state = 'pending', reason = '', needs = '', content_hash = '', {_NO_ROWS}"
                f" WHERE {_IDS}",
                (id_list(document_ids),),
            )

    def mark_indexed(
        self, document_id: int, file: FoundFile, content_hash: str, read: ReadDocument, embedder: str, shard: int
    ) -> None:
        """The document's rows are durable in LanceDB. Call it after they are, never before."""
        num_chunks = len(read.chunks)
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET state = 'indexed', reason = ?, needs = ?, absence = '', size_bytes = ?,"
                " mtime_ns = ?, content_hash = ?, format = ?, title = ?, num_pages = ?, num_chunks = ?, embedder = ?,"
                " shard = ? WHERE document_id = ?",
                (read.remark, read.needs, file.size_bytes, file.mtime_ns, content_hash, read.format, read.title,
                 read.num_pages, num_chunks, embedder, shard, document_id),
            )  # fmt: skip
            writer.execute("UPDATE arrivals SET num_chunks = num_chunks + ?", (num_chunks,))

    def mark_unchanged(self, document_id: int, file: FoundFile) -> None:
        """Time or size differ from what was noted, but the content is what is stored."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET state = 'indexed', absence = '', size_bytes = ?, mtime_ns = ?"
                " WHERE document_id = ?",
                (file.size_bytes, file.mtime_ns, document_id),
            )

    def mark_unreadable(
        self, document_id: int, error: DocumentUnreadable, file: FoundFile | None = None, content_hash: str = ""
    ) -> None:
        """The document is skipped or has failed, as the error says. Call it after its rows are gone from LanceDB."""
        with self._database.transaction() as writer:
            writer.execute(
                f"UPDATE documents SET state = ?, reason = ?, needs = ?, absence = '',"
                f" size_bytes = coalesce(?, size_bytes), mtime_ns = coalesce(?, mtime_ns), content_hash = ?, {_NO_ROWS}"
                " WHERE document_id = ?",
                (error.state, str(error), error.need, file and file.size_bytes, file and file.mtime_ns, content_hash,
                 document_id),
            )  # fmt: skip
            if error.need == "password":
                self.forget_passwords(document_id)

    def set_pending_aside(self, reason: str) -> None:
        """Pending documents wait no longer: those with stored rows count as indexed, the others as skipped.

        Of these no content is known any more, so that they are read where their folder is added again. What is out of
        reach goes on waiting: nobody could have read it, and it is read when its drive is back.
        """
        is_waiting = "state = 'pending' AND absence = ''"
        with self._database.transaction() as writer:
            writer.execute(f"UPDATE documents SET state = 'indexed' WHERE {is_waiting} AND embedder != ''")
            writer.execute(
                f"UPDATE documents SET state = 'skipped', reason = ?, content_hash = '' WHERE {is_waiting}", (reason,)
            )


def _collection_id(writer: sqlite3.Connection, name: str) -> int:
    made = writer.execute(
        "INSERT INTO collections (name, name_key) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, name_key(name))
    )
    if made.rowcount:
        give_up_former(writer, name)
    row = writer.execute("SELECT collection_id FROM collections WHERE name_key = ?", (name_key(name),)).fetchone()
    return int(row[0])


def _drop_empty_collections(writer: sqlite3.Connection) -> None:
    writer.execute("DELETE FROM collections WHERE collection_id NOT IN (SELECT collection_id FROM roots)")


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def _begin_ids_at(writer: sqlite3.Connection, least: int) -> None:
    """Ids of documents go on above `least`, a time in milliseconds: no catalogue of before has given these.

    Chats, runs and kept keys and values outlive a catalogue that is lost, moved away, or put back from a copy: what
    they cite by id must not become another file.
    """
    documents = "SELECT 1 FROM sqlite_sequence WHERE name = 'documents'"
    writer.execute(f"INSERT INTO sqlite_sequence (name, seq) SELECT 'documents', 0 WHERE NOT EXISTS ({documents})")
    writer.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'documents'", (least,))
