"""Tests for engine.retrieval.search with engine.retrieval.named_files: questions that say words of files' names.

A small library on a real catalogue and a real table: scans whose text has none of the words that they are asked for by,
among texts that are full of these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator

import pytest

from engine.catalog import Catalog
from engine.config import MemorySettings, RetrievalSettings
from engine.core import Chunk, Filters, FoundFile, ReadDocument
from engine.memory.ledger import Ledger
from engine.partitions.rows import Found, Vectors
from engine.partitions.table import ChunkTable
from engine.retrieval.joining import Room
from engine.retrieval.named_files import NamedFiles
from engine.retrieval.query import Query, SearchResult
from engine.retrieval.search import Searcher
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, HashEmbedder, chunk_row

ROOT = "/home/anna/Documents"
SCANS = {
    "Rechnungen/telekom-2024-03.pdf": "Betrag 39,95 EUR zahlbar bis 14.",
    "Rechnungen/telekom-2024-04.pdf": "Betrag 41,20 EUR zahlbar bis 15.",
    "Rechnungen/stadtwerke_abschlag.pdf": "Zaehler 4711 Stand 22018",
    "Receipts/IKEA Kallax shelf.jpg": "1 x 69.99 TOTAL 69.99 CARD",
    "Receipts/2023-11 dentist.jpg": "Leistung 2 Pos. 2060 zu 88,10",
    "Cars/ToyotaYaris/inspection report.pdf": "Bremsen i.O. Reifen vorne 4 mm",
    "Reisen/BoardingPass_LH1234.pdf": "MUC 12A GATE G28 SEAT 12A",
    "合同/房屋租赁合同.pdf": "甲方 乙方 每月 3000 元",
}
# Texts that say what is asked for, of something else.
RIVALS = [
    f"{text} This is the {number}th note on it."
    for number, text in enumerate(
        [
            "The invoice of March was paid late, as every invoice in March is.",
            "Telekom stocks rose in March while other invoices stayed unpaid.",
            "A receipt for a shelf proves that the shelf was bought.",
            "The dentist recommends an inspection of every tooth, and a receipt for it.",
            "A boarding pass must be shown at the gate, and the pass is kept.",
            "Toyota builds the Yaris in France, where an inspection takes a day.",
            "Landlords ask for a contract of rent, and tenants sign the contract.",
            "How much did it cost, and what was the price of the shelf in November?",
        ]
        * 4
    )
]

Answer = Callable[..., SearchResult]


class Exact:
    """The partition store's part, by the table itself."""

    num_cold = 0

    def __init__(self, table: ChunkTable) -> None:
        self._table = table

    def search(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        max_loads: int | None = None,
        should_pause: Callable[[], bool] = lambda: False,
    ) -> list[list[Found]]:
        return self._table.nearest(vectors, limit, document_ids)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Catalog, ChunkTable]]:
    folder = tmp_path_factory.mktemp("library")
    catalog = Catalog.open(folder)
    table = ChunkTable.open(folder / "lancedb", DIMENSIONS, IDENTITY, MemorySettings(), Ledger())
    catalog.add_root("Home", ROOT, is_folder=True, device=1)
    catalog.add_root("Trips", f"{ROOT}/Reisen", is_folder=True, device=1)
    texts = {**SCANS, **{f"Notes/{number:04}.md": text for number, text in enumerate(RIVALS)}}
    rows = {put(catalog, name, text): [text] for name, text in texts.items()}
    table.put_documents({id_: [chunk_row(id_, n, text) for n, text in enumerate(some)] for id_, some in rows.items()})
    catalog.add_documents([FoundFile(f"{ROOT}/telekom-not-read-yet.pdf", 10, 10)])
    yield catalog, table
    table.close()
    catalog.close()


def put(catalog: Catalog, name: str, text: str) -> int:
    file = FoundFile(f"{ROOT}/{name}", 10, 10)
    catalog.add_documents([file])
    document = catalog.document_by_path(file.path)
    assert document is not None
    read = ReadDocument("pdf", "", 0, (Chunk(0, None, 0, len(text), "", text),))
    catalog.mark_indexed(document.document_id, file, name, read, IDENTITY, 0)
    return document.document_id


@pytest.fixture(params=[0.35, 1.0], ids=["both rankings", "words alone"])
def searcher(library: tuple[Catalog, ChunkTable], request: pytest.FixtureRequest) -> Searcher:
    return make_searcher(library, words_weight=request.param)


def make_searcher(library: tuple[Catalog, ChunkTable], *, has_names: bool = True, **options: object) -> Searcher:
    catalog, table = library
    settings = RetrievalSettings(whole_document_chunks=0, candidates=12).model_copy(update=options)
    names = NamedFiles(catalog) if has_names else None
    return Searcher(table, Exact(table), HashEmbedder(), catalog, settings, Room(720, 4000), names=names)  # type: ignore[arg-type]


def searched(searcher: Searcher, text: str, collection: str | None = None, **filters: object) -> SearchResult:
    return searcher.search([Query(text, collection, filters=Filters(**filters))])[0]  # type: ignore[arg-type]


