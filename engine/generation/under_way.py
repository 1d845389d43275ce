"""Advances the questions that are being answered: hands them to the loop, and ends each exactly once.

Alongside them, guesses are read: prompts whose search is still running (reading_ahead.py) and, while the engine is
idle, passages that are likely to be needed (hot_passages.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date

from engine.core import Evidence, Passage, Priority, Question, SamplingParams
from engine.errors import GenerationError, RagdollError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, PromptMade, Publish
from engine.generation.answering import Answering
from engine.generation.commands import Expected, Task
from engine.generation.hot_passages import HotPassages
from engine.generation.loaded import LoadedModel
from engine.generation.prompt import Prompt, PromptStyle, Reordering, answer_reserve, as_it_stands, compose, order_along
from engine.generation.reading_ahead import Guess, ReadingAhead, is_ahead
from engine.generation.refreshes import EvidenceSource, Refreshes
from engine.generation.request import PromptRead, Request, StepEvent
from engine.generation.scheduler import RANKS
from engine.generation.segment import Segment
from engine.generation.shared_prefill import ReadingTrail
from engine.generation.time_slices import Targets
from engine.generation.trail import Trail
from engine.generation.transcript import documents_in_transcript, turns_of_transcript
from engine.generation.unfinished import going_on_with
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain

log = logging.getLogger(__name__)
KnownDocuments = Callable[[Collection[int]], Collection[int]]
# No other id begins like this.
_HOT_ID = "\0hot"
# How many flags of waiting questions are checked at each step: a thousand would take as long as sampling many tokens.
FLAGS_LOOKED_AT = 64


class UnderWay:
    """The questions of one model; on the generation thread.

    `num_moves` counts how often a question arrived, began or ended.
    """

    def __init__(
        self,
        known_documents: KnownDocuments,
        reorder_loss: Callable[[], float],
        publish: Publish,
        more_evidence: EvidenceSource | None = None,
        hot: HotPassages | None = None,
    ) -> None:
        self._known_documents, self._reorder_loss, self._publish = known_documents, reorder_loss, publish
        self._refreshes = Refreshes(more_evidence, known_documents)
        self._answering: dict[str, Answering] = {}
        self._ahead = ReadingAhead()
        self._hot = hot or HotPassages()
        self._reads_hot = False
        self._withdrawn: set[str] = set()
        self._stale: set[str] = set()
        self._closing: frozenset[str] = frozenset()
        self._unlooked: list[str] = []
        self._num_steps = 0
        self.num_moves = self._num_moves_known = 0
        self.is_stalled = False

    def __len__(self) -> int:
        return len(self._answering)

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to compute, for a question or ahead of one."""
        return self.is_asked or self._reads_hot

    @property
    def is_asked(self) -> bool:
        """The same without passages that are read only because they are hot (from any thread)."""
        return bool(self._answering) or self._ahead.is_busy

    @property
    def hot(self) -> HotPassages:
        """The passages that answers often use, which are remembered over a restart."""
        return self._hot

    def answers(self, question_id: str) -> bool:
        """Returns whether this question is being answered here."""
        return question_id in self._answering

    def waiting(self) -> Iterator[QuestionInFlight]:
        """Yields questions that have not begun, the most urgent first."""
        asked = [answering.in_flight for answering in self._answering.values() if not answering.has_begun]
        yield from sorted(asked, key=lambda in_flight: RANKS[in_flight.question.priority])

    def hand_in(self, in_flight: QuestionInFlight, evidence: Evidence, loaded: LoadedModel) -> None:
        """Starts answering a question; a later step reports how it ends.

        Raises:
            RagdollError: It cannot be answered, and is not under way.
        """
        question = in_flight.question
        self._part_from_former(question.question_id, loaded)
        guess = self._settled_guess(question, evidence.passages, loaded)
        prompt = guess.prompt if guess is not None else self._prompt(question, evidence.passages, loaded)
        speaker = loaded.speaker.told(question.sampling.thinks)
        answering = Answering(in_flight, evidence, prompt, speaker, self._publish)
        if guess is not None:
            answering.cached_ahead = guess.cached_tokens
        self._refreshes.begin(answering, loaded)
        # The last thing that can fail, so that the loop never holds a request that nobody waits for.
        if guess is None or guess.has_ended:
            loaded.loop.submit(answering.request)
        else:
            # Otherwise it would wait until the guess is read, and then compute its last token again: a pass over all
            # weights.
            self._ahead.hand_over(loaded.loop, answering.request)
        self._answering[question.question_id] = answering
        self.num_moves += 1
        self._publish(PromptMade(question.question_id, prompt.num_tokens))
        if prompt.begun is None and question.searches:
            self._hot.note(prompt, loaded.speaker)

    def _settled_guess(self, question: Question, passages: Sequence[Passage], loaded: LoadedModel) -> Guess | None:
        """Returns the guess for a question, if it has these passages or can continue with them; otherwise gives it up.

        It is also given up if earlier turns contain text of documents that were removed since it was read.
        """
        question_id, is_of_use = question.question_id, False
        guess = self._ahead.settle(question_id, passages)
        try:
            if guess is None and question_id in self._ahead.reading():
                prompt = self._prompt_ahead(question, passages, loaded)
                guess = self._ahead.amend(loaded.loop, question_id, passages, prompt)
            is_of_use = guess is not None and self._are_known(guess.prompt.documents)
        finally:
            # Also if the question cannot be answered.
            if not is_of_use:
                self._ahead.drop(loaded.loop, question_id)
        return guess if is_of_use else None

    def _part_from_former(self, question_id: str, loaded: LoadedModel) -> None:
        """Removes an earlier question with the same id that is still in the loop."""
        if question_id in self._withdrawn:
            self._withdrawn.discard(question_id)
            self._ahead.drop(loaded.loop, question_id)
            loaded.loop.cancel(question_id)
        self.tell(loaded)

    def expect(self, expected: Expected, loaded: LoadedModel) -> None:
        """Starts reading a question's prompt while its search is running, if no other question waits."""
        in_flight, question, passages = expected.in_flight, expected.in_flight.question, expected.passages
        if question.question_id in self._answering:
            # During a load, expectations are delayed, and the question itself may arrive before them.
            return
        # A guess that is already being read continues with what was found since.
        is_worth_it = question.question_id in self._ahead.reading() or loaded.reads_ahead(expected.left_seconds)
        if not is_worth_it or in_flight.cancelled.is_set() or any(self.waiting()):
            return
        if self._ahead.expects(question.question_id, passages):
            return
        # Passages that were removed since they were found must not be kept, and a guess is only for keeping.
        if self._are_known({passage.document_id for passage in passages}):
            prompt = self._prompt_ahead(question, passages, loaded)
            if self._ahead.amend(loaded.loop, question.question_id, passages, prompt) is not None:
                return
            if loaded.reads_ahead(expected.left_seconds):
                self._ahead.begin(loaded.loop, in_flight, passages, prompt)
            else:
                self._ahead.drop(loaded.loop, question.question_id)

    def found_again(self, found: FoundAgain, loaded: LoadedModel) -> None:
        """Takes in what was found for an answer, which may have ended by now."""
        self._refreshes.resume()
        self._refreshes.take(found, self._answering.get(found.question_id), loaded)

    def next_hot(self, loaded: LoadedModel) -> tuple[Segment, ...] | None:
        """Returns what to read before it is needed, if there is room for it on disk."""
        if loaded.peek is None or not loaded.has_disk_room:
            return None
        return self._hot.next(loaded.speaker, loaded.peek)

    def read_hot(self, beginning: tuple[Segment, ...], loaded: LoadedModel) -> None:
        """Submits a hot beginning to be read at idle priority, after all questions."""
        loaded.loop.submit(Request(_HOT_ID, beginning, SamplingParams(max_tokens=0, temperature=0.0), "idle"))
        self._reads_hot = True
        self._hot.tried()

    def end_turn(self, loaded: LoadedModel | None) -> None:
        """Ends background work, because another model computes until the next step."""
        self._refreshes.stand_still()
        if loaded is not None:
            self.give_up_unasked(loaded)

    def give_up_unasked(self, loaded: LoadedModel) -> None:
        """Stops reading ahead and reading hot passages."""
        for question_id in self._ahead.reading() - self._answering.keys():
            self._ahead.drop(loaded.loop, question_id)
        self.give_up_hot(loaded)

    def give_up_hot(self, loaded: LoadedModel) -> None:
        """Stops reading hot passages, which are offered again later."""
        if self._reads_hot:
            loaded.loop.cancel(_HOT_ID)
            self._hot.given_up()
            self._reads_hot = False

    def forget_removed(self) -> None:
        """Forgets hot passages of documents that have left the library.

        Prompts under way may contain their text, which is kept once they are read, so `has_kept_removed` tracks these.
        """
        counted = self._hot.documents()
        self._hot.forget(counted - frozenset(self._known_documents(counted)))
        self._stale |= self._ids()

    def has_kept_removed(self) -> bool:
        """Returns whether a prompt has ended since then, and may have kept text of a removed document."""
        if not self._stale:
            return False
        ended = self._stale - self._ids()
        self._stale -= ended
        return bool(ended)

    @property
    def has_followers(self) -> bool:
        """Whether any of them is for the chosen model, whichever that is."""
        return any(not answering.in_flight.question.model for answering in self._answering.values())

    @property
    def urgency(self) -> Priority | None:
        """The highest priority among them; None if there are none."""
        priorities = (answering.in_flight.question.priority for answering in self._answering.values())
        return min(priorities, key=RANKS.__getitem__, default=None)

    def dues(self, targets: Targets) -> list[float]:
        """Returns when each user's next token is due according to the promised latencies."""
        in_flight = (answering.in_flight for answering in self._answering.values())
        timelines = (one.timeline for one in in_flight if one.question.priority == "interactive")
        return [targets.due_at(one.marks["asked"], one.generated_tokens) for one in timelines]

    def withdraw(self, *, is_reloaded: bool = False) -> list[Task]:
        """Returns the chosen model's questions without visible text for another model, and forgets them.

        If the same model is loaded again, questions that name it are returned as well. They have not ended; the loop
        drops them with the next `cancel_unwanted`.
        """
        unseen = [
            answering
            for answering in self._answering.values()
            if not answering.has_text and (is_reloaded or not answering.in_flight.question.model)
        ]
        for answering in unseen:
            del self._answering[answering.question_id]
            self._refreshes.end(answering.question_id)
            self._withdrawn.add(answering.question_id)
        self.num_moves += len(unseen)
        return [Task(answering.in_flight, answering.evidence) for answering in unseen]

    def cancel_unwanted(self, loaded: LoadedModel) -> None:
        """Cancels questions whose flag is set, and those that were withdrawn.

        If hundreds wait, their flags are seen within a few steps; questions that have cells end at once.
        """
        while self._withdrawn:
            question_id = self._withdrawn.pop()
            self._ahead.drop(loaded.loop, question_id)
            loaded.loop.cancel(question_id)
        for question_id in self._looked_at(loaded):
            answering = self._answering.get(question_id)
            if answering is not None and answering.in_flight.cancelled.is_set():
                loaded.loop.cancel(question_id)
        for question_id in self._ahead.cancelled():
            self._ahead.drop(loaded.loop, question_id)
            self._end_reading(question_id, loaded)

    def end_cancelled(self, loaded: LoadedModel) -> None:
        """Reports cancelled questions while no step runs; `cancel_unwanted` removes them from the loop later."""
        for answering in list(self._answering.values()):
            if not answering.in_flight.cancelled.is_set():
                continue
            self._withdrawn.add(answering.question_id)
            try:
                end: AnswerEnded = answering.cancelled(loaded.loop.answers_of(answering.question_id))
            except Exception as error:  # noqa: BLE001 - in the middle of a load, which it does not concern
                end = AnswerFailed(answering.question_id, reported_as(error))
            self._end(end)

    def _looked_at(self, loaded: LoadedModel) -> set[str]:
        """Returns the questions whose flags are checked in this step: all that have cells, and some of the others."""
        if not self._unlooked:
            self._unlooked = list(self._answering)
        some, self._unlooked = self._unlooked[:FLAGS_LOOKED_AT], self._unlooked[FLAGS_LOOKED_AT:]
        return {*loaded.loop.running, *some}

    def step(self, loaded: LoadedModel) -> None:
        """Runs one step of the loop, and reports its events. Raises whatever the loop raises."""
        self._refreshes.resume()
        if self._refreshes.holds_up(self._answering):
            self.is_stalled = True
            return
        self._reorder(loaded)
        since = time.perf_counter()
        events = loaded.loop.step()
        self._take_in(events, loaded, time.perf_counter() - since)
        self.is_stalled = not events and loaded.loop.num_steps == self._num_steps
        self._num_steps = loaded.loop.num_steps

    def _reorder(self, loaded: LoadedModel) -> None:
        """Reorders the passages of the next questions along what has been read, or is being read, since."""
        if self._num_moves_known == self.num_moves:
            return
        self._num_moves_known = self.num_moves
        if loaded.trail is None:
            return
        before = list[tuple[Segment, ...]]()
        for question_id in loaded.loop.next_up:
            answering = self._answering.get(question_id)
            if answering is None or answering.cached_ahead is not None:
                continue
            trail = ReadingTrail(loaded.trail, (*loaded.loop.being_read(question_id), *before))
            try:
                self._order_along(answering, self._reordering(trail), loaded)
            except Exception:
                # Other questions are not affected, and this one can be read in its present order.
                log.exception("the passages of a question could not be reordered")
            before.append(self._answering[question_id].prompt.segments)

    def _order_along(self, answering: Answering, reordering: Reordering, loaded: LoadedModel) -> None:
        question, evidence, prompt = answering.in_flight.question, answering.evidence, answering.prompt
        order = order_along(prompt, evidence.passages, loaded.speaker, reordering)
        if order == prompt.order:
            return
        other = self._prompt(question, evidence.passages, loaded, reordering)
        if other.order != order:
            # In that order it would not fit.
            return
        speaker = loaded.speaker.told(question.sampling.thinks)
        renewed = Answering(answering.in_flight, evidence, other, speaker, self._publish)
        self._refreshes.begin(renewed, loaded)
        if loaded.loop.replace(renewed.request):
            self._answering[question.question_id] = renewed

    def tell(self, loaded: LoadedModel) -> None:
        """Reports events without a step, such as cancels while another model computes."""
        if events := loaded.loop.take_events():
            self._take_in(events, loaded, 0.0)

    def _take_in(self, events: Sequence[StepEvent], loaded: LoadedModel, seconds: float) -> None:
        for request_id in loaded.loop.running:
            answering = self._answering.get(request_id)
            if answering is not None and not answering.has_begun:
                answering.begin()
                self.num_moves += 1
        for event in events:
            if event.request_id == _HOT_ID:
                self._reads_hot = isinstance(event, PromptRead)
            elif is_ahead(event):
                self._note_ahead(event, loaded)
            else:
                self._tell(event)
        self._refreshes.go_on(events, self._answering, loaded, seconds)
        self._closing = loaded.loop.closing

    def fail_all(self, error: Exception, loaded: LoadedModel | None) -> None:
        """Fails all questions, because the loop is broken; `loaded` is the model, if it is still loaded."""
        reported = reported_as(error)
        for question_id in list(self._answering):
            self._end(AnswerFailed(question_id, reported))
        self.forget_ahead(loaded)

    def forget_ahead(self, loaded: LoadedModel | None) -> None:
        """Forgets what was read ahead, because the loop is closed; `loaded` is None if that has happened already."""
        self._ahead.clear()
        if loaded is not None:
            self._hot.clear(loaded.speaker.fingerprint)
        self._withdrawn.clear()
        self._closing = frozenset()
        self._reads_hot = False

    def _ids(self) -> set[str]:
        """Returns the ids of all prompts in the loop, including ended ones that are still to be kept."""
        hot = [_HOT_ID] if self._reads_hot else []
        # Withdrawn questions leave the loop only with the next step.
        return {*self._answering, *self._withdrawn, *self._ahead.reading(), *self._closing, *hot}

    def _are_known(self, documents: Collection[int]) -> bool:
        return set(documents) <= set(self._known_documents(documents))

    def _prompt(
        self,
        question: Question,
        passages: Sequence[Passage],
        loaded: LoadedModel,
        reordering: Reordering | None = None,
    ) -> Prompt:
        """Makes the prompt of a question, with passages reordered as given, or along kept KV."""
        sampling = question.sampling
        speaker = loaded.speaker.told(sampling.thinks)
        if question.is_raw:
            return as_it_stands(question.text, speaker, answer_reserve(sampling.max_tokens, speaker.context_tokens))
        most_tokens = sampling.max_tokens + (sampling.max_thought_tokens if speaker.thinks else 0)
        reserve_tokens = answer_reserve(most_tokens, speaker.context_tokens)
        if question.unfinished is not None:
            return going_on_with(
                question.unfinished, question, self._known_documents, speaker, reserve_tokens, date.today()
            )
        if reordering is None and loaded.trail is not None:
            reordering = self._reordering(loaded.trail)
        known = self._known_documents(documents_in_transcript(question.transcript))
        return compose(
            question.text,
            passages,
            turns_of_transcript(question.transcript, known),
            speaker,
            reserve_tokens,
            reordering,
            PromptStyle(question.instructions.strip(), question.searches, question.is_verbatim, date.today()),
        )

    def _prompt_ahead(self, question: Question, passages: Sequence[Passage], loaded: LoadedModel) -> Prompt:
        """Makes the prompt along kept KV, or along what has been read ahead, whichever leaves less to read."""
        prompt = self._prompt(question, passages, loaded)
        ahead = self._ahead.read_so_far(loaded.loop, question.question_id)
        if not ahead.num_tokens or loaded.trail is None:
            return prompt
        following = self._prompt(question, passages, loaded, self._reordering(ahead.along(loaded.trail)))
        peek = loaded.keeper.peek

        def there(prompt: Prompt) -> int:
            return max(peek(prompt.segments), ahead.shared_tokens(prompt.segments))

        return max(prompt, following, key=there)

    def _reordering(self, trail: Trail) -> Reordering:
        return Reordering(trail, self._reorder_loss(), self._hot.uses)

    def _note_ahead(self, event: StepEvent, loaded: LoadedModel) -> None:
        question_id = self._ahead.take(event)
        if question_id is not None:
            self._end_reading(question_id, loaded)

    def _end_reading(self, question_id: str, loaded: LoadedModel) -> None:
        """Submits a question that waited for its own prompt to be read ahead."""
        answering = self._answering.get(question_id)
        if answering is not None and answering.in_flight.cancelled.is_set():
            self._end(AnswerCancelled(question_id))
        elif answering is not None:
            guess = self._ahead.settle(question_id, answering.evidence.passages)
            answering.cached_ahead = guess.cached_tokens if guess is not None else None
            loaded.loop.submit(answering.request)

    def _tell(self, event: StepEvent) -> None:
        answering = self._answering.get(event.request_id)
        if answering is None:
            # It was withdrawn.
            return
        # A short prompt may begin and be read within one step.
        self.num_moves += isinstance(event, PromptRead)
        try:
            end = answering.take(event)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the question
            end = AnswerFailed(event.request_id, reported_as(error))
            # The loop may still compute it, which is useless.
            self._withdrawn.add(event.request_id)
        if end is not None:
            self._end(end)

    def _end(self, end: AnswerEnded) -> None:
        # Removed before the end is published, because the caller could then use the same id again.
        del self._answering[end.question_id]
        self.num_moves += 1
        self._refreshes.end(end.question_id)
        self._publish(end)


def reported_as(error: Exception) -> RagdollError:
    """Returns the error to report to the user; an unexpected one is logged."""
    if isinstance(error, RagdollError):
        return error
    log.error("answering failed", exc_info=error)
    return GenerationError(f"Writing the answer failed unexpectedly: {error}.", "Ask again.")
