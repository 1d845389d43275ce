"""Queries of the catalogue, from any thread: collections, roots, and the documents below them."""

from __future__ import annotations

import json
import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.catalog.database import Database, folded
from engine.core import Collection, Document, DocumentState, Need
from engine.errors import NothingThere

STATES: tuple[DocumentState, ...] = ("pending", "indexed", "skipped", "failed", "offline")

_SHOWN_STATE = "CASE WHEN d.absence = '' THEN d.state ELSE 'offline' END"
# A document that waits to be read shows no need; what it needed is shown again if reading is cancelled.
_SHOWN_NEEDS = "iif(d.state = 'pending' AND d.embedder = '', '', d.needs)"
_SELECT = f"""
    SELECT d.document_id, d.path, {_SHOWN_STATE} AS state, iif(d.absence = '', d.reason, d.absence) AS reason,
        d.size_bytes, d.mtime_ns, d.content_hash, d.format, d.num_chunks, d.title, d.num_pages, d.embedder,
        {_SHOWN_NEEDS} AS needs
    FROM documents d"""
# A caller may still use a former name of a collection.
_MEANT = """coalesce(
    (SELECT collection_id FROM collections WHERE name_key = ?1),
    (SELECT collection_id FROM former_names WHERE name_key = ?1))"""
