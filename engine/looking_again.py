"""Looking again: searches that the generation thread requests of the retrieval thread while an answer is being written.

Values only: neither thread knows the other. A look that comes late, fails or is cancelled changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from engine.core import Passage, Question
from engine.errors import RagdollError


@dataclass(frozen=True, slots=True, eq=False)
class LookAgain:
    """A request for more passages for an answer; `number` identifies the look.

    `window` is the end of what has been written so far, `evidence` what the answer is based on already. The search
    finds at most `limit` new passages, and is as broad as `seconds` allow, or as `breadth` says (0 is the narrowest).
    """

    question: Question
    number: int
    window: str
    evidence: tuple[Passage, ...]
    seconds: float
    limit: int
    cancelled: threading.Event
    breadth: int | None = None

    @property
    def question_id(self) -> str:
        return self.question.question_id


@dataclass(frozen=True, slots=True)
class FoundAgain:
    """The new passages that a look found, best first; the search took `seconds`, `error` says why there was none."""

    question_id: str
    number: int
    passages: tuple[Passage, ...]
    seconds: float
    error: RagdollError | None = None


TellFound = Callable[[FoundAgain], None]
