"""Reading the table `chunks`: by words, by vectors, by ids, and row by row.

Any number of threads may read while one writes: each read sees what was committed before it began. A read that began
before a clean-up finishes on its old version; if the files of that version are gone, it is repeated on the latest one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from engine.config import bytes_below
from engine.memory.ledger import Lease
from engine.partitions.faults import is_of_an_index, reported
from engine.partitions.packed import Identities
from engine.partitions.rows import ChunkRow, Found, Hit, Vectors
from engine.partitions.searchable import composed, searchable

if TYPE_CHECKING:
    import lancedb
    from lancedb.table import Table

_MAX_QUERY_CHARACTERS = 8000
_KEYS_PER_LOOKUP = 500
_LEAST_RUN, _MOST_RUNS = 3, 1000
_LEDGER_STEP_BYTES = 2**20
# Parameters of the vector index: recall@10 is .98 at 200,000 vectors even for queries whose neighbours are far (cosines
# .46 to .32), and 1.00 for those with near ones.
_NPROBES, _REFINE_FACTOR = 64, 30
_MIN_CANDIDATES = 1000

T = TypeVar("T")


class TableReader:
    """All queries of the table."""

    def __init__(self, table: Table, session: lancedb.Session, folder: Path, cache_lease: Lease) -> None:
        self._table, self._session, self._folder, self._cache_lease = table, session, folder, cache_lease
        self._noting, self._is_closed = threading.Lock(), False
        # Held by all that change the table, including a reader that rebuilds a damaged index.
        self._writing = threading.RLock()

    def close(self) -> None:
        """Releases the caches. A read in progress finishes; a second call does nothing."""
        with self._noting:
            self._is_closed = True
            self._cache_lease.release()

    @cached_property
    def _is_in_form(self) -> bool:
        """Whether all texts have the present form of the word index; large tables of older versions do not."""
        from engine.partitions.schema import FORM, FORM_KEY, TEXT_COLUMN

        return bool((self._table.schema.field(TEXT_COLUMN).metadata or {}).get(FORM_KEY) == FORM)

    @property
    def version(self) -> int:
        """The version of the table, which increases with every commit."""
        return int(self._table.version)

    @property
    def table_id(self) -> str:
        """The unique id of the table; "" for one that was made before tables had ids."""
        from engine.partitions.schema import TABLE_KEY

        name: bytes = (self._table.schema.metadata or {}).get(TABLE_KEY, b"")
        return name.decode()

    def matching(self, query: str, limit: int, document_ids: Collection[int] | None = None) -> list[Found]:
        """Returns the `limit` rows that match the words of `query` best by BM25, best first, without their texts.

        Args:
            query: What the user typed; any text is valid, and operators are treated as words.
            limit: At most this many rows.
            document_ids: Only rows of these documents; None means all.
        """
        from engine.partitions.schema import HANGUL_COLUMN, TEXT_COLUMN, has_hangul, storable

        asked = storable(_shortened(query)).replace("\0", " ")
        words = searchable(asked).strip()
        if not self._is_in_form:
            # The table has rows in both forms.
            words = " ".join([words, *(word for word in composed(asked).split() if searchable(word) != word)])
        if not words or limit < 1 or _is_nothing(document_ids):
            return []
        found = self._match_truly(words, TEXT_COLUMN, limit, document_ids)
        if has_hangul(words):
            found = _best_of_both(found, self._match_truly(words, HANGUL_COLUMN, limit, document_ids), limit)
        return found

    def nearest(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        shards: Collection[int] | None = None,
        *,
        is_exact: bool = True,
    ) -> list[list[Found]]:
        """Returns, for each of the (q, d) unit vectors, the `limit` rows with the largest cosine, best first.

        Args:
            vectors: float32.
            limit: At most this many rows for each.
            document_ids: Only rows of these documents; None means all.
            shards: Only rows of these shards; None means all.
            is_exact: Compare every row; otherwise use the vector index if there is one (recall at least .98).
        """
        from engine.partitions.schema import VECTOR_COLUMN

        if not len(vectors) or limit < 1 or _is_nothing(document_ids) or _is_nothing(shards):
            return [[] for _ in vectors]

        def nearest() -> Any:
            query: Any = self._table.search(np.asarray(vectors, dtype=np.float32), VECTOR_COLUMN, query_type="vector")
            query = query.distance_type("dot").select(["row_id", "document_id", "_distance"]).limit(limit)
            query = query.bypass_vector_index() if is_exact else _refined(query, limit)
            return _scoped(query, document_ids, shards).to_arrow()

        found = self._read(nearest)
        which = found["query_index"].to_pylist() if "query_index" in found.column_names else [0] * len(found)
        ranked: list[list[Found]] = [[] for _ in vectors]
        columns = (found[name].to_pylist() for name in ("row_id", "document_id", "_distance"))
        for query_index, row_id, document_id, distance in zip(which, *columns, strict=True):
            ranked[query_index].append(Found(row_id, document_id, 1.0 - distance))
        return [sorted(rows, key=lambda row: (-row.score, row.row_id)) for rows in ranked]

    def hits(self, row_ids: Collection[str]) -> dict[str, Hit]:
        """Reads these rows, by id, with a score of 0; rows that no longer exist are left out."""
        from engine.partitions.schema import HIT_COLUMNS, to_hits

        wanted = sorted(set(row_ids))
        hits: dict[str, Hit] = {}
        for start in range(0, len(wanted), _KEYS_PER_LOOKUP):
            where = f"row_id IN ({', '.join(map(_quoted, wanted[start : start + _KEYS_PER_LOOKUP]))})"
            found = self._scan(HIT_COLUMNS, where)
            hits.update((hit.row_id, hit) for hit in to_hits(found, [0.0] * len(found)))
        return hits

    def hits_of(self, document_ids: Collection[int]) -> list[Hit]:
        """Reads all rows of these documents, with a score of 0, by document and in the order of the text."""
        from engine.partitions.schema import HIT_COLUMNS, to_hits

        if not document_ids:
            return []
        found = self._scan(HIT_COLUMNS, in_documents(document_ids))
        return sorted(to_hits(found, [0.0] * len(found)), key=lambda hit: (hit.document_id, hit.ordinal))

    def hits_at(self, document_id: int, first: int, count: int) -> list[Hit]:
        """Reads at most `count` chunks of a document from ordinal `first` on, with a score of 0, in order."""
        from engine.partitions.schema import HIT_COLUMNS, to_hits

        where = f"{in_documents((document_id,))} AND ordinal >= {first} AND ordinal < {first + count}"
        found = self._scan(HIT_COLUMNS, where)
        return sorted(to_hits(found, [0.0] * len(found)), key=lambda hit: hit.ordinal)

    def vectors_by_content_key(self, keys: Collection[str]) -> dict[str, Vectors]:
        """Returns the vectors of those keys that the table has, so that equal texts are embedded only once."""
        from engine.partitions.schema import VECTOR_COLUMN, to_vectors

        wanted = sorted(set(keys))
        vectors: dict[str, Vectors] = {}
        for start in range(0, len(wanted), _KEYS_PER_LOOKUP):
            where = f"content_key IN ({', '.join(map(_quoted, wanted[start : start + _KEYS_PER_LOOKUP]))})"
            found = self._scan(["content_key", VECTOR_COLUMN], where)
            vectors.update(zip(found["content_key"].to_pylist(), to_vectors(found), strict=True))
        return vectors

    def identities(self) -> Iterator[Identities]:
        """Yields the identities of all rows, in batches."""
        from engine.partitions.schema import IDENTITY_COLUMNS, to_identities

        with reported("The index could not be read"):
            for batch in self._table.search().select(IDENTITY_COLUMNS).to_batches():
                yield to_identities(batch)

    def vectors_of_shard(self, shard: int) -> Iterator[tuple[Identities, Vectors]]:
        """Yields all rows of a shard with their vectors, in batches."""
        from engine.partitions.schema import IDENTITY_COLUMNS, VECTOR_COLUMN, to_identities, to_vectors

        with reported("The index could not be read"):
            columns = [*IDENTITY_COLUMNS, VECTOR_COLUMN]
            for batch in self._table.search().where(_in_shards([shard])).select(columns).to_batches():
                yield to_identities(batch), to_vectors(batch)

    def document_ids(self) -> set[int]:
        """Returns all documents that have rows."""
        return set(np.unique(self._scan(["document_id"])["document_id"].to_numpy()).tolist())

    def rows_of(self, document_id: int) -> list[ChunkRow]:
        """Reads all rows of a document, in the order of the text."""
        from engine.partitions.schema import to_rows

        found = self._scan(self._table.schema.names, in_documents([document_id]))
        return sorted(to_rows(found), key=lambda row: row.ordinal)

    def count_rows(self, document_id: int | None = None) -> int:
        where = None if document_id is None else in_documents([document_id])
        return self._read(lambda: int(self._table.count_rows(where)))

    def num_bytes(self) -> int:
        """Returns the size on disk, including old versions."""
        return bytes_below(self._folder)

    def _match_truly(self, words: str, column: str, limit: int, document_ids: Collection[int] | None) -> list[Found]:
        """Returns the best rows, each with the score that it has among all rows of the table.

        WORKAROUND LanceDB 0.40.0: it computes how rare a word is from its index and from those unindexed rows that pass
        the filter. If most rows are unindexed (in a new library, or after a kill), a filtered search would treat its
        words as common, and scores would be a quarter of what they should be. All rows are searched then; they are few.
        """
        if document_ids is None or not self._is_mostly_unindexed(column):
            return self._match(words, column, limit, document_ids)
        wanted = frozenset(document_ids)
        everywhere = self._match(words, column, max(limit, self.count_rows()), None)
        return [row for row in everywhere if row.document_id in wanted][:limit]

    def _is_mostly_unindexed(self, column: str) -> bool:
        statistics = self._read(lambda: self._table.index_stats(f"{column}_idx"))
        return statistics is not None and statistics.num_unindexed_rows > statistics.num_indexed_rows

    def _match(self, words: str, column: str, limit: int, document_ids: Collection[int] | None) -> list[Found]:
        from lancedb.query import MatchQuery

        def matching() -> Any:
            # MatchQuery, because a plain string would be parsed as a query with quotes and operators.
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
        with reported("The index could not be read"):
            try:
                result = read()
            except (RuntimeError, ValueError, OSError) as error:
                if is_of_an_index(error):
                    self._mend_indices()
                elif isinstance(error, RuntimeError) and "not found" in str(error).lower():
                    # The version that we read was cleaned up meanwhile.
                    self._table.checkout_latest()  # type: ignore[no-untyped-call]
                else:
                    raise
                result = read()
        self._note_caches()
        return result

    def _mend_indices(self) -> None:
        from engine.partitions.indices import mend_indices

        with self._writing:
            mend_indices(self._table)

    def _note_caches(self) -> None:
        """Updates the ledger when the size of LanceDB's caches has changed noticeably."""
        num_bytes = int(self._session.size_bytes)
        with self._noting:
            if not self._is_closed and abs(num_bytes - self._cache_lease.num_bytes) >= _LEDGER_STEP_BYTES:
                self._cache_lease.resize(num_bytes)

    def _has_vector_index(self) -> bool:
        from engine.partitions.schema import VECTOR_COLUMN

        return any(VECTOR_COLUMN in index.columns for index in self._read(self._table.list_indices))


