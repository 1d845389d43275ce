"""Begins questions for the model whose turn it is, by priority and arrival, as many as it may take.

Without a model, the reader's quotes are the answer. A question that cannot begin ends here, with the reason.
"""

from __future__ import annotations

import logging

from engine.core import Evidence, Question
from engine.errors import BadRequest, LoadAbandoned, NothingThere
from engine.events import AnswerCancelled, AnswerFailed, PassagesFound, Publish
from engine.generation.answering import QuoteAnswer, quoted
from engine.generation.commands import Task
from engine.generation.member import Member
from engine.generation.pool import ModelPool
from engine.generation.turns import Turns
from engine.generation.under_way import KnownDocuments, reported_as

log = logging.getLogger(__name__)

# Building the prompt of a question takes milliseconds, during which no answer gets a token.
BEGUN_AT_ONCE = 16


class Beginning:
    """Begins waiting questions; on the generation thread."""

    def __init__(
        self,
        models: ModelPool,
        turns: Turns,
        known_documents: KnownDocuments,
        quote_answer: QuoteAnswer,
        publish: Publish,
    ) -> None:
        """Begins nothing yet.

        Args:
            models: The models that answer.
            turns: The tasks that wait.
            known_documents: Returns which of these documents are still in the library.
            quote_answer: Makes an extractive answer from the reader's quotes.
            publish: Where events go.
        """
        self._models, self._turns, self._publish = models, turns, publish
        self._known_documents, self._quote_answer = known_documents, quote_answer

    def begin_waiting(self) -> None:
        """Begins waiting questions of the model whose turn it is."""
        waiting = self._turns.by_model(self._models.is_late)
        if quoted_names := [name for name in waiting if self._models.members.is_for_quotes(name)]:
            for task in self._turns.take(BEGUN_AT_ONCE, quoted_names):
                self._begin(task, None)
        try:
            self._models.take_turn({name: asked for name, asked in waiting.items() if name not in quoted_names})
        except LoadAbandoned as error:
            # Another model was chosen meanwhile, which is loaded next.
            log.info("%s", error)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to all that it concerns
            self._fail_all_of(self._models.front, error)
        front = self._models.front
        if front.is_in_memory:
            members, is_late = self._models.members, self._models.is_late
            most = self._models.num_left if members.is_shared else BEGUN_AT_ONCE
            tasks = self._turns.take(most, members.names_of(front), is_late)
            if members.is_shared and self._models.lets_people_in:
                tasks += self._turns.take(BEGUN_AT_ONCE, members.names_of(front), is_late, "interactive")
            self._models.note_begun(len(tasks))
            for task in tasks:
                self._begin(task, front)

    def _fail_all_of(self, member: Member, error: Exception) -> None:
        """Fails all questions that wait for a model that cannot be used; a later question tries it again."""
        reported = reported_as(error)
        for task in self._turns.take(None, self._models.members.names_of(member)):
            self._publish(AnswerFailed(task.in_flight.question.question_id, reported))
        if member.loaded is not None and (member.under_way.is_busy or not member.is_in_memory):
            self._models.start_over(member, error)

    def _begin(self, task: Task, member: Member | None) -> None:
        loaded = member.loaded if member is not None else None
        question_id = task.in_flight.question.question_id
        try:
            if task.in_flight.cancelled.is_set():
                self._publish(AnswerCancelled(question_id))
            elif member is None or loaded is None:
                _check_quotable(task.in_flight.question)
                self._publish(quoted(task.in_flight, self._evidence(task), self._quote_answer, self._publish))
            else:
                member.under_way.hand_in(task.in_flight, self._evidence(task), loaded)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the question
            self._publish(AnswerFailed(question_id, reported_as(error)))

    def _evidence(self, task: Task) -> Evidence:
        """Returns a question's evidence without documents that left the library meanwhile: they must not be cited.

        A continued answer keeps all of it, so that what it has cited keeps its number, read again or not.
        """
        documents = {passage.document_id for passage in task.evidence.passages}
        known = set(self._known_documents(documents))
        question = task.in_flight.question
        if documents <= known or question.unfinished is not None:
            return task.evidence
        if (asked := question.filters.document_ids) and not {*asked} & {*self._known_documents(asked)}:
            # Otherwise the answer would say that nothing was found there.
            raise NothingThere.any_more()
        evidence = task.evidence.of_documents(known)
        self._publish(PassagesFound(question.question_id, evidence.passages, evidence.quotes, evidence.scope))
        return evidence


def _check_quotable(question: Question) -> None:
    """Refuses what quotes cannot do: continue an answer, leave out the files, or follow a grammar or schema."""
    if question.unfinished is not None:
        raise BadRequest("Without a model no answer goes on.", "Choose a model, and continue it then.")
    if not question.searches:
        raise BadRequest(
            "Without a model answers are quotes from your files, and this question leaves them out.",
            "Choose a model, or ask your files.",
        )
    if question.sampling.grammar or question.sampling.json_schema:
        raise BadRequest(
            "Without a model no answer follows a grammar or a JSON schema.",
            "Choose a model, or ask without one of them.",
        )
