"""Search: takes a batch of queries, and returns the best passages of the library for each.

Two rankings, by words (BM25) and by meaning (cosine), are merged before any text is read. Files whose names fit rank a
little higher, and files whose text does not match, such as scans, can be found by name. Documents that the catalogue no
longer knows are dropped here, so a removed document is never cited, whatever the index still has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.catalog.scopes import Located
from engine.config import RetrievalSettings
from engine.core import Passage, Scope
from engine.embedder import Embedder
from engine.partitions.rows import Found, Hit, Vectors
from engine.retrieval.asks_whole import Wanted, asks_whole
from engine.retrieval.breadth import Breadth, breadths
from engine.retrieval.calibration import Strength
from engine.retrieval.confining import Confinement, KnownDocuments, confined
from engine.retrieval.joining import Room, passages_of, with_small_documents_whole
from engine.retrieval.pauses import Pauses, Scoped
from engine.retrieval.query import ANYWHERE, Query, SearchResult
from engine.retrieval.rank import (
    averaged,
    distinct,
    diverse,
    fused,
    lifted,
    read_first,
    surely_named,
    with_place_for,
)
from engine.retrieval.standing import standing
from engine.retrieval.whole import MAX_CHUNKS, Reading, is_looked_into, reading_of, steps_of
from engine.retrieval.words import is_mostly_latin, terms

# Texts are read for this many times the wanted passages, because some repeat others, and neighbours are joined.
_READ_PER_PASSAGE = 3
_MIN_READ = 24
# The number of queries whose texts are read together; one by one it would take a fifth of the search.
_READ_AT_ONCE = 32
# A cross-encoder is slow, so it only reads the best candidates.
MAX_RERANKED = 24
# A passage has a few chunks at most, and its ordinal may be that of the first, so the next chunk is among this many.
_CHUNKS_AHEAD = 5
# For this many files that match by name only, the best rows by words are used; for this many without any, the first
# row.
_MOST_BY_NAME, _MOST_OPENED = 16, 4


class Texts(Protocol):
    """The methods of the table that search needs: rows that match words, and their texts."""

    def matching(self, query: str, limit: int, document_ids: Collection[int] | None = None) -> list[Found]: ...

    def hits(self, row_ids: Collection[str]) -> dict[str, Hit]: ...

    def hits_of(self, document_ids: Collection[int]) -> list[Hit]: ...

    def hits_at(self, document_id: int, first: int, count: int) -> list[Hit]: ...


class Index(Protocol):
    """What search needs of the partition store."""

    @property
    def num_cold(self) -> int: ...

    def search(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        max_loads: int | None = None,
        should_pause: Callable[[], bool] = ...,
    ) -> list[list[Found]]: ...


class Names(Protocol):
    """What search needs of the names of files."""

    def load(self) -> None: ...

    def matching(self, text: str, document_ids: Collection[int] | None = None) -> dict[int, float]: ...


class Reranker(Protocol):
    """Scores how well texts answer a question by reading both together; higher is better.

    None if it cannot do so now: then they stay in the order in which they were found.
    """

    def scores(self, question: str, texts: Sequence[str]) -> list[float] | None: ...


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The merged rankings of a query: `scores` of the rows whose texts are to be read, best first.

    `best` has, for each text that was searched for, the highest scores by words and by meaning, and its number of
    terms. `num_found` is the number of ranked rows. `named` are documents whose names the query certainly mentions.
    """

    query: Query
    confinement: Confinement
    documents: Mapping[int, Located]
    scores: Mapping[str, float]
    num_found: int
    best: tuple[tuple[float, float, int], ...]
    named: frozenset[int]

    def strength(self, num_chunks: int) -> Strength:
        """Returns the best values over all texts that were searched for."""
        each = [Strength.of(*best, num_chunks) for best in self.best]
        return Strength(max(one.words for one in each), max(one.meaning for one in each))


