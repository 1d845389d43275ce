"""Tests for engine.retrieval.search, on a real table with a hash for an embedder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine.catalog.scopes import Extent, Located, Named
from engine.config import MemorySettings, RetrievalSettings
from engine.core import Filters, Scope
from engine.errors import NothingThere
from engine.memory.ledger import Ledger
from engine.partitions.rows import Found, Hit, Vectors
from engine.partitions.sweep import SweepPaused
from engine.partitions.table import ChunkTable
from engine.retrieval.breadth import Breadth
from engine.retrieval.joining import Room
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import ANYWHERE, Query, SearchResult
from engine.retrieval.search import Searcher
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, HashEmbedder, chunk_row

TEXTS = {
    1: ["Threads share state through a mutex.", "Ownership moves values between threads."],
    2: ["Bread needs flour and water.", "Threads of gluten hold the dough."],
    3: ["我们在北京学习中文。"],
}


class Documents:
    """A catalogue of paths and collections; document 9 is a PDF."""

    def __init__(self) -> None:
        self.known = {id_: Located(f"/docs/{id_}.txt", False, len(texts)) for id_, texts in TEXTS.items()}
        self.collections: dict[str, frozenset[int]] = {
            "Rust": frozenset({1}),
            "Kitchen": frozenset({2}),
            "Empty": frozenset(),
        }
        self.former: dict[str, str] = {}

    def located(self, document_ids: Iterable[int]) -> Mapping[int, Located]:
        return {id_: self.known[id_] for id_ in document_ids if id_ in self.known}

    def ids_in_scope(self, collection: str | None, filters: Filters) -> frozenset[int] | None:
        if collection is None and not (filters.paths or filters.formats or filters.collections):
            return None
        names = filters.collections if collection is None else (collection,)
        several = [self.collections[self.require_collection(name)] for name in names]
        ids = frozenset[int]().union(*several) if names else frozenset(self.known)
        if filters.formats:
            ids = frozenset(id_ for id_ in ids if id_ == 9 and "pdf" in filters.formats)
        return frozenset(id_ for id_ in ids if not filters.paths or self.known[id_].path in filters.paths)

    def extent(self, collection: str | None, filters: Filters) -> Extent:
        ids = self.ids_in_scope(collection, filters)
        return Extent(
            len(self.known if ids is None else ids), sum(self.known[id_].num_chunks for id_ in ids or self.known)
        )

    def only_document(self, collection: str | None, filters: Filters) -> int | None:
        ids = self.ids_in_scope(collection, filters)
        stored = set(self.known if ids is None else ids)
        return stored.pop() if len(stored) == 1 else None

    def collection_names(self) -> tuple[str, ...]:
        return tuple(self.collections)

    def require_collection(self, name: str) -> str:
        if (now := self.former.get(name, name)) not in self.collections:
            raise NothingThere(f"There is no collection named {name!r}.")
        return now

    def paths_named(self, names: Collection[str]) -> Named:
        return Named(frozenset(one.path for one in self.known.values() if os.path.basename(one.path) in names))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ChunkTable]:
    table = ChunkTable.open(tmp_path / "lancedb", DIMENSIONS, IDENTITY, MemorySettings(), Ledger())
    table.put_documents(
        {id_: [chunk_row(id_, n, text, start=1000 * n) for n, text in enumerate(texts)] for id_, texts in TEXTS.items()}
    )
    yield table
    table.close()


@pytest.fixture
def documents() -> Documents:
    return Documents()


class Exact:
    """The partition store's part, by the table itself."""

    def __init__(self, table: ChunkTable) -> None:
        self.table = table
        self.sweeps: list[int] = []
        self.max_loads: list[int | None] = []
        self.num_cold = 3

    def search(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        max_loads: int | None = None,
        should_pause: Callable[[], bool] = lambda: False,
    ) -> list[list[Found]]:
        self.sweeps.append(len(vectors))
        self.max_loads.append(max_loads)
        return self.table.nearest(vectors, limit, document_ids)


def make_searcher(
    table: ChunkTable, documents: Documents, embedder: HashEmbedder | None = None, **options: object
) -> Searcher:
    settings = RetrievalSettings(whole_document_chunks=0).model_copy(update=options)
    return Searcher(table, Exact(table), embedder or HashEmbedder(), documents, settings, Room(720, 4000))  # type: ignore[arg-type]


@pytest.fixture
def searcher(table: ChunkTable, documents: Documents) -> Searcher:
    return make_searcher(table, documents)


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


