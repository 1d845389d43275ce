"""Baselines for retrieval over the same chunks: full-text search, dense search, and their plain fusion."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.config import EmbedderSettings, MemorySettings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger
from engine.partitions.rows import ChunkRow
from engine.partitions.table import ChunkTable

CANDIDATES = 50
Ranking = list[int]


def stored_rows(library: Path) -> list[ChunkRow]:
    """Returns all rows of a library that no engine has open."""
    spec = resolve(EmbedderSettings())
    table = ChunkTable.open(library / "lancedb", spec.dimensions, spec.identity, MemorySettings(), Ledger())
    rows = [row for document_id in sorted(table.document_ids()) for row in table.rows_of(document_id)]
    table.close()
    return rows


def by_words(rows: Sequence[ChunkRow], questions: Sequence[str]) -> list[Ranking]:
    """Ranks by LanceDB's full-text search with its default tokenizer and stop words."""
    import lancedb
    from lancedb.index import FTS
    from lancedb.query import MatchQuery

    with tempfile.TemporaryDirectory() as folder:
        columns = [{"row": index, "text": row.text} for index, row in enumerate(rows)]
        table = lancedb.connect(folder).create_table("peer", columns)
        table.create_index("text", config=FTS())
        found = [
            table.search(MatchQuery(question, "text"), query_type="fts").select(["row", "_score"]).limit(CANDIDATES)
            for question in questions
        ]
        return [query.to_arrow()["row"].to_pylist() for query in found]


def by_meaning(rows: Sequence[ChunkRow], questions: Sequence[str], embedder: Embedder) -> list[Ranking]:
    """Ranks by exact search over the vectors of our table."""
    asked = embedder.embed_questions(questions)
    stored = np.stack([row.vector for row in rows])
    return [np.argsort(-(stored @ question), kind="stable")[:CANDIDATES].tolist() for question in asked]


def fused(rankings: Sequence[Sequence[Ranking]], k: float = 60.0) -> list[Ranking]:
    """Fuses rankings by reciprocal rank with the usual constant.

    Source: Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet", SIGIR 2009.
    """
    return [_joined(pair, k) for pair in zip(*rankings, strict=True)]


def _joined(rankings: Sequence[Ranking], k: float) -> Ranking:
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1.0 / (k + rank)
    return sorted(scores, key=lambda row: -scores[row])
