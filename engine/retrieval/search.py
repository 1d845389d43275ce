"""Search: a batch of queries in, for each the best passages of the library out.

Two rankings, words (BM25) and meaning (cosine), are joined by rank. What the catalogue no longer knows is
dropped here, so a removed document can never be cited, whatever the index still holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.config import RetrievalSettings
from engine.core import Passage, Scope
from engine.embedder import Embedder
from engine.partitions.rows import Hit
from engine.partitions.table import ChunkTable
from engine.retrieval.rank import distinct, reciprocal_rank_fusion
from engine.retrieval.words import is_mostly_latin


class KnownDocuments(Protocol):
    """What search asks of the catalogue."""

    def paths_of(self, document_ids: Iterable[int]) -> Mapping[int, str]:
        """Where documents lie, by id; ids it does not know are left out."""
        ...

    def document_ids_in_collection(self, collection: str) -> Collection[int]:
        """The documents of a collection. Raises NothingThere when there is none of that name."""
        ...


@dataclass(frozen=True, slots=True)
class Query:
    """A search for `text` in one collection, or in all; `limit` None means as many passages as the settings say."""

    text: str
    collection: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages best first, by fused score, and how much of the library they are."""

    passages: tuple[Passage, ...]
    scope: Scope


class Searcher:
    """Searches one table with one embedder. Used by the retrieval thread."""

    def __init__(
        self, table: ChunkTable, embedder: Embedder, documents: KnownDocuments, settings: RetrievalSettings
    ) -> None:
        self.embedder = embedder
        self._table = table
        self._documents = documents
        self._settings = settings

    def search(self, queries: Sequence[Query]) -> list[SearchResult]:
        """Answers all queries of a batch together, in their order.

        Raises:
            NothingThere: A query names a collection that does not exist.
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The index cannot be read.
        """
        scopes = {name: self._members(name) for name in {query.collection for query in queries}}
        by_meaning = self._by_meaning(queries, scopes)
        return [
            self._result(query, self._by_words(query, scopes[query.collection]), found)
            for query, found in zip(queries, by_meaning, strict=True)
        ]

    def _members(self, collection: str | None) -> Collection[int] | None:
        return None if collection is None else self._documents.document_ids_in_collection(collection)

    def _by_words(self, query: Query, members: Collection[int] | None) -> list[Hit]:
        return self._table.search_text(query.text, self._candidates(query), members)

    def _by_meaning(
        self, queries: Sequence[Query], scopes: Mapping[str | None, Collection[int] | None]
    ) -> list[list[Hit]]:
        """The dense ranking of each query; empty where the embedder cannot read the query's language."""
        hits: list[list[Hit]] = [[] for _ in queries]
        readable = [index for index, query in enumerate(queries) if self._can_embed(query.text)]
        vectors = self.embedder.embed_questions([queries[index].text for index in readable])
        for collection in scopes:
            rows = [row for row, index in enumerate(readable) if queries[index].collection == collection]
            limit = max((self._candidates(queries[readable[row]]) for row in rows), default=0)
            found = self._table.search_vectors(vectors[rows], limit, scopes[collection])
            for row, nearest in zip(rows, found, strict=True):
                hits[readable[row]] = nearest
        return hits

    def _can_embed(self, text: str) -> bool:
        return bool(text.strip()) and (is_mostly_latin(text) or not self.embedder.is_english_only)

    def _result(self, query: Query, by_words: Sequence[Hit], by_meaning: Sequence[Hit]) -> SearchResult:
        hits = {hit.row_id: hit for hit in (*by_words, *by_meaning)}
        paths = self._documents.paths_of({hit.document_id for hit in hits.values()})
        rankings = [[hit.row_id for hit in ranking if hit.document_id in paths] for ranking in (by_words, by_meaning)]
        scores = dict(reciprocal_rank_fusion(rankings, self._settings.rrf_k))
        candidates = distinct(hits[row_id] for row_id in scores)
        chosen = candidates[: self._limit(query)]
        passages = tuple(_passage(hit, paths[hit.document_id], scores[hit.row_id]) for hit in chosen)
        files = len({passage.document_id for passage in passages})
        return SearchResult(passages, Scope(len(passages), len(candidates), files))

    def _limit(self, query: Query) -> int:
        return self._settings.passages if query.limit is None else max(0, query.limit)

    def _candidates(self, query: Query) -> int:
        """At least as many as are wanted in the end, however few the settings ask for."""
        return max(self._settings.candidates, self._limit(query))


def _passage(hit: Hit, path: str, score: float) -> Passage:
    return Passage(
        row_id=hit.row_id,
        document_id=hit.document_id,
        document=path,
        ordinal=hit.ordinal,
        page=hit.page,
        start=hit.start,
        end=hit.end,
        heading=hit.heading,
        text=hit.text,
        score=score,
    )
