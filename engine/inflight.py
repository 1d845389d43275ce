"""A question in progress: the value, its clock and its cancel flag, passed from queue to queue.

Exactly one worker holds it at a time; only the flag may be set from elsewhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from engine.core import Question
from engine.metrics import Timeline


@dataclass(slots=True, eq=False)
class QuestionInFlight:
    """A question with its clock and flag; `cancelled` is checked between retrieval batches and between ubatches."""

    question: Question
    timeline: Timeline = field(default_factory=Timeline)
    cancelled: threading.Event = field(default_factory=threading.Event)
