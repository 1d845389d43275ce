"""The requests and events of the step loop: frozen values with tokens and text, without files or windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core import FinishReason, Priority, SamplingParams
from engine.errors import RagdollError
from engine.generation.segment import Segment
from engine.generation.thinking import Thinking


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to be continued.

    `sampling.num_answers` answers are sampled after reading the prompt once; with `sampling.beam_width` > 1 the best of
    that many beams is returned at the end. `quotable` are tokens of the passages, which prompt lookup uses as drafts.
    With `thinking`, more may be written before each answer, which is not part of it. If an answer `goes_on`, the last
    segment is the part of it that was written before.
    """

    request_id: str
    segments: tuple[Segment, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: Priority = "interactive"
    quotable: tuple[int, ...] = ()
    thinking: Thinking | None = None
    goes_on: bool = False

    @property
    def num_tokens(self) -> int:
        return sum(len(segment.tokens) for segment in self.segments)

    @property
    def begun(self) -> tuple[int, ...]:
        """The tokens of the answer that were written before this request."""
        return self.segments[-1].tokens if self.goes_on else ()

    def followed_by(self, written: Sequence[Segment]) -> list[Segment]:
        """Returns the prompt and what was written after it as segments of later prompts: a continued answer is one."""
        if not self.goes_on:
            return [*self.segments, *written]
        *prompt, begun = self.segments
        first, *others = written
        return [*prompt, Segment((*begun.tokens, *first.tokens)), *others]


@dataclass(frozen=True, slots=True)
class Written:
    """A finished continuation: its text, and its tokens as they were sampled (without those that ended it).

    The first `num_thought_tokens` of them are `thoughts`, with their markers, and not part of the text.
    `is_cut_within`: the text ends within a token that also held the beginning of a stop string; that token is left out.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    thoughts: str = ""
    num_thought_tokens: int = 0
    is_cut_within: bool = False

    @property
    def num_told_tokens(self) -> int:
        """How many tokens the text comes from, including a last one of which it has only the beginning."""
        return len(self.tokens) + self.is_cut_within


@dataclass(frozen=True, slots=True)
class PromptRead:
    """The prompt is in the cells: `cached_tokens` of it came from kept keys and values, the rest was computed.

    `seconds` is the time from the first chunk (or restore) to the end of the last, without time spent out of the cells.
    """

    request_id: str
    cached_tokens: int
    computed_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TextWritten:
    """The next text of answer number `answer`; whole characters only, and never a part of a stop string.

    `thoughts` is the new part of what the model thinks before it answers.
    """

    request_id: str
    text: str
    num_tokens: int
    answer: int = 0
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """The request has ended; `answers` are in the order of their numbers (with beams, the best first)."""

    request_id: str
    answers: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """The request was cancelled; `answers` hold what was written until then."""

    request_id: str
    answers: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestFailed:
    request_id: str
    error: RagdollError


RequestEnded = RequestFinished | RequestCancelled | RequestFailed
StepEvent = PromptRead | TextWritten | RequestEnded
