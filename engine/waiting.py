"""Waiting for the ends of some questions, for callers that want answers and no events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.errors import GenerationError, ModelError
from engine.events import AnswerEnded, AnswerFailed, AnswerFinished


def in_turn(ends: Iterable[tuple[int, AnswerEnded]]) -> Iterator[AnswerEnded]:
    """Yields the ends of numbered questions in the order of the numbers, each as soon as all before it have ended.

    If a model error ends them all, those that ended early are yielded first, and those between count as failed.

    Raises:
        ModelError: What `ends` raises.
    """
    early, due = dict[int, AnswerEnded](), 0
    try:
        for number, end in ends:
            early[number] = end
            while due in early:
                yield early.pop(due)
                due += 1
    except ModelError as error:
        for number in range(due, max(early, default=due - 1) + 1):
            yield early.get(number) or AnswerFailed("", error)
        raise


def finished(end: AnswerEnded) -> AnswerFinished:
    """Returns the end, if it is an answer.

    Raises:
        RagdollError: Why there is no answer.
    """
    if isinstance(end, AnswerFinished):
        return end
    raise end.error if isinstance(end, AnswerFailed) else GenerationError("The question was cancelled.")
