"""Calls about questions: submitting them, waiting for answers, and searching for passages only."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from engine.askable import check_question, check_scope, check_top_k
from engine.core import Answer, Document, Evidence, Filters, Question
from engine.each_file import ask_each, confined_to, until_model_fails
from engine.errors import NothingThere
from engine.events import AnswerEnded, AnswerFinished
from engine.library.well_formed import well_formed
from engine.life_cycle import LifeCycle
from engine.retrieval.query import ANYWHERE
from engine.waiting import finished, in_turn


class QuestionCalls(LifeCycle):
    """The engine's calls about questions. Safe from any thread."""

    # --- submitting; the rest comes as events ---

    def submit(self, question: Question) -> None:
        """Queues a question; its progress comes as events, the last of which is finished, cancelled or failed.

        Raises:
            BadRequest: Empty text, an invalid date or sampling parameter, or the id of a question that is still open.
            NothingThere: There is no such collection.
            ModelError: The question names a model that cannot be used.
        """
        self.take(question)()

    def take(self, question: Question) -> Callable[[], None]:
        """Registers a question, which can be cancelled from now on; returns at once.

        Returns:
            A function that does the rest of `submit`, and raises as it does; reading a file may take minutes.

        Raises:
            BadRequest: The id is that of a question that is still open.
        """
        return self._intake.take(question)

    def cancel(self, question_id: str) -> None:
        """Stops a question soon, and returns at once; harmless when it has ended."""
        self._intake.cancel(question_id)

    def cancel_all(self) -> None:
        """Stops all questions soon."""
        self._intake.cancel_all()

    # --- waiting for answers ---

    def ask(self, text: str, **options: Any) -> Answer:
        """Asks and waits. `options` are fields of Question (collection, transcript, sampling …).

        Raises:
            RagdollError: Why it failed.
        """
        return self.ask_many([text], **options)[0].answer

    def ask_many(self, texts: Sequence[str], **options: Any) -> list[AnswerFinished]:
        """Asks all at once and waits for all; answers in the order of the texts. Raises the first failure."""
        return [finished(end) for end in self.ask_each(texts, **options)]

    def ask_each(self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any) -> list[AnswerEnded]:
        """Does the same as `ask_many` without raising: returns how each question ended, in the order of the texts."""
        with closing(self._asked(texts, models, options)) as ends:
            return list(in_turn(ends))

    def ask_in_turn(
        self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any
    ) -> Generator[AnswerEnded, None, None]:
        """Yields the same in order, each as soon as all earlier ones have ended. Closing it cancels the rest.

        `models` names the model of each question, "" for the chosen one; None: all use that of `options`.

        Raises:
            ModelError: The one model of all is unavailable. Where `models` names several, their questions fail instead.
        """
        with closing(self._asked(texts, models, options)) as ends:
            yield from in_turn(ends if any(models or ()) else until_model_fails(ends))

    def ask_each_file(
        self, text: str, collection: str | None = None, filters: Filters = ANYWHERE, **options: Any
    ) -> Generator[tuple[Document, AnswerEnded], None, None]:
        """Asks each document of a collection, or of all, and yields how each question ended, as it does.

        Questions from the window go first. `options` are fields of Question. Closing it cancels the rest.

        Raises:
            BadRequest: The question is empty, or a sampling parameter or a date of the filters is invalid.
            NothingThere: There is no such collection, or nothing has been indexed at a path.
            ModelError: While iterating: the model is unavailable.
        """
        options = self._by_settings(options)
        check_question(text, options["sampling"])
        documents = self.documents_to_ask(collection, filters)

        def ask(document: Document, question_id: str) -> Question:
            return Question(question_id, text, filters=confined_to(document), priority="batch", **options)

        return until_model_fails(ask_each(documents, ask, self.submit, self.cancel, self.subscribe))

    def documents_to_ask(self, collection: str | None = None, filters: Filters = ANYWHERE) -> tuple[Document, ...]:
        """Returns the documents that `ask_each_file` asks, ordered by path. Raises as it does."""
        check_scope(self._catalog, collection, filters)
        documents = self._catalog.stored_documents(collection, filters)
        if not documents:
            raise NothingThere("There is no file to ask here.", "Add files first, or ask with fewer filters.")
        return documents

    # --- passages only ---

    def search(self, query: str, top_k: int, collection: str | None = None, filters: Filters = ANYWHERE) -> Evidence:
        """Returns passages for one query. Raises as `search_many` does."""
        return self.search_many([query], top_k, collection, filters)[0]

    def search_many(
        self, queries: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        """Returns passages for many queries at once: one sweep costs little more than one query.

        Raises:
            NothingThere: There is no such collection, or nothing of the library at a path of the filters.
            BadRequest: A date of the filters is invalid, or `top_k` is out of range.
        """
        check_top_k(top_k)
        check_scope(self._catalog, collection, filters)
        return self._parts.retrieval.search(list(map(well_formed, queries)), top_k, collection, filters)

    # --- inside ---

    def _asked(
        self, texts: Sequence[str], models: Sequence[str] | None, options: dict[str, Any]
    ) -> Generator[tuple[int, AnswerEnded], None, None]:
        """Yields the index of each text and how its question ended, as they end."""
        options = self._by_settings(options)
        # Many at once come from a script, which can wait for users at the window.
        options.setdefault("priority", "batch" if len(texts) > 1 else "interactive")

        def ask(number: int, question_id: str) -> Question:
            question = Question(question_id, texts[number], **options)
            return question if models is None else replace(question, model=models[number])

        return ask_each(range(len(texts)), ask, self.submit, self.cancel, self.subscribe)

    def _by_settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Fields of Question; those that are not given are taken from the settings."""
        generation = self.settings.generation
        return {"sampling": generation.sampling(), "instructions": generation.instructions, **options}
