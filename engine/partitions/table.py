"""The table `chunks`: the durable record of every chunk, written per document in one commit, searched at once.

This package alone knows LanceDB and Arrow; they are imported when a table is opened, not before.

Threads: one writer at a time (a lock sees to it), any number of readers. All share one handle, so a reader
sees what the writer committed before it began. Versions are kept for an hour: a read that began before a
clean-up ends on its old version, and one that still lost its files begins anew on the latest.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from engine.config import MemorySettings
from engine.errors import DiskFull, LibraryError
from engine.memory.ledger import Ledger
from engine.partitions.packed import Identities
from engine.partitions.rows import ChunkRow, Found, Hit, Vectors

if TYPE_CHECKING:
    from lancedb.table import Table

    from engine.partitions.opening import OpenedTable

__all__ = ["ChunkRow", "ChunkTable", "Hit"]

# A row without an index costs each question about 0.1 ms, each commit costs the next one about 0.05 ms.
UNINDEXED_ROWS_LIMIT = 1000
COMMITS_LIMIT = 200

_KEEP_VERSIONS = timedelta(hours=1)
_MAX_QUERY_CHARACTERS = 8000
_KEYS_PER_LOOKUP = 500
_LEDGER_STEP_BYTES = 2**20
# Of the vector index: enough for a recall of .98 at 1,000,000 vectors.
_NPROBES, _REFINE_FACTOR = 64, 20
_MIN_ROWS_TO_INDEX = 10_000

T = TypeVar("T")


class Follower(Protocol):
    """Hears of every change once it is durable, on the thread that wrote, one after another; never raises."""

    def put(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        """The rows of each document are all there is of it."""
        ...

    def delete(self, document_ids: Collection[int]) -> None:
        """These documents have no rows."""
        ...

    def optimized(self) -> None:
        """The table was tidied up; its rows are the same."""
        ...


class ChunkTable:
    """Chunks with their vectors and their word index. Made by `open`; `close` gives the memory back."""

    def __init__(self, opened: OpenedTable, folder: Path, ledger: Ledger) -> None:
        self._table: Table = opened.table
        self._session = opened.session
        self._folder = folder
        self.set_aside = opened.set_aside
        self._writing = threading.RLock()
        self._rows_to_index = _unindexed_rows(self._table)
        self._commits = 0
        self._followers: list[Follower] = []
        self._cache_lease = ledger.take("index", "LanceDB's caches", "ram", 0)
        self._disk_lease = ledger.take("index", "chunks, vectors and word index", "disk", self.num_bytes())

    @classmethod
    def open(cls, folder: Path, dimensions: int, identity: str, settings: MemorySettings, ledger: Ledger) -> ChunkTable:
        """The table in `folder`, made if it is not there.

        What lies there and cannot be opened is renamed, never deleted; `set_aside` lists it.

        Raises:
            EmbedderMismatch: Its vectors come from another embedding model.
            DiskFull: There is no room to make it.
            LibraryError: It cannot be opened for a reason that renaming would not mend.
        """
        from engine.partitions.opening import open_table

        with _reported("The index cannot be opened"):
            return cls(open_table(folder, dimensions, identity, settings), folder, ledger)

    def close(self) -> None:
        """Lets go of the table and its caches. A second call does nothing."""
        self._cache_lease.release()
        self._disk_lease.release()

    def follow(self, follower: Follower) -> None:
        """Tells `follower` of every change from now on."""
        with self._writing:
            self._followers.append(follower)

    @property
    def version(self) -> int:
        """Goes up with every commit, ours or a tidying up."""
        return int(self._table.version)

    @property
    def table_id(self) -> str:
        """What no other table is called; "" for one that was made before tables had names."""
        from engine.partitions.schema import TABLE_KEY

        name: bytes = (self._table.schema.metadata or {}).get(TABLE_KEY, b"")
        return name.decode()

    # --- writing ---------------------------------------------------------------------------------

    def put_document(self, document_id: int, rows: Sequence[ChunkRow]) -> None:
        """Makes `rows` all there is of a document: one commit, so nobody ever sees half of it. Raises as below."""
        self.put_documents({document_id: rows})

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        """Makes the rows of each document all there is of it, all documents in one commit.

        Raises:
            DiskFull: Nothing was written.
            LibraryError: Nothing was written, for the reason in the sentence.
        """
        from engine.partitions.schema import to_arrow

        rows = [row for of_document in documents.values() for row in of_document]
        if stray := [row.row_id for id_, of_one in documents.items() for row in of_one if row.document_id != id_]:
            raise ValueError(f"row {stray[0]} belongs to another document")
        if not rows:
            self.delete_documents(documents)
            return
        new = to_arrow(rows, self._table.schema)
        with self._writing, _reported("The index could not be written"):
            (
                self._table.merge_insert("row_id")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .when_not_matched_by_source_delete(_in_documents(documents))
                .execute(new)
            )
            self._rows_to_index += len(rows)
            self._commits += 1
            for follower in self._followers:
                follower.put(documents)

    def delete_documents(self, document_ids: Collection[int]) -> None:
        """Removes all rows of these documents, and looks that none is left.

        Raises:
            DiskFull: Nothing was removed.
            LibraryError: Rows are left, or the table cannot be written.
        """
        if not document_ids:
            return
        with self._writing, _reported("The index could not be written"):
            self._table.delete(_in_documents(document_ids))
            self._commits += 1
            left = self._table.count_rows(_in_documents(document_ids))
            for follower in self._followers:
                follower.delete(document_ids)
        if left:
            raise LibraryError(
                f"{left} passages of removed documents are still in the index.",
                "Please remove the documents again; if it happens again, restart Ragdoll.",
            )

    def is_optimize_due(self) -> bool:
        """Whether so much was written since `optimize` that questions and commits have become slower."""
        return self._rows_to_index >= UNINDEXED_ROWS_LIMIT or self._commits >= COMMITS_LIMIT

    def optimize(self) -> None:
        """Brings new rows into the indices, joins small files, drops versions older than an hour.

        Raises:
            DiskFull: Nothing is lost; it can be done again when there is room.
            LibraryError: Likewise, for the reason in the sentence.
        """
        with self._writing, _reported("The index could not be tidied up"):
            self._table.optimize(cleanup_older_than=_KEEP_VERSIONS)
            self._rows_to_index = self._commits = 0
            for follower in self._followers:
                follower.optimized()
        self._disk_lease.resize(self.num_bytes())
        self._note_caches()

    def index_vectors(self) -> None:
        """Makes the vector index, unless it is there or the rows are so few that looking at each is as fast.

        Writing goes on meanwhile, for it takes about a minute for a million rows. From then on `optimize` keeps it.

        Raises:
            LibraryError: It cannot be made.
        """
        from engine.partitions.schema import VECTOR_COLUMN, VECTOR_INDEX

        if self._has_vector_index() or self.count_rows() < _MIN_ROWS_TO_INDEX:
            return
        with _reported("The index of the vectors could not be made"):
            try:
                self._table.create_index(VECTOR_COLUMN, config=VECTOR_INDEX)
            except RuntimeError as error:
                if "conflict" not in str(error).lower():
                    raise
                with self._writing:
                    self._table.create_index(VECTOR_COLUMN, config=VECTOR_INDEX)

    def drop_vector_index(self) -> None:
        """Removes the vector index if there is one, so that nothing has to keep it. Raises LibraryError."""
        from engine.partitions.schema import VECTOR_COLUMN

        with self._writing, _reported("The index of the vectors could not be removed"):
            for index in self._table.list_indices():
                if VECTOR_COLUMN in index.columns:
                    self._table.drop_index(index.name)

    def _has_vector_index(self) -> bool:
        from engine.partitions.schema import VECTOR_COLUMN

        return any(VECTOR_COLUMN in index.columns for index in self._read(self._table.list_indices))

    # --- reading ---------------------------------------------------------------------------------

    def search_text(self, query: str, limit: int, document_ids: Collection[int] | None = None) -> list[Hit]:
        """The `limit` rows that fit the words of `query` best by BM25; any text is a query, operators are words.

        Args:
            query: What the user typed.
            limit: At most this many hits.
            document_ids: Only rows of these documents; None means all.
        """
        found = self.matching(query, limit, document_ids)
        hits = self.hits([row.row_id for row in found])
        return [replace(hits[row.row_id], score=row.score) for row in found if row.row_id in hits]

    def matching(self, query: str, limit: int, document_ids: Collection[int] | None = None) -> list[Found]:
        """As `search_text`, but only which rows they are: no text is read. Best first."""
        from engine.partitions.schema import HANGUL_COLUMN, TEXT_COLUMN, has_hangul, storable

        words = storable(query[:_MAX_QUERY_CHARACTERS]).replace("\0", " ").strip()
        if not words or limit < 1 or _is_nothing(document_ids):
            return []
        found = self._match(words, TEXT_COLUMN, limit, document_ids)
        if has_hangul(words):
            found = _best_of_both(found, self._match(words, HANGUL_COLUMN, limit, document_ids), limit)
        return found

    def search_vectors(
        self, vectors: Vectors, limit: int, document_ids: Collection[int] | None = None
    ) -> list[list[Hit]]:
        """For each of the (q, d) unit vectors the `limit` rows with the largest cosine."""
        from engine.partitions.schema import HIT_COLUMNS, VECTOR_COLUMN, to_hits

        if not len(vectors) or limit < 1 or _is_nothing(document_ids):
            return [[] for _ in vectors]

        def nearest() -> Any:
            query: Any = self._table.search(np.asarray(vectors, dtype=np.float32), VECTOR_COLUMN, query_type="vector")
            query = query.distance_type("dot").select([*HIT_COLUMNS, "_distance"]).limit(limit)
            return _scoped(query, document_ids).to_arrow()

        found = self._read(nearest)
        which = found["query_index"].to_numpy() if "query_index" in found.column_names else np.zeros(len(found))
        cosines = 1.0 - found["_distance"].to_numpy()
        places = [np.flatnonzero(which == index) for index in range(len(vectors))]
        return [to_hits(found.take(rows), cosines[rows].tolist()) for rows in places]

    def nearest(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        shards: Collection[int] | None = None,
        *,
        is_exact: bool = True,
    ) -> list[list[Found]]:
        """For each of the (q, d) unit vectors the `limit` rows with the largest cosine, best first.

        Args:
            vectors: float32.
            limit: At most this many rows for each.
            document_ids: Only rows of these documents; None means all.
            shards: Only rows of these shards; None means all.
            is_exact: Look at every row; else use the vector index if there is one (recall at least .98).
        """
        from engine.partitions.schema import VECTOR_COLUMN

        if not len(vectors) or limit < 1 or _is_nothing(document_ids) or _is_nothing(shards):
            return [[] for _ in vectors]

        def nearest() -> Any:
            query: Any = self._table.search(np.asarray(vectors, dtype=np.float32), VECTOR_COLUMN, query_type="vector")
            query = query.distance_type("dot").select(["row_id", "document_id", "_distance"]).limit(limit)
            query = query.bypass_vector_index() if is_exact else query.nprobes(_NPROBES).refine_factor(_REFINE_FACTOR)
            return _scoped(query, document_ids, shards).to_arrow()

        found = self._read(nearest)
        which = found["query_index"].to_pylist() if "query_index" in found.column_names else [0] * len(found)
        ranked: list[list[Found]] = [[] for _ in vectors]
        columns = (found[name].to_pylist() for name in ("row_id", "document_id", "_distance"))
        for query_index, row_id, document_id, distance in zip(which, *columns, strict=True):
            ranked[query_index].append(Found(row_id, document_id, 1.0 - distance))
        return [sorted(rows, key=lambda row: (-row.score, row.row_id)) for rows in ranked]

    def hits(self, row_ids: Collection[str]) -> dict[str, Hit]:
        """What is known of these rows, by id, with a score of 0; those that are no longer there are left out."""
        from engine.partitions.schema import HIT_COLUMNS, to_hits

        wanted = sorted(set(row_ids))
        hits: dict[str, Hit] = {}
        for start in range(0, len(wanted), _KEYS_PER_LOOKUP):
            where = f"row_id IN ({', '.join(map(_quoted, wanted[start : start + _KEYS_PER_LOOKUP]))})"
            found = self._scan(HIT_COLUMNS, where)
            hits.update((hit.row_id, hit) for hit in to_hits(found, [0.0] * len(found)))
        return hits

    def hits_of(self, document_ids: Collection[int]) -> list[Hit]:
        """All rows of these documents, with a score of 0, by document and in the order of the text."""
        from engine.partitions.schema import HIT_COLUMNS, to_hits

        if not document_ids:
            return []
        found = self._scan(HIT_COLUMNS, _in_documents(document_ids))
        return sorted(to_hits(found, [0.0] * len(found)), key=lambda hit: (hit.document_id, hit.ordinal))

    def vectors_by_content_key(self, keys: Collection[str]) -> dict[str, Vectors]:
        """The vectors of those keys that are in the table: what was embedded once is not embedded again."""
        from engine.partitions.schema import VECTOR_COLUMN, to_vectors

        wanted = sorted(set(keys))
        vectors: dict[str, Vectors] = {}
        for start in range(0, len(wanted), _KEYS_PER_LOOKUP):
            where = f"content_key IN ({', '.join(map(_quoted, wanted[start : start + _KEYS_PER_LOOKUP]))})"
            found = self._scan(["content_key", VECTOR_COLUMN], where)
            vectors.update(zip(found["content_key"].to_pylist(), to_vectors(found), strict=True))
        return vectors

    def identities(self) -> Iterator[Identities]:
        """Every row, in portions, by what tells it from others."""
        from engine.partitions.schema import IDENTITY_COLUMNS, to_identities

        with _reported("The index could not be read"):
            for batch in self._table.search().select(IDENTITY_COLUMNS).to_batches():
                yield to_identities(batch)

    def vectors_of_shard(self, shard: int) -> Iterator[tuple[Identities, Vectors]]:
        """Every row of a shard with its vector, in portions."""
        from engine.partitions.schema import IDENTITY_COLUMNS, VECTOR_COLUMN, to_identities, to_vectors

        with _reported("The index could not be read"):
            columns = [*IDENTITY_COLUMNS, VECTOR_COLUMN]
            for batch in self._table.search().where(_in_shards([shard])).select(columns).to_batches():
                yield to_identities(batch), to_vectors(batch)

    def document_ids(self) -> set[int]:
        """All documents that have rows."""
        return set(np.unique(self._scan(["document_id"])["document_id"].to_numpy()).tolist())

    def rows_of(self, document_id: int) -> list[ChunkRow]:
        """All rows of a document, in the order of the text."""
        from engine.partitions.schema import to_rows

        found = self._scan(self._table.schema.names, _in_documents([document_id]))
        return sorted(to_rows(found), key=lambda row: row.ordinal)

    def count_rows(self, document_id: int | None = None) -> int:
        where = None if document_id is None else _in_documents([document_id])
        return self._read(lambda: int(self._table.count_rows(where)))

    def num_bytes(self) -> int:
        """Bytes on disk, old versions included."""
        return sum(_file_bytes(file) for file in self._folder.rglob("*"))

    def _match(self, words: str, column: str, limit: int, document_ids: Collection[int] | None) -> list[Found]:
        from lancedb.query import MatchQuery

        def matching() -> Any:
            # MatchQuery, because the plain string form reads quotes and operators as a language.
            # mypy cannot see the defaults that pydantic's Field gives.
            query: Any = self._table.search(MatchQuery(words, column), query_type="fts")  # type: ignore[call-arg]
            query = query.select(["row_id", "document_id", "_score"]).limit(limit)
            return _scoped(query, document_ids).to_arrow()

        found = self._read(matching)
        columns = (found[name].to_pylist() for name in ("row_id", "document_id", "_score"))
        return sorted((Found(*row) for row in zip(*columns, strict=True)), key=lambda row: (-row.score, row.row_id))

    def _scan(self, columns: list[str], where: str | None = None) -> Any:
        query = self._table.search().select(columns)
        return self._read((query.where(where) if where else query).to_arrow)

    def _read(self, read: Callable[[], T]) -> T:
        with _reported("The index could not be read"):
            try:
                result = read()
            except RuntimeError as error:
                if "not found" not in str(error).lower():
                    raise
                # The version we read was cleaned up meanwhile (it was over an hour old).
                self._table.checkout_latest()  # type: ignore[no-untyped-call]
                result = read()
        self._note_caches()
        return result

    def _note_caches(self) -> None:
        """Tells the ledger what LanceDB's caches hold, when that has changed by more than a trifle."""
        num_bytes = int(self._session.size_bytes)
        if abs(num_bytes - self._cache_lease.num_bytes) >= _LEDGER_STEP_BYTES:
            self._cache_lease.resize(num_bytes)


