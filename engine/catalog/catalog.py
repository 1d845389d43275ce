"""The catalogue for its owner: every change to collections, roots and documents.

Only the index worker changes documents. Roots may also be added on the thread that receives the user's request, so that
the request is durable at once. Each method is one transaction, durable when it returns.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine.catalog.beginning import BeginningReader
from engine.catalog.database import Database
from engine.catalog.folders import KEPT, FolderReader
from engine.catalog.indices import IndexReader
from engine.catalog.names import NameReader, checked_name, give_up_former
from engine.catalog.passwords import PasswordReader
from engine.catalog.reader import Root, id_list, name_key, span
from engine.catalog.scopes import ScopeReader
from engine.catalog.work import WorkReader
from engine.core import FoundFile, Need, ReadDocument
from engine.errors import DocumentUnreadable, NothingThere

CATALOG_NAME = "catalog.sqlite"

_IDS = "document_id IN (SELECT value FROM json_each(?))"
_NO_ROWS = "format = '', title = '', num_pages = 0, num_chunks = 0, embedder = '', shard = NULL"
# The reason of a stored document (such as omitted pages) stays valid until it is read again.
_OUTLIVED = "reason = iif(embedder = '', '', reason)"
_COVERED = "EXISTS (SELECT 1 FROM roots r WHERE {path} >= r.first AND {path} < r.last)"


class Catalog(ScopeReader, FolderReader, NameReader, PasswordReader, WorkReader, IndexReader, BeginningReader):
    """The catalogue with all its queries (`CatalogReader`, `ScopeReader`) and changes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._opened_ms = round(time.time() * 1000)

    @classmethod
    def open(cls, library: Path) -> Catalog:
        """Opens the catalogue in the folder `library`, creating or migrating it.

        If it is damaged, everything readable is saved into a new one; `problem` reports that.

        Raises:
            CatalogBroken: It cannot be opened, or comes from a newer Ragdoll. It is left as it is.
            DiskFull: There is no room to create it.
        """
        return cls(Database(library / CATALOG_NAME))

    def close(self) -> None:
        self._database.close()

    @property
    def problem(self) -> str:
        """A sentence about the repair if the file was damaged when it was opened; "" if it was intact."""
        return self._database.problem

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes the block one transaction: after a crash either all of its changes happened, or none."""
        with self._database.transaction():
            yield

    # --- roots and collections ---

    def add_root(self, collection: str, path: str, is_folder: bool, device: int) -> Root:
        """Adds a folder or file to a collection, which is created if necessary; its survey is still to come.

        Earlier removals at or below the path are undone.

        Raises:
            BadRequest: The collection's name is blank or invalid.
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
        """Notes that the root's files have been entered; `device` is the root's new device, if that changed."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE roots SET is_surveyed = 1, absence = '', device = coalesce(?, device) WHERE root_id = ?",
                (device, root.root_id),
            )

    def mark_absent(self, root: Root, reason: str) -> None:
        """Notes that the root was looked at and is out of reach; its documents are updated separately."""
        with self._database.transaction() as writer:
            writer.execute("UPDATE roots SET is_surveyed = 1, absence = ? WHERE root_id = ?", (reason, root.root_id))

    def relink_root(self, root: Root, path: str) -> None:
        """Moves a root to `path`; if its collection has that path already, the two are merged."""
        first, last = span(path, root.is_folder)
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE OR IGNORE roots SET path = ?, first = ?, last = ?, absence = '' WHERE root_id = ?",
                (os.fsencode(path), first, last, root.root_id),
            )
            writer.execute("DELETE FROM roots WHERE root_id = ? AND path = ?", (root.root_id, os.fsencode(root.path)))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")

    def give_up_surveys(self, keep: Collection[str] = ()) -> None:
        """Cancels pending surveys except those of `keep`; roots that were never looked at are removed."""
        kept = frozenset(keep)
        unwanted = [root for root in self.roots() if not root.is_surveyed and root.path not in kept]
        with self._database.transaction() as writer:
            for root in unwanted:
                is_empty = not self.has_below(root.path)
                what = "DELETE FROM roots" if is_empty else "UPDATE roots SET is_surveyed = 1"
                writer.execute(f"{what} WHERE root_id = ?", (root.root_id,))
            _drop_empty_collections(writer)

    def forget(self, *paths: str, identities: Mapping[str, str] | None = None) -> frozenset[int]:
        """Removes paths and all below them from the library, in all collections; returns the ids of the documents.

        If a root above one of them stays, the path is excluded, so that a rescan does not add it again. `identities`
        identify the files at the paths, so that they are recognised under other names.

        Raises:
            NothingThere: Nothing at or below one of the paths is in the library; then nothing is removed.
        """
        with self._database.transaction() as writer:
            ids = frozenset[int]().union(*(self._unlinked(path, writer) for path in paths))
            covered = _COVERED.format(path="?1")
            writer.executemany(
                f"INSERT OR IGNORE INTO exclusions (path, identity) SELECT ?1, ?2 WHERE {covered}",
                [(os.fsencode(path), (identities or {}).get(path, "")) for path in paths],
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
            raise NothingThere(f"Nothing at {shown_path(path)} is in the library.", "The library page lists what is.")
        return ids

    def move_exclusion(self, path: str, place: str, *, leaves: bool = True) -> None:
        """Records that an excluded file has moved from `path` to `place`; if not `leaves`, it is excluded at both.

        Does nothing if the path has been added again since.
        """
        with self._database.transaction() as writer:
            writer.execute(
                "INSERT OR IGNORE INTO exclusions (path, identity) SELECT ?, identity FROM exclusions WHERE path = ?",
                (os.fsencode(place), os.fsencode(path)),
            )
            if leaves:
                writer.execute("DELETE FROM exclusions WHERE path = ?", (os.fsencode(path),))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")

    def note_exclusions(self, identities: Mapping[str, str]) -> None:
        """Records which files are now at excluded paths."""
        with self._database.transaction() as writer:
            writer.executemany(
                "UPDATE exclusions SET identity = ? WHERE path = ?",
                [(identity, os.fsencode(path)) for path, identity in identities.items()],
            )

    def note_mounts(self, found: Mapping[str, str], ended: Iterable[str]) -> None:
        """Records where drives are mounted below roots, as `mounts` returns it, and removes the `ended` ones.

        Mounts that are below no root are removed as well.
        """
        with self._database.transaction() as writer:
            writer.executemany(
                "INSERT INTO mounts (path, drive) VALUES (?, ?) ON CONFLICT DO UPDATE SET drive = excluded.drive",
                [(os.fsencode(path), os.fsencode(drive)) for path, drive in found.items()],
            )
            writer.executemany("DELETE FROM mounts WHERE path = ?", [(os.fsencode(path),) for path in ended])
            writer.execute(f"DELETE FROM mounts WHERE NOT {_COVERED.format(path='mounts.path')}")

    def delete_collection(self, name: str) -> frozenset[int]:
        """Deletes a collection and its roots; returns the ids of the documents that were in no other.

        Raises:
            NothingThere: There is no collection of that name.
        """
        with self._database.transaction() as writer:
            orphans = self.ids_only_in(name)
            writer.execute("DELETE FROM collections WHERE name_key = ?", (name_key(name),))
            writer.execute(f"DELETE FROM exclusions WHERE NOT {_COVERED.format(path='exclusions.path')}")
            self.remove_documents(orphans)
        return orphans

    # --- documents: coming and going ---

    def add_documents(self, files: Iterable[FoundFile]) -> None:
        """Adds new files as pending documents; known paths stay as they are."""
        with self._database.transaction() as writer:
            _begin_ids_at(writer, self._opened_ms)
            writer.executemany(
                "INSERT INTO documents (path, size_bytes, mtime_ns) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                ((os.fsencode(file.path), file.size_bytes, file.mtime_ns) for file in files),
            )

    def relocate(self, document_id: int, file: FoundFile) -> None:
        """Moves a document to another path; its id, rows and state stay."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET path = ?, size_bytes = ?, mtime_ns = ?, absence = '' WHERE document_id = ?",
                (os.fsencode(file.path), file.size_bytes, file.mtime_ns, document_id),
            )

    def vacate(self, document_ids: Iterable[int]) -> None:
        """Frees the paths of documents that are about to be relocated; to be called in the same transaction."""
        with self._database.transaction() as writer:
            # No real path contains a zero byte.
            writer.execute(
                f"UPDATE documents SET path = CAST(x'00' || document_id AS BLOB) WHERE {_IDS}", (id_list(document_ids),)
            )

    def remove_documents(self, document_ids: Iterable[int]) -> None:
        """Removes documents. Their ids are never reused, so rows that they leave behind belong to no document."""
        with self._database.transaction() as writer:
            writer.execute(f"DELETE FROM documents WHERE {_IDS}", (id_list(document_ids),))

    def mark_offline(self, document_ids: Iterable[int], reason: str) -> None:
        """Marks documents as out of reach for `reason`; what is indexed of them stays and can be searched."""
        with self._database.transaction() as writer:
            writer.execute(f"UPDATE documents SET absence = ? WHERE {_IDS}", (reason, id_list(document_ids)))

    def keep_gone(self, document_ids: Iterable[int]) -> None:
        """Keeps documents whose files are gone, as the user decided; the user is not asked again until they return."""
        self.mark_offline(document_ids, KEPT)

    def mark_present(self, document_ids: Iterable[int]) -> None:
        """Marks documents as within reach; their earlier state applies again."""
        with self._database.transaction() as writer:
            writer.execute(f"UPDATE documents SET absence = '' WHERE {_IDS}", (id_list(document_ids),))

    # --- documents: their states ---

    def mark_pending(self, document_ids: Iterable[int], forget_content: bool = False) -> None:
        """Marks documents as pending; until they are read, what is stored of them stays.

        `forget_content` has them read even if their content is unchanged. `needs` is kept, though
        not shown, in case reading is cancelled.
        """
        forgotten = ", content_hash = ''" if forget_content else ""
        with self._database.transaction() as writer:
            writer.execute(
                f"UPDATE documents SET state = 'pending', {_OUTLIVED}{forgotten} WHERE {_IDS}", (id_list(document_ids),)
            )

    def mark_lost(self, document_ids: Iterable[int]) -> None:
        """Marks documents as pending whose rows are missing for unknown reasons."""
        with self._database.transaction() as writer:
            writer.execute(
                f"UPDATE documents SET state = 'pending', reason = '', needs = '', content_hash = '', {_NO_ROWS}"
                f" WHERE {_IDS}",
                (id_list(document_ids),),
            )

    def mark_indexed(
        self, document_id: int, file: FoundFile, content_hash: str, read: ReadDocument, embedder: str, shard: int
    ) -> None:
        """Marks a document as indexed. To be called after its rows are durable in LanceDB, never before."""
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
        """Notes a new time or size of a file whose content is what is stored."""
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET state = 'indexed', absence = '', size_bytes = ?, mtime_ns = ?"
                " WHERE document_id = ?",
                (file.size_bytes, file.mtime_ns, document_id),
            )

    def mark_kept(self, document_id: int, remark: str, need: Need = "", content_hash: str = "") -> None:
        """Marks a document as indexed that could not be read again, but whose file and stored rows are unchanged.

        `content_hash` is the hash of the file, if it is known.
        """
        with self._database.transaction() as writer:
            writer.execute(
                "UPDATE documents SET state = 'indexed', reason = ?1, needs = ?2, absence = '',"
                " content_hash = iif(?3 = '', content_hash, ?3) WHERE document_id = ?4",
                (remark, need, content_hash, document_id),
            )

    def mark_unreadable(
        self, document_id: int, error: DocumentUnreadable, file: FoundFile | None = None, content_hash: str = ""
    ) -> None:
        """Marks a document as skipped or failed, as the error says. Call it after its rows are deleted in LanceDB."""
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
        """Stops waiting for pending documents: those with stored rows count as indexed, the others as skipped.

        The content hash of skipped ones is cleared, so that they are read if their folder is added again. Documents
        that are out of reach stay pending, and are read when their drive is back.
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


def shown_path(path: str) -> str:
    """A path in a sentence: bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode(errors="replace")


def _begin_ids_at(writer: sqlite3.Connection, least: int) -> None:
    """Makes new document ids start above `least`, a time in milliseconds, so that no earlier catalogue has given them.

    Chats, runs and cached KV outlive a catalogue that is lost, moved away or restored from a backup; an id that they
    refer to must not be given to another file.
    """
    documents = "SELECT 1 FROM sqlite_sequence WHERE name = 'documents'"
    writer.execute(f"INSERT INTO sqlite_sequence (name, seq) SELECT 'documents', 0 WHERE NOT EXISTS ({documents})")
    writer.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'documents'", (least,))
