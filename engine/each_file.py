"""Ask every file: one question, put to each document by itself; what makes a backlog on a desktop.

A chat rests on the passages that fit best, wherever they are: "Which of these contracts run out this year?" wants an
answer from each of them. Some are under way at a time, so that a library of ten thousand documents fills no queue, and
whoever stops has little to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import TypeAlias
from uuid import uuid4

from engine.core import Document, Filters, Question
from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Event, Publish

# Enough for the largest batches of answers that are written at once, and as many again that are searched meanwhile.
OPEN_AT_ONCE = 64

Ask: TypeAlias = Callable[[Document, str], Question]


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """How the question ended that was put to one document."""

    document: Document
    end: AnswerEnded


def confined_to(document: Document) -> Filters:
    """What has a question answered from this document alone, also once it is renamed; its words confine nothing."""
    return Filters(document_ids=(document.document_id,), reads_question=False)


def ask_each(
    documents: Iterable[Document],
    ask: Ask,
    submit: Callable[[Question], None],
    cancel: Callable[[str], None],
    subscribe: Callable[[Publish], Callable[[], None]],
) -> Generator[FileAnswer, None, None]:
    """Puts a question to each document and tells of each as it ends; closing it cancels what is under way.

    Args:
        documents: Asked in this order; answers come in that in which they end.
        ask: Makes the question to a document, by the id that it is to have.
        submit: Queues it. What it refuses (the document was removed meanwhile) has failed.
        cancel: Ends one soon.
        subscribe: Has a listener called with every event, on any thread, until the returned function is called.
    """
    waiting, ends = iter(documents), SimpleQueue[AnswerEnded]()
    is_open: dict[str, Document] = {}

    def listen(event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in is_open:
            ends.put(event)

    unsubscribe = subscribe(listen)
    try:
        while True:
            for document in islice(waiting, OPEN_AT_ONCE - len(is_open)):
                question = ask(document, uuid4().hex)
                is_open[question.question_id] = document
                try:
                    submit(question)
                except RagdollError as error:
                    ends.put(AnswerFailed(question.question_id, error))
            if not is_open:
                return
            end = ends.get()
            yield FileAnswer(is_open.pop(end.question_id), end)
    finally:
        unsubscribe()
        for question_id in is_open:
            cancel(question_id)
