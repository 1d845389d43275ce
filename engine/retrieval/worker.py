"""The retrieval thread: takes all waiting questions as one batch, and hands on each as soon as it is ready.

While the writer is busy with one question, the next ones are searched here; those of users first, also where the
passages of scripts' questions are just being read (waiting_room.py). Every question that comes in goes out exactly
once: handed over, cancelled, or failed. Answers that are being written get more to go on from by a thread beside it
(look_thread.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from engine.core import Evidence, Filters, Passage, Quote
from engine.cores import Cores
from engine.errors import RagdollError
from engine.events import AnswerStateChanged, Event, PassagesFound, Publish
from engine.inflight import QuestionInFlight
from engine.interruptible import result_of
from engine.looking_again import LookAgain, TellFound
from engine.partitions.sweep import SweepForsaken, SweepPaused
from engine.retrieval.batching import MAX_BATCH
from engine.retrieval.breadth import LookCosts, first_stage
from engine.retrieval.confining import searched_without
from engine.retrieval.cost import CostModel
from engine.retrieval.followups import subject_of
from engine.retrieval.look_thread import LookThread
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import ANYWHERE, Query, SearchResult
from engine.retrieval.reader import Candidate, Reader
from engine.retrieval.rehearsal import Searched, rehearsed
from engine.retrieval.reported import reported
from engine.retrieval.search import Searcher
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.waiting_room import WaitingRoom
from engine.yielding import at_most_threads

log = logging.getLogger(__name__)

HandOver = Callable[[QuestionInFlight, Evidence], None]
Expect = Callable[[QuestionInFlight, Sequence[Passage], float], None]
Cancelled = Callable[[QuestionInFlight], None]
Failed = Callable[[QuestionInFlight, RagdollError], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """Queries of a search page or a script, which want passages only."""

    queries: Sequence[Query]
    results: Future[list[SearchResult]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, eq=False)
class _Rehearse:
    """Artificial questions to be searched for and timed, by at most `scan_threads` threads, if no question is open."""

    num_questions: int
    least_seconds: float
    scan_threads: int | None
    reply: Future[Searched | None] = field(default_factory=Future)


class _WarmUp:
    """A request to load everything now, so that the first question does not have to wait for it."""


class RetrievalWorker:
    """One thread and its queue; opens the searcher when the first question comes."""

    def __init__(
        self,
        open_searcher: Callable[[], Searcher],
        hand_over: HandOver,
        publish: Publish,
        on_cancelled: Cancelled,
        on_failed: Failed,
        sentence_vectors: SentenceVectors,
        lookup_size: Callable[[], int] = lambda: MAX_BATCH,
        expect: Expect = lambda in_flight, passages, left_seconds: None,
        reads_ahead: Callable[[str, float], bool] = lambda model, left_seconds: False,
        look_costs: LookCosts | None = None,
        found_again: TellFound = lambda found: None,
        cores: Cores | None = None,
    ) -> None:
        """Prepares the thread.

        Args:
            open_searcher: Returns the current searcher, loading libraries the first time; called once per batch, and
                again for each question of a failed batch; also on the thread of the looks.
            hand_over: Takes a question with its evidence to the thread that writes the answer.
            publish: Where events go.
            on_cancelled: Ends a question that was cancelled while it was here.
            on_failed: Ends a question that could not be searched.
            sentence_vectors: What the reader has embedded before; closed with the worker.
            lookup_size: How many texts of a long lookup to search at once.
            expect: Receives the passages that a question will probably be handed over with, before they are read, and
                for how many seconds the search will continue.
            reads_ahead: Whether `expect` makes use of them for questions to a model so long before the end, so that a
                search should run in stages.
            look_costs: Learns what looks take.
            found_again: Receives what each look found.
            cores: What searches share with steps of the model.
        """
        self._cores = cores or Cores()
        self._open_searcher, self._hand_over, self._publish = open_searcher, hand_over, publish
        self._on_cancelled, self._on_failed = on_cancelled, on_failed
        self._sentence_vectors, self._lookup_size = sentence_vectors, lookup_size
        self._expect, self._reads_ahead = expect, reads_ahead
        self._costs = look_costs or LookCosts(CostModel().predict)
        # Whether a user at the window waits for the search that is under way.
        self._do_people_wait = False
        self._looks = LookThread(
            open_searcher, self._costs, found_again, lambda: self._do_people_wait or self._waiting.has_people
        )
        self._waiting: WaitingRoom[_Lookup | _WarmUp | _Rehearse] = WaitingRoom(lambda: MAX_BATCH)
        self._thread = threading.Thread(target=self._run, name="retrieval", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, in_flight: QuestionInFlight) -> None:
        """Queues a question; it is handed over, cancelled or failed."""
        self._publish(AnswerStateChanged(in_flight.question.question_id, "queued", self._waiting.num_before(in_flight)))
        if not self._waiting.put(in_flight):
            self._on_cancelled(in_flight)

    def look_again(self, look: LookAgain) -> None:
        """Queues a look; `found_again` receives the result, unless its answer has ended before."""
        self._looks.put(look)

    def search(
        self, texts: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        """Passages for each text, without quotes. Waits; questions go in between when there are many texts.

        Raises:
            RagdollError: The search failed, or the engine is closing.
        """
        found: list[Evidence] = []
        while len(found) < len(texts):
            some = texts[len(found) : len(found) + self._lookup_size()]
            lookup = _Lookup([Query(text, collection, top_k, filters) for text in some])
            if not self._waiting.put(lookup):
                raise _closing()
            found += [Evidence(result.passages, (), result.scope) for result in result_of(lookup.results)]
        return found

    def rehearse(
        self, num_questions: int, least_seconds: float, scan_threads: int | None = None
    ) -> Future[Searched | None]:
        """Searches for artificial questions and times that, unless a question comes; None if nothing was timed.

        Args:
            num_questions: Searched for together.
            least_seconds: For how long this is done again and again.
            scan_threads: How many threads may scan; None for all.
        """
        wish = _Rehearse(num_questions, least_seconds, scan_threads)
        if not self._waiting.put(wish):
            wish.reply.set_result(None)
        return wish.reply

    def warm_up(self) -> None:
        """Loads the libraries and the embedder in the background; a failure is reported to the first question."""
        self._waiting.put(_WarmUp())

    def note(self, event: Event) -> None:
        """Receives the ends of questions: only some of scripts' questions are searched ahead of their answers."""
        self._waiting.note(event)

    def stop(self) -> None:
        """Ends the thread after the batch it is at; what still waits is cancelled. A second call does nothing."""
        self._waiting.close()
        self._looks.stop()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._turn_away()
        self._sentence_vectors.close()

    def _run(self) -> None:
        while (item := self._waiting.take()) is not None:
            if isinstance(item, _WarmUp):
                self._load()
            elif isinstance(item, _Lookup):
                self._look_up(item)
            elif isinstance(item, _Rehearse):
                self._rehearse(item)
            else:
                with self._cores.searching():
                    self._answer(item)
        self._turn_away()

    def _load(self) -> None:
        try:
            self._open_searcher().load()
        except Exception as error:  # noqa: BLE001 - the edge of the thread; the first question is told
            log.info("warming up failed: %s", error)

    def _rehearse(self, wish: _Rehearse) -> None:
        if not wish.reply.set_running_or_notify_cancel():
            return
        try:
            with at_most_threads(wish.scan_threads):
                searched = rehearsed(
                    self._open_searcher(), wish.num_questions, wish.least_seconds, lambda: not len(self._waiting)
                )
            wish.reply.set_result(searched)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the waiting caller
            wish.reply.set_exception(reported(error))

    def _look_up(self, lookup: _Lookup) -> None:
        try:
            searcher = self._open_searcher()
            found = zip(lookup.queries, self._looked_up(searcher, lookup.queries), strict=True)
            # Reading what was found is only worthwhile if words of the question may have been misread as filters.
            lookup.results.set_result(
                [self._widened(searcher, *one) if one[1].is_doubtful else one[1] for one in found]
            )
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the waiting caller
            lookup.results.set_exception(reported(error))

    def _looked_up(self, searcher: Searcher, queries: Sequence[Query]) -> list[SearchResult]:
        """Searches for a page of results; questions from the window go first."""
        pauses = Pauses(lambda: self._waiting.has_people)
        while True:
            try:
                return searcher.search(queries, pauses)
            except SweepPaused:
                with self._cores.searching():
                    self._answer_people()

    def _widened(self, searcher: Searcher, query: Query, result: SearchResult) -> SearchResult:
        """The result of a search without the question's filters, if the filtered passages do not answer it."""
        try:
            return self._quoted(searcher, query, result, partial(self._looked_up, searcher))[0]
        except Exception as error:  # noqa: BLE001 - the edge of the thread; what was found is found
            log.info("what was found could not be read: %s", reported(error))
            return result

    def _answer(self, batch: Sequence[QuestionInFlight]) -> None:
        batch = self._live(batch)
        for in_flight in batch:
            in_flight.timeline.mark("retrieval_started")
            self._publish(AnswerStateChanged(in_flight.question.question_id, "searching"))
        try:
            searcher = self._open_searcher() if batch else None
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to each question
            self._fail(batch, error)
            return
        if searcher is not None:
            found = self._searched(searcher, batch)
            listed = self._embedded_ahead(found)
            for one, in_flight, result in found:
                self._let_people_by(in_flight)
                self._read(one, in_flight, result, listed.get(in_flight.question.question_id))

    def _let_people_by(self, in_flight: QuestionInFlight) -> None:
        """Answers users' questions before the next one of a script, whose batch takes a while to read."""
        if in_flight.question.priority != "interactive":
            self._answer_people()

    def _answer_people(self) -> None:
        while people := self._waiting.take_people():
            self._answer(people)

    def _searched(
        self, searcher: Searcher, batch: Sequence[QuestionInFlight]
    ) -> list[tuple[Searcher, QuestionInFlight, SearchResult]]:
        """The results of the searches that succeeded; if the batch fails, each question is tried alone."""
        try:
            self._expect_early(searcher, batch)
            results = self._swept(searcher, batch, [_query(in_flight) for in_flight in batch])
        except SweepPaused:
            self._live(batch)
            return []
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to each question
            if len(batch) > 1:
                return [found for in_flight in batch for found in self._searched_alone(in_flight)]
            self._fail(batch, error)
            return []
        return [(searcher, in_flight, result) for in_flight, result in zip(batch, results, strict=True)]

    def _swept(
        self, searcher: Searcher, batch: Sequence[QuestionInFlight], queries: Sequence[Query]
    ) -> list[SearchResult]:
        """Searches for a batch; scripts' searches pause for users, and continue with the unread partitions.

        Raises:
            SweepForsaken: All of them were cancelled.
        """
        is_for_people = any(in_flight.question.priority == "interactive" for in_flight in batch)

        def should_pause() -> bool:
            if _is_forsaken(batch):
                raise SweepForsaken
            return not is_for_people and self._waiting.has_people

        pauses, has_failed = Pauses(should_pause), False
        while True:
            try:
                self._do_people_wait = is_for_people
                return searcher.search(queries, pauses)
            except SweepForsaken:
                raise
            except SweepPaused:
                self._let_people_by(batch[0])
            except OSError as error:
                if has_failed:
                    raise
                has_failed = True
                log.warning("a search goes on after an error: %s", error)
            finally:
                self._do_people_wait = False

    def _expect_early(self, searcher: Searcher, batch: Sequence[QuestionInFlight]) -> None:
        """For a question by itself, passes on what a search of memory alone finds, before the whole search."""
        stage = first_stage(searcher.breadths(), self._costs.predict) if len(batch) == 1 else None
        if stage is None:
            return
        left_seconds = self._costs.predict(searcher.breadths()[-1])
        if self._reads_ahead(batch[0].question.model, left_seconds):
            try:
                [result] = self._swept(searcher, batch, [replace(_query(batch[0]), breadth=stage)])
            except SweepPaused:
                raise
            except Exception as error:  # noqa: BLE001 - the whole search is still to come
                log.info("nothing could be told early: %s", reported(error))
            else:
                self._expect(batch[0], result.passages, left_seconds)

    def _searched_alone(self, in_flight: QuestionInFlight) -> list[tuple[Searcher, QuestionInFlight, SearchResult]]:
        """Searches with a new searcher: the one that failed may be that of a library that was closed meanwhile."""
        try:
            searcher = self._open_searcher()
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to the question
            self._fail([in_flight], error)
            return []
        return self._searched(searcher, [in_flight])

    def _embedded_ahead(
        self, found: Sequence[tuple[Searcher, QuestionInFlight, SearchResult]]
    ) -> dict[str, list[Candidate]]:
        """The sentences worth reading by question, embedded together for a batch of scripts.

        For users each question is read separately: otherwise the first would wait for the sentences of all.
        """
        if len(found) < 2 or found[0][1].question.priority == "interactive":
            return {}
        reader = Reader(found[0][0].embedder, self._sentence_vectors)
        try:
            listed = [
                (in_flight, text := _query(in_flight, result).text, reader.listed(text, result.passages))
                for _, in_flight, result in found
                if not in_flight.cancelled.is_set()
            ]
            for _ in reader.embedded_ahead([(text, some) for _, text, some in listed]):
                self._let_people_by(found[0][1])
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to each question that is read
            log.info("nothing could be embedded ahead: %s", reported(error))
            return {}
        return {in_flight.question.question_id: some for in_flight, _, some in listed}

    def _read(
        self,
        searcher: Searcher,
        in_flight: QuestionInFlight,
        result: SearchResult,
        listed: Sequence[Candidate] | None = None,
    ) -> None:
        if not self._live([in_flight]):
            return
        question = in_flight.question
        self._publish(AnswerStateChanged(question.question_id, "reading"))
        self._expect(in_flight, result.passages, 0.0)
        try:
            search = partial(self._swept, searcher, [in_flight])
            result, quotes = self._quoted(searcher, _query(in_flight, result), result, search, listed)
        except SweepPaused:
            self._live([in_flight])
            return
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to the question
            self._fail([in_flight], error)
            return
        in_flight.timeline.mark("retrieval_ended")
        self._publish(PassagesFound(question.question_id, result.passages, quotes, result.told))
        evidence = Evidence(result.passages, quotes, result.told, result.has_given_up, result.stands_above)
        self._hand_over(in_flight, evidence)

    def _quoted(
        self,
        searcher: Searcher,
        query: Query,
        result: SearchResult,
        search: Callable[[Sequence[Query]], list[SearchResult]],
        listed: Sequence[Candidate] | None = None,
    ) -> tuple[SearchResult, tuple[Quote, ...]]:
        """The quotes; if the passages within the question's filters do not answer it, but those outside do, from those.

        Where neither answers ("Summarise the PDFs" has no one sentence that does), the words are believed. So are those
        that name a file, of which tables answer as well, and all where `search`, which looks elsewhere, fails.
        """
        reader = Reader(searcher.embedder, self._sentence_vectors)
        quotes = reader.read(query.text, result.passages, result.strength, listed)
        if not quotes and result.is_doubtful and (elsewhere := self._elsewhere(reader, query, result, search)):
            return elsewhere
        if not quotes and query.together:
            # A follow-up alone may say too little for a sentence to answer it.
            quotes = reader.read(query.together, result.passages, result.strength)
        return result, quotes

    def _elsewhere(
        self,
        reader: Reader,
        query: Query,
        result: SearchResult,
        search: Callable[[Sequence[Query]], list[SearchResult]],
    ) -> tuple[SearchResult, tuple[Quote, ...]] | None:
        """The result without filters that may have been misread, if that answers the question; otherwise None."""
        try:
            filters = replace(result.surely.filters, reads_question=False)
            [wider] = search([replace(query, collection=result.surely.collection, filters=filters)])
            wider_quotes = reader.read(query.text, wider.passages, wider.strength)
        except SweepPaused:
            raise
        except Exception as error:  # noqa: BLE001 - what was found is found
            log.info("it could not be searched elsewhere: %s", reported(error))
            return None
        if not wider_quotes:
            return None
        names = result.surely.recognised
        told = (*names, searched_without(result.doubtful))
        scope = replace(wider.scope, recognised=told)
        return replace(wider, scope=scope, recognised=names, surely=result.surely), wider_quotes

    def _live(self, batch: Sequence[QuestionInFlight]) -> list[QuestionInFlight]:
        """The questions that are not cancelled; the others end here."""
        live = []
        for in_flight in batch:
            # Read once: the flag may be set at any moment.
            if in_flight.cancelled.is_set():
                self._on_cancelled(in_flight)
            else:
                live.append(in_flight)
        return live

    def _fail(self, batch: Sequence[QuestionInFlight], error: Exception) -> None:
        for in_flight in batch:
            self._on_failed(in_flight, reported(error))

    def _turn_away(self) -> None:
        """Ends everything that waits when the worker closes."""
        for item in self._waiting.drain():
            if isinstance(item, QuestionInFlight):
                self._on_cancelled(item)
            elif isinstance(item, _Lookup):
                item.results.set_exception(_closing())
            elif isinstance(item, _Rehearse):
                item.reply.cancel()


def _query(in_flight: QuestionInFlight, result: SearchResult | None = None) -> Query:
    """The query of a question, or that of its result."""
    question, subject = in_flight.question, subject_of(in_flight.question)
    query = Query(
        subject.text,
        question.collection,
        question.top_k,
        question.filters,
        together=subject.together,
        inherits=subject.inherits,
        above=subject.above,
        told=subject.told,
        own=subject.own,
        questions=subject.questions,
    )
    return query.by_itself if result is not None and result.is_by_itself else query


def _is_forsaken(batch: Sequence[QuestionInFlight]) -> bool:
    return all(in_flight.cancelled.is_set() for in_flight in batch)


def _closing() -> RagdollError:
    return RagdollError("Ragdoll is closing.")
