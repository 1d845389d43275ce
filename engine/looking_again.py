"""Looking again: what the generation thread asks of the retrieval thread while an answer is being written.

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
    """More passages are wanted for an answer; `number` tells this look from all others.

    `window` is the end of what was written by now, `evidence` what the answer rests on already. Of `limit` new
    passages at most, the search is made as broad as `seconds` allow; `breadth` says it instead (0 is the narrowest).
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
    """What a look found that is new, best first; `seconds` is what the search took, `error` why there was none."""

    question_id: str
    number: int
    passages: tuple[Passage, ...]
    seconds: float
    error: RagdollError | None = None


TellFound = Callable[[FoundAgain], None]
