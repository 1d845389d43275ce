"""Tests for engine.retrieval.looks and look_thread, and for how the retrieval worker hands looks on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from engine.core import Evidence, Passage, Question, Scope
from engine.errors import LibraryError
from engine.generation.conversation import Turn
from engine.generation.evidence import EvidencePassage
from engine.generation.transcript import transcript_of
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain, LookAgain
from engine.memory.ledger import Ledger
from engine.retrieval.breadth import Breadth, LookCosts, breadths
from engine.retrieval.calibration import Strength
from engine.retrieval.looks import Looks
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import Query, SearchResult
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.worker import RetrievalWorker
from engine.yielding import is_yielding
from tests.helpers.chunk_rows import HashEmbedder
from tests.helpers.passages import passage

TIMEOUT = 30.0
KNOWN = passage("The notice period is three months.")
NEW = passage("It begins on the first.", document_id=2)


@dataclass
class FakeSearcher:
    """Finds what is known and what is new. "BROKEN" makes the search fail; `gate`, closed, makes looks wait."""

    embedder: HashEmbedder = field(default_factory=HashEmbedder)
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    batches: list[list[Query]] = field(default_factory=list)
    yielding: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    def breadths(self) -> tuple[Breadth, ...]:
        return breadths(40, 4, can_rerank=True)

    def following(self, _: Passage) -> tuple[Passage, ...]:
        return ()

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        self.batches.append(list(queries))
        self.began.release()
        self.yielding.append(is_yielding())
        if any(query.breadth is not None for query in queries):
            assert self.gate.wait(TIMEOUT)
        if any("BROKEN" in query.text for query in queries):
            raise LibraryError("The index cannot be read.")
        return [SearchResult((KNOWN, NEW), Scope(2, 9, 2), Strength(0.8, 0.8)) for _ in queries]


def look(window: str = "the notice period", number: int = 1, **options) -> LookAgain:
    given = {"seconds": 60.0, "limit": 2, "cancelled": threading.Event(), **options}
    return LookAgain(Question(f"q{number}", "What of the lease?"), number, window, (KNOWN,), **given)


def costs() -> LookCosts:
    return LookCosts(lambda loads, queries: float(loads))


class TestLooks:
    @pytest.fixture(autouse=True)
    def desk(self) -> None:
        self.searcher, self.told = FakeSearcher(), list[FoundAgain]()
        self.looks = Looks(costs(), self.told.append)

    def carry_out(self, *looks: LookAgain) -> list[Query]:
        self.looks.carry_out(self.searcher, looks)  # type: ignore[arg-type]
        return self.searcher.batches[-1]

    def test_only_what_is_new_is_told(self):
        self.carry_out(look())
        [found] = self.told
        assert (found.question_id, found.number, found.passages, found.error) == ("q1", 1, (NEW,), None)
        assert found.seconds > 0

    def test_the_question_confines_the_search_for_its_window(self):
        [query] = self.carry_out(look())
        assert (query.text, query.asked, query.limit) == ("the notice period", "What of the lease?", 3)

    def test_the_questions_before_confine_the_search_for_the_window_of_a_follow_up(self):
        before = {"role": "user", "question": "Who pays for repairs in lease.pdf?", "passages": []}
        question = Question("q1", "And in case of fire?", transcript=(before,))
        [query] = self.carry_out(replace(look(), question=question))
        assert (query.text, query.asked) == ("the notice period", "And in case of fire?")
        assert (query.together, query.inherits) == ("Who pays for repairs in lease.pdf? in case of fire?", True)

    def test_a_question_that_was_searched_for_by_itself_confines_the_search_for_its_window_by_itself(self):
        before = Turn("Who pays for repairs in lease.pdf?", (EvidencePassage.of(KNOWN),), "The owner [1].")
        question = Question("q1", "Summarise it", transcript=transcript_of(before))
        [query] = self.carry_out(replace(look(), question=question))
        assert (query.asked, query.together) == ("Summarise it", "")

    def test_the_search_is_as_broad_as_there_is_time(self):
        [query] = self.carry_out(look(seconds=0.0))
        assert query.breadth == Breadth(10, 0)
        [query] = self.carry_out(look(seconds=2.5))
        assert query.breadth == Breadth(40, 2)

    def test_the_breadth_can_be_said(self):
        [query] = self.carry_out(look(breadth=1))
        assert query.breadth == Breadth(40, 0)
        [query] = self.carry_out(look(breadth=99))
        assert query.breadth == Breadth(40, 4, reranks=True)

    def test_looks_that_wait_together_are_one_search_which_suits_the_one_with_least_time(self):
        queries = self.carry_out(look(seconds=60.0), look(number=2, seconds=1.5))
        assert [query.breadth for query in queries] == [Breadth(40, 1)] * 2
        assert [found.number for found in self.told] == [1, 2]

    def test_for_an_answer_that_was_cancelled_nothing_is_searched(self):
        cancelled = threading.Event()
        cancelled.set()
        self.looks.carry_out(self.searcher, [look(cancelled=cancelled)])  # type: ignore[arg-type]
        assert not self.searcher.batches
        assert not self.told


@dataclass
class Desk:
    """A worker, and what it told, in order."""

    searcher: FakeSearcher = field(default_factory=FakeSearcher)
    told: list[str] = field(default_factory=list)
    found: list[FoundAgain] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.worker = RetrievalWorker(
            lambda: self.searcher,  # type: ignore[arg-type,return-value]
            self._hand_over,
            lambda event: None,
            lambda in_flight: self._tell(in_flight.question.question_id),
            lambda in_flight, error: self._tell(in_flight.question.question_id),
            SentenceVectors(Ledger()),
            look_costs=costs(),
            found_again=self._found,
        )
        self.worker.start()

    def ask(self, question_id: str) -> None:
        self.worker.submit(QuestionInFlight(Question(question_id, "What?")))

    def wait(self, count: int) -> list[str]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, TIMEOUT)
            return self.told

    def _hand_over(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        self._tell(in_flight.question.question_id)

    def _found(self, found: FoundAgain) -> None:
        self.found.append(found)
        self._tell(f"look {found.number}")

    def _tell(self, what: str) -> None:
        with self.changed:
            self.told.append(what)
            self.changed.notify_all()


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.searcher.gate.set()
    desk.worker.stop()


def test_a_look_is_told_of(desk: Desk):
    desk.worker.look_again(look())
    assert desk.wait(1) == ["look 1"]
    assert desk.found[0].passages == (NEW,)


def test_a_question_does_not_wait_for_a_look_nor_for_those_behind_it(desk: Desk):
    desk.searcher.gate.clear()
    desk.worker.look_again(look(number=1))
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    desk.worker.look_again(look(number=2))
    desk.worker.look_again(look(number=3))
    desk.ask("question")
    assert desk.wait(1) == ["question"]
    desk.searcher.gate.set()
    assert desk.wait(4) == ["question", "look 1", "look 2", "look 3"]
    assert len(desk.searcher.batches[-1]) == 2


def test_a_look_yields_to_all_else_and_nothing_else_does(desk: Desk):
    desk.worker.look_again(look())
    desk.wait(1)
    desk.ask("question")
    desk.wait(2)
    assert desk.searcher.yielding == [True, False]


def test_a_look_that_fails_says_why_and_the_next_question_is_answered(desk: Desk):
    desk.worker.look_again(look("BROKEN"))
    desk.wait(1)
    assert isinstance(desk.found[0].error, LibraryError)
    assert desk.found[0].passages == ()
    desk.ask("next")
    assert desk.wait(2) == ["look 1", "next"]


def test_looks_that_wait_when_the_worker_stops_are_let_be(desk: Desk):
    desk.searcher.gate.clear()
    desk.worker.look_again(look(number=1))
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    desk.worker.look_again(look(number=2))
    stopping = threading.Thread(target=desk.worker.stop)
    stopping.start()
    while not desk.worker._looks._is_closed:
        threading.Event().wait(0.001)
    desk.searcher.gate.set()
    stopping.join(TIMEOUT)
    desk.worker.look_again(look(number=3))
    assert desk.told == ["look 1"]


class PausingSearcher(FakeSearcher):
    """Asks before it finds anything whether it may go on."""

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        found = super().search(queries)
        if pauses is not None:
            pauses.let_by()
        return found


@pytest.mark.parametrize("reason", ["people", "cancelled", ""])
def test_a_look_is_given_up_where_others_go_first_and_that_is_told(reason: str):
    told, wanted = list[FoundAgain](), look()
    searcher = PausingSearcher()

    def do_people_wait() -> bool:
        if reason == "cancelled":
            wanted.cancelled.set()
        return reason == "people"

    Looks(costs(), told.append, do_people_wait).carry_out(searcher, [wanted])  # type: ignore[arg-type]
    [found] = told
    assert (found.number, found.error) == (1, None)
    assert found.passages == (() if reason else (NEW,))


def test_a_look_lets_a_question_by_whose_search_waits_for_it():
    """Both want the index, of which one search at a time is carried out."""
    index, asked = threading.Lock(), threading.Event()

    class OneAtATime(FakeSearcher):
        def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
            is_look = queries[0].breadth is not None
            if not is_look:
                asked.set()
            with index:
                self.began.release()
                while is_look and pauses is not None and not self.gate.wait(0.001):
                    pauses.let_by()
            return super().search(queries)

    searcher = OneAtATime()
    searcher.gate.clear()
    desk = Desk(searcher)
    desk.worker.look_again(look())
    assert searcher.began.acquire(timeout=TIMEOUT)
    desk.ask("question")
    assert asked.wait(TIMEOUT)
    assert sorted(desk.wait(2)) == ["look 1", "question"]
    assert desk.found[0].passages == ()
    searcher.gate.set()
    desk.worker.stop()