def test_the_texts_of_a_batch_are_read_together(
    table: ChunkTable, documents: Documents, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    hits = table.hits

    def counted(row_ids: Collection[str]) -> dict[str, Hit]:
        asked.append(len(row_ids))
        return hits(row_ids)

    monkeypatch.setattr(table, "hits", counted)
    results = make_searcher(table, documents).search([Query("threads"), Query("flour"), Query("dough", limit=0)])
    assert [bool(result.passages) for result in results] == [True, True, False]
    assert len(asked) == 1
    assert asked[0] <= sum(map(len, TEXTS.values()))


def test_a_collection_confines_the_search(searcher: Searcher):
    assert set(texts(searcher, "threads", collection="Kitchen")) == set(TEXTS[2])
    assert texts(searcher, "threads", collection="Empty") == []


def test_several_collections_confine_the_search_together(documents: Documents, searcher: Searcher):
    several = Filters(collections=("Kitchen", "Empty"))
    assert set(texts(searcher, "threads", filters=several)) == set(TEXTS[2])
    assert set(texts(searcher, "threads", filters=Filters(collections=("Kitchen", "Rust")))) >= {*TEXTS[1], TEXTS[2][1]}
    with pytest.raises(NothingThere, match="Garden"):
        searcher.search([Query("threads", filters=Filters(collections=("Kitchen", "Garden")))])


def test_of_several_collections_that_were_chosen_a_question_may_name_one(documents: Documents, searcher: Searcher):
    documents.former["Cooking"] = "Kitchen"
    documents.collections["Chinese"] = frozenset({3})

    def asked(words: str, *names: str) -> SearchResult:
        return searcher.search([Query(f"What is said about threads {words}?", filters=Filters(collections=names))])[0]

    narrowed = asked("in the collection Kitchen", "Cooking", "Rust")
    assert narrowed.recognised == ("only the collection “Kitchen”",)
    assert {passage.document for passage in narrowed.passages} == {"/docs/2.txt"}
    assert not narrowed.is_doubtful
    # What was not chosen is not searched, and one that is all that was chosen is nothing less.
    for words, names in (("in the collection Chinese", ("Kitchen", "Rust")), ("in the collection Rust", ("Rust",))):
        result = asked(words, *names)
        assert result.recognised == ()
        assert {passage.document_id for passage in result.passages} <= {1, 2}
        assert result.scope.files_searched == len(names)


def test_a_file_that_several_have_is_that_of_the_chosen_collections(
    table: ChunkTable, documents: Documents, searcher: Searcher
):
    table.put_document(9, [chunk_row(9, 0, "Threads of another file.")])
    documents.known[9] = Located("/elsewhere/2.txt", False, 1)
    documents.collections["Elsewhere"] = frozenset({9})
    asked = Query("What does the file 2.txt say about threads?", filters=Filters(collections=("Kitchen", "Rust")))
    [result] = searcher.search([asked])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}


def test_what_one_of_several_collections_does_not_say_is_searched_for_in_all_of_them(
    documents: Documents, searcher: Searcher
):
    several = Filters(collections=("Kitchen", "Empty"))
    [result] = searcher.search([Query("What is said of dough in the collection Empty?", filters=several)])
    assert result.recognised == ()
    assert result.scope.recognised == (
        "nothing was found with “only the collection “Empty””, so it was searched without that",
    )
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}


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
    assert result.scope == Scope(2, 5, files, chunks_searched=5, files_searched=3)


@pytest.mark.parametrize(("limit", "count"), [(None, 5), (1, 1), (0, 0), (500, 5)])
def test_the_limit_holds(searcher: Searcher, limit: int | None, count: int):
    assert len(texts(searcher, "threads", limit=limit)) == count


def test_an_english_embedder_leaves_other_scripts_to_words(table: ChunkTable, documents: Documents):
    embedder = HashEmbedder(is_english_only=True)
    searcher = make_searcher(table, documents, embedder)
    assert texts(searcher, "北京在哪里") == TEXTS[3]
    assert embedder.texts == []


def test_a_multilingual_embedder_reads_every_script(table: ChunkTable, documents: Documents):
    searcher = make_searcher(table, documents, HashEmbedder(is_english_only=False))
    assert len(texts(searcher, "北京在哪里")) == 5


def test_copies_of_a_document_do_not_fill_the_passages(table: ChunkTable, documents: Documents, searcher: Searcher):
    table.put_document(9, [chunk_row(9, n, text, start=1000 * n) for n, text in enumerate(TEXTS[1])])
    documents.known[9] = Located("/docs/copy.txt", False, 2)
    found = texts(searcher, "threads mutex ownership")
    assert len(found) == len(set(found))


def test_no_queries_no_results(searcher: Searcher):
    assert searcher.search([]) == []


def test_filters_confine_the_search_and_are_counted(searcher: Searcher, documents: Documents):
    [result] = searcher.search([Query("threads", filters=Filters(paths=("/docs/2.txt",)))])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert (result.scope.files_searched, result.scope.chunks_searched) == (1, 2)
    assert result.scope.recognised == ()


