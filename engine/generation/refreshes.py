"""Refreshes: retrieves again for running answers, which continue with the new passages.

A search goes out as a value and comes back as a command between two steps; the loop never waits for it (except in a
benchmark that measures the cost of waiting). Answers that end meanwhile are not affected.
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
# The assumed length of a passage if the question has none; and of the markup and the sentence around new ones.
_GUESSED_PASSAGE_TOKENS, _AROUND_TOKENS = 256, 64


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """Where more passages come from: `look` starts a search, `expected_seconds` predicts its duration.

    `policy` is called for each question; it returns None if answers are not refreshed.
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
        # Turns of other models do not count as time for these answers.
        self._left_at: float | None = None
        self._away_s = 0.0

    def stand_still(self) -> None:
        """Stops the clock of these answers until `resume`, because another model has its turn."""
        self._left_at = self._clock() if self._left_at is None else self._left_at

    def resume(self) -> None:
        """Continues the clock for this model's turn; does nothing if it is running."""
        if self._left_at is not None:
            self._away_s, self._left_at = self._away_s + self._clock() - self._left_at, None

    @property
    def _now(self) -> float:
        """The time on a clock that runs only during this model's turns."""
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
            # Continued answers, and questions about an answer, keep the passages that their reader already knows.
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
        """Forgets an answer that has ended, with its pending search."""
        self._policies.pop(question_id, None)
        if self._looks.pop(question_id, None) is not None:
            log.debug("the answer to %s has ended before more was found", question_id)

    def holds_up(self, answerings: Mapping[str, Answering]) -> bool:
        """Returns whether an answer waits for a search, and all others with it."""
        # Only answers with a search are checked: this runs at every step, and there may be a thousand answers.
        looking = [answerings[question_id] for question_id in self._looks if question_id in answerings]
        # A cancelled answer ends with the next step, so nothing waits for its search.
        wanted = [answering.refreshing for answering in looking if not answering.in_flight.cancelled.is_set()]
        return any(refreshing is not None and refreshing.holds_up for refreshing in wanted)

    def take(self, found: FoundAgain, answering: Answering | None, loaded: LoadedModel) -> None:
        """Takes in the result of a search; a late one is ignored, and a failed one counts as finding nothing."""
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
        """After a step of `seconds`, lets answers that wrote in it search for more, or continue with what was found."""
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
            # Written text that could still become a marker, or code, is not shown yet.
            text = answering.pieces.text
            fresh = refreshing.fresh(text.written[-1])
            if fresh is not None:
                self._add(answering, refreshing, fresh, loaded)
            window = refreshing.wants_to_look(text.text, text.written[-1], answering.length)
            if window is not None:
                self._look(answering, window)
        except RagdollError as error:
            # The answer continues without more passages.
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
        """Makes the model read the new passages, if the policy allows the cost by now."""
        passages = tuple(one for one in self._known(fresh.passages) if not answering.pieces.stands_above(one))
        room = min(answering.room, MAX_ADDED_TOKENS)
        if not passages or room <= _AROUND_TOKENS:
            refreshing.give_up()
            return
        written = loaded.loop.written(answering.question_id)
        max_tokens = refreshing.affordable(answering.length, room)
        if written is None or max_tokens <= _AROUND_TOKENS:
            # It is tried again at the end of a later sentence.
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
        """Returns the passages without those of documents that have been removed meanwhile."""
        known = set(self._known_documents({passage.document_id for passage in passages}))
        return tuple(passage for passage in passages if passage.document_id in known)


def _typical_tokens(answering: Answering) -> int:
    """Estimates the tokens of an addition of one passage from the passages that the question has."""
    lengths = [len(segment.tokens) for segment in answering.pieces.reading.segments if segment.kind == "passage"]
    return _AROUND_TOKENS + (sum(lengths) // len(lengths) if lengths else _GUESSED_PASSAGE_TOKENS)
