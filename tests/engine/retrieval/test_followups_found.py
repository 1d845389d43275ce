"""Follow-ups over a small library with the real embedder: what they are about is found, and what is new stays first.

Twelve houses have the same papers, so that "And in case of fire?" is answered twelve times, and once only for the house
that was asked about. R@5 counts the questions whose passage is among the first five.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from engine.catalog.scopes import Extent, Located, Named
from engine.config import MemorySettings, RetrievalSettings
from engine.core import Filters, Question
from engine.embedder import Embedder
from engine.inflight import QuestionInFlight
from engine.memory.ledger import Ledger
from engine.partitions.table import ChunkTable
from engine.retrieval import worker
from engine.retrieval.joining import Room
from engine.retrieval.query import Query
from engine.retrieval.search import Searcher
from tests.engine.retrieval.test_search import Exact
from tests.helpers.chunk_rows import chunk_row

STREETS = (
    "Harbour Street",
    "Mill Lane",
    "Station Road",
    "Castle Hill",
    "Orchard Close",
    "Bridge Street",
    "Chapel Row",
    "Forest Drive",
    "Market Square",
    "North Parade",
    "Quarry Bank",
    "River Walk",
)
# Of each language what the papers of a house say, by topic.
PAPERS = {
    "en": {
        "repairs": "House rules of {}. Repairs of pipes and windows are paid by the owner within a month.",
        "fire": "House rules of {}. After a fire the insurance of the owner restores the rooms.",
        "notice": "House rules of {}. The lease can be ended with three months' notice.",
        "pets": "House rules of {}. Dogs and cats need the written consent of the owner.",
        "heating": "House rules of {}. Heating costs 95 euros and is paid with the rent.",
    },
    "de": {
        "repairs": "Hausordnung {}. Reparaturen an Rohren und Fenstern bezahlt der Eigentümer.",
        "fire": "Hausordnung {}. Nach einem Feuer zahlt die Versicherung für die Zimmer.",
        "notice": "Hausordnung {}. Die Kündigungsfrist beträgt drei Monate.",
        "pets": "Hausordnung {}. Haustiere brauchen die Zustimmung des Eigentümers.",
        "heating": "Hausordnung {}. Die Heizung kostet 95 Euro im Monat.",
    },
    "es": {
        "repairs": "Normas de la casa {}. Las reparaciones las paga el propietario.",
        "fire": "Normas de la casa {}. En caso de incendio paga el seguro.",
        "notice": "Normas de la casa {}. El plazo de preaviso es de tres meses.",
        "pets": "Normas de la casa {}. Las mascotas necesitan permiso del propietario.",
        "heating": "Normas de la casa {}. La calefacción cuesta 95 euros.",
    },
    "zh": {
        "repairs": "{}住宅规则。修理水管和窗户由房东付钱。",
        "fire": "{}住宅规则。火灾以后由保险公司赔偿。",
        "notice": "{}住宅规则。租约的通知期是三个月。",
        "pets": "{}住宅规则。养宠物需要房东同意。",
        "heating": "{}住宅规则。暖气每月九十五欧元。",
    },
}
CHINESE_STREETS = tuple(
    f"{name}路"
    for name in ["海港", "磨坊", "车站", "城堡", "果园", "大桥", "教堂", "森林", "市场", "北门", "采石", "河边"]
)
OTHERS = (
    "Garlic cloves are planted in October, a hand's breadth apart.",
    "The museum is closed on Mondays and free for children under twelve.",
    "A mutex guards data that threads share.",
    "El ajo se planta en octubre.",
    "Knoblauch wird im Oktober gesteckt.",
)
PEOPLE = (
    "Weber",
    "Lopez",
    "Martin",
    "Rossi",
    "Novak",
    "Silva",
    "Meyer",
    "Dubois",
    "Brown",
    "Kowalski",
    "Jansen",
    "Haas",
)
MANAGED = "The house at {} is looked after by {}."
TELEPHONE = "{}, caretaker. Telephone 0231 55 50, in the office on weekdays."
# A question, one that follows it, and what that is about.
FOLLOW_UPS = {
    "en": [
        ("Who pays for repairs at {}?", "And in case of fire?", "fire"),
        ("Who pays for repairs at {}?", "What about dogs?", "pets"),
        ("May tenants keep a dog at {}?", "And heating?", "heating"),
        ("What does heating cost at {}?", "Can it be ended with notice?", "notice"),
        ("When can the lease of {} be ended?", "Who pays there for repairs?", "repairs"),
    ],
    "de": [
        ("Wer zahlt Reparaturen in {}?", "Und nach einem Feuer?", "fire"),
        ("Wer zahlt Reparaturen in {}?", "Was ist mit Haustieren?", "pets"),
        ("Sind Haustiere in {} erlaubt?", "Und die Heizung?", "heating"),
        ("Was kostet die Heizung in {}?", "Wie lang ist dort die Kündigungsfrist?", "notice"),
    ],
    "es": [
        ("¿Quién paga las reparaciones en {}?", "¿Y en caso de incendio?", "fire"),
        ("¿Quién paga las reparaciones en {}?", "¿Qué pasa con las mascotas?", "pets"),
        ("¿Se admiten mascotas en {}?", "¿Y la calefacción?", "heating"),
        ("¿Cuánto cuesta la calefacción en {}?", "¿Cuál es allí el preaviso?", "notice"),
    ],
    "zh": [
        ("{}的修理谁付钱？", "那火灾呢？", "fire"),
        ("{}的修理谁付钱？", "宠物呢？", "pets"),
        ("{}可以养宠物吗？", "暖气呢？", "heating"),
        ("{}的暖气多少钱？", "那里的通知期是多久？", "notice"),
    ],
}
# What is asked after another topic, and what has to come first; also where it looks like a follow-up.
CHANGES = [
    ("When are garlic cloves planted?", OTHERS[0]),
    ("And when is the museum closed?", OTHERS[1]),
    ("What is a mutex?", OTHERS[2]),
    ("Garlic cloves?", OTHERS[0]),
    ("Mutex?", OTHERS[2]),
    ("¿Y cuándo se planta el ajo?", OTHERS[3]),
    ("Wann wird Knoblauch gesteckt?", OTHERS[4]),
    ("What is the notice period for the lease of Mill Lane?", PAPERS["en"]["notice"].format("Mill Lane")),
    ("And who pays for repairs at Quarry Bank?", PAPERS["en"]["repairs"].format("Quarry Bank")),
]


class Everything:
    """A catalogue that has all documents and confines nothing."""

    def __init__(self, num_documents: int) -> None:
        self._num_documents = num_documents

    def located(self, document_ids: Iterable[int]) -> Mapping[int, Located]:
        return {id_: Located(f"/docs/{id_}.txt", False, 1) for id_ in document_ids}

    def ids_in_scope(self, collection: str | None, filters: Filters) -> None:
        return None

    def extent(self, collection: str | None, filters: Filters) -> Extent:
        return Extent(self._num_documents, self._num_documents)

    def collection_names(self) -> tuple[str, ...]:
        return ()

    def paths_named(self, names: Collection[str]) -> Named:
        return Named(frozenset())


def streets(language: str) -> tuple[str, ...]:
    return CHINESE_STREETS if language == "zh" else STREETS


@pytest.fixture(scope="module")
def searcher(minilm: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    of_houses = (
        text.format(street)
        for language, papers in PAPERS.items()
        for street in streets(language)
        for text in papers.values()
    )
    of_people = [MANAGED.format(*one) for one in zip(STREETS, PEOPLE, strict=True)]
    texts = [*of_houses, *OTHERS, *of_people, *map(TELEPHONE.format, PEOPLE)]
    vectors = minilm.embed_documents(texts)
    folder = tmp_path_factory.mktemp("library") / "lancedb"
    table = ChunkTable.open(folder, minilm.dimensions, minilm.identity, MemorySettings(), Ledger())
    table.put_documents({n: [replace(chunk_row(n, 0, text), vector=vectors[n])] for n, text in enumerate(texts)})
    table.optimize()
    settings = RetrievalSettings(whole_document_chunks=0)
    yield Searcher(table, Exact(table), minilm, Everything(len(texts)), settings, Room(720, 4000))  # type: ignore[arg-type]
    table.close()


def found(searcher: Searcher, asked: str, *before: str, answer: str = "") -> list[str]:
    turns = ({"role": "user", "question": question, "passages": []} for question in before)
    transcript = tuple(piece for turn in turns for piece in (turn, {"role": "assistant", "text": answer}))
    query = worker._query(QuestionInFlight(Question("q", asked, transcript=transcript)))
    return [passage.text for passage in searcher.search([query])[0].passages]


def share_found(searcher: Searcher, language: str, *, with_before: bool) -> float:
    ranked: list[tuple[Sequence[str], str]] = []
    for street in streets(language)[::3]:
        for before, asked, topic in FOLLOW_UPS[language]:
            history = (before.format(street),) if with_before else ()
            ranked.append((found(searcher, asked, *history), PAPERS[language][topic].format(street)))
    return sum(wanted in texts[:5] for texts, wanted in ranked) / len(ranked)


@pytest.mark.parametrize("language", FOLLOW_UPS)
def test_follow_ups_find_what_they_are_about(searcher: Searcher, language: str):
    assert share_found(searcher, language, with_before=False) <= 0.7
    assert share_found(searcher, language, with_before=True) >= 0.95


def test_what_points_back_finds_what_only_the_answer_named(searcher: Searcher):
    num_found = dict.fromkeys((True, False), 0)
    for street, person in zip(STREETS, PEOPLE, strict=True):
        asked, answer = f"Who looks after the house at {street}?", f"It is looked after by {person} [1]."
        assert found(searcher, asked)[0] == MANAGED.format(street, person)
        for has_answer in num_found:
            texts = found(searcher, "What is their telephone number?", asked, answer=answer if has_answer else "")
            num_found[has_answer] += TELEPHONE.format(person) in texts[:2]
    assert num_found[True] >= 11
    assert num_found[False] <= 6


@pytest.mark.parametrize(("asked", "first"), CHANGES)
def test_what_changes_the_topic_keeps_its_best_passage_first(searcher: Searcher, asked: str, first: str):
    assert found(searcher, asked)[0] == first
    assert found(searcher, asked, "Who pays for repairs at Harbour Street?")[0] == first


def test_a_question_that_stands_alone_finds_what_it_finds_without_a_conversation(searcher: Searcher):
    asked = "What is the notice period for the lease of Mill Lane?"
    assert found(searcher, asked, "Who pays for repairs at Harbour Street?") == found(searcher, asked)


def test_a_conversation_goes_on_in_its_house(searcher: Searcher):
    conversation = ["Who pays for repairs at Castle Hill?", "And in case of fire?", "Thanks!", "What about dogs?"]
    assert found(searcher, "And heating?", *conversation)[0] == PAPERS["en"]["heating"].format("Castle Hill")
    again = [*conversation, "And who pays for repairs at Quarry Bank?"]
    assert PAPERS["en"]["heating"].format("Quarry Bank") in found(searcher, "And heating?", *again)[:5]


def test_a_query_by_itself_is_a_first_question(searcher: Searcher):
    asked = "And in case of fire?"
    assert found(searcher, asked) == [passage.text for passage in searcher.search([Query(asked)])[0].passages]