# CROSS JOIN fixes the order, from roots to documents: otherwise every document would be compared with every root.
_IN_COLLECTION = """d.document_id IN (
    SELECT c.document_id FROM roots r CROSS JOIN documents c
    WHERE r.collection_id = ? AND c.path >= r.first AND c.path < r.last)"""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that the user put into a collection.

    `device` is the file system it was on; `is_surveyed` is False until its files have been looked at once.
    `absence` says in a sentence why it was out of reach at the last look ("" when it was not).
    """

    root_id: int
    collection: str
    path: str
    is_folder: bool
    device: int
    is_surveyed: bool
    absence: str = ""

    def covers(self, path: str) -> bool:
        """Returns whether a document at `path` belongs to this root."""
        first, last = span(self.path, self.is_folder)
        return first <= os.fsencode(path) < last


_BELOW = "WHERE d.path = ? OR (d.path >= ? AND d.path < ?)"


def span(path: str, is_folder: bool) -> tuple[bytes, bytes]:
    """Returns the half-open range of paths below a folder ("/a/" to "/a0", as "0" follows "/"), or of one file."""
    raw = os.fsencode(path)
    return (raw.rstrip(b"/") + b"/", raw.rstrip(b"/") + b"0") if is_folder else (raw, raw + b"\0")


def name_key(name: str) -> str:
    """Returns the key of a name: names that differ only in case or composition have the same one."""
    # Invalid text gets a key as well, which no collection has.
    return unicodedata.normalize("NFC", name.encode("utf-8", "backslashreplace").decode().strip()).casefold()


def id_list(document_ids: Iterable[int]) -> str:
    """Encodes ids as a single parameter of `IN (SELECT value FROM json_each(?))`; SQLite limits their number."""
    return json.dumps(list(document_ids))


class CatalogReader:
    """Queries of the catalogue. Every result is a frozen value of that moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # With the version of the roots that it was made of.
        self._kept_collections: tuple[int, _Collections] | None = None

    # --- collections and roots ---

    def collection_names(self) -> tuple[str, ...]:
        return tuple(row["name"] for row in self._database.rows("SELECT name FROM collections ORDER BY name_key"))

    def require_collection(self, name: str) -> str:
        """Returns the present name of a collection, by its present or a former name in any case.

        Raises:
            NothingThere: No collection has or had this name; the way out lists the existing ones.
        """
        return str(self._collection_row(name)["name"])

    def collections(self) -> tuple[Collection, ...]:
        return tuple(filter(None, map(self._counted, self.collection_names())))

    def root(self, collection_id: int, path: str) -> Root:
        """Returns the root at a path, which must exist in the collection."""
        row = self._database.row(
            "SELECT r.*, c.name FROM roots r JOIN collections c USING (collection_id)"
            " WHERE r.collection_id = ? AND r.path = ?",
            (collection_id, os.fsencode(path)),
        )
        assert row is not None
        return _root(row)

    def roots(self, collection: str | None = None) -> tuple[Root, ...]:
        """Returns what the user added, ordered by collection and path."""
        rows = self._database.rows(
            "SELECT r.*, c.name FROM roots r JOIN collections c USING (collection_id)"
            f" WHERE ?1 IS NULL OR r.collection_id = {_MEANT} ORDER BY c.name_key, r.path",
            (None if collection is None else name_key(collection),),
        )
        return tuple(_root(row) for row in rows)

    def exclusions(self) -> frozenset[str]:
        """Returns files and folders below roots that the user removed from the library."""
        return frozenset(os.fsdecode(row["path"]) for row in self._database.rows("SELECT path FROM exclusions"))

    def identities_removed(self) -> dict[str, str]:
        """Returns the same paths with the identity (inode and such) of each file; "" if it is not known yet."""
        rows = self._database.rows("SELECT path, identity FROM exclusions")
        return {os.fsdecode(row["path"]): row["identity"] for row in rows}

    def mounts(self) -> dict[str, str]:
        """Returns paths below roots with a mounted drive, each with the mount point, which a link may lead to."""
        rows = self._database.rows("SELECT path, coalesce(drive, path) AS drive FROM mounts ORDER BY path")
        return {os.fsdecode(row["path"]): os.fsdecode(row["drive"]) for row in rows}

    # --- documents ---

    def documents(
        self,
        collection: str | None = None,
        states: Sequence[DocumentState] = (),
        offset: int = 0,
        limit: int = 500,
        name: str = "",
        document_ids: Iterable[int] | None = None,
    ) -> tuple[tuple[Document, ...], int]:
        """Returns a page of documents ordered by path, and their total number; no states means every state.

        Their paths contain every word of `name`, in any case; `document_ids` None means all.

        Raises:
            NothingThere: There is no such collection.
        """
        where, parameters = self._filter(collection, states, name, document_ids)
        page = self._select(f"WHERE {where} ORDER BY d.path LIMIT ? OFFSET ?", (*parameters, limit, offset))
        return page, self._count(f"SELECT count(*) FROM documents d WHERE {where}", parameters)

    def documents_in_state(self, state: DocumentState) -> tuple[Document, ...]:
        """Returns all documents in a state, ordered by path."""
        where, parameters = self._filter(None, (state,))
        return self._select(f"WHERE {where} ORDER BY d.path", parameters)

    def document(self, document_id: int) -> Document | None:
        return _first(self._select("WHERE d.document_id = ?", (document_id,)))

    def documents_by_id(self, document_ids: Iterable[int]) -> dict[int, Document]:
        """Returns the known documents among the ids. Rows of LanceDB of unknown documents must not be cited."""
        found = self._select("WHERE d.document_id IN (SELECT value FROM json_each(?))", (id_list(document_ids),))
        return {document.document_id: document for document in found}

    def paths_of(self, document_ids: Iterable[int]) -> dict[int, str]:
        """Returns the paths of the known documents among the ids; cheaper than `documents_by_id`."""
        rows = self._database.rows(
            "SELECT document_id, path FROM documents WHERE document_id IN (SELECT value FROM json_each(?))",
            (id_list(document_ids),),
        )
        return {row["document_id"]: os.fsdecode(row["path"]) for row in rows}

    def document_by_path(self, path: str) -> Document | None:
        return _first(self._select("WHERE d.path = ?", (os.fsencode(path),)))

    def documents_under(self, path: str) -> tuple[Document, ...]:
        """Returns the document at `path`, and all below it if it is a folder; ordered by path."""
        return self.documents_below([path])[path]

    def documents_below(self, paths: Iterable[str]) -> dict[str, tuple[Document, ...]]:
        """Returns `documents_under` each path; for many paths faster than one after the other."""
        collections, found = self._collections(), {}
        for path in paths:
            at = (os.fsencode(path), *span(path, is_folder=True))
            rows = self._database.rows(f"{_SELECT} {_BELOW} ORDER BY d.path", at)
            found[path] = tuple(_document(row, collections) for row in rows)
        return found

    def ids_below(self, path: str) -> frozenset[int]:
        """Returns the ids of the document at `path`, and of all below it if it is a folder."""
        at = (os.fsencode(path), *span(path, is_folder=True))
        return self._ids(f"SELECT d.document_id FROM documents d {_BELOW}", at)

    def has_below(self, path: str) -> bool:
        """Returns whether a document is at or below `path`."""
        at = (os.fsencode(path), *span(path, is_folder=True))
        return self._database.row(f"SELECT 1 FROM documents d {_BELOW} LIMIT 1", at) is not None

    def any_below(self, path: str, state: DocumentState | None = None) -> Document | None:
        """Returns any one document at or below `path`, in `state` if given; fast even for a hundred thousand."""
        at = "(d.path = ?1 OR (d.path >= ?2 AND d.path < ?3))"
        wanted = f"WHERE {at} AND (?4 IS NULL OR {_SHOWN_STATE} = ?4) LIMIT 1"
        return _first(self._select(wanted, (os.fsencode(path), *span(path, is_folder=True), state)))

    def documents_needing(self, need: Need) -> tuple[Document, ...]:
        """Returns documents that could be read, or read better, with this; ordered by path."""
        return self._select(
            f"WHERE d.needs = ? AND d.needs != '' AND {_SHOWN_NEEDS} = d.needs ORDER BY d.path", (need,)
        )

    def documents_of_size(self, size_bytes: int) -> tuple[Document, ...]:
        """Returns documents whose content had this size when it was read."""
        return self._select("WHERE d.size_bytes = ? AND d.content_hash != ''", (size_bytes,))

    def has_read_size(self, size_bytes: int) -> bool:
        """Returns whether `sizes_read` contains this size."""
        found = "SELECT 1 FROM documents d WHERE d.size_bytes = ? AND d.content_hash != '' LIMIT 1"
        return self._database.row(found, (size_bytes,)) is not None

    def sizes_read(self) -> frozenset[int]:
        """Returns the sizes in bytes of all contents that were read: a file of any other size is new."""
        return self._ids("SELECT DISTINCT d.size_bytes FROM documents d WHERE d.content_hash != ''", ())

    def ids_with_rows(self) -> frozenset[int]:
        """Returns documents with stored rows according to the catalogue, including those out of reach."""
        return self._ids("SELECT d.document_id FROM documents d WHERE d.embedder != ''", ())

    def ids_with_rows_since(self, mtime_ns: int) -> frozenset[int]:
        """Returns those of `ids_with_rows` whose files have changed since then."""
        wanted = "SELECT d.document_id FROM documents d WHERE d.embedder != '' AND d.mtime_ns >= ?"
        return self._ids(wanted, (mtime_ns,))

    def ids_to_read(self) -> frozenset[int]:
        """Returns documents that wait to be read, including those out of reach."""
        return self._ids("SELECT d.document_id FROM documents d WHERE d.state = 'pending'", ())

    def document_ids_in_collection(self, collection: str) -> frozenset[int]:
        """Returns the ids of all documents of a collection, in any state.

        Raises:
            NothingThere: There is no such collection.
        """
        where, parameters = self._filter(collection, ())
        return self._ids(f"SELECT d.document_id FROM documents d WHERE {where}", parameters)

    def documents_by_state(
        self, collection: str | None = None, name: str = "", document_ids: Iterable[int] | None = None
    ) -> dict[str, int]:
        """Counts the documents that `documents` would return by state, including zeros. Raises as it does."""
        where, parameters = self._filter(collection, (), name, document_ids)
        rows = self._database.rows(
            f"SELECT {_SHOWN_STATE} AS shown, count(*) AS number FROM documents d WHERE {where} GROUP BY shown",
            parameters,
        )
        return dict.fromkeys(STATES, 0) | {row["shown"]: row["number"] for row in rows}

    def num_chunks(self, collection: str | None = None) -> int:
        """Counts the chunks of all documents, or of a collection's. Raises as `documents` does."""
        where, parameters = self._filter(collection, ())
        return self._count(f"SELECT coalesce(sum(d.num_chunks), 0) FROM documents d WHERE {where}", parameters)

    def num_chunks_arrived(self) -> int:
        """Returns the number of chunks ever written, including removed ones."""
        return self._count("SELECT num_chunks FROM arrivals", ())

    # --- inside ---

    def _filter(
        self,
        collection: str | None,
        states: Sequence[DocumentState],
        name: str = "",
        document_ids: Iterable[int] | None = None,
    ) -> tuple[str, tuple[object, ...]]:
        conditions, parameters = ["true"], list[object]()
        if collection is not None:
            conditions.append(_IN_COLLECTION)
            parameters.append(self._collection_row(collection)["collection_id"])
        if states:
            conditions.append(f"{_SHOWN_STATE} IN (SELECT value FROM json_each(?))")
            parameters.append(json.dumps(list(states)))
        for word in name.split():
            conditions.append("instr(folded(d.path), ?) > 0")
            parameters.append(folded(os.fsencode(word)))
        if document_ids is not None:
            conditions.append("d.document_id IN (SELECT value FROM json_each(?))")
            parameters.append(id_list(document_ids))
        return " AND ".join(conditions), tuple(parameters)

    def _collection_row(self, name: str) -> sqlite3.Row:
        row = self._database.row(f"SELECT * FROM collections WHERE collection_id = {_MEANT}", (name_key(name),))
        if row is None:
            names = self.collection_names()
            known = f"There are: {', '.join(names)}." if names else "The library is empty; add a folder first."
            raise NothingThere(f"There is no collection named {name!r}.", known)
        return row

    def _counted(self, name: str) -> Collection | None:
        """Returns a collection with its counts; None if it was deleted in the meantime."""
        try:
            row = self._collection_row(name)
            former = "SELECT name FROM former_names WHERE collection_id = ? ORDER BY name_key"
            return Collection(
                name=row["name"],
                folders=tuple(root.path for root in self.roots(name)),
                documents_by_state=self.documents_by_state(name),
                num_chunks=self.num_chunks(name),
                former_names=tuple(one["name"] for one in self._database.rows(former, (row["collection_id"],))),
            )
        except NothingThere:
            return None

    def _select(self, clause: str, parameters: Sequence[object]) -> tuple[Document, ...]:
        rows = self._database.rows(f"{_SELECT} {clause}", parameters)
        if not rows:
            return ()
        collections = self._collections()
        return tuple(_document(row, collections) for row in rows)

    def _collections(self) -> _Collections:
        """Returns the collections by the present roots; cached, because there may be thousands of roots."""
        version, kept = self._database.roots_version, self._kept_collections
        if kept is not None and kept[0] == version:
            return kept[1]
        collections = _Collections(self.roots())
        if version is not None:
            self._kept_collections = (version, collections)
        return collections

    def _count(self, sql: str, parameters: Sequence[object]) -> int:
        row = self._database.row(sql, parameters)
        return int(row[0]) if row is not None else 0

    def _ids(self, sql: str, parameters: Sequence[object]) -> frozenset[int]:
        return frozenset(row[0] for row in self._database.rows(sql, parameters))