def _scoped(query: Any, document_ids: Collection[int] | None, shards: Collection[int] | None = None) -> Any:
    conditions = [] if document_ids is None else [in_documents(document_ids)]
    conditions += [] if shards is None else [_in_shards(shards)]
    return query.where(" AND ".join(conditions), prefilter=True) if conditions else query


def _refined(query: Any, limit: int) -> Any:
    """Makes the vector index select candidates, which are then compared exactly."""
    return query.nprobes(_NPROBES).refine_factor(max(_REFINE_FACTOR, -(-_MIN_CANDIDATES // limit)))


def in_documents(document_ids: Collection[int]) -> str:
    """Returns a condition for these documents; consecutive ids, as in a folder, become a range."""
    runs, others = list[tuple[int, int]](), list[int]()
    for _, group in groupby(enumerate(sorted(set(map(int, document_ids)))), key=lambda one: one[1] - one[0]):
        ids = [id_ for _, id_ in group]
        if len(ids) >= _LEAST_RUN and len(runs) < _MOST_RUNS:
            runs.append((ids[0], ids[-1]))
        else:
            others += ids
    found = [f"(document_id >= {first} AND document_id <= {last})" for first, last in runs]
    if others or not found:
        found.append(f"document_id IN ({', '.join(map(str, others))})")
    return found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def _in_shards(shards: Collection[int]) -> str:
    return f"shard IN ({', '.join(str(int(number)) for number in sorted(shards))})"


def _is_nothing(wanted: Collection[int] | None) -> bool:
    return wanted is not None and not wanted


def _shortened(query: str) -> str:
    """Cuts a query that is too long to its beginning and end: the question stands before or after a pasted text."""
    if len(query) <= _MAX_QUERY_CHARACTERS:
        return query
    half = _MAX_QUERY_CHARACTERS // 2
    return f"{query[:half]} {query[-half:]}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _best_of_both(words: Sequence[Found], syllables: Sequence[Found], limit: int) -> list[Found]:
    """Merges two rankings whose scores are not comparable: each is scaled by its best score."""
    tops = [max((row.score for row in ranking), default=0.0) for ranking in (words, syllables)]
    best: dict[str, Found] = {}
    for ranking, top in zip((words, syllables), tops, strict=True):
        for row in ranking:
            score = max(tops) * row.score / (top or 1.0)
            if row.row_id not in best or best[row.row_id].score < score:
                best[row.row_id] = replace(row, score=score)
    return sorted(best.values(), key=lambda row: (-row.score, row.row_id))[:limit]
