"""Queries of a search: which documents its filters leave, how many those are, and where they are.

Each query scans one narrow index at most, so that it takes milliseconds in a library of a hundred thousand documents.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from engine.catalog.reader import CatalogReader, id_list, span
from engine.core import Document, Filters
from engine.errors import BadRequest, NothingThere

# In the words of the partial index `documents_found`; a document without chunks cannot be found.
_STORED = "d.num_chunks > 0"
_ASCII_RUN = re.compile(r"(?:[\x21-\x7e](?![\u0300-\u036f]))+")
# What case folding turns ß and ligatures into.
_FOLDED_TO = re.compile(r"ss|ffi|ffl|ff|fi|fl|st")
# With more names than this, comparing all paths in Python is faster.
_MOST_PATTERNS = 16
_NS_PER_SECOND = 1_000_000_000
# The largest time that the catalogue can store.
_MOST_NS, _EPOCH_YEAR = 2**63 - 1, 1970


@dataclass(frozen=True, slots=True)
class Located:
    """The path of a document, whether it is out of reach, and its number of chunks."""

    path: str
    is_offline: bool
    num_chunks: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is to search: the number of documents with stored chunks, and of those chunks."""

    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Named:
    """Files, and folders with files, that have one of the names that were searched for."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangedPaths:
    """Paths of documents that were added, removed or moved since a mark; documents without a path were removed.

    `document_ids` None means that `paths` has all documents. `mark` is for the next call.
    """

    mark: int
    document_ids: frozenset[int] | None
    paths: dict[int, str]


class ScopeReader(CatalogReader):
    """Queries of a search. Every result is of that moment."""

    def located(self, document_ids: Iterable[int]) -> dict[int, Located]:
        """Returns the known documents among the ids; rows of LanceDB of unknown documents must not be cited."""
        rows = self._database.rows(
            "SELECT document_id, path, absence != '', num_chunks FROM documents"
            " WHERE document_id IN (SELECT value FROM json_each(?))",
            (id_list(document_ids),),
        )
        return {row[0]: Located(os.fsdecode(row[1]), bool(row[2]), row[3]) for row in rows}

    def ids_in_scope(self, collection: str | None, filters: Filters) -> frozenset[int] | None:
        """Returns the documents that a search is limited to; None means all.

        Raises:
            NothingThere: There is no such collection, or none of the documents exists any more.
            BadRequest: A date of the filters is invalid.
        """
        where, parameters = self._scope(collection, filters)
        if not where or self._leaves_all(collection, filters):
            return self._known_beside_strangers()
        return self._ids(f"SELECT d.document_id FROM documents d WHERE {' AND '.join(where)}", parameters)

    def _known_beside_strangers(self) -> frozenset[int] | None:
        """Returns None for all, or the known documents if there are rows of a lost catalogue among them."""
        if self._database.row("SELECT 1 FROM beginning WHERE has_strangers") is None:
            return None
        return self._ids(f"SELECT d.document_id FROM documents d WHERE {_STORED}", ())

    def extent(self, collection: str | None, filters: Filters) -> Extent:
        """Counts what is stored within `ids_in_scope`. Raises as that does."""
        where, parameters = self._scope(collection, filters)
        # "+" keeps SQLite from using the index of stored documents where the index of paths is better.
        stored = f"+{_STORED}" if where else _STORED
        row = self._database.row(
            f"SELECT count(*), coalesce(sum(d.num_chunks), 0) FROM documents d WHERE {' AND '.join([stored, *where])}",
            parameters,
        )
        return Extent(*row) if row is not None else Extent(0, 0)

    def only_document(self, collection: str | None, filters: Filters) -> int | None:
        """Returns the only document that `extent` counts; None if there are several, or none. Raises as that does."""
        where, parameters = self._scope(collection, filters)
        conditions = " AND ".join([_STORED, *where])
        rows = self._database.rows(f"SELECT d.document_id FROM documents d WHERE {conditions} LIMIT 2", parameters)
        return rows[0][0] if len(rows) == 1 else None

    def stored_documents(self, collection: str | None, filters: Filters) -> tuple[Document, ...]:
        """Returns the documents that `extent` counts, ordered by path. Raises as that does."""
        where, parameters = self._scope(collection, filters)
        return self._select(f"WHERE {' AND '.join([_STORED, *where])} ORDER BY d.path", parameters)

    def paths_named(self, names: Collection[str]) -> Named:
        """Returns files and folders with one of `names`, in any case; files also without their ending."""
        wanted = {folded for name in names if (folded := folded_name(name))}
        if not wanted:
            return Named()
        # LIKE folds ASCII only, so it preselects by that, and Python compares the few that are left.
        patterns = {_pattern(name) for name in wanted} if len(wanted) <= _MOST_PATTERNS else {"%"}
        like = any_of(["CAST(d.path AS TEXT) LIKE ?"] * len(patterns))
        rows = self._database.rows(f"SELECT d.path FROM documents d WHERE {like}", list(patterns))
        paths = [os.fsdecode(row[0]) for row in rows]
        return Named(
            frozenset(path for path in paths if wanted & file_names(path)),
            frozenset(folder for path in paths for folder in _folders_above(path, wanted)),
        )

    def changed_paths(self, mark: int | None) -> ChangedPaths:
        """Returns what changed since an earlier `mark`; None means all paths."""
        now, ids = self._database.path_log.since(mark)
        if ids is not None:
            return ChangedPaths(now, ids, self.paths_of(ids) if ids else {})
        rows = self._database.rows("SELECT document_id, path FROM documents")
        return ChangedPaths(now, None, {row[0]: os.fsdecode(row[1]) for row in rows})

    def num_chunks_by_id(self) -> tuple[tuple[int, int], ...]:
        """Returns each document with stored chunks and their number, ordered by id."""
        stored = f"SELECT d.document_id, d.num_chunks FROM documents d WHERE {_STORED} ORDER BY d.document_id"
        return tuple((row[0], row[1]) for row in self._database.rows(stored))

    def root_folders(self) -> frozenset[str]:
        """Returns the folders that the user added."""
        return frozenset(root.path for root in self.roots() if root.is_folder)

    def _leaves_all(self, collection: str | None, filters: Filters) -> bool:
        """Returns whether the only filters are collections, and all existing ones are named."""
        if replace(filters, collections=()) != Filters():
            return False
        known = set(self.collection_names())
        return all(set(map(self.require_collection, names)) == known for names in _named(collection, filters))

    def _scope(self, collection: str | None, filters: Filters) -> tuple[list[str], tuple[object, ...]]:
        conditions, parameters = list[str](), list[object]()
        for names in _named(collection, filters):
            roots = (root for name in names for root in self.roots(self.require_collection(name)))
            # One folder may be in several collections.
            spans = list(dict.fromkeys(span(root.path, root.is_folder) for root in roots))
            conditions.append(_in_spans(len(spans)))
            parameters += [bound for bounds in spans for bound in bounds]
        if filters.paths:
            spans = [span(path, is_folder) for path in filters.paths for is_folder in (True, False)]
            conditions.append(_in_spans(len(spans)))
            parameters += [bound for bounds in spans for bound in bounds]
        if filters.document_ids:
            if not self.paths_of(filters.document_ids):
                raise NothingThere.any_more()
            conditions.append("d.document_id IN (SELECT value FROM json_each(?))")
            parameters.append(id_list(filters.document_ids))
        if filters.formats:
            conditions.append(f"d.format IN ({', '.join('?' * len(filters.formats))})")
            parameters += filters.formats
        for day, condition, days_later in (
            (filters.changed_since, "d.mtime_ns >= ?", 0),
            (filters.changed_until, "d.mtime_ns < ?", 1),
        ):
            if day:
                conditions.append(condition)
                parameters.append(_midnight_ns(day, days_later))
        return conditions, tuple(parameters)


def _named(collection: str | None, filters: Filters) -> Iterator[tuple[str, ...]]:
    """Yields groups of collections; a document must be in at least one of each group."""
    if collection is not None:
        yield (collection,)
    if filters.collections:
        yield filters.collections


def _in_spans(count: int) -> str:
    return any_of(["(d.path >= ? AND d.path < ?)"] * count) if count else "false"


def any_of(conditions: Sequence[str]) -> str:
    """Joins conditions by OR as a balanced tree, because SQLite limits the depth of an expression to 1,000."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({any_of(conditions[:middle])} OR {any_of(conditions[middle:])})"