def test_a_file_named_in_the_question_confines_it(searcher: Searcher):
    [result] = searcher.search([Query("What does the file 2.txt say about threads of dough?")])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert result.scope.recognised == ("only “2.txt”",)


def test_what_the_user_chose_goes_before_what_the_question_says(searcher: Searcher):
    asked = "What does the file 2.txt say about threads and values?"
    [chosen] = searcher.search([Query(asked, filters=Filters(paths=("/docs/1.txt",)))])
    assert {passage.document for passage in chosen.passages} == {"/docs/1.txt"}
    assert chosen.recognised == ()


@pytest.mark.parametrize("chosen", [("/docs/1.txt", "/docs/2.txt"), ("/docs",), ("/docs/",)])
def test_of_several_files_that_the_user_chose_the_question_may_name_one(
    searcher: Searcher, documents: Documents, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...]
):
    ids_in_scope = documents.ids_in_scope

    def with_folders(collection: str | None, filters: Filters) -> frozenset[int] | None:
        is_folder = any(path.rstrip("/") == "/docs" for path in filters.paths)
        return ids_in_scope(collection, replace(filters, paths=()) if is_folder else filters)

    monkeypatch.setattr(documents, "ids_in_scope", with_folders)
    [result] = searcher.search([Query("Summarise 2.txt", filters=Filters(paths=chosen))])
    assert [passage.text for passage in result.passages] == TEXTS[2]
    assert (result.recognised, result.asks_whole) == (("only “2.txt”",), True)
    assert result.surely.filters.paths == chosen


@pytest.mark.parametrize("chosen", [("/docs/1.txt",), ("/docs/1",), ("/docs/1.txt", "/other")])
def test_a_name_that_is_no_part_of_what_the_user_chose_is_said_to_be_none(searcher: Searcher, chosen: tuple[str, ...]):
    [result] = searcher.search([Query("What does the file 2.txt say?", filters=Filters(paths=chosen))])
    assert {passage.document for passage in result.passages} <= set(chosen)
    assert (result.recognised, result.scope.recognised) == ((), ("“2.txt” is not among what was chosen",))
    assert result.has_given_up


def test_where_one_of_two_names_is_no_part_of_the_choice_the_other_does_not_stand_for_both(searcher: Searcher):
    asked = "Compare the file 1.txt with the file 2.txt"
    chosen = ("/docs/1.txt", "/docs/3.txt")
    [result] = searcher.search([Query(asked, filters=Filters(paths=chosen))])
    assert (result.recognised, result.scope.recognised) == ((), ("“2.txt” is not among what was chosen",))


def test_a_name_of_all_that_was_chosen_says_nothing_more(searcher: Searcher):
    [result] = searcher.search([Query("What does the file 2.txt say?", filters=Filters(paths=("/docs/2.txt",)))])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert result.scope.recognised == ()


@pytest.mark.parametrize(
    "query", [{"collection": "Kitchen"}, {"filters": Filters(paths=("/docs/2.txt", "/docs/3.txt"))}]
)
def test_of_files_with_one_name_that_of_the_choice_is_meant(
    searcher: Searcher, documents: Documents, query: dict[str, Any]
):
    documents.known[1] = replace(documents.known[1], path="/other/2.txt")
    documents.collections["Kitchen"] = frozenset({2, 3})
    # One that programs use as well counts only where a single file has it.
    [result] = searcher.search([Query("What does 2.txt say?", **query)])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert result.recognised == ("only “2.txt”",)


def test_a_recognised_filter_that_finds_nothing_is_given_up_and_told(searcher: Searcher):
    [result] = searcher.search([Query("What do the slides in the PDFs say about threads and a mutex?")])
    assert result.passages[0].text == TEXTS[1][0]
    assert result.scope.recognised == ("nothing was found with “only PDF files”, so it was searched without that",)
    assert result.scope.files_searched == 3


@pytest.mark.parametrize("how", ["setting", "query"])
def test_recognition_can_be_switched_off(table: ChunkTable, documents: Documents, how: str):
    searcher = make_searcher(table, documents, reads_filters=how != "setting")
    filters = Filters(reads_question=how != "query")
    [result] = searcher.search([Query("What does the file 2.txt say about threads?", filters=filters)])
    assert len(result.passages) == 5
    assert result.scope.recognised == ()


def test_queries_of_one_scope_share_a_sweep(table: ChunkTable, documents: Documents):
    index = Exact(table)
    searcher = Searcher(table, index, HashEmbedder(), documents, RetrievalSettings(), Room(720, 4000))  # type: ignore[arg-type]
    searcher.search([Query("threads"), Query("flour", collection="Kitchen"), Query("dough"), Query("mutex")])
    assert sorted(index.sweeps) == [1, 3]