@contextmanager
def _reported(sentence: str) -> Iterator[None]:
    """Turns what LanceDB raises (RuntimeError, ValueError, OSError by case) into our errors."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        raise as_library_error(sentence, error) from error


def as_library_error(sentence: str, error: Exception) -> LibraryError:
    """Our error for one of LanceDB's, whose messages carry the system's code as "os error 28"."""
    said = str(error)
    if re.search(r"os error 28\b|no space left", said, re.IGNORECASE):
        return DiskFull("The disk is full; the index could not be written.", "Free some space and start again.")
    reason = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    return LibraryError(f"{sentence}: {reason}", "Restart Ragdoll; if it happens again, see the log.")


def _unindexed_rows(table: Table) -> int:
    from engine.partitions.schema import TEXT_COLUMN

    statistics = table.index_stats(f"{TEXT_COLUMN}_idx")
    return statistics.num_unindexed_rows if statistics else 0


def _scoped(query: Any, document_ids: Collection[int] | None, shards: Collection[int] | None = None) -> Any:
    conditions = [] if document_ids is None else [_in_documents(document_ids)]
    conditions += [] if shards is None else [_in_shards(shards)]
    return query.where(" AND ".join(conditions), prefilter=True) if conditions else query


def _in_documents(document_ids: Collection[int]) -> str:
    return f"document_id IN ({', '.join(str(int(id_)) for id_ in sorted(document_ids))})"


def _in_shards(shards: Collection[int]) -> str:
    return f"shard IN ({', '.join(str(int(number)) for number in sorted(shards))})"


def _is_nothing(wanted: Collection[int] | None) -> bool:
    return wanted is not None and not wanted


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _file_bytes(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:  # cleaned up while we looked
        return 0


def _best_of_both(words: Sequence[Found], syllables: Sequence[Found], limit: int) -> list[Found]:
    """Joins two rankings whose scores do not compare: each counts relative to its best."""
    best: dict[str, tuple[float, Found]] = {}
    for ranking in (words, syllables):
        top = max((row.score for row in ranking), default=0.0) or 1.0
        for row in ranking:
            share = row.score / top
            if row.row_id not in best or best[row.row_id][0] < share:
                best[row.row_id] = (share, row)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))
    return [row for _, (_, row) in ranked[:limit]]