def folded_name(name: str) -> str:
    """Folds a name for comparison with typed text: case and composition are ignored."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def file_names(path: str) -> frozenset[str]:
    """Returns what people may call a file: its folded name with and without its ending."""
    name = path.rpartition("/")[2]
    return frozenset((folded_name(name), folded_name(name.rpartition(".")[0] or name)))


def _folders_above(path: str, wanted: Collection[str]) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        above, _, name = folder.rpartition("/")
        if folded_name(name) in wanted:
            yield folder
        folder = above


def _pattern(name: str) -> str:
    """Returns a LIKE pattern: the ASCII parts of a folded name that must also be in the unfolded one.

    Folding also produces ASCII letters from others ("ss" from ß, "i" and a dot from İ), which are left out. If nothing
    is left, a name whose letters have no case and only one composition is used unchanged, any other matches all.
    """
    parts = [part for run in _ASCII_RUN.findall(name) for part in _FOLDED_TO.split(run) if part]
    if parts:
        return f"%{'%'.join(parts)}%"
    return f"%{name}%" if name.upper() == name.lower() and unicodedata.normalize("NFD", name) == name else "%"


def _midnight_ns(day: str, days_later: int) -> int:
    """Returns the start of a local day in nanoseconds since 1970, limited to what the catalogue can store."""
    try:
        named = date.fromisoformat(day)
    except ValueError as error:
        raise BadRequest(f"{day!r} is not a date.", "Write it as year-month-day: 2025-03-31.") from error
    try:
        begin = datetime.combine(named + timedelta(days=days_later), datetime.min.time())
        begin_ns = int(begin.timestamp()) * _NS_PER_SECOND
    except (ValueError, OverflowError, OSError):
        # Outside of the calendar, or of the system's time functions.
        begin_ns = _MOST_NS if named.year > _EPOCH_YEAR else -_MOST_NS
    return max(-_MOST_NS, min(begin_ns, _MOST_NS))