def test_a_search_that_was_paused_does_again_nothing_that_was_done(table: ChunkTable, documents: Documents):
    class Pausing(Exact):
        def search(self, vectors: Vectors, *arguments: object) -> list[list[Found]]:  # type: ignore[override]
            should_pause = arguments[-1]
            if len(self.sweeps) == 1 and should_pause():  # type: ignore[operator]
                raise SweepPaused
            return super().search(vectors, *arguments)  # type: ignore[arg-type]

    class Counting(HashEmbedder):
        num_embedded = 0

        def embed_questions(self, texts: Sequence[str]) -> Vectors:
            self.num_embedded += len(texts)
            return super().embed_questions(texts)

    index, embedder, somebody_waits = Pausing(table), Counting(), iter([False, True])
    searcher = Searcher(table, index, embedder, documents, RetrievalSettings(), Room(720, 4000))  # type: ignore[arg-type]
    queries = [Query("threads"), Query("flour", collection="Kitchen"), Query("mutex")]
    pauses = Pauses(lambda: next(somebody_waits, False))
    with pytest.raises(SweepPaused):
        searcher.search(queries, pauses)
    found = searcher.search(queries, pauses)
    assert sorted(index.sweeps) == [1, 2]
    assert embedder.num_embedded == 3
    assert found == searcher.search(queries)


def test_others_are_let_by_after_each_of_many_confined_searches_and_none_is_done_twice(
    table: ChunkTable, documents: Documents, monkeypatch: pytest.MonkeyPatch
):
    index, by_words, matching = Exact(table), list[str](), table.matching
    searcher = Searcher(table, index, HashEmbedder(), documents, RetrievalSettings(), Room(720, 4000))  # type: ignore[arg-type]
    queries = [
        Query(f"{word} threads", filters=Filters(paths=(f"/docs/{id_}.txt",))) for id_ in TEXTS for word in ("two", "a")
    ]
    undisturbed = searcher.search(queries)
    index.sweeps.clear()
    monkeypatch.setattr(table, "matching", lambda text, *others: by_words.append(text) or matching(text, *others))
    pauses, done, found = Pauses(lambda: True), list[int](), None
    while found is None:
        before = len(index.sweeps) + len(by_words)
        try:
            found = searcher.search(queries, pauses)
        except SweepPaused:
            done.append(len(index.sweeps) + len(by_words) - before)
    assert done == [1] * (len(TEXTS) + len(queries))
    assert sorted(by_words) == sorted(query.text for query in queries)
    assert found == undisturbed


def test_a_passage_says_where_it_stands_and_whether_its_file_is_out_of_reach(
    table: ChunkTable, documents: Documents, searcher: Searcher
):
    table.put_document(4, [replace(chunk_row(4, 0, "A submarine dives."), place="slide 3")])
    documents.known[4] = Located("/drive/boats.pptx", True, 1)
    passage = searcher.search([Query("submarine")])[0].passages[0]
    assert (passage.place, passage.is_offline, passage.document) == ("slide 3", True, "/drive/boats.pptx")


def test_neighbours_become_one_passage(table: ChunkTable, documents: Documents, searcher: Searcher):
    words = ["A submarine dives into the sea.", "The sea is dark. A submarine has lamps."]
    table.put_document(4, [chunk_row(4, 0, words[0]), chunk_row(4, 1, words[1], start=len(words[0]) + 1)])
    documents.known[4] = Located("/docs/4.txt", False, 2)
    passage = searcher.search([Query("submarine sea")])[0].passages[0]
    assert passage.text == " ".join(words).replace(". The", ".\nThe")
    assert (passage.start, passage.end) == (0, len(passage.text))


def test_a_small_document_is_given_whole(table: ChunkTable, documents: Documents):
    words = ["A submarine dives.", "Bakers rise early.", "Taxes are due in May."]
    starts = [0, 19, 38]
    table.put_document(4, [chunk_row(4, n, words[n], start=starts[n]) for n in range(3)])
    documents.known[4] = Located("/docs/4.txt", False, 3)
    searcher = make_searcher(table, documents, whole_document_chunks=3)
    passage = searcher.search([Query("submarine", limit=1)])[0].passages[0]
    assert passage.text == "\n".join(words)
    searcher = make_searcher(table, documents, whole_document_chunks=2)
    assert searcher.search([Query("submarine", limit=1)])[0].passages[0].text == words[0]


def test_a_cross_encoder_has_the_last_word(table: ChunkTable, documents: Documents):
    class LongestFirst:
        def scores(self, question: str, texts: Sequence[str]) -> list[float]:
            return [float(len(text)) for text in texts]

    searcher = make_searcher(table, documents)
    searcher._reranker = LongestFirst()
    [result] = searcher.search([Query("threads")])
    lengths = [len(passage.text) for passage in result.passages]
    assert lengths == sorted(lengths, reverse=True)
    scores = [passage.score for passage in result.passages]
    assert scores == sorted(scores, reverse=True)


