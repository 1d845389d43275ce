"""The times of one question as the user experiences them: everything counts from the moment it was asked.

TTFT = asked → first token (queueing and retrieval included). Where no model writes, the first token is
the moment the quotes appear.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Literal

from engine.core import ContextUse

_NO_CONTEXT = ContextUse()
Mark = Literal[
    "asked",
    "retrieval_started",
    "retrieval_ended",
    "prefill_started",
    "first_token",
    "first_word",
    "ended",
]


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in seconds, and token counts. Times that did not occur are 0.

    `cached_tokens` of the prompt were not computed again: their keys and values were kept. The evidence was refreshed
    `refreshes` times: the searches for it took `refresh_retrieval_s` (also those that found nothing new), of which
    `refresh_hidden_s` went by while the answer was written as fast as before, and reading it `refresh_prefill_s`.
    `thought_tokens` of the generated ones were written before the answer, in `thinking_s`. Where several answers were
    written side by side these are of the first, and `other_tokens` and `other_thought_tokens` of the others. `context`
    says how full the context of the model was.
    """

    queued_s: float
    retrieval_s: float
    prefill_s: float
    ttft_s: float
    total_s: float
    prompt_tokens: int
    generated_tokens: int
    cached_tokens: int = 0
    refreshes: int = 0
    refresh_retrieval_s: float = 0.0
    refresh_hidden_s: float = 0.0
    refresh_prefill_s: float = 0.0
    thought_tokens: int = 0
    thinking_s: float = 0.0
    other_tokens: int = 0
    other_thought_tokens: int = 0
    context: ContextUse = _NO_CONTEXT

    @property
    def hidden_share(self) -> float | None:
        """The share of searching that overlapped with writing, 0 to 1; None if nothing was searched for."""
        return self.refresh_hidden_s / self.refresh_retrieval_s if self.refresh_retrieval_s > 0 else None


@dataclass(slots=True)
class Timeline:
    """Collects the marks of one question; owned by whichever worker holds the question at the moment."""

    marks: dict[Mark, float] = field(default_factory=lambda: {"asked": time.monotonic()})
    prompt_tokens: int = 0
    generated_tokens: int = 0
    cached_tokens: int = 0
    refreshes: int = 0
    refresh_retrieval_s: float = 0.0
    refresh_hidden_s: float = 0.0
    refresh_prefill_s: float = 0.0
    thought_tokens: int = 0
    other_tokens: int = 0
    other_thought_tokens: int = 0
    context: ContextUse = _NO_CONTEXT

    def mark(self, name: Mark) -> None:
        """Stamps `name` now; a second stamp of the same name is ignored."""
        self.marks.setdefault(name, time.monotonic())

    def seconds_between(self, start: Mark, end: Mark) -> float:
        if start not in self.marks or end not in self.marks:
            return 0.0
        return max(0.0, self.marks[end] - self.marks[start])

    def tokens_per_s(self) -> float:
        """Returns decoding speed so far: 1 / TPOT, while the answer is being written."""
        writing_s = time.monotonic() - self.marks.get("first_token", math.inf)
        return (self.generated_tokens - 1) / writing_s if self.generated_tokens > 1 and writing_s > 0 else 0.0

    def timings(self) -> Timings:
        waited_for_writer = self.seconds_between("retrieval_ended", "prefill_started")
        return Timings(
            queued_s=self.seconds_between("asked", "retrieval_started") + waited_for_writer,
            retrieval_s=self.seconds_between("retrieval_started", "retrieval_ended"),
            prefill_s=self.seconds_between("prefill_started", "first_token"),
            ttft_s=self.seconds_between("asked", "first_token"),
            total_s=self.seconds_between("asked", "ended"),
            prompt_tokens=self.prompt_tokens,
            generated_tokens=self.generated_tokens,
            cached_tokens=self.cached_tokens,
            refreshes=self.refreshes,
            refresh_retrieval_s=self.refresh_retrieval_s,
            refresh_hidden_s=self.refresh_hidden_s,
            refresh_prefill_s=self.refresh_prefill_s,
            thought_tokens=self.thought_tokens,
            thinking_s=self.seconds_between("first_token", "first_word") if self.thought_tokens else 0.0,
            other_tokens=self.other_tokens,
            other_thought_tokens=self.other_thought_tokens,
            context=self.context,
        )