class Searcher:
    """Searches one library with one embedder. Used by the retrieval thread and the thread of the looks."""

    def __init__(
        self,
        table: Texts,
        index: Index,
        embedder: Embedder,
        documents: KnownDocuments,
        settings: RetrievalSettings,
        room: Room,
        reranker: Reranker | None = None,
        kept: object = None,
        names: Names | None = None,
    ) -> None:
        """`kept` is referenced as long as the searcher lives: it shows the owner of the stores that they are in use.

        Without `names`, names of files count only if a question contains one in full.
        """
        self.embedder, self._kept = embedder, kept
        self._table, self._index, self._documents = table, index, documents
        self._settings, self._room, self._reranker = settings, room, reranker
        self._names = names

    def load(self) -> None:
        """Loads what the first question would otherwise wait for. Raises EmbedderUnavailable."""
        if self._names is not None:
            self._names.load()
        self.embedder.load()

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        """Answers all queries of a batch together, in their order.

        Filters from a query's own words are dropped if nothing is found with them; its scope says so.
        A query about the answer above is searched for by itself if no passages of that are left, or it asks for a whole
        file.
        A paused search continues where it was when the same queries come with the same `pauses`.

        Raises:
            SweepPaused: Other searches go first.
            NothingThere: A query names a collection that does not exist.
            BadRequest: A date of a filter is invalid.
            EmbedderUnavailable: The embedding model cannot be loaded.
            LibraryError: The index cannot be read.
        """
        meant = [self._meant(query) for query in queries]
        found = iter(self._searched_wider([one for one in meant if isinstance(one, Query)], pauses))
        return [
            one if isinstance(one, SearchResult) else replace(next(found), is_by_itself=one is not query)
            for query, one in zip(queries, meant, strict=True)
        ]

    def _meant(self, query: Query) -> SearchResult | Query:
        """Returns the passages of the answer above if the query is about it, otherwise the query to search for."""
        if query.own and self._wants_whole(query.by_itself):
            return query.by_itself
        return (standing(query, self._documents) or query.by_itself) if query.above else query

    def _wants_whole(self, query: Query) -> bool:
        """Returns whether it asks for all of the only document that it can find, and that is possible."""
        only = self._confined(query).only_document if query.limit is None else None
        document = self._documents.located({only}).get(only) if only is not None else None
        wanted = asks_whole(query.text, os.path.basename(document.path)) if document is not None else None
        return document is not None and wanted is not None and is_looked_into(document.num_chunks, wanted)

    def _searched_wider(self, queries: Sequence[Query], pauses: Pauses | None) -> list[SearchResult]:
        """Searches with the filters of the queries' words, and again with fewer where nothing is found."""
        confinements = [self._confined(query) for query in queries]
        pauses = pauses or Pauses()
        results = self._searched(queries, confinements, pauses)
        while in_vain := [n for n, result in enumerate(results) if confinements[n].recognised and not result.passages]:
            for n in in_vain:
                confinements[n] = confinements[n].wider(queries[n], self._documents)
            wider = self._searched([queries[n] for n in in_vain], [confinements[n] for n in in_vain], pauses)
            for n, result in zip(in_vain, wider, strict=True):
                results[n] = result
        return results

    def breadths(self) -> tuple[Breadth, ...]:
        """Returns the breadths at which a search can run now, narrowest first."""
        return breadths(self._settings.candidates, self._index.num_cold, self._reranker is not None)

    def following(self, passage: Passage) -> tuple[Passage, ...]:
        """Returns the chunks after a passage in its document, in order; none once it was removed from the library."""
        hits = self._table.hits_at(passage.document_id, passage.ordinal + 1, _CHUNKS_AHEAD)
        documents = self._documents.located({passage.document_id})
        return tuple(_passage(hit, documents[hit.document_id]) for hit in hits if hit.document_id in documents)

    def _confined(self, query: Query) -> Confinement:
        if not query.asked:
            return confined(query, self._documents, self._settings.reads_filters)
        asked = confined(replace(query, text=query.asked), self._documents, self._settings.reads_filters)
        return replace(asked, text=query.text)

    def _searched(
        self, queries: Sequence[Query], confinements: Sequence[Confinement], pauses: Pauses
    ) -> list[SearchResult]:
        if not queries:
            return []
        each = [_each(query, confinement) for query, confinement in zip(queries, confinements, strict=True)]
        every = [one for some in each for one in some]
        by_meaning = iter(self._by_meaning([query for query, _ in every], [one for _, one in every], pauses))
        # All chunks, because BM25 computes how rare a word is from all of them, even with filters.
        num_chunks = self._documents.extent(None, ANYWHERE).chunks
        ranked = [
            self._ranked(
                query,
                confinement,
                [(one.text, self._by_words(text, one, pauses), next(by_meaning)) for text, one in some],
                pauses,
            )
            for query, confinement, some in zip(queries, confinements, each, strict=True)
        ]
        results: list[SearchResult] = []
        for start in range(0, len(ranked), _READ_AT_ONCE):
            some = ranked[start : start + _READ_AT_ONCE]
            ids = dict.fromkeys(id_ for one in some for id_ in one.scores)
            texts = self._table.hits(ids.keys()) if ids else {}
            results += [self._result(one, texts, num_chunks, pauses) for one in some]
        return results

    def _by_words(self, query: Query, confinement: Confinement, pauses: Pauses) -> list[Found]:
        return self._matching((confinement.text, self._candidates(query), confinement.document_ids), pauses)

    def _matching(self, wanted: tuple[str, int, frozenset[int] | None], pauses: Pauses) -> list[Found]:
        if wanted not in pauses.by_words:
            pauses.by_words[wanted] = self._table.matching(*wanted)
            pauses.let_by()
        return pauses.by_words[wanted]

    def _named(self, query: Query, confinement: Confinement, texts: Sequence[str]) -> dict[int, float]:
        """Returns documents within the filters whose names match one of the texts, and how well, best first."""
        # The text of an answer hardly names files, and a single file needs no name.
        if self._names is None or query.asked or confinement.only_document is not None:
            return {}
        named: dict[int, float] = {}
        for text in texts:
            for document_id, strength in self._names.matching(text, confinement.document_ids).items():
                named[document_id] = max(strength, named.get(document_id, 0.0))
        documents = self._documents.located(named)
        stored = [
            document_id for document_id in named if document_id in documents and documents[document_id].num_chunks
        ]
        return {document_id: named[document_id] for document_id in sorted(stored, key=lambda one: (-named[one], one))}

    def _by_name(self, text: str, named: Mapping[int, float], known: Collection[int], pauses: Pauses) -> list[Found]:
        """Returns the best rows of files that match by name only: by words, or otherwise the first row."""
        missing = [document_id for document_id in named if document_id not in known][:_MOST_BY_NAME]
        if not missing:
            return []
        found = self._matching((text, 2 * len(missing), frozenset(missing)), pauses)
        has_rows = {row.document_id for row in found}
        silent = [document_id for document_id in missing if document_id not in has_rows][:_MOST_OPENED]
        first = [hit for document_id in silent for hit in self._table.hits_at(document_id, 0, 1)]
        return found + [Found(hit.row_id, hit.document_id, 0.0) for hit in first]

    def _by_meaning(
        self, queries: Sequence[Query], confinements: Sequence[Confinement], pauses: Pauses
    ) -> list[list[Found]]:
        """Returns the dense ranking of each query; empty if the embedder does not know its language."""
        ranked: list[list[Found]] = [[] for _ in queries]
        readable = [index for index, query in enumerate(queries) if self._can_embed(query.text)]
        texts = tuple(confinements[index].text for index in readable)
        if texts not in pauses.vectors:
            pauses.vectors[texts] = self.embedder.embed_questions(texts)
        vectors = pauses.vectors[texts]
        groups: dict[Scoped, list[int]] = {}
        for row, index in enumerate(readable):
            breadth = queries[index].breadth
            max_loads = breadth.max_loads if breadth is not None else None
            groups.setdefault((confinements[index].document_ids, max_loads), []).append(row)
        for scoped, rows in groups.items():
            limit = max(self._candidates(queries[readable[row]]) for row in rows)
            key = scoped, limit, tuple(texts[row] for row in rows)
            if key not in pauses.found:
                pauses.found[key] = self._index.search(vectors[rows], limit, *scoped, pauses.should_pause)
                pauses.let_by()
            for row, nearest in zip(rows, pauses.found[key], strict=True):
                ranked[readable[row]] = nearest[: self._candidates(queries[readable[row]])]
        return ranked

    def _can_embed(self, text: str) -> bool:
        return bool(text.strip()) and (is_mostly_latin(text) or not self.embedder.is_english_only)

    def _ranked(
        self,
        query: Query,
        confinement: Confinement,
        found: Sequence[tuple[str, Sequence[Found], Sequence[Found]]],
        pauses: Pauses,
    ) -> _Ranked:
        """Merges what was `found` for each text by words and by meaning, and matches by file name."""
        only = [confinement.only_document] if confinement.only_document is not None else []
        rows_of_all = {row.document_id for _, *both in found for rows in both for row in rows}
        named = self._named(query, confinement, [text for text, *_ in found])
        documents = self._documents.located({*rows_of_all, *only, *named})
        fused_each, best = list[list[tuple[Found, float]]](), list[tuple[float, float, int]]()
        for text, *both in found:
            by_words, by_meaning = ([row for row in rows if row.document_id in documents] for rows in both)
            num_terms = len(terms(text))
            known = {row.document_id for row in (*by_words, *by_meaning)}
            by_name = self._by_name(text, named, known, pauses)
            fused_each.append(fused([*by_words, *by_name], by_meaning, num_terms, self._settings.words_weight))
            # A matching name does not show that a file answers the question.
            best.append((_best(by_words), _best(by_meaning), num_terms))
        ranked, surely = lifted(averaged(fused_each), named), surely_named(named)
        limit = self._limit(query)
        num_read = max(_MIN_READ, _READ_PER_PASSAGE * limit) if limit else 0
        return _Ranked(
            query,
            confinement,
            documents,
            scores={row.row_id: score for row, score in read_first(ranked, num_read, surely)},
            num_found=len(ranked),
            best=tuple(best),
            named=surely,
        )

    def _result(self, ranked: _Ranked, texts: Mapping[str, Hit], num_chunks: int, pauses: Pauses) -> SearchResult:
        confinement, documents = ranked.confinement, ranked.documents
        wanted, reading = self._read_through(ranked, texts)
        chosen = reading.parts if reading is not None else self._chosen(ranked, texts, pauses)
        passages = tuple(_passage(hit, documents[hit.document_id]) for hit in chosen)
        scope = Scope(
            passages_used=len(passages),
            passages_found=reading.num_parts if reading is not None else ranked.num_found,
            files=len({passage.document_id for passage in passages}),
            chunks_searched=confinement.extent.chunks,
            files_searched=confinement.extent.files,
            recognised=confinement.told,
            reads_through=reading is not None,
        )
        strength, told = ranked.strength(num_chunks), ranked.query.told
        asks_all = reading is not None and wanted is not None
        return SearchResult(passages, scope, strength, confinement.recognised, confinement.surely, asks_all, told)

    def _read_through(self, ranked: _Ranked, texts: Mapping[str, Hit]) -> tuple[Wanted | None, Reading | None]:
        """Returns what the query wants of the only document that it can find, and what to read; None uses the ranking.

        A query with an explicit number of passages always uses the ranking.
        """
        query, only = ranked.query, ranked.confinement.only_document
        document = ranked.documents.get(only) if only is not None and query.limit is None else None
        if only is None or document is None:
            return None, None
        wanted = asks_whole(query.asked or query.text, os.path.basename(document.path))
        if wanted is None and not (ranked.num_found and self._settings.whole_document_chunks):
            return None, None
        if not is_looked_into(document.num_chunks, wanted):
            return wanted, None
        found = [texts[id_] for id_ in ranked.scores if id_ in texts]
        chunks = found if len(found) == document.num_chunks else self._chunks(only, document.num_chunks)
        scored = [replace(chunk, score=ranked.scores.get(chunk.row_id, 0.0)) for chunk in chunks]
        return wanted, reading_of(scored, document.num_chunks, wanted, self._room)

    def _chunks(self, document_id: int, num_chunks: int) -> list[Hit]:
        """Reads all chunks of a document, or a selection if it is too long."""
        if num_chunks <= MAX_CHUNKS:
            return self._table.hits_of((document_id,))
        return [hit for step in steps_of(num_chunks) for hit in self._table.hits_at(document_id, step, 1)]

    def _chosen(self, ranked: _Ranked, texts: Mapping[str, Hit], pauses: Pauses) -> list[Hit]:
        """Returns the final passages: with texts, without repetitions, joined with their neighbours."""
        query, scores = ranked.query, ranked.scores
        limit = self._limit(query)
        hits = distinct(replace(texts[id_], score=scores[id_]) for id_ in scores if id_ in texts)
        if query.breadth is None or query.breadth.reranks:
            hits = self._reranked(query.together or query.text, hits, pauses)
        hits = with_place_for(self._diversified(hits, limit), ranked.named, limit)
        passages = passages_of(hits, limit, self._room)
        num_chunks = {document_id: located.num_chunks for document_id, located in ranked.documents.items()}
        return with_small_documents_whole(
            passages, num_chunks, self._settings.whole_document_chunks, self._table.hits_of, self._room
        )

    def _reranked(self, question: str, hits: Sequence[Hit], pauses: Pauses) -> list[Hit]:
        if self._reranker is None or len(hits) < 2:
            return list(hits)
        best, rest = hits[:MAX_RERANKED], hits[MAX_RERANKED:]
        read = question, tuple(hit.row_id for hit in best)
        if read not in pauses.reranked:
            pauses.reranked[read] = self._reranker.scores(question, [hit.text for hit in best])
            pauses.let_by()
        if (scores := pauses.reranked[read]) is None:
            return list(hits)
        order = sorted(range(len(best)), key=lambda index: -scores[index])
        # The fused scores stay at their positions, so that they fall from first to last.
        return [replace(best[index], score=place.score) for index, place in zip(order, best, strict=True)] + list(rest)

    def _diversified(self, hits: Sequence[Hit], limit: int) -> list[Hit]:
        if not self._settings.diversity:
            return list(hits)
        order = diverse(
            [hit.score for hit in hits], [terms(hit.text) for hit in hits], 2 * limit, self._settings.diversity
        )
        return [hits[index] for index in order]

    def _limit(self, query: Query) -> int:
        return self._settings.passages if query.limit is None else max(0, query.limit)

    def _candidates(self, query: Query) -> int:
        """Returns the candidates per ranking, at least as many as passages are wanted."""
        candidates = self._settings.candidates if query.breadth is None else query.breadth.candidates
        return max(candidates, self._limit(query))


def _each(query: Query, confinement: Confinement) -> list[tuple[Query, Confinement]]:
    """Returns the texts to search for: the query, and for a follow-up also the query with the questions before it."""
    # A look searches for the text of an answer; the questions only filter it.
    if not confinement.together or query.asked:
        return [(query, confinement)]
    together = replace(query, text=query.together), replace(confinement, text=confinement.together)
    return [(query, confinement), together]


def _best(ranking: Sequence[Found]) -> float:
    return max((row.score for row in ranking), default=0.0)


def _passage(hit: Hit, document: Located) -> Passage:
    return Passage(
        row_id=hit.row_id,
        document_id=hit.document_id,
        document=document.path,
        ordinal=hit.ordinal,
        page=hit.page,
        start=hit.start,
        end=hit.end,
        heading=hit.heading,
        text=hit.text,
        score=hit.score,
        place=hit.place,
        is_offline=document.is_offline,
    )