def _root(row: sqlite3.Row) -> Root:
    return Root(
        root_id=row["root_id"],
        collection=row["name"],
        path=os.fsdecode(row["path"]),
        is_folder=bool(row["is_folder"]),
        device=row["device"],
        is_surveyed=bool(row["is_surveyed"]),
        absence=row["absence"],
    )


class _Collections:
    """Finds the collections of a document, in the order of `roots`: those with a root at its path or above it.

    A user may link thousands of single files, so these are looked up by path; only folders are searched one by one.
    """

    def __init__(self, roots: Iterable[Root]) -> None:
        self._folders: list[tuple[bytes, bytes, int, str]] = []
        self._files: dict[bytes, list[tuple[int, str]]] = {}
        for place, root in enumerate(roots):
            if root.is_folder:
                self._folders.append((*span(root.path, is_folder=True), place, root.collection))
            else:
                self._files.setdefault(os.fsencode(root.path), []).append((place, root.collection))

    def of(self, path: bytes) -> tuple[str, ...]:
        found = [(place, name) for first, last, place, name in self._folders if first <= path < last]
        if path in self._files:
            found = sorted((*found, *self._files[path]))
        return tuple(dict.fromkeys([name for _, name in found]))


def _document(row: sqlite3.Row, collections: _Collections) -> Document:
    # By position, for speed: a rescan reads a hundred thousand of them.
    document_id, path, *rest = row
    return Document(document_id, collections.of(path), os.fsdecode(path), *rest)


def _first(documents: tuple[Document, ...]) -> Document | None:
    return documents[0] if documents else None
