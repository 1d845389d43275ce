"""Refreshes: running answers are searched for again, and go on from what that finds.

A search goes out as a value and comes back as a command, between two steps; the loop never waits for it (unless a
benchmark makes it wait, to see what that would cost). Answers that end meanwhile end as they would have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from engine.core import Passage
from engine.errors import RagdollError
from engine.generation.answering import Answering
from engine.generation.continuation import addition, can_go_on
from engine.generation.decode_profile import DecodeProfile
from engine.generation.evidence import EvidencePassage
from engine.generation.loaded import LoadedModel
from engine.generation.refresh_policy import RefreshPolicy, suits
from engine.generation.refreshing import MAX_ADDED_TOKENS, Costs, Fresh, Refreshing, Window
from engine.generation.request import StepEvent, TextWritten
from engine.looking_again import FoundAgain, LookAgain

log = logging.getLogger(__name__)
# The length of a passage where the question has none to go by; and of the markup and the sentence around new ones.
_GUESSED_PASSAGE_TOKENS, _AROUND_TOKENS = 256, 64


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """Where more passages come from: `look` starts a search, `expected_seconds` is what it will take.

    `policy` is called for each question; None where answers are not refreshed.
    """

    policy: Callable[[], RefreshPolicy | None]
    look: Callable[[LookAgain], None]
    expected_seconds: Callable[[], float]


class Refreshes:
    """The refreshes of all answers under way; on the generation thread."""

    def __init__(
        self,
        source: EvidenceSource | None,
        known_documents: Callable[[Collection[int]], Collection[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._known_documents, self._clock = source, known_documents, clock
        self._profile = DecodeProfile()
        self._num_writing = 1
        self._numbers = count(1)
        self._policies: dict[str, RefreshPolicy] = {}
        self._looks: dict[str, int] = {}
        # Time in which another model has its turn does not count for these answers.
        self._left_at: float | None = None
        self._away_s = 0.0

    def stand_still(self) -> None:
        """Another model has its turn: no time passes for these answers until `resume`."""
        self._left_at = self._clock() if self._left_at is None else self._left_at

    def resume(self) -> None:
        """It is this model's turn. Harmless if it was already."""
        if self._left_at is not None:
            self._away_s, self._left_at = self._away_s + self._clock() - self._left_at, None

    @property
    def _now(self) -> float:
        """Seconds of a clock that runs while it is this model's turn."""
        return (self._clock() if self._left_at is None else self._left_at) - self._away_s

    def begin(self, answering: Answering, loaded: LoadedModel) -> None:
        """Starts refreshing an answer, if its question, the model and the settings allow it."""
        question = answering.in_flight.question
        policy = self._source.policy() if self._source is not None and question.searches else None
        sampling = question.sampling
        if self._source is None or policy is None or policy.most_refreshes == 0 or not loaded.keeps_beginnings:
            return
        # A model that thinks before an answer would have to do so again before each piece of it.
        thinks = loaded.speaker.told(sampling.thinks).thinks
        if answering.prompt.begun is not None or answering.evidence.stands_above:
            # What it rests on is known to those who have read its beginning, or the answer that it is about.
            return
        if suits(sampling) and not thinks and can_go_on(answering.pieces.reading, loaded.speaker):
            costs = Costs(
                loaded.loop.profile.seconds,
                lambda length, num_tokens: self._profile.seconds(self._num_writing, length, num_tokens),
                self._source.expected_seconds,
            )
            typical = _typical_tokens(answering)
            answering.refreshing = Refreshing(policy, costs, typical, self._now)
            self._policies[answering.question_id] = policy

    def end(self, question_id: str) -> None:
        """An answer has ended; what is still being searched for is not needed."""
        self._policies.pop(question_id, None)
        if self._looks.pop(question_id, None) is not None:
            log.debug("the answer to %s has ended before more was found", question_id)

    def holds_up(self, answerings: Mapping[str, Answering]) -> bool:
        """Whether an answer waits for a search, and all others with it."""
        # Only these are checked: this runs at every step, and a thousand may wait.
        looking = [answerings[question_id] for question_id in self._looks if question_id in answerings]
        # One that was cancelled ends with the next step.
        wanted = [answering.refreshing for answering in looking if not answering.in_flight.cancelled.is_set()]
        return any(refreshing is not None and refreshing.holds_up for refreshing in wanted)

    def take(self, found: FoundAgain, answering: Answering | None, loaded: LoadedModel) -> None:
        """Takes in what a look found; ignored where it comes late, nothing new where it failed."""
        if answering is None or answering.refreshing is None or self._looks.get(found.question_id) != found.number:
            log.debug("what was looked for comes too late for %s", found.question_id)
            return
        del self._looks[found.question_id]
        if found.error is not None:
            log.info("nothing more was found for %s: %s", found.question_id, found.error)
        answering.refreshing.take(found.passages, found.seconds, self._now)
        self._see_to(answering, answering.refreshing, loaded)

    def go_on(
        self, events: Iterable[StepEvent], answerings: Mapping[str, Answering], loaded: LoadedModel, seconds: float
    ) -> None:
        """After a step of `seconds`: answers that wrote in it search for more, or go on from what was found."""
        if not self._policies:
            return
        now = self._now
        written = [event for event in events if isinstance(event, TextWritten) and event.answer == 0]
        self._num_writing = max(1, len(written))
        for event in written:
            answering = answerings.get(event.request_id)
            if answering is not None and answering.refreshing is not None:
                self._profile.note(len(written), answering.length, seconds / max(1, event.num_tokens))
                answering.refreshing.note_tokens(event.num_tokens, now)
                self._see_to(answering, answering.refreshing, loaded)

    def _see_to(self, answering: Answering, refreshing: Refreshing, loaded: LoadedModel) -> None:
        try:
            # What could still become a marker, or code, is written but not shown yet.
            text = answering.pieces.text
            fresh = refreshing.fresh(text.written[-1])
            if fresh is not None:
                self._add(answering, refreshing, fresh, loaded)
            window = refreshing.wants_to_look(text.text, text.written[-1], answering.length)
            if window is not None:
                self._look(answering, window)
        except RagdollError as error:
            # It is written on from what it has.
            log.warning("the answer to %s is not refreshed: %s", answering.question_id, error)
            answering.refreshing = None

    def _look(self, answering: Answering, window: Window) -> None:
        if self._source is None:
            return
        question, cancelled = answering.in_flight.question, answering.in_flight.cancelled
        if answering.evidence.has_given_up:
            question = replace(question, filters=replace(question.filters, reads_question=False))
        policy = self._policies[answering.question_id]
        number = self._looks[answering.question_id] = next(self._numbers)
        evidence, limit = answering.pieces.passages, policy.passages
        self._source.look(
            LookAgain(question, number, window.text, evidence, window.seconds, limit, cancelled, policy.breadth)
        )

    def _add(self, answering: Answering, refreshing: Refreshing, fresh: Fresh, loaded: LoadedModel) -> None:
        """Gives what was found to the model to read, if that can be afforded by now."""
        passages = tuple(one for one in self._known(fresh.passages) if not answering.pieces.stands_above(one))
        room = min(answering.room, MAX_ADDED_TOKENS)
        if not passages or room <= _AROUND_TOKENS:
            refreshing.give_up()
            return
        written = loaded.loop.written(answering.question_id)
        max_tokens = refreshing.affordable(answering.length, room)
        if written is None or max_tokens <= _AROUND_TOKENS:
            # At the end of another sentence that may differ.
            return
        pieces, num_written = answering.pieces, len(written.tokens)
        text, tokens = pieces.text.written[-1], written.tokens[pieces.num_before :]
        evidence = [EvidencePassage.of(passage) for passage in passages]
        more = addition(pieces.reading, text, tokens, evidence, loaded.speaker, max_tokens)
        if more is None:
            refreshing.give_up()
            return
        context_room = loaded.speaker.context_tokens - answering.length - more.num_tokens
        if loaded.loop.append(answering.question_id, more.segments, num_written + context_room):
            refreshing.note_added()
            answering.go_on(more, Fresh(passages, fresh.retrieval_s, fresh.hidden_s), num_written)
        else:
            refreshing.give_up()

    def _known(self, passages: tuple[Passage, ...]) -> tuple[Passage, ...]:
        """The passages without those of documents that were removed since they were found."""
        known = set(self._known_documents({passage.document_id for passage in passages}))
        return tuple(passage for passage in passages if passage.document_id in known)


def _typical_tokens(answering: Answering) -> int:
    """The tokens of an addition of one passage, judging by the passages that the question has."""
    lengths = [len(segment.tokens) for segment in answering.pieces.reading.segments if segment.kind == "passage"]
    return _AROUND_TOKENS + (sum(lengths) // len(lengths) if lengths else _GUESSED_PASSAGE_TOKENS)
