"""Takes in questions: each is checked, its model looked up, and handed to the thread that answers it; or it is refused.

It can be cancelled as soon as it is taken in; once it is handed over, the thread that has it ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.askable import check_question, check_scope, check_top_k, check_unfinished
from engine.assembly import Parts
from engine.choice import ModelChoice
from engine.core import Evidence, Question, Scope
from engine.events import AnswerCancelled, AnswerStateChanged, Publish
from engine.inflight import QuestionInFlight
from engine.library.well_formed import well_formed
from engine.questions import OpenQuestions

log = logging.getLogger(__name__)
_NOTHING_SEARCHED = Evidence((), (), Scope(0, 0, 0))


class QuestionIntake:
    """Checks questions and hands them over. From any thread."""

    def __init__(self, questions: OpenQuestions, choice: ModelChoice, parts: Parts, publish: Publish) -> None:
        """Prepares.

        Args:
            questions: Those that have not ended.
            choice: Knows which model a question names.
            parts: Those that answer.
            publish: Where events go.
        """
        self._questions, self._choice, self._parts, self._publish = questions, choice, parts, publish
        self._is_closing = False

    def take(self, question: Question) -> Callable[[], None]:
        """Registers a question, and returns a function that does the rest.

        Raises:
            BadRequest: The id is that of a question still open. The returned function raises why the question is
                refused.
        """
        in_flight = QuestionInFlight(question)
        self._questions.add(in_flight)
        if self._is_closing:
            self.cancel(question.question_id)
        return partial(self._hand_over, in_flight)

    def cancel(self, question_id: str) -> None:
        """Stops a question soon, and waits for nothing; harmless when it has ended."""
        if self._questions.cancel(question_id):
            self._publish(AnswerCancelled(question_id))

    def cancel_all(self) -> None:
        """Stops all questions soon."""
        for in_flight in self._questions.all():
            self.cancel(in_flight.question.question_id)

    def close(self) -> None:
        """Stops all questions, now and from now on: a client that keeps asking must not keep an engine open."""
        self._is_closing = True
        self.cancel_all()

    def _hand_over(self, in_flight: QuestionInFlight) -> None:
        question = in_flight.question
        try:
            check_question(question.text, question.sampling)
            check_unfinished(question.unfinished)
            check_top_k(question.top_k)
            check_scope(self._parts.catalog, question.collection, question.filters)
            in_flight.question = replace(
                question,
                text=well_formed(question.text),
                instructions=well_formed(question.instructions),
                model=self._choice.asked_for(question.model),
            )
        except BaseException as error:
            if self._questions.withdraw(in_flight) or not isinstance(error, Exception):
                raise
            # It has ended as cancelled: no client waits for a refusal.
            log.info("question %s was cancelled before it was refused: %s", question.question_id, error)
            return
        if self._questions.hand_over(in_flight):
            self._parts.goodput.asked(in_flight.question)
            if in_flight.question.searches or in_flight.question.unfinished is not None:
                self._parts.answer(in_flight)
            else:
                self._put_to_model(in_flight)

    def _put_to_model(self, in_flight: QuestionInFlight) -> None:
        """Hands a question to the generation thread without evidence: it waits for no search, and needs no index."""
        in_flight.timeline.mark("retrieval_started")
        in_flight.timeline.mark("retrieval_ended")
        self._publish(AnswerStateChanged(in_flight.question.question_id, "queued"))
        self._parts.generation.submit(in_flight, _NOTHING_SEARCHED)