def files(result: SearchResult) -> list[str]:
    return [os.path.relpath(passage.document, ROOT) for passage in result.passages]


ASKED = {
    "How much was the telekom invoice in march 2024?": "Rechnungen/telekom-2024-03.pdf",
    "telekom 2024-04": "Rechnungen/telekom-2024-04.pdf",
    "What do we pay to the Stadtwerke?": "Rechnungen/stadtwerke_abschlag.pdf",
    "receipt for the Kallax shelf": "Receipts/IKEA Kallax shelf.jpg",
    "What did I buy at IKEA?": "Receipts/IKEA Kallax shelf.jpg",
    "How much did the dentist charge in November 2023?": "Receipts/2023-11 dentist.jpg",
    "How deep is the tread by the inspection report of the Yaris?": "Cars/ToyotaYaris/inspection report.pdf",
    "Which gate is on my boarding pass LH1234?": "Reisen/BoardingPass_LH1234.pdf",
    "房屋租赁合同里的租金是多少?": "合同/房屋租赁合同.pdf",
}


@pytest.mark.parametrize(("question", "file"), ASKED.items())
def test_a_scan_is_found_by_words_of_its_name(searcher: Searcher, question: str, file: str) -> None:
    assert file in files(searched(searcher, question))


def test_without_names_most_of_these_are_not_found(library: tuple[Catalog, ChunkTable]) -> None:
    searcher = make_searcher(library, has_names=False)

    assert sum(file in files(searched(searcher, question)) for question, file in ASKED.items()) < len(ASKED) / 2


@pytest.mark.parametrize("question", ["Why do gluten threads hold bread?", "What is 2024?", "Is it signed?", "3"])
def test_a_question_that_names_nothing_finds_what_it_found_before(
    library: tuple[Catalog, ChunkTable], question: str
) -> None:
    with_names, without = (searched(make_searcher(library, has_names=has), question) for has in (True, False))

    assert with_names == without


@pytest.mark.parametrize("question", ASKED)
def test_a_name_is_no_sign_that_a_file_answers(library: tuple[Catalog, ChunkTable], question: str) -> None:
    with_names, without = (searched(make_searcher(library, has_names=has), question) for has in (True, False))

    assert with_names.strength == without.strength


def test_the_best_passages_come_first_still(searcher: Searcher) -> None:
    for question in ASKED:
        scores = [passage.score for passage in searched(searcher, question).passages]
        assert scores == sorted(scores, reverse=True)
        assert 1 <= len(scores) <= 6


def test_a_text_that_says_it_stays_before_a_name(library: tuple[Catalog, ChunkTable]) -> None:
    result = searched(make_searcher(library), "Where does Toyota build the Yaris, and how long is an inspection?")

    assert "Toyota builds the Yaris" in result.passages[0].text
    assert "Cars/ToyotaYaris/inspection report.pdf" in files(result)


def test_names_find_nothing_outside_of_what_was_chosen(searcher: Searcher) -> None:
    assert files(searched(searcher, "the telekom invoice", "Trips")) == ["Reisen/BoardingPass_LH1234.pdf"]
    assert "Rechnungen/telekom-2024-03.pdf" not in files(
        searched(searcher, "the telekom invoice", paths=(f"{ROOT}/Notes",))
    )


def test_a_file_out_of_reach_is_found_by_its_name(library: tuple[Catalog, ChunkTable]) -> None:
    catalog, _ = library
    document = catalog.document_by_path(f"{ROOT}/Rechnungen/stadtwerke_abschlag.pdf")
    assert document is not None
    catalog.mark_offline([document.document_id], "The drive is not here.")
    try:
        passages = searched(make_searcher(library), "What do we pay to the Stadtwerke?").passages
    finally:
        catalog.mark_present([document.document_id])

    assert [passage.is_offline for passage in passages if "stadtwerke" in passage.document] == [True]


def test_one_passage_is_the_best_one_and_not_the_named_one(library: tuple[Catalog, ChunkTable]) -> None:
    searcher = make_searcher(library, passages=1)

    assert files(searched(searcher, "The invoice of March was paid late; who paid it to Telekom?"))[0].startswith(
        "Notes/"
    )


class Rereading:
    """A cross-encoder that finds the rivals better."""

    def scores(self, question: str, texts: list[str]) -> list[float]:
        return [float("note on it" in text) for text in texts]


def test_a_cross_encoder_that_reads_no_names_leaves_the_named_file_its_place(
    library: tuple[Catalog, ChunkTable],
) -> None:
    catalog, table = library
    settings = RetrievalSettings(whole_document_chunks=0, candidates=12)
    searcher = Searcher(
        table,
        Exact(table),
        HashEmbedder(),
        catalog,
        settings,
        Room(720, 4000),
        Rereading(),
        names=NamedFiles(catalog),  # type: ignore[arg-type]
    )

    assert files(searched(searcher, "telekom invoice march"))[-1].startswith("Rechnungen/telekom")