def test_where_the_cross_encoder_cannot_read_passages_come_as_they_were_found(table: ChunkTable, documents: Documents):
    class Absent:
        num_asked = 0

        def scores(self, question: str, texts: Sequence[str]) -> None:
            self.num_asked += 1

    searcher = make_searcher(table, documents)
    as_found = searcher.search([Query("threads")])
    searcher._reranker = absent = Absent()
    assert searcher.search([Query("threads")]) == as_found
    assert absent.num_asked == 1


def test_how_well_words_fit_does_not_depend_on_what_the_search_is_confined_to(table: ChunkTable, searcher: Searcher):
    # BM25 counts how rare a word is in the whole index; rows that are not in it yet, among themselves.
    table.optimize()
    everywhere, confined = searcher.search(
        [Query("gluten dough"), Query("gluten dough", filters=Filters(paths=("/docs/2.txt",)))]
    )
    assert everywhere.strength.words == pytest.approx(confined.strength.words)
    assert everywhere.strength.words > 0
    assert confined.scope.chunks_searched == 2


def test_the_filters_in_force_are_told_apart_from_those_given_up(searcher: Searcher):
    named, in_vain = searcher.search(
        [Query("What does the file 2.txt say about threads?"), Query("What do the slides in the PDFs say of threads?")]
    )
    assert named.recognised == ("only “2.txt”",)
    assert in_vain.recognised == ()
    assert (named.has_given_up, in_vain.has_given_up) == (False, True)


def test_a_type_may_be_misread_and_the_name_of_a_file_or_collection_is_not(
    table: ChunkTable, documents: Documents, searcher: Searcher
):
    table.put_document(9, [chunk_row(9, 0, "A lease of bakeries.")])
    documents.known[9] = Located("/docs/lease.pdf", False, 1)
    asked = ["in the PDFs", "in 2.txt", "in the file 2.txt", "in the collection Kitchen"]
    found = searcher.search([Query(f"What is said about dough and a mutex {where}?") for where in asked])
    assert all(result.recognised for result in found)
    assert [result.is_doubtful for result in found] == [True, True, False, False]


def test_a_type_beside_a_name_may_be_misread_and_the_name_is_kept(
    table: ChunkTable, documents: Documents, searcher: Searcher
):
    asked = "What do the slides in the PDFs in the collection Kitchen say about dough in the file 2.txt?"
    [result] = searcher.search([Query(asked)])
    names = ("only the collection “Kitchen”", "only “2.txt”")
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    given_up = "nothing was found with “only PDF files”, so it was searched without that"
    assert (result.recognised, result.scope.recognised) == (names, (*names, given_up))
    assert (result.is_doubtful, result.has_given_up) == (False, False)
    table.put_document(9, [chunk_row(9, 0, "A lease of bakeries.")])
    documents.known[9] = Located("/docs/lease.pdf", False, 1)
    [result] = searcher.search([Query("What do the slides in the PDFs say about dough in lease.pdf?")])
    assert (result.recognised, result.doubtful) == (("only “lease.pdf”", "only PDF files"), ("only PDF files",))
    assert result.surely.filters == Filters(paths=("/docs/lease.pdf",))


def test_another_text_than_the_one_that_is_searched_for_can_confine_the_search(
    searcher: Searcher, documents: Documents
):
    documents.known[1] = replace(documents.known[1], path="/docs/lease.pdf")
    query = Query("threads", asked="What does lease.pdf say?", filters=Filters())
    [result] = searcher.search([query])
    assert {passage.document_id for passage in result.passages} == {1}
    assert result.recognised


def test_a_narrow_search_reads_no_more_than_it_may(table: ChunkTable, documents: Documents):
    searcher = make_searcher(table, documents)
    searcher.search([Query("threads", breadth=Breadth(2, 1)), Query("flour")])
    assert searcher._index.max_loads == [1, None]  # type: ignore[attr-defined]
    assert searcher.breadths()[-1] == Breadth(50, 3)


def test_what_follows_a_passage_is_told_in_the_order_of_the_text(searcher: Searcher, documents: Documents):
    first = searcher.search([Query("mutex share state", collection="Rust", limit=1)])[0].passages[0]
    assert first.text == TEXTS[1][0]
    assert [passage.text for passage in searcher.following(first)] == [TEXTS[1][1]]
    del documents.known[1]
    assert searcher.following(first) == ()


