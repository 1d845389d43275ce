"""One question in the step loop: from its prompt, through the text that the user sees, to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.core import Alternative, Answer, Citation, ContextUse, Evidence, Quote, Scope
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    EvidenceRefreshed,
    PassagesRecalled,
    Publish,
    ThoughtsGenerated,
    TokensGenerated,
)
from engine.generation.answer_pieces import AnswerPieces
from engine.generation.citations import Renumbering, citations_among, citations_of_quotes, renumbered
from engine.generation.context_use import context_use
from engine.generation.continuation import Addition
from engine.generation.conversation import Turn
from engine.generation.evidence import EvidencePassage
from engine.generation.grammar import gives_data
from engine.generation.prompt import Prompt, answer_reserve
from engine.generation.refreshing import Fresh, Refreshing
from engine.generation.request import (
    PromptRead,
    Request,
    RequestCancelled,
    RequestFailed,
    RequestFinished,
    StepEvent,
    TextWritten,
    Written,
)
from engine.generation.speaker import Speaker
from engine.generation.transcript import next_number_in, transcript_of
from engine.inflight import QuestionInFlight

QuoteAnswer = Callable[[Sequence[Quote]], tuple[str, tuple[Citation, ...]]]


class Answering:
    """The state of a question until it has ended; on the generation thread.

    `cached_ahead` is how much of the prompt was already kept when it was read ahead, None if it was not read ahead.
    `refreshing` decides when to look for more passages, None if the answer never does.
    """

    def __init__(
        self,
        in_flight: QuestionInFlight,
        evidence: Evidence,
        prompt: Prompt,
        speaker: Speaker,
        publish: Publish,
    ) -> None:
        self.in_flight = in_flight
        self.evidence, self.prompt, self._speaker, self._publish = evidence, prompt, speaker, publish
        is_data = gives_data(in_flight.question.sampling)
        self._numbers = {} if is_data else prompt.numbers
        self.pieces = AnswerPieces(prompt, evidence.passages, self._numbers, cites=not is_data)
        # The user has already seen this part of an answer that was interrupted.
        self._unfinished = in_flight.question.unfinished
        self._num_told = len(self._unfinished.text) if self._unfinished is not None else 0
        # Thoughts may cite passages, but recall none of earlier turns.
        self._thoughts = Renumbering(prompt.numbers)
        self.refreshing: Refreshing | None = None
        self.has_begun = False
        self.cached_ahead: int | None = None

    @property
    def question_id(self) -> str:
        return self.in_flight.question.question_id

    @property
    def length(self) -> int:
        """Tokens read and written so far."""
        return self.pieces.length(self.in_flight.timeline.generated_tokens)

    @property
    def room(self) -> int:
        """How many more tokens can be read without taking the room that is reserved for writing."""
        sampling, context_tokens = self.in_flight.question.sampling, self._speaker.context_tokens
        left = max(0, sampling.max_tokens - self.in_flight.timeline.generated_tokens)
        reserve = answer_reserve(sampling.max_tokens, context_tokens)
        return context_tokens - self.length - (reserve if sampling.is_open_ended else min(left, reserve))

    @property
    def has_text(self) -> bool:
        """Whether the user has seen any of its text."""
        return "first_token" in self.in_flight.timeline.marks

    @property
    def request(self) -> Request:
        question, prompt = self.in_flight.question, self.prompt
        # There may be more cells than the model was trained to read.
        room = max(1, self._speaker.context_tokens - prompt.num_tokens)
        sampling, goes_on = question.sampling, prompt.begun is not None
        if goes_on:
            # Only one of several answers is continued, and its evidence is not searched again.
            # Neither are beams searched: what they find is another text, and not the rest of this one.
            sampling = replace(
                sampling, num_answers=1, beam_width=1, stop=(*sampling.stop, *self._speaker.ends_of_answers)
            )
        if prompt.messages and not (question.is_verbatim or sampling.grammar or sampling.json_schema):
            sampling = replace(sampling, stop=(*sampling.stop, *self._speaker.ends_of_plain(prompt.messages)))
        sampling = replace(sampling, max_tokens=room if sampling.is_open_ended else min(sampling.max_tokens, room))
        # A continued answer has had its thoughts; in a raw prompt, the caller is responsible for the model's markup.
        is_begun = goes_on or question.is_raw
        thoughts = None if is_begun else self._speaker.thinking(sampling.max_thought_tokens, sampling.max_tokens, room)
        question_id = question.question_id
        return Request(question_id, prompt.segments, sampling, question.priority, prompt.quotable, thoughts, goes_on)

    def begin(self) -> None:
        """Publishes that writing begins, when the request first gets cells."""
        if not self.has_begun:
            self.has_begun = True
            beam_width = self.request.sampling.beam_width
            self._publish(AnswerStateChanged(self.question_id, "writing", beam_width=beam_width))

    def take(self, event: StepEvent) -> AnswerEnded | None:
        """Publishes what is new; returns how the question ended, if it did."""
        match event:
            case PromptRead():
                self._note_reading(event)
            case TextWritten(answer=0):
                self._note_text(event)
            case RequestFinished() | RequestFailed():
                return self._end(event)
            case TextWritten():
                pass
            case RequestCancelled(answers=answers):
                return self.cancelled(answers)
        return None

    def cancelled(self, answers: Sequence[Written]) -> AnswerCancelled:
        """Returns how the question ends after a user cancelled it; `answers` holds what was written until then."""
        self._tell_rest()
        return AnswerCancelled(self.question_id, self._segments(answers) if self.has_text else ())

    def go_on(self, addition: Addition, fresh: Fresh, num_tokens: int) -> None:
        """Notes that after `num_tokens` of the answer the model was given more passages, which it may cite."""
        added = fresh.passages[: len(addition.passages)]
        self.pieces.go_on(addition, added, num_tokens)
        self._tell()
        self.in_flight.timeline.refreshes += 1
        refresh = self.pieces.refreshes[-1]
        self._publish(EvidenceRefreshed(self.question_id, refresh, added, fresh.retrieval_s, fresh.hidden_s))

    def _note_reading(self, event: PromptRead) -> None:
        self.begin()
        timeline = self.in_flight.timeline
        # Reading ahead took none of this question's time.
        since = time.monotonic() - event.seconds
        timeline.marks["prefill_started"] = max(since, timeline.marks.get("retrieval_ended", since))
        # What was read ahead for this very question does not count as cached.
        timeline.cached_tokens = event.cached_tokens if self.cached_ahead is None else self.cached_ahead
        timeline.prompt_tokens = event.cached_tokens + event.computed_tokens

    def _note_text(self, event: TextWritten) -> None:
        timeline = self.in_flight.timeline
        timeline.mark("first_token")
        timeline.generated_tokens += event.num_tokens
        if event.thoughts:
            self._think(self._thoughts.feed(event.thoughts))
        if event.text:
            self._think(self._thoughts.finish())
            timeline.mark("first_word")
            self.pieces.text.feed(event.text)
            self._tell()

    def _think(self, text: str) -> None:
        if text:
            self._publish(ThoughtsGenerated(self.question_id, text))

    def _tell(self) -> None:
        """Publishes the new part of the text."""
        self._tell_recalled()
        if text := self.pieces.text.text[self._num_told :]:
            self._num_told += len(text)
            self._publish(TokensGenerated(self.question_id, text))

    def _tell_rest(self) -> None:
        """Publishes the rest too, including text held back, since nothing follows."""
        self.pieces.text.finish()
        self._tell()

    def _tell_recalled(self) -> None:
        if recalled := self.pieces.take_recalled():
            self._publish(PassagesRecalled(self.question_id, recalled))

    def _end(self, event: RequestFinished | RequestFailed) -> AnswerEnded:
        if isinstance(event, RequestFailed):
            return AnswerFailed(self.question_id, event.error)
        self._tell_rest()
        timeline = self.in_flight.timeline
        timeline.mark("first_token")
        timeline.mark("first_word")
        first, *others = event.answers
        timeline.generated_tokens, timeline.thought_tokens = first.num_told_tokens, first.num_thought_tokens
        timeline.other_tokens = sum(other.num_told_tokens for other in others)
        timeline.other_thought_tokens = sum(other.num_thought_tokens for other in others)
        if self.refreshing is not None:
            timeline.refresh_retrieval_s = self.refreshing.retrieval_s
            timeline.refresh_hidden_s = self.refreshing.hidden_s
            timeline.refresh_prefill_s = self.refreshing.prefill_s
        timeline.context = self._context_use(first)
        timeline.mark("ended")
        return AnswerFinished(self.question_id, self._answer(event.answers), timeline.timings())

    def _context_use(self, written: Written) -> ContextUse:
        num_written, sampling = written.num_told_tokens, self.in_flight.question.sampling
        num_tokens, size = self.pieces.length(num_written), self._speaker.context_tokens
        is_raw = self.in_flight.question.is_raw
        thinks = not is_raw and self._speaker.told(sampling.thinks).thinks
        most_tokens = sampling.max_tokens + (sampling.max_thought_tokens if thinks else 0)
        return context_use(self.prompt, self.pieces.reading, num_tokens, num_written, size, most_tokens)

    def _segments(self, answers: Sequence[Written]) -> tuple[dict[str, Any], ...]:
        """Returns what the next prompt holds of a stopped answer: whatever was written of it."""
        is_written = bool(answers and len(answers[0].tokens) > answers[0].num_thought_tokens)
        return self._first(answers).segments if is_written else ()

    def _first(self, answers: Sequence[Written]) -> Alternative:
        is_in_pieces = self.pieces.refreshes or self.prompt.begun is not None
        return self._in_pieces(answers[0]) if is_in_pieces else self._read(answers[0])

    def _answer(self, answers: Sequence[Written]) -> Answer:
        """Returns all that was written, as the user sees it; the first text is the answer."""
        first, others = self._first(answers), [self._read(other) for other in answers[1:]]
        # An alternative may cite more than the answer that was shown.
        self._tell_recalled()
        return Answer(
            text=first.text,
            quotes=self.evidence.quotes,
            citations=first.citations,
            passages=self.pieces.passages,
            scope=self._scope(),
            model=self._speaker.name,
            finish_reason=first.finish_reason,
            segments=first.segments,
            alternatives=tuple(others),
            refreshes=(*(self._unfinished.refreshes if self._unfinished is not None else ()), *self.pieces.refreshes),
            thoughts=first.thoughts,
            turns_left_out=self.prompt.turns_left_out,
        )

    def _scope(self) -> Scope:
        if self.prompt.begun is not None:
            return self.evidence.scope
        scope, num_found = self.evidence.scope, len(self.evidence.passages)
        unread = tuple(sorted(set(range(num_found)) - self.prompt.places_read))
        # Recalled passages were read for an earlier question.
        left_out = {*unread, *self.pieces.recalled.places.values()}
        read = [passage for place, passage in enumerate(self.pieces.passages) if place not in left_out]
        return replace(
            scope,
            passages_used=len(read),
            passages_found=scope.passages_found + len(read) + len(unread) - num_found,
            files=len({passage.document_id for passage in read}),
            unread=unread,
            # A passage that was cut was not read to its end.
            reads_through=scope.reads_through and not any(one.is_cut for one in self.prompt.passages),
        )

    @property
    def _quotes_read(self) -> tuple[Quote, ...]:
        """The reader's quotes from passages that the model has read as well."""
        return tuple(quote for quote in self.evidence.quotes if quote.passage in self.prompt.places_read)

    def _in_pieces(self, written: Written) -> Alternative:
        """Returns an answer that was given more passages while it was written, or that was continued."""
        text = self.pieces.text.text
        citations = self.pieces.text.citations() or citations_of_quotes(self._quotes_read, len(text))
        turn = self.pieces.turn(self.in_flight.question.text, written, self._speaker.signature)
        thoughts = self._unfinished.thoughts if self._unfinished is not None else ""
        return Alternative(text, citations, written.finish_reason, transcript_of(turn), thoughts)

    def _read(self, written: Written) -> Alternative:
        """Returns one text with its citations; the reader's quotes replace citations that cannot be parsed."""
        prompt, quotes = self.prompt, self._quotes_read
        recalled = self.pieces.recalled
        text = renumbered(written.text, self._numbers, recalled)
        citations = citations_among(text, recalled.citable(self._numbers)) or citations_of_quotes(quotes, len(text))
        # The turn is kept exactly as the model read and wrote it, so that the next prompt begins with tokens whose KV
        # is kept. Only the text counts if the template leaves out thoughts, or a stop string began within a token.
        is_gone = written.num_thought_tokens > 0 and not self._speaker.keeps_thoughts
        question, tokens = self.in_flight.question, () if is_gone or written.is_cut_within else written.tokens
        turn = Turn(
            question.text,
            prompt.passages,
            written.text,
            tokens,
            self._speaker.signature,
            asked_on=prompt.asked_on,
            first_number=prompt.first_number,
            also=prompt.also,
            searches=question.searches,
        )
        thoughts = renumbered(written.thoughts, prompt.numbers)
        return Alternative(text, citations, written.finish_reason, transcript_of(turn), thoughts)


def quoted(
    in_flight: QuestionInFlight, evidence: Evidence, quote_answer: QuoteAnswer, publish: Publish
) -> AnswerFinished:
    """Answers without a model, with the reader's quotes."""
    question, timeline = in_flight.question, in_flight.timeline
    text, citations = quote_answer(evidence.quotes)
    timeline.mark("first_token")
    publish(TokensGenerated(question.question_id, text))
    timeline.mark("ended")
    passages = tuple(EvidencePassage.of(passage) for passage in evidence.passages)
    # A model that answers a later question reads this answer with the numbers of its own prompt.
    first_number = next_number_in(question.transcript)
    as_numbered = renumbered(text, {n: n + first_number - 2 for n in range(1, len(passages) + 1)})
    answer = Answer(
        text=text,
        quotes=evidence.quotes,
        citations=citations,
        passages=evidence.passages,
        scope=evidence.scope,
        model=None,
        finish_reason="stop",
        segments=transcript_of(Turn(question.text, passages, as_numbered, first_number=first_number)),
    )
    return AnswerFinished(question.question_id, answer, timeline.timings())
