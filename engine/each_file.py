"""Ask every file: one question, put to each document by itself; what makes a backlog on a desktop.

A chat rests on the passages that fit best, wherever they are: "Which of these contracts run out this year?" wants an
answer from each of them. Some are under way at a time, so that a library of ten thousand documents fills no queue, and
whoever stops has little to wait for. The questions of a script's batch are asked in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar
from uuid import uuid4

from engine.core import Document, Filters, Question
from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Event, Publish

# Enough for the largest batches of answers that are written at once, and as many again that are searched meanwhile.
OPEN_AT_ONCE = 64

Asked = TypeVar("Asked")


def confined_to(document: Document) -> Filters:
    """What has a question answered from this document alone, also once it is renamed; its words confine nothing."""
    return Filters(document_ids=(document.document_id,), reads_question=False)


def ask_each(
    several: Iterable[Asked],
    ask: Callable[[Asked, str], Question],
    submit: Callable[[Question], None],
    cancel: Callable[[str], None],
    subscribe: Callable[[Publish], Callable[[], None]],
) -> Generator[tuple[Asked, AnswerEnded], None, None]:
    """Puts a question to each of several and tells of each as it ends; closing it cancels what is under way.

    Args:
        several: Documents, or whatever is asked, in this order; answers come in that in which they end.
        ask: Makes the question to one of them, by the id that it is to have.
        submit: Queues it. What either refuses (the document was removed meanwhile) has failed.
        cancel: Ends one soon.
        subscribe: Has a listener called with every event, on any thread, until the returned function is called.
    """
    waiting, ends = iter(several), SimpleQueue[AnswerEnded]()
    is_open: dict[str, Asked] = {}

    def listen(event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in is_open:
            ends.put(event)

    unsubscribe = subscribe(listen)
    try:
        while True:
            for one in islice(waiting, OPEN_AT_ONCE - len(is_open)):
                question_id = uuid4().hex
                is_open[question_id] = one
                try:
                    submit(ask(one, question_id))
                except RagdollError as error:
                    ends.put(AnswerFailed(question_id, error))
            if not is_open:
                return
            end = ends.get()
            yield is_open.pop(end.question_id), end
    finally:
        unsubscribe()
        for question_id in is_open:
            cancel(question_id)
