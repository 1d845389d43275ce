"""Tests for engine.retrieval.search, on a real table with a hash for an embedder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from engine.config import MemorySettings, RetrievalSettings
from engine.core import Scope
from engine.errors import NothingThere
from engine.memory.ledger import Ledger
from engine.partitions.table import ChunkTable
from engine.retrieval.search import Query, Searcher
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, HashEmbedder, chunk_row

TEXTS = {
    1: ["Threads share state through a mutex.", "Ownership moves values between threads."],
    2: ["Bread needs flour and water.", "Threads of gluten hold the dough."],
    3: ["我们在北京学习中文。"],
}


class Documents:
    """A catalogue of paths and collections."""

    def __init__(self) -> None:
        self.known = {id_: f"/docs/{id_}.txt" for id_ in TEXTS}
        self.collections: dict[str, Collection[int]] = {"Rust": {1}, "Kitchen": {2}, "Empty": set()}

    def paths_of(self, document_ids: Iterable[int]) -> Mapping[int, str]:
        return {id_: self.known[id_] for id_ in document_ids if id_ in self.known}

    def document_ids_in_collection(self, collection: str) -> Collection[int]:
        if collection not in self.collections:
            raise NothingThere(f"There is no collection named {collection!r}.")
        return self.collections[collection]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ChunkTable]:
    table = ChunkTable.open(tmp_path / "lancedb", DIMENSIONS, IDENTITY, MemorySettings(), Ledger())
    table.put_documents(
        {id_: [chunk_row(id_, n, text, start=100 * n) for n, text in enumerate(texts)] for id_, texts in TEXTS.items()}
    )
    yield table
    table.close()


@pytest.fixture
def documents() -> Documents:
    return Documents()


@pytest.fixture
def searcher(table: ChunkTable, documents: Documents) -> Searcher:
    return Searcher(table, HashEmbedder(), documents, RetrievalSettings())  # type: ignore[arg-type]


def texts(searcher: Searcher, text: str, **options: object) -> list[str]:
    return [passage.text for passage in searcher.search([Query(text, **options)])[0].passages]  # type: ignore[arg-type]


def test_the_best_passage_comes_first_with_its_document(searcher: Searcher):
    [result] = searcher.search([Query("How do threads share state with a mutex?")])
    first = result.passages[0]
    assert (first.text, first.document, first.document_id) == (TEXTS[1][0], "/docs/1.txt", 1)
    assert [passage.score for passage in result.passages] == sorted(
        (passage.score for passage in result.passages), reverse=True
    )


def test_a_batch_answers_each_query_as_if_it_were_alone(searcher: Searcher):
    queries = [
        Query("threads"),
        Query("flour", collection="Kitchen"),
        Query("北京"),
        Query("  "),
        Query("threads", collection="Rust", limit=1),
    ]
    assert searcher.search(queries) == [searcher.search([query])[0] for query in queries]


def test_a_collection_confines_the_search(searcher: Searcher):
    assert set(texts(searcher, "threads", collection="Kitchen")) == set(TEXTS[2])
    assert texts(searcher, "threads", collection="Empty") == []


def test_an_unknown_collection_is_named(searcher: Searcher):
    with pytest.raises(NothingThere, match="'Garden'"):
        searcher.search([Query("threads", collection="Garden")])


def test_a_document_the_catalogue_does_not_know_is_never_found(searcher: Searcher, documents: Documents):
    del documents.known[1]
    [result] = searcher.search([Query("threads mutex state")])
    assert 1 not in {passage.document_id for passage in result.passages}
    assert result.scope.passages_found == len(TEXTS[2]) + len(TEXTS[3])


def test_scope_counts_what_was_used_and_found(searcher: Searcher):
    [result] = searcher.search([Query("threads", limit=2)])
    files = len({passage.document_id for passage in result.passages})
    assert result.scope == Scope(passages_used=2, passages_found=5, files=files)


@pytest.mark.parametrize(("limit", "count"), [(None, 5), (1, 1), (0, 0), (500, 5)])
def test_the_limit_holds(searcher: Searcher, limit: int | None, count: int):
    assert len(texts(searcher, "threads", limit=limit)) == count


def test_an_english_embedder_leaves_other_scripts_to_words(table: ChunkTable, documents: Documents):
    embedder = HashEmbedder(is_english_only=True)
    searcher = Searcher(table, embedder, documents, RetrievalSettings())  # type: ignore[arg-type]
    assert texts(searcher, "北京在哪里") == TEXTS[3]
    assert embedder.texts == []


def test_a_multilingual_embedder_reads_every_script(table: ChunkTable, documents: Documents):
    searcher = Searcher(table, HashEmbedder(is_english_only=False), documents, RetrievalSettings())  # type: ignore[arg-type]
    assert len(texts(searcher, "北京在哪里")) == 5


def test_copies_of_a_document_do_not_fill_the_passages(table: ChunkTable, documents: Documents, searcher: Searcher):
    table.put_document(9, [chunk_row(9, n, text, start=100 * n) for n, text in enumerate(TEXTS[1])])
    documents.known[9] = "/docs/copy.txt"
    found = texts(searcher, "threads mutex ownership")
    assert len(found) == len(set(found))


def test_no_queries_no_results(searcher: Searcher):
    assert searcher.search([]) == []
