"""One question on its way through the step loop: from its prompt, over the text that people see, to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.core import Alternative, Answer, Citation, Evidence, Passage, Quote
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    Publish,
    TokensGenerated,
)
from engine.generation.citations import Renumbering, citations_of_quotes, parse_citations, renumbered
from engine.generation.conversation import EvidencePassage, Turn, transcript_of
from engine.generation.prompt import Prompt
from engine.generation.request import (
    PromptRead,
    Request,
    RequestFailed,
    RequestFinished,
    StepEvent,
    TextWritten,
    Written,
)
from engine.generation.speaker import Speaker
from engine.inflight import QuestionInFlight

QuoteAnswer = Callable[[Sequence[Quote]], tuple[str, tuple[Citation, ...]]]


class Answering:
    """What the worker holds of a question until it has ended; on the generation thread.

    `cached_ahead` is how much of the prompt was kept when it was read ahead, None where it was not.
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
        self.evidence, self._prompt, self._speaker, self._publish = evidence, prompt, speaker, publish
        self._stream = Renumbering(prompt.order)
        self.has_begun = False
        self.cached_ahead: int | None = None

    @property
    def question_id(self) -> str:
        return self.in_flight.question.question_id

    @property
    def passages(self) -> tuple[Passage, ...]:
        return self.evidence.passages

    @property
    def has_text(self) -> bool:
        """Whether people have seen any of it."""
        return "first_token" in self.in_flight.timeline.marks

    @property
    def request(self) -> Request:
        question, prompt = self.in_flight.question, self._prompt
        # There may be more cells than the model was trained to read.
        room = max(1, self._speaker.context_tokens - prompt.num_tokens)
        sampling = replace(question.sampling, max_tokens=min(question.sampling.max_tokens, room))
        return Request(question.question_id, prompt.segments, sampling, question.priority, prompt.quotable)

    def begin(self) -> None:
        """It has got cells."""
        if not self.has_begun:
            self.has_begun = True
            self._publish(AnswerStateChanged(self.question_id, "writing"))

    def take(self, event: StepEvent) -> AnswerEnded | None:
        """Tells what is new of it; how the question ended, if it did."""
        match event:
            case PromptRead():
                self._note_reading(event)
            case TextWritten(answer=0):
                self._note_text(event)
            case RequestFinished() | RequestFailed():
                return self._end(event)
            case TextWritten():
                pass
            case _:
                return AnswerCancelled(self.question_id)
        return None

    def _note_reading(self, event: PromptRead) -> None:
        self.begin()
        timeline = self.in_flight.timeline
        timeline.marks["prefill_started"] = time.monotonic() - event.seconds
        # What was read ahead for this very question was not there before.
        timeline.cached_tokens = event.cached_tokens if self.cached_ahead is None else self.cached_ahead
        timeline.prompt_tokens = event.cached_tokens + event.computed_tokens

    def _note_text(self, event: TextWritten) -> None:
        timeline = self.in_flight.timeline
        timeline.mark("first_token")
        timeline.generated_tokens += event.num_tokens
        self._tell(self._stream.feed(event.text))

    def _tell(self, text: str) -> None:
        if text:
            self._publish(TokensGenerated(self.question_id, text))

    def _end(self, event: RequestFinished | RequestFailed) -> AnswerEnded:
        if isinstance(event, RequestFailed):
            return AnswerFailed(self.question_id, event.error)
        self._tell(self._stream.finish())
        timeline = self.in_flight.timeline
        timeline.mark("first_token")
        timeline.generated_tokens = len(event.answers[0].tokens)
        timeline.mark("ended")
        return AnswerFinished(self.question_id, self._answer(event.answers), timeline.timings())

    def _answer(self, answers: Sequence[Written]) -> Answer:
        """What people see of all that was written; the first is the answer."""
        evidence = self.evidence
        first, *others = (self._read(written) for written in answers)
        return Answer(
            text=first.text,
            quotes=evidence.quotes,
            citations=first.citations,
            passages=evidence.passages,
            scope=replace(evidence.scope, passages_used=len(self._prompt.passages)),
            model=self._speaker.name,
            finish_reason=first.finish_reason,
            segments=first.segments,
            alternatives=tuple(others),
        )

    def _read(self, written: Written) -> Alternative:
        """One text with its citations; the reader's quotes stand in for citations that cannot be parsed."""
        prompt, quotes = self._prompt, self.evidence.quotes
        text = renumbered(written.text, prompt.order)
        citations = parse_citations(text, len(prompt.passages)) or citations_of_quotes(quotes, len(text))
        # As the model read and wrote it, so that the next prompt begins with what its keys and values are kept of.
        question = self.in_flight.question.text
        turn = Turn(question, prompt.passages, written.text, written.tokens, self._speaker.fingerprint)
        return Alternative(text, citations, written.finish_reason, transcript_of(turn))


def quoted(
    in_flight: QuestionInFlight, evidence: Evidence, quote_answer: QuoteAnswer, publish: Publish
) -> AnswerFinished:
    """The answer without a model: what the reader quotes."""
    question, timeline = in_flight.question, in_flight.timeline
    text, citations = quote_answer(evidence.quotes)
    timeline.mark("first_token")
    publish(TokensGenerated(question.question_id, text))
    timeline.mark("ended")
    passages = tuple(EvidencePassage.of(passage) for passage in evidence.passages)
    answer = Answer(
        text=text,
        quotes=evidence.quotes,
        citations=citations,
        passages=evidence.passages,
        scope=evidence.scope,
        model=None,
        finish_reason="stop",
        segments=transcript_of(Turn(question.text, passages, text)),
    )
    return AnswerFinished(question.question_id, answer, timeline.timings())
