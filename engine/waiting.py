"""Waiting for the ends of some questions, for callers who want answers and no events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.errors import GenerationError
from engine.events import AnswerEnded, AnswerFailed, AnswerFinished


def in_turn(ends: Iterable[tuple[int, AnswerEnded]]) -> Iterator[AnswerEnded]:
    """The ends of numbered questions in the order of the numbers, each as soon as all before it have come."""
    early, due = dict[int, AnswerEnded](), 0
    for number, end in ends:
        early[number] = end
        while due in early:
            yield early.pop(due)
            due += 1


def finished(end: AnswerEnded) -> AnswerFinished:
    """The end, if it is an answer.

    Raises:
        RagdollError: Why it is none.
    """
    if isinstance(end, AnswerFinished):
        return end
    raise end.error if isinstance(end, AnswerFailed) else GenerationError("The question was cancelled.")