def put_report(table: ChunkTable, documents: Documents, num_pages: int, tokens: int = 200) -> list[str]:
    """A report of so many pages, each a chunk with a fact of its own; what the pages say."""
    said = [f"Fact {n} is that bolt {n} weighs {n} grams. ".ljust(4 * tokens, "x") for n in range(num_pages)]
    table.put_document(9, [chunk_row(9, n, text, page=n + 1) for n, text in enumerate(said)])
    documents.known[9] = Located("/docs/report.pdf", False, num_pages)
    return said


CHOSEN = Filters(paths=("/docs/report.pdf",))


@pytest.mark.parametrize(
    "query",
    [
        Query("Summarise report.pdf"),
        Query("Please give me a short summary of the file report.pdf."),
        Query("What are the key points?", filters=CHOSEN),
        Query("List all weights", filters=CHOSEN),
        Query("总结这个文件", filters=CHOSEN),
    ],
)
def test_who_asks_for_all_of_a_document_that_fits_is_given_all_its_pages_in_order(
    table: ChunkTable, documents: Documents, query: Query
):
    said = put_report(table, documents, 14)
    [result] = make_searcher(table, documents, passages=2).search([query])
    assert [(passage.page, passage.text) for passage in result.passages] == list(enumerate(said, start=1))
    assert (result.scope.passages_used, result.scope.passages_found, result.scope.files) == (14, 14, 1)
    assert result.scope.reads_through


def test_all_of_the_only_document_there_is_is_given_without_naming_it(table: ChunkTable, documents: Documents):
    said = put_report(table, documents, 14)
    documents.known = {9: documents.known[9]}
    # No word of it is in the document, and the embedder cannot read it.
    [result] = make_searcher(table, documents).search([Query("总结这份文件")])
    assert [passage.text for passage in result.passages] == said


