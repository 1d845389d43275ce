"""Tests for engine.retrieval.worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from engine.core import Evidence, Filters, Passage, Priority, Question, Scope
from engine.cores import Cores
from engine.errors import EmbedderUnavailable, LibraryError, RagdollError
from engine.events import AnswerCancelled, AnswerStateChanged, Event, PassagesFound
from engine.generation.conversation import Turn
from engine.generation.evidence import EvidencePassage
from engine.generation.transcript import transcript_of
from engine.inflight import QuestionInFlight
from engine.memory.ledger import Ledger
from engine.memory.sharing import Sharing
from engine.partitions.rows import Vectors
from engine.partitions.sweep import SweepPaused
from engine.retrieval import worker as worker_module
from engine.retrieval.breadth import Breadth, breadths
from engine.retrieval.calibration import Strength
from engine.retrieval.followups import ABOUT_THE_ANSWER
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import Place, Query, SearchResult
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.worker import RetrievalWorker
from tests.helpers.chunk_rows import HashEmbedder
from tests.helpers.passages import passage

TIMEOUT = 30.0


@dataclass
class FakeSearcher:
    """Finds one passage that repeats the query. "BROKEN" makes the search fail; `gate`, closed, makes it wait."""

    embedder: HashEmbedder = field(default_factory=HashEmbedder)
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    batches: list[list[Query]] = field(default_factory=list)
    num_cold: int = 0
    is_loaded: bool = False

    def load(self) -> None:
        self.is_loaded = True

    def breadths(self) -> tuple[Breadth, ...]:
        return breadths(40, self.num_cold, can_rerank=False)

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        self.batches.append(list(queries))
        self.began.release()
        assert self.gate.wait(TIMEOUT)
        if any("BROKEN" in query.text for query in queries):
            raise LibraryError("The index cannot be read.")
        if any("BUG" in query.text for query in queries):
            raise ZeroDivisionError("nobody expected that")
        found = [(passage(f"It is said that {query.text}."),) for query in queries]
        return [
            SearchResult(passages, Scope(1, 9, 1), Strength(0.8, 0.8), follows=query.told)
            for query, passages in zip(queries, found, strict=True)
        ]


@dataclass
class Desk:
    """A worker on fakes, and all that came out of it, in order."""

    searcher: FakeSearcher
    open_searcher: Callable[[], FakeSearcher] | None = None
    handed: list[tuple[str, Evidence]] = field(default_factory=list)
    expected: list[tuple[int, Sequence[Passage]]] = field(default_factory=list)
    left_seconds: list[float] = field(default_factory=list)
    reads_ahead: bool = False
    ended: dict[str, str | RagdollError] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    asked: set[str] = field(default_factory=set)
    cores: Cores | None = None

    def __post_init__(self) -> None:
        self.worker = RetrievalWorker(
            self.open_searcher or (lambda: self.searcher),  # type: ignore[arg-type]
            self._hand_over,
            self.events.append,
            lambda in_flight: self._end(in_flight, "cancelled"),
            self._end,
            SentenceVectors(Ledger()),
            expect=self._expect,
            reads_ahead=lambda model, left_seconds: self.reads_ahead,
            cores=self.cores,
        )

    def _expect(self, in_flight: QuestionInFlight, passages: Sequence[Passage], left_seconds: float) -> None:
        self.expected.append((len(self.searcher.batches), passages))
        self.left_seconds.append(left_seconds)

    def _hand_over(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        self.handed.append((in_flight.question.question_id, evidence))
        self._end(in_flight, "handed over")

    def _end(self, in_flight: QuestionInFlight, how: str | RagdollError) -> None:
        with self.changed:
            assert in_flight.question.question_id not in self.ended, "a question ended twice"
            self.ended[in_flight.question.question_id] = how
            self.changed.notify_all()

    def ask(self, text: str, **options: object) -> QuestionInFlight:
        self.asked.add(text)
        in_flight = QuestionInFlight(Question(text, text, **options))  # type: ignore[arg-type]
        self.worker.submit(in_flight)
        return in_flight

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.ended) >= count, TIMEOUT), self.ended

    def states(self, question_id: str) -> list[str]:
        return [
            "found" if isinstance(event, PassagesFound) else event.state
            for event in self.events
            if isinstance(event, AnswerStateChanged | PassagesFound) and event.question_id == question_id
        ]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk(FakeSearcher())
    desk.searcher.gate.set()
    yield desk
    desk.searcher.gate.set()
    desk.worker.stop()


def test_a_question_is_searched_read_and_handed_over(desk: Desk):
    desk.worker.start()
    in_flight = desk.ask("the lock guards the data", collection="Rust", top_k=3)
    desk.wait(1)
    [(question_id, evidence)] = desk.handed
    assert question_id == in_flight.question.question_id
    assert evidence.quotes[0].text == "It is said that the lock guards the data."
    assert evidence.scope == Scope(1, 9, 1)
    assert desk.states(question_id) == ["queued", "searching", "reading", "found"]
    assert desk.searcher.batches == [[Query("the lock guards the data", "Rust", 3)]]
    assert list(in_flight.timeline.marks) == ["asked", "retrieval_started", "retrieval_ended"]


def test_what_a_question_will_probably_come_with_is_told_before_it_is_read(desk: Desk):
    desk.worker.start()
    desk.ask("rain is wet")
    desk.wait(1)
    assert desk.expected == [(1, desk.handed[0][1].passages)]


def test_what_memory_has_is_expected_before_the_rest_of_the_index_is_read(desk: Desk):
    desk.reads_ahead, desk.searcher.num_cold = True, 64
    desk.worker.start()
    desk.ask("the lock guards the data", top_k=3)
    desk.wait(1)
    [early], [whole] = desk.searcher.batches
    assert (early.breadth, whole.breadth) == (Breadth(40, 0), None)
    assert replace(early, breadth=None) == whole
    passages = desk.handed[0][1].passages
    assert desk.expected == [(1, passages), (2, passages)]
    early_seconds, late_seconds = desk.left_seconds
    assert early_seconds > late_seconds == 0.0


@pytest.mark.expects_warnings
def test_a_question_is_answered_though_nothing_could_be_told_early(desk: Desk):
    search = desk.searcher.search

    def failing(queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        if queries[0].breadth is not None:
            raise OSError("the disk did not answer")
        return search(queries, pauses)

    desk.searcher.search = failing  # type: ignore[method-assign]
    desk.reads_ahead, desk.searcher.num_cold = True, 64
    desk.worker.start()
    desk.ask("the lock guards the data")
    desk.wait(1)
    assert list(desk.ended.values()) == ["handed over"]


@pytest.mark.parametrize(("reads_ahead", "num_cold"), [(False, 64), (True, 0)])
def test_a_search_is_in_one_where_nobody_reads_ahead_or_all_is_in_memory(desk: Desk, reads_ahead: bool, num_cold: int):
    desk.reads_ahead, desk.searcher.num_cold = reads_ahead, num_cold
    desk.worker.start()
    desk.ask("the lock guards the data")
    desk.wait(1)
    assert len(desk.searcher.batches) == 1


def test_questions_that_wait_are_searched_together(desk: Desk):
    desk.searcher.gate.clear()
    desk.worker.start()
    desk.ask("first question of all")
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    for number in range(5):
        desk.ask(f"later question {number}")
    desk.searcher.gate.set()
    desk.wait(6)
    assert [len(batch) for batch in desk.searcher.batches] == [1, 5]
    assert set(desk.ended.values()) == {"handed over"}


def test_a_batch_has_a_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "MAX_BATCH", 3)
    for number in range(7):
        desk.ask(f"question number {number}")
    desk.worker.start()
    desk.wait(7)
    assert [len(batch) for batch in desk.searcher.batches] == [3, 3, 1]


def test_one_broken_question_fails_alone(desk: Desk):
    for text in ("a good question", "a BROKEN question", "another good question"):
        desk.ask(text)
    desk.worker.start()
    desk.wait(3)
    assert desk.ended["a good question"] == desk.ended["another good question"] == "handed over"
    assert isinstance(desk.ended["a BROKEN question"], LibraryError)


def test_each_question_of_a_failed_batch_gets_the_searcher_in_force():
    closed, opened, calls = FakeSearcher(), FakeSearcher(), []
    opened.gate.set()

    def broken(queries: Sequence[Query]) -> list[SearchResult]:
        raise LibraryError("The library was closed.")

    closed.search = broken  # type: ignore[method-assign]

    def open_searcher() -> FakeSearcher:
        calls.append(1)
        if len(calls) == 3:
            raise EmbedderUnavailable("The embedding model is not installed.")
        return closed if len(calls) == 1 else opened

    desk = Desk(opened, open_searcher)
    for text in ("first of three", "second of three", "third of three"):
        desk.ask(text)
    desk.worker.start()
    desk.wait(3)
    desk.worker.stop()
    assert desk.ended["first of three"] == desk.ended["third of three"] == "handed over"
    assert isinstance(desk.ended["second of three"], EmbedderUnavailable)


@dataclass
class ConfinedSearcher(FakeSearcher):
    """Reads "only PDF files" out of every question; what it finds there and elsewhere is set."""

    there: str = "Nothing of the kind."
    elsewhere: str = "Nothing of the kind."
    is_named: bool = False

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        self.batches.append(list(queries))
        return [self._found(query) for query in queries]

    def _found(self, query: Query) -> SearchResult:
        is_confined = query.filters.reads_question
        told = ("only PDF files",) if is_confined else ()
        passages = (passage(self.there if is_confined else self.elsewhere),)
        is_good = "lock" in passages[0].text
        strength = Strength(0.8, 0.8) if is_good else Strength()
        surely = Place(query.collection, query.filters, told if self.is_named else ())
        return SearchResult(passages, Scope(1, 9, 1, recognised=told), strength, told, surely)


ANSWER = "The lock guards the data against threads."


WHERE_THE_ANSWER_IS = pytest.mark.parametrize(
    ("there", "elsewhere", "searches", "text", "told"),
    [
        (
            "Nothing of the kind.",
            ANSWER,
            2,
            ANSWER,
            "nothing was found with “only PDF files”, so it was searched without that",
        ),
        (ANSWER, "Nothing of the kind.", 1, ANSWER, "only PDF files"),
        ("Nothing there.", "Nothing elsewhere.", 2, "Nothing there.", "only PDF files"),
    ],
    ids=["answered elsewhere", "answered there", "answered nowhere"],
)


@WHERE_THE_ANSWER_IS
def test_a_search_gives_it_up_as_a_question_does(there: str, elsewhere: str, searches: int, text: str, told: str):
    searcher = ConfinedSearcher(there=there, elsewhere=elsewhere)
    desk = Desk(searcher)
    desk.worker.start()
    [evidence] = desk.worker.search(["What does the lock guard the data against?"], 3, "Rust", Filters())
    desk.worker.stop()
    assert (evidence.passages[0].text, evidence.scope.recognised) == (text, (told,))
    assert evidence.quotes == ()
    assert len(searcher.batches) == searches


@WHERE_THE_ANSWER_IS
def test_a_recognised_filter_that_hides_the_answer_is_given_up(
    there: str, elsewhere: str, searches: int, text: str, told: str
):
    searcher = ConfinedSearcher(there=there, elsewhere=elsewhere)
    desk = Desk(searcher)
    desk.ask("What does the lock guard the data against?", collection="Rust", top_k=3)
    desk.worker.start()
    desk.wait(1)
    desk.worker.stop()
    [(_, evidence)] = desk.handed
    assert (evidence.passages[0].text, evidence.scope.recognised) == (text, (told,))
    assert evidence.has_given_up is told.startswith("nothing was found")
    assert len(searcher.batches) == searches
    assert {(query.collection, query.limit) for batch in searcher.batches for query in batch} == {("Rust", 3)}


def test_a_type_beside_a_name_that_hides_the_answer_is_given_up_and_the_name_is_not():
    class NamingSearcher(ConfinedSearcher):
        def _found(self, query: Query) -> SearchResult:
            found = super()._found(query)
            surely = Place("Rust", replace(query.filters, paths=("/a.pdf",)), ("only “a.pdf”",))
            return replace(found, recognised=(*surely.recognised, *found.recognised), surely=surely)

    searcher = NamingSearcher(elsewhere=ANSWER)
    desk = Desk(searcher)
    desk.ask("What does the lock guard the data against?")
    desk.worker.start()
    desk.wait(1)
    desk.worker.stop()
    [(_, evidence)] = desk.handed
    assert evidence.passages[0].text == ANSWER
    assert evidence.scope.recognised == (
        "only “a.pdf”",
        "nothing was found with “only PDF files”, so it was searched without that",
    )
    [wider] = searcher.batches[-1]
    assert (wider.collection, wider.filters) == ("Rust", Filters(paths=("/a.pdf",), reads_question=False))


def test_a_question_that_names_a_file_is_answered_from_no_other():
    searcher = ConfinedSearcher(there="| Deposit | 900 euros |", elsewhere=ANSWER, is_named=True)
    desk = Desk(searcher)
    desk.ask("What does the lock guard the data against?")
    desk.worker.start()
    [found] = desk.worker.search(["What does the lock guard the data against?"], 3)
    desk.wait(1)
    desk.worker.stop()
    [(_, evidence)] = desk.handed
    assert evidence.passages == found.passages
    assert evidence.passages[0].text == "| Deposit | 900 euros |"
    assert evidence.scope.recognised == ("only PDF files",)
    assert len(searcher.batches) == 2


@pytest.mark.expects_warnings
@pytest.mark.parametrize("failure", [LibraryError("The index cannot be read."), OSError("the disk did not answer")])
def test_what_was_found_is_handed_over_where_it_cannot_be_searched_elsewhere(failure: Exception):
    class HalfBroken(ConfinedSearcher):
        def _found(self, query: Query) -> SearchResult:
            if not query.filters.reads_question:
                raise failure
            return super()._found(query)

    desk = Desk(HalfBroken())
    desk.ask("What does the lock guard the data against?")
    desk.worker.start()
    desk.wait(1)
    desk.worker.stop()
    [(_, evidence)] = desk.handed
    assert (evidence.passages[0].text, evidence.scope.recognised) == ("Nothing of the kind.", ("only PDF files",))


BEFORE = "Who pays for repairs?"
OWNER = replace(passage("The owner pays for repairs."), row_id="owner")


def transcript(*passages: Passage) -> tuple[dict[str, object], ...]:
    return transcript_of(Turn(BEFORE, tuple(map(EvidencePassage.of, passages)), "The owner [1]."))


def test_a_follow_up_is_searched_for_together_with_the_question_before_and_says_so(desk: Desk):
    desk.worker.start()
    desk.ask("And in case of fire?", transcript=transcript(OWNER), collection="House")
    desk.wait(1)
    [[query]] = desk.searcher.batches
    assert (query.text, query.together) == ("And in case of fire?", f"{BEFORE} in case of fire?")
    assert (query.collection, query.inherits, query.above) == ("House", True, ())
    [(_, evidence)] = desk.handed
    [found] = [event for event in desk.events if isinstance(event, PassagesFound)]
    assert evidence.scope.recognised == found.scope.recognised == ("together with the question before",)
    assert not evidence.has_given_up


def test_a_follow_up_that_points_to_the_answer_tells_the_questions_apart_from_it(desk: Desk):
    desk.worker.start()
    desk.ask("When does he pay for it?", transcript=transcript(OWNER))
    desk.wait(1)
    [[query]] = desk.searcher.batches
    asked = "when does he pay for it?"
    assert (query.together, query.questions) == (f"{BEFORE} the owner. {asked}", f"{BEFORE} {asked}")


def test_a_follow_up_is_read_for_together_with_the_question_before_where_its_own_words_find_no_answer(desk: Desk):
    desk.searcher.search = lambda queries, pauses=None: [  # type: ignore[method-assign]
        SearchResult((OWNER,), Scope(1, 9, 1), Strength(0.4, 0.4), follows=query.told) for query in queries
    ]
    desk.worker.start()
    desk.ask("And the cellar?", transcript=transcript())
    desk.ask("The cellar?")
    desk.wait(2)
    assert [[quote.text for quote in evidence.quotes] for _, evidence in desk.handed] == [[OWNER.text], []]


def test_a_follow_up_is_answered_from_elsewhere_where_its_own_words_find_no_answer_in_what_was_named_before():
    class Halfhearted(ConfinedSearcher):
        def _found(self, query: Query) -> SearchResult:
            found = super()._found(query)
            is_there = found.passages[0].text == self.there
            return replace(found, strength=Strength(0.4, 0.4)) if is_there else found

    # What is there answers the question before, but not this one.
    desk = Desk(Halfhearted(there=OWNER.text, elsewhere=ANSWER))
    desk.ask("And what does the lock guard?", transcript=transcript())
    desk.worker.start()
    desk.wait(1)
    desk.worker.stop()
    [(_, evidence)] = desk.handed
    assert evidence.passages[0].text == ANSWER


def test_what_works_on_the_answer_above_wants_its_passages(desk: Desk):
    desk.worker.start()
    desk.ask("Shorter, please", transcript=transcript(OWNER))
    desk.wait(1)
    assert desk.searcher.batches == [
        [Query(BEFORE, above=(OWNER,), told="as the question before", own="Shorter, please")]
    ]


def test_what_stands_above_is_handed_over_as_such(desk: Desk):
    desk.searcher.search = lambda queries, pauses=None: [  # type: ignore[method-assign]
        SearchResult((OWNER,), Scope(1, 1, 1), follows=ABOUT_THE_ANSWER if query.above else query.told)
        for query in queries
    ]
    desk.worker.start()
    for text in ("Shorter, please", "And in case of fire?", "Who wrote Faust?"):
        desk.ask(text, transcript=transcript(OWNER))
    desk.wait(3)
    assert [evidence.stands_above for _, evidence in desk.handed] == [True, False, False]


@pytest.mark.parametrize("priority", ["interactive", "batch"])
def test_what_was_searched_for_by_itself_is_read_for_by_itself(desk: Desk, priority: Priority):
    desk.searcher.search = lambda queries, pauses=None: [  # type: ignore[method-assign]
        SearchResult((OWNER,), Scope(1, 9, 1), Strength(0.4, 0.4), is_by_itself=bool(query.own)) for query in queries
    ]
    desk.ask("Shorter, please", transcript=transcript(OWNER), priority=priority)
    desk.ask(BEFORE, priority=priority)
    desk.worker.start()
    desk.wait(2)
    quoted = {question_id: [quote.text for quote in evidence.quotes] for question_id, evidence in desk.handed}
    assert quoted == {"Shorter, please": [], BEFORE: [OWNER.text]}


def test_questions_of_a_conversation_are_searched_for_by_their_words_alone_where_that_is_wanted(desk: Desk):
    literal = Filters(reads_question=False)
    desk.worker.start()
    desk.ask("And in case of fire?", transcript=transcript(OWNER), filters=literal)
    desk.wait(1)
    assert desk.searcher.batches == [[Query("And in case of fire?", filters=literal)]]


def test_the_first_stage_of_a_follow_up_is_about_the_same(desk: Desk):
    desk.reads_ahead, desk.searcher.num_cold = True, 64
    desk.worker.start()
    desk.ask("And in case of fire?", transcript=transcript(OWNER))
    desk.wait(1)
    [early], [whole] = desk.searcher.batches
    assert replace(early, breadth=None) == whole
    assert early.breadth is not None


def test_follow_ups_of_scripts_are_read_for_as_one_by_one(desk: Desk):
    for number in range(3):
        desk.ask(f"And in case of fire {number + 100}?", transcript=transcript(OWNER), priority="batch")
    desk.ask("How much?", transcript=transcript(OWNER), priority="batch")
    desk.worker.start()
    desk.wait(4)
    assert [len(batch) for batch in desk.searcher.batches] == [4]
    assert all(evidence.quotes for _, evidence in desk.handed)


def test_a_script_that_is_searched_for_elsewhere_lets_people_by():
    desk = Desk(ConfinedSearcher(elsewhere=ANSWER))
    search = desk.searcher.search

    def pausing(queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        if not queries[0].filters.reads_question and "rain is wet" not in desk.asked:
            desk.ask("rain is wet", filters=Filters(reads_question=False))
        if pauses is not None:
            pauses.let_by()
        return search(queries)

    desk.searcher.search = pausing  # type: ignore[method-assign]
    desk.ask("What does the lock guard the data against?", priority="batch")
    desk.worker.start()
    desk.wait(2)
    desk.worker.stop()
    [person, script] = desk.handed
    assert person[0] == "rain is wet"
    assert script[1].passages[0].text == ANSWER


def test_a_question_that_is_cancelled_while_it_is_searched_for_elsewhere_ends_as_cancelled():
    desk = Desk(ConfinedSearcher())
    search = desk.searcher.search

    def pausing(queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        if not queries[0].filters.reads_question:
            unwanted.cancelled.set()
        if pauses is not None:
            pauses.let_by()
        return search(queries)

    desk.searcher.search = pausing  # type: ignore[method-assign]
    unwanted = desk.ask("What does the lock guard the data against?")
    desk.worker.start()
    desk.wait(1)
    desk.worker.stop()
    assert list(desk.ended.values()) == ["cancelled"]
    assert len(desk.searcher.batches) == 1


def test_an_unexpected_failure_becomes_a_sentence(desk: Desk, caplog: pytest.LogCaptureFixture):
    desk.worker.start()
    with caplog.at_level("CRITICAL", "engine.retrieval.reported"):
        desk.ask("a BUG in us")
        desk.wait(1)
    failure = desk.ended["a BUG in us"]
    assert isinstance(failure, RagdollError)
    assert "ZeroDivisionError" in failure.sentence
    assert failure.way_out


def test_a_cancelled_question_ends_as_cancelled(desk: Desk):
    desk.searcher.gate.clear()
    before_search = desk.ask("cancelled while it waits")
    while_searching = desk.ask("cancelled while it is searched")
    before_search.cancelled.set()
    desk.worker.start()
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    while_searching.cancelled.set()
    desk.searcher.gate.set()
    desk.wait(2)
    assert set(desk.ended.values()) == {"cancelled"}
    assert desk.searcher.batches == [[Query("cancelled while it is searched")]]
    assert not any(isinstance(event, PassagesFound) for event in desk.events)


def test_what_cannot_be_opened_fails_every_question_and_is_tried_again():
    searcher, calls = FakeSearcher(), []
    searcher.gate.set()

    def open_searcher() -> FakeSearcher:
        calls.append(1)
        if len(calls) == 1:
            raise EmbedderUnavailable("The embedding model is not installed.")
        return searcher

    desk = Desk(searcher, open_searcher)
    desk.ask("first of two")
    desk.ask("second of two")
    desk.worker.start()
    desk.wait(2)
    assert all(isinstance(end, EmbedderUnavailable) for end in desk.ended.values())
    desk.ask("third, when it works")
    desk.wait(3)
    assert desk.ended["third, when it works"] == "handed over"
    desk.worker.stop()


def test_lookups_come_back_without_quotes(desk: Desk):
    desk.worker.start()
    found = desk.worker.search(["one thing", "another thing"], top_k=4, collection="Rust")
    assert [evidence.passages[0].text for evidence in found] == [
        "It is said that one thing.",
        "It is said that another thing.",
    ]
    assert all(evidence.quotes == () for evidence in found)
    assert desk.searcher.batches == [[Query("one thing", "Rust", 4), Query("another thing", "Rust", 4)]]
    assert desk.events == []


def test_questions_go_between_the_slices_of_a_long_lookup(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker_module, "MAX_BATCH", 2)
    desk.searcher.gate.clear()
    desk.worker.start()
    found: list[list[Evidence]] = []
    lookup = threading.Thread(target=lambda: found.append(desk.worker.search([f"text {n}" for n in range(6)], 4)))
    lookup.start()
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    desk.ask("a question in between")
    desk.searcher.gate.set()
    lookup.join(TIMEOUT)
    desk.wait(1)
    assert len(found[0]) == 6
    assert [len(batch) for batch in desk.searcher.batches] == [2, 1, 2, 2]


def test_somebody_who_comes_while_the_passages_of_scripts_are_read_is_next(desk: Desk):
    handed = desk._hand_over

    def hand_over(in_flight: QuestionInFlight, evidence: Evidence) -> None:
        handed(in_flight, evidence)
        if in_flight.question.question_id == "script 0":
            desk.ask("a person")

    desk.worker._hand_over = hand_over
    for number in range(3):
        desk.ask(f"script {number}", priority="batch")
    desk.worker.start()
    desk.wait(4)
    assert [question_id for question_id, _ in desk.handed] == ["script 0", "a person", "script 1", "script 2"]


class PausingSearcher(FakeSearcher):
    """Reads one partition after the other, and asks between two of them."""

    def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
        for number in range(3):
            self.between(number)
            try:
                if pauses is not None:
                    pauses.let_by()
            except SweepPaused:
                self.pauses.append(number)
                raise
        return super().search(queries)

    pauses: ClassVar[list[int]] = []
    between: Callable[[int], None] = staticmethod(lambda number: None)


def test_somebody_who_comes_while_partitions_are_read_for_a_script_is_next():
    searcher = PausingSearcher()
    searcher.gate.set()
    searcher.pauses.clear()
    desk = Desk(searcher)

    def between(number: int) -> None:
        if number == 1 and "a person" not in desk.asked:
            desk.ask("a person")

    searcher.between = between
    desk.ask("a script", priority="batch")
    desk.worker.start()
    desk.wait(2)
    assert [question_id for question_id, _ in desk.handed] == ["a person", "a script"]
    assert searcher.pauses == [1]
    desk.worker.stop()


@pytest.mark.parametrize("priority", ["interactive", "batch"])
def test_a_sweep_that_nobody_waits_for_any_more_ends_between_two_partitions(priority: str):
    searcher = PausingSearcher()
    searcher.gate.set()
    searcher.pauses.clear()
    desk = Desk(searcher)
    unwanted = [desk.ask(text, priority=priority) for text in ("cancelled first", "cancelled next")]

    def between(number: int) -> None:
        if not desk.ended and number < len(unwanted):
            unwanted[number].cancelled.set()

    searcher.between = between
    desk.worker.start()
    desk.wait(2)
    desk.ask("the next person")
    desk.wait(3)
    desk.worker.stop()
    assert desk.ended == {
        "cancelled first": "cancelled",
        "cancelled next": "cancelled",
        "the next person": "handed over",
    }
    # One of two that is cancelled stops nothing.
    assert searcher.pauses == [1]
    assert [query.text for batch in searcher.batches for query in batch] == ["the next person"]


@pytest.mark.expects_warnings
def test_a_search_that_the_disk_fails_goes_on_once():
    class FailingSearcher(FakeSearcher):
        num_failures = 1

        def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
            if self.num_failures:
                self.num_failures -= 1
                raise OSError("the disk did not answer")
            return super().search(queries)

    for num_failures, how in ((1, "handed over"), (2, None)):
        searcher = FailingSearcher()
        searcher.num_failures = num_failures
        searcher.gate.set()
        desk = Desk(searcher)
        desk.ask("a question")
        desk.worker.start()
        desk.wait(1)
        if how is None:
            assert isinstance(desk.ended["a question"], RagdollError)
        else:
            assert desk.ended["a question"] == how
        desk.worker.stop()


def test_what_scripts_ask_is_embedded_together_and_people_are_let_by():
    desk = Desk(FakeSearcher())
    desk.searcher.gate.set()
    handed_at: list[int] = []

    class Watching(HashEmbedder):
        def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
            handed_at.append(len(desk.handed))
            if "a person" not in desk.asked:
                desk.ask("a person")
            return super().embed_documents(texts, is_urgent=is_urgent)

    desk.searcher.embedder = Watching()
    for number in range(20):
        desk.ask(f"script {number}", priority="batch")
    desk.worker.start()
    desk.wait(21)
    # Sixteen sentences, then the person's, then those that are left; only then the first script's are handed over.
    assert handed_at == [0, 0, 1]
    assert [question_id for question_id, _ in desk.handed] == ["a person", *(f"script {n}" for n in range(20))]
    assert all(evidence.quotes[0].text == f"It is said that {id_}." for id_, evidence in desk.handed)
    desk.worker.stop()


def test_what_people_ask_is_read_one_by_one(desk: Desk):
    handed_at: list[int] = []
    embed = desk.searcher.embedder.embed_documents

    def watched(texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        handed_at.append(len(desk.handed))
        return embed(texts, is_urgent=is_urgent)

    desk.searcher.embedder.embed_documents = watched  # type: ignore[method-assign]
    for number in range(3):
        desk.ask(f"person {number}")
    desk.worker.start()
    desk.wait(3)
    assert handed_at == [0, 1, 2]


def test_an_embedder_that_fails_scripts_is_told_to_each_of_them(desk: Desk):
    def fail(texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        raise EmbedderUnavailable("The embedding model cannot be loaded.")

    desk.searcher.embedder.embed_documents = fail  # type: ignore[method-assign]
    for number in range(3):
        desk.ask(f"script {number}", priority="batch")
    desk.worker.start()
    desk.wait(3)
    assert all(isinstance(how, EmbedderUnavailable) for how in desk.ended.values())


def test_scripts_are_not_searched_far_ahead_of_their_answers(desk: Desk):
    for number in range(200):
        desk.ask(str(number), priority="batch")
    desk.worker.start()
    desk.wait(128)
    desk.ask("a person")
    desk.wait(129)
    assert len(desk.handed) == 129
    assert desk.handed[-1][0] == "a person"
    for number in range(100):
        desk.worker.note(AnswerCancelled(str(number)))
    desk.wait(201)


def test_a_failed_lookup_raises_where_it_was_asked(desk: Desk):
    desk.worker.start()
    with pytest.raises(LibraryError):
        desk.worker.search(["BROKEN"], 3)
    assert desk.worker.search([], 3) == []


def test_a_lookup_after_questions_is_served_in_turn(desk: Desk):
    desk.ask("a question before it")
    results: list[int] = []
    lookup = threading.Thread(target=lambda: results.append(len(desk.worker.search(["a lookup"], 3))))
    lookup.start()
    while len(desk.worker._waiting) < 2:
        threading.Event().wait(0.001)
    desk.worker.start()
    lookup.join(TIMEOUT)
    desk.wait(1)
    assert results == [1]


def test_warming_up_opens_the_searcher_before_the_first_question():
    opened = threading.Event()
    searcher = FakeSearcher()

    def open_searcher() -> FakeSearcher:
        opened.set()
        return searcher

    desk = Desk(searcher, open_searcher)
    desk.worker.start()
    desk.worker.warm_up()
    assert opened.wait(TIMEOUT)
    desk.worker.stop()
    assert searcher.is_loaded


def test_stopping_ends_all_that_waits(desk: Desk):
    desk.searcher.gate.clear()
    desk.worker.start()
    desk.ask("being searched now")
    assert desk.searcher.began.acquire(timeout=TIMEOUT)
    desk.ask("still waiting")
    failures: list[RagdollError] = []

    def look_up() -> None:
        try:
            desk.worker.search(["a lookup that waits"], 3)
        except RagdollError as error:
            failures.append(error)

    lookup = threading.Thread(target=look_up)
    lookup.start()
    while len(desk.worker._waiting) < 2:
        threading.Event().wait(0.001)
    stopping = threading.Thread(target=desk.worker.stop)
    stopping.start()
    while not desk.worker._waiting.is_closed:
        threading.Event().wait(0.001)
    desk.searcher.gate.set()
    for thread in (stopping, lookup):
        thread.join(TIMEOUT)
    assert desk.ended["still waiting"] == "cancelled"
    assert "being searched now" in desk.ended
    assert [error.sentence for error in failures] == ["Ragdoll is closing."]


def test_after_stopping_everything_is_turned_away(desk: Desk):
    desk.ask("never even started")
    desk.worker.stop()
    desk.worker.stop()
    desk.ask("too late")
    assert desk.ended == {"never even started": "cancelled", "too late": "cancelled"}
    with pytest.raises(RagdollError, match="closing"):
        desk.worker.search(["too late"], 3)


# --- rehearsals ---


def test_questions_of_nobody_are_timed_and_handed_to_nobody(desk: Desk):
    desk.worker.start()
    desk.searcher.gate.set()
    searched = desk.worker.rehearse(4, 0.0).result(TIMEOUT)
    assert searched is not None
    assert searched.num_batches == 1
    assert [len(batch) for batch in desk.searcher.batches] == [4]
    assert desk.handed == []
    assert desk.events == []


def test_each_batch_of_a_rehearsal_asks_what_was_not_asked_before(desk: Desk):
    desk.worker.start()
    desk.searcher.gate.set()
    searched = desk.worker.rehearse(2, 0.05).result(TIMEOUT)
    assert searched is not None
    texts = [query.text for batch in desk.searcher.batches for query in batch]
    assert len(set(texts)) == len(texts) == 2 * searched.num_batches


def test_a_question_ends_a_rehearsal(desk: Desk):
    desk.searcher.gate.clear()
    desk.worker.start()
    rehearsal = desk.worker.rehearse(1, 1000.0)
    desk.searcher.began.acquire()
    desk.ask("the lease ends in May")
    desk.searcher.gate.set()
    # It came in the middle of the first batch, so there is nothing to tell.
    assert rehearsal.result(TIMEOUT) is None
    desk.wait(1)


def test_a_library_in_which_nothing_is_found_has_nothing_to_time(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.worker.start()
    nothing = SearchResult((), Scope(0, 0, 0), Strength(0.0, 0.0))
    monkeypatch.setattr(desk.searcher, "search", lambda queries, pauses=None: [nothing for _ in queries])
    assert desk.worker.rehearse(1, 0.0).result(TIMEOUT) is None


def test_a_rehearsal_that_fails_tells_whoever_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.worker.start()

    def fail(queries: object, pauses: object = None) -> None:
        raise LibraryError("The index cannot be read.")

    monkeypatch.setattr(desk.searcher, "search", fail)
    with pytest.raises(LibraryError):
        desk.worker.rehearse(1, 0.0).result(TIMEOUT)


def test_after_the_end_nothing_is_rehearsed(desk: Desk):
    desk.worker.start()
    desk.searcher.gate.set()
    desk.worker.stop()
    assert desk.worker.rehearse(1, 0.0).result(TIMEOUT) is None


def test_while_questions_are_searched_for_steps_know_of_it():
    during: list[bool] = []
    cores = Cores(lambda: Sharing(in_turn=True))

    class Watching(FakeSearcher):
        def search(self, queries: Sequence[Query], pauses: Pauses | None = None) -> list[SearchResult]:
            during.append(cores.may_step())
            return super().search(queries, pauses)

    desk = Desk(Watching(), cores=cores)
    desk.searcher.gate.set()
    desk.worker.start()
    desk.ask("the lease ends in May")
    desk.wait(1)
    desk.worker.stop()
    assert during == [False]
    assert cores.may_step()


def test_somebody_who_comes_while_a_script_looks_something_up_is_next():
    searcher = PausingSearcher()
    searcher.gate.set()
    searcher.pauses.clear()
    desk = Desk(searcher)
    handed: list[list[str]] = []

    def between(number: int) -> None:
        if number == 1 and "a person" not in desk.asked:
            desk.ask("a person")

    searcher.between = between
    desk.worker.start()
    [found] = desk.worker.search(["looked up"], 5)
    handed.append([question_id for question_id, _ in desk.handed])
    assert handed == [["a person"]]
    assert found.passages[0].text == "It is said that looked up."
    assert searcher.pauses == [1]
    desk.worker.stop()
