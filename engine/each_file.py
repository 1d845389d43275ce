"""Ask every file: one question, put to each document separately; this creates a backlog on a desktop.

A chat is based on the passages that fit best, wherever they are: "Which of these contracts run out this year?" needs an
answer from each of them. Only some are under way at a time, so that a library of ten thousand documents fills no queue,
and stopping takes effect soon. The questions of a script's batch are asked in the same way. A model that is unavailable
is tried once, and not again for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from queue import SimpleQueue
from typing import Generic, TypeVar
from uuid import uuid4

from engine.core import Document, Filters, Question
from engine.errors import ModelError, RagdollError
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Event, Publish
from engine.interruptible import next_of

# Enough for the largest batches of answers that are written at once, and as many that are searched for meanwhile.
OPEN_AT_ONCE = 64

Asked = TypeVar("Asked")


def confined_to(document: Document) -> Filters:
    """Returns filters that limit a question to this document, even once it is renamed; its words filter nothing."""
    return Filters(document_ids=(document.document_id,), reads_question=False)


def ask_each(
    several: Iterable[Asked],
    ask: Callable[[Asked, str], Question],
    submit: Callable[[Question], None],
    cancel: Callable[[str], None],
    subscribe: Callable[[Publish], Callable[[], None]],
) -> Generator[tuple[Asked, AnswerEnded], None, None]:
    """Puts a question to each of several and yields each as it ends; closing it cancels what is under way.

    Once a model is unavailable, all questions to it fail, whether they have been asked or not.

    Args:
        several: Documents, or whatever is asked, in this order; answers come in the order in which they end.
        ask: Makes the question to one of them, with the given id.
        submit: Queues it. A question that either of them refuses (the document was removed meanwhile) has failed.
        cancel: Ends one soon.
        subscribe: Calls a listener with every event, on any thread, until the returned function is called.
    """
    waiting, asking = iter(several), _Asking(ask, submit, cancel)
    unsubscribe = subscribe(asking.listen)
    try:
        while True:
            for one in islice(waiting, OPEN_AT_ONCE - asking.num_open):
                asking.begin(one)
            if not asking.num_open:
                return
            yield asking.next_end()
    finally:
        unsubscribe()
        asking.cancel_all()


class _Asking(Generic[Asked]):
    """The questions that are under way. `listen` may be called on any thread, the rest on the caller's."""

    def __init__(
        self, ask: Callable[[Asked, str], Question], submit: Callable[[Question], None], cancel: Callable[[str], None]
    ) -> None:
        self._ask, self._submit, self._cancel = ask, submit, cancel
        self._ends = SimpleQueue[AnswerEnded]()
        self._open = dict[str, Asked]()
        # Which model each open question is for, and why a model is unavailable.
        self._models, self._faults = dict[str, str](), dict[str, ModelError]()

    @property
    def num_open(self) -> int:
        return len(self._open)

    def listen(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in self._open:
            self._ends.put(event)

    def begin(self, one: Asked) -> None:
        question_id = uuid4().hex
        self._open[question_id] = one
        try:
            question = self._ask(one, question_id)
            self._models[question_id] = question.model
            if (fault := self._faults.get(question.model)) is not None:
                self._ends.put(AnswerFailed(question_id, fault))
            else:
                self._submit(question)
        except RagdollError as error:
            self._ends.put(AnswerFailed(question_id, error))

    def next_end(self) -> tuple[Asked, AnswerEnded]:
        """Waits for the next question to end, and returns it."""
        end = next_of(self._ends)
        fault = self._fault_of(end)
        return self._open.pop(end.question_id), end if fault is None else AnswerFailed(end.question_id, fault)

    def cancel_all(self) -> None:
        for question_id in self._open:
            self._cancel(question_id)

    def _fault_of(self, end: AnswerEnded) -> ModelError | None:
        """Returns why the model of this question is unavailable, and then cancels all other open questions to it."""
        model = self._models.pop(end.question_id, None)
        if model is None:
            return None
        if isinstance(end, AnswerFailed) and isinstance(end.error, ModelError):
            if self._faults.setdefault(model, end.error) is end.error:
                for question_id in (one for one, named in self._models.items() if named == model):
                    self._cancel(question_id)
            return end.error
        return self._faults.get(model) if isinstance(end, AnswerCancelled) else None


def until_model_fails(
    ends: Generator[tuple[Asked, AnswerEnded], None, None],
) -> Generator[tuple[Asked, AnswerEnded], None, None]:
    """Yields the same, for questions to one model: its fault ends all at once, instead of thousands failing in turn.

    Raises:
        ModelError: The model is unavailable; what is under way is cancelled.
    """
    with closing(ends):
        for one, end in ends:
            if isinstance(end, AnswerFailed) and isinstance(end.error, ModelError):
                raise end.error
            yield one, end