def test_of_a_long_document_passages_from_all_of_it_are_given_in_order(table: ChunkTable, documents: Documents):
    put_report(table, documents, 96)
    [result] = make_searcher(table, documents).search([Query("Summarise report.pdf")])
    pages = [passage.page or 0 for passage in result.passages]
    assert (pages[0], pages == sorted(pages), pages[-1] > 85) == (1, True, True)
    assert (result.scope.passages_used, result.scope.passages_found) == (len(pages), 96)
    assert result.scope.reads_through
    assert sum(len(passage.text) // 4 for passage in result.passages) <= 4000


def test_of_a_document_too_long_to_look_at_some_of_each_part_is_given(
    table: ChunkTable, documents: Documents, monkeypatch: pytest.MonkeyPatch
):
    put_report(table, documents, 96)
    monkeypatch.setattr("engine.retrieval.search.MAX_CHUNKS", 50)
    monkeypatch.setattr(table, "hits_of", lambda ids: pytest.fail("all of it was read"))
    [result] = make_searcher(table, documents).search([Query("Summarise report.pdf")])
    pages = [passage.page or 0 for passage in result.passages]
    assert (pages[0], pages == sorted(pages), pages[-1] > 85) == (1, True, True)
    assert result.scope.passages_found == 96


def test_a_pointed_question_to_a_long_document_finds_what_ranks_best(table: ChunkTable, documents: Documents):
    put_report(table, documents, 96)
    asked = ["How many grams does bolt 41 weigh?", "Summarise what it says about bolt 41."]
    found = make_searcher(table, documents).search([Query(text, filters=CHOSEN) for text in asked])
    for result in found:
        assert 42 in {passage.page for passage in result.passages}
        assert len(result.passages) == 6
        scores = [passage.score for passage in result.passages]
        assert scores == sorted(scores, reverse=True)
        assert not result.scope.reads_through


def test_a_small_document_is_read_through_whatever_is_asked_unless_that_is_switched_off(
    table: ChunkTable, documents: Documents
):
    said = put_report(table, documents, 6)
    query = Query("How many grams does bolt 3 weigh?", filters=CHOSEN)
    [result] = make_searcher(table, documents, whole_document_chunks=4, passages=2).search([query])
    assert [passage.text for passage in result.passages] == said
    assert max(result.passages, key=lambda passage: passage.score).page == 4
    [result] = make_searcher(table, documents, whole_document_chunks=0, passages=2).search([query])
    assert (len(result.passages), result.scope.reads_through) == (2, False)


@pytest.mark.parametrize(
    "query",
    [
        Query("Summarise my files"),
        Query("Summarise the documents", filters=Filters(paths=("/docs/report.pdf", "/docs/1.txt"))),
        Query("Summarise report.pdf", limit=3),
    ],
    ids=["no document", "two documents", "so many passages"],
)
def test_who_means_no_one_document_or_so_many_passages_gets_what_ranks_best(
    table: ChunkTable, documents: Documents, query: Query
):
    put_report(table, documents, 14)
    [result] = make_searcher(table, documents).search([query])
    assert len(result.passages) == (query.limit or 6)
    assert not result.scope.reads_through


def test_who_asks_for_all_of_a_document_has_meant_one(table: ChunkTable, documents: Documents):
    searcher = make_searcher(table, documents)
    pointed, whole = searcher.search(
        [Query("What is said about dough and a mutex in 2.txt?"), Query("Summarise 2.txt")]
    )
    assert (pointed.is_doubtful, whole.is_doubtful) == (True, False)
    assert [passage.text for passage in whole.passages] == TEXTS[2]


def test_a_follow_up_finds_what_fits_it_and_the_question_before(searcher: Searcher):
    alone, follow_up = searcher.search(
        [Query("And ownership?"), Query("And ownership?", together="How is bread made of flour and water? ownership?")]
    )
    assert alone.passages[0].text == follow_up.passages[0].text == TEXTS[1][1]
    assert follow_up.passages[1].text == TEXTS[2][0] != alone.passages[1].text


def test_the_best_of_a_topic_that_changed_stays_first(searcher: Searcher):
    changed = "Which flour does bread need?"
    query = Query(changed, together=f"How do threads share state through a mutex? {changed}")
    assert searcher.search([query])[0].passages[0].text == texts(searcher, changed)[0] == TEXTS[2][0]


def test_both_texts_of_a_follow_up_share_one_sweep(table: ChunkTable, documents: Documents):
    index = Exact(table)
    searcher = Searcher(table, index, HashEmbedder(), documents, RetrievalSettings(), Room(720, 4000))  # type: ignore[arg-type]
    found = searcher.search([Query("threads"), Query("And flour?", together="Bread? flour?"), Query("mutex")])
    assert index.sweeps == [4]
    assert [found[0], found[2]] == searcher.search([Query("threads"), Query("mutex")])


def test_a_bare_follow_up_stays_in_the_file_that_was_named_before(searcher: Searcher):
    before = "What does the file 2.txt say about threads?"
    query = Query("And a mutex?", together=f"{before} a mutex?", inherits=True)
    [result] = searcher.search([query])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert (result.recognised, result.is_doubtful) == (("only “2.txt”",), True)
    [elsewhere] = searcher.search([replace(query, inherits=False)])
    assert (elsewhere.passages[0].text, elsewhere.recognised) == (TEXTS[1][0], ())


@pytest.mark.parametrize(
    "query",
    [
        Query("How do threads share it?", together="{} How do threads share it?", inherits=True),
        Query("{} Who shares it?"),
    ],
    ids=["with words of its own", "without"],
)
def test_a_file_that_only_the_answer_named_confines_no_follow_up(searcher: Searcher, query: Query):
    before, answer = "How is bread made?", "According to the file 2.txt, of flour."
    asked = query.together or query.text
    with_answer = {
        name: text.format(f"{before} {answer}")
        for name in ("text", "together")
        if "{}" in (text := getattr(query, name))
    }
    [result] = searcher.search([replace(query, **with_answer, questions=asked.format(before))])
    assert {passage.document for passage in result.passages} == {f"/docs/{id_}.txt" for id_ in TEXTS}
    assert result.recognised == ()
    named = asked.format("What does the file 1.txt say?")
    [result] = searcher.search([replace(query, **with_answer, questions=named)])
    assert {passage.document for passage in result.passages} == {"/docs/1.txt"}


def test_a_follow_up_that_names_a_file_leaves_the_one_before(searcher: Searcher):
    before = "What does the file 2.txt say about threads?"
    asked = "And in the file 1.txt?"
    [result] = searcher.search([Query(asked, together=f"{before} {asked}", inherits=True)])
    assert {passage.document for passage in result.passages} == {"/docs/1.txt"}
    assert (result.recognised, result.is_doubtful) == (("only “1.txt”",), False)


def test_what_was_named_before_and_has_nothing_to_say_is_given_up(searcher: Searcher):
    before = "What do the slides in the PDFs say about threads?"
    [result] = searcher.search([Query("And a mutex?", together=f"{before} a mutex?", inherits=True, told="so")])
    assert result.passages[0].text == TEXTS[1][0]
    given_up = "nothing was found with “only PDF files”, so it was searched without that"
    assert result.scope.recognised == (given_up,)
    assert result.told.recognised == ("so", given_up)
    assert result.has_given_up


def test_what_people_are_told_of_a_conversation_is_no_filter(searcher: Searcher):
    [result] = searcher.search(
        [Query("And dough?", together="Bread? dough?", told="together with the question before")]
    )
    assert result.told.recognised == ("together with the question before",)
    assert (result.scope.recognised, result.recognised, result.has_given_up) == ((), (), False)


def test_what_stands_above_is_not_searched_for(table: ChunkTable, documents: Documents, searcher: Searcher):
    above = searcher.search([Query("threads share state")])[0].passages[:2]
    searcher._index.sweeps.clear()  # type: ignore[attr-defined]
    standing, other = searcher.search([Query("threads share state", above=above, told="as before"), Query("flour")])
    assert standing.passages == above
    assert standing.told.recognised == ("about the answer above, so nothing new was searched",)
    assert (standing.scope.passages_used, standing.scope.passages_found) == (2, 2)
    assert (standing.is_doubtful, standing.has_given_up) == (False, False)
    assert other.passages[0].text == TEXTS[2][0]
    assert searcher._index.sweeps == [1]  # type: ignore[attr-defined]


def test_where_nothing_of_what_stood_above_is_left_the_same_is_searched_for(searcher: Searcher):
    above = searcher.search([Query("threads", collection="Rust")])[0].passages
    query = Query("threads", above=above, told="as before")
    [result] = searcher.search([replace(query, collection="Kitchen")])
    assert {passage.document_id for passage in result.passages} == {2}
    assert result.told.recognised == ("as before",)
    assert searcher.search([replace(query, limit=0)])[0].passages == ()


@pytest.mark.parametrize("asked", ["Summarise it", "Give me a summary", "What are the main points?", "总结一下"])
@pytest.mark.parametrize("was_above", [True, False], ids=["about the same file", "about others"])
def test_what_asks_for_all_of_the_one_file_there_is_reads_it_whatever_stands_above(
    table: ChunkTable, documents: Documents, asked: str, was_above: bool
):
    said = put_report(table, documents, 14)
    searcher = make_searcher(table, documents)
    [found] = searcher.search([Query("How many grams does bolt 4 weigh?", filters=CHOSEN if was_above else ANYWHERE)])
    above = tuple(passage for passage in found.passages if (passage.document_id == 9) is was_above)[:2]
    before = Query("And ownership?", filters=CHOSEN, together="How do threads share state? ownership?", inherits=True)
    query = replace(before, above=above, told="as before", own=asked)
    result, first, again = searcher.search([query, Query(asked, filters=CHOSEN), replace(query, above=())])
    assert result == again == replace(first, is_by_itself=True)
    assert [passage.text for passage in result.passages] == said


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("Summarise that", {}),
        ("Shorter, please", {"filters": CHOSEN}),
        ("Summarise it", {"filters": CHOSEN, "limit": 1}),
    ],
    ids=["several files", "no whole", "so many passages"],
)
def test_what_stands_above_is_wanted_where_no_one_file_is(
    table: ChunkTable, documents: Documents, asked: str, options: dict[str, Any]
):
    put_report(table, documents, 14)
    searcher = make_searcher(table, documents)
    above = searcher.search([Query("How many grams does bolt 4 weigh?", filters=CHOSEN)])[0].passages[:1]
    [result] = searcher.search([Query("How many grams?", above=above, told="as before", own=asked, **options)])
    assert (result.passages, result.is_by_itself) == (above, False)


