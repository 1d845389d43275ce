"""Ask every file: one question, put to each document by itself; what makes a backlog on a desktop.

A chat rests on the passages that fit best, wherever they are: "Which of these contracts run out this year?" wants an
answer from each of them. Some are under way at a time, so that a library of ten thousand documents fills no queue, and
whoever stops has little to wait for. The questions of a script's batch are asked in the same way. A model that cannot
be had is tried once, and not again for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar
from uuid import uuid4

from engine.core import Document, Filters, Question
from engine.errors import ModelError, RagdollError
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

    Once a model cannot be had, all that were to be asked of it have failed, whether they have been or not.

    Args:
        several: Documents, or whatever is asked, in this order; answers come in that in which they end.
        ask: Makes the question to one of them, by the id that it is to have.
        submit: Queues it. What either refuses (the document was removed meanwhile) has failed.
        cancel: Ends one soon.
        subscribe: Has a listener called with every event, on any thread, until the returned function is called.
    """
    waiting, ends = iter(several), SimpleQueue[AnswerEnded]()
    is_open: dict[str, Asked] = {}
    # Of those that are open, and why one of them cannot be had.
    models, faults = dict[str, str](), dict[str, ModelError]()

    def listen(event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in is_open:
            ends.put(event)

    def begin(one: Asked) -> None:
        question_id = uuid4().hex
        is_open[question_id] = one
        try:
            question = ask(one, question_id)
            models[question_id] = question.model
            if (fault := faults.get(question.model)) is not None:
                ends.put(AnswerFailed(question_id, fault))
            else:
                submit(question)
        except RagdollError as error:
            ends.put(AnswerFailed(question_id, error))

    def fault_of(end: AnswerEnded) -> ModelError | None:
        """Why the model cannot be had that was to answer it; all others that it was to answer are taken back then."""
        model = models.pop(end.question_id, None)
        if model is not None and isinstance(end, AnswerFailed) and isinstance(end.error, ModelError):
            if faults.setdefault(model, end.error) is end.error:
                for question_id in (one for one, named in models.items() if named == model):
                    cancel(question_id)
            return end.error
        return faults.get(model) if model is not None and isinstance(end, AnswerCancelled) else None

    unsubscribe = subscribe(listen)
    try:
        while True:
            for one in islice(waiting, OPEN_AT_ONCE - len(is_open)):
                begin(one)
            if not is_open:
                return
            end = ends.get()
            fault = fault_of(end)
            yield is_open.pop(end.question_id), end if fault is None else AnswerFailed(end.question_id, fault)
    finally:
        unsubscribe()
        for question_id in is_open:
            cancel(question_id)


def until_model_fails(
    ends: Generator[tuple[Asked, AnswerEnded], None, None],
) -> Generator[tuple[Asked, AnswerEnded], None, None]:
    """The same, for questions to one model: whoever waits for thousands of answers is told at once why there is none.

    Raises:
        ModelError: It cannot be had; what is under way is cancelled.
    """
    with closing(ends):
        for one, end in ends:
            if isinstance(end, AnswerFailed) and isinstance(end.error, ModelError):
                raise end.error
            yield one, end