def test_where_nothing_of_what_stands_above_is_left_the_question_itself_is_searched_for(searcher: Searcher):
    above = searcher.search([Query("flour", collection="Kitchen")])[0].passages
    query = Query("What is bread made of?", "Rust", above=above, told="as before", own="Explain the second point")
    result, alone = searcher.search([query, Query(query.own, "Rust")])
    assert result == replace(alone, is_by_itself=True)
    assert result.told.recognised == ()


def test_a_look_is_confined_by_the_question_before_and_searches_for_its_window_alone(searcher: Searcher):
    before = "What does the file 2.txt say about threads?"
    look = Query("a mutex", asked="And a mutex?", together=f"{before} a mutex?", inherits=True)
    [result] = searcher.search([look])
    assert {passage.document for passage in result.passages} == {"/docs/2.txt"}
    assert searcher._index.sweeps == [1]  # type: ignore[attr-defined]


def test_a_search_lets_others_by_between_two_readings_of_the_cross_encoder_and_reads_nothing_twice(
    table: ChunkTable, documents: Documents
):
    class Counting:
        asked: ClassVar[list[str]] = []

        def scores(self, question: str, texts: Sequence[str]) -> list[float]:
            self.asked.append(question)
            return [float(len(text)) for text in texts]

    searcher, queries = make_searcher(table, documents), [Query("threads"), Query("flour dough")]
    searcher._reranker = Counting()
    wanted = searcher.search(queries)
    Counting.asked.clear()
    pauses, num_read = Pauses(lambda: len(Counting.asked) > num_read), 0
    for num_read in (0, 1):
        with pytest.raises(SweepPaused):
            searcher.search(queries, pauses)
        assert len(Counting.asked) == num_read + 1
    num_read = 2
    assert searcher.search(queries, pauses) == wanted
    assert Counting.asked == ["threads", "flour dough"]
