"""Calls about questions: asked and followed by events, or waited for; and passages alone, which need no answer."""

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
    """Safe from any thread."""

    # --- one by one, followed by events ---

    def submit(self, question: Question) -> None:
        """Queues a question; its life comes as events and ends in finished, cancelled or failed.

        Raises:
            BadRequest: Empty text, a date that is none, sampling that cannot be, or the id of a question still open.
            NothingThere: There is no such collection.
            ModelError: The question names a model that cannot be used.
        """
        self.take(question)()

    def take(self, question: Question) -> Callable[[], None]:
        """Registers a question, which can be cancelled from now on, and waits for nothing.

        Returns:
            What does all else that `submit` does, and raises as it does: looking at a file may take minutes.

        Raises:
            BadRequest: The id is that of a question still open.
        """
        return self._taking_in.take(question)

    def cancel(self, question_id: str) -> None:
        """Stops a question soon, and waits for nothing; harmless when it has ended."""
        self._taking_in.cancel(question_id)

    def cancel_all(self) -> None:
        """Stops all questions soon."""
        self._taking_in.cancel_all()

    # --- waited for ---

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
        """As `ask_many`, but raises nothing: how each question ended, in the order of the texts."""
        with closing(self._asked(texts, models, options)) as ends:
            return list(in_turn(ends))

    def ask_in_turn(
        self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any
    ) -> Generator[AnswerEnded, None, None]:
        """The same, each told once all before it have ended. Closing it cancels what is left.

        `models`: the one that each names, "" for the chosen one; None: all the same, by `options`.

        Raises:
            ModelError: The one that all are for cannot be had. Where some name another, its own have failed instead.
        """
        with closing(self._asked(texts, models, options)) as ends:
            yield from in_turn(ends if any(models or ()) else until_model_fails(ends))

    def ask_each_file(
        self, text: str, collection: str | None = None, filters: Filters = ANYWHERE, **options: Any
    ) -> Generator[tuple[Document, AnswerEnded], None, None]:
        """Puts a question to each document of a collection, or of all, and tells of each how it ended, as it does.

        Somebody at the window goes before them. `options` are fields of Question. Closing it cancels what is left.

        Raises:
            BadRequest: The question is empty, or sampling or a date of the filters cannot be.
            NothingThere: There is no such collection, or nothing that was read of the library at a path.
            ModelError: Later: the model cannot be had.
        """
        options = self._by_settings(options)
        check_question(text, options["sampling"])
        documents = self.documents_to_ask(collection, filters)

        def ask(document: Document, question_id: str) -> Question:
            return Question(question_id, text, filters=confined_to(document), priority="batch", **options)

        return until_model_fails(ask_each(documents, ask, self.submit, self.cancel, self.subscribe))

    def documents_to_ask(self, collection: str | None = None, filters: Filters = ANYWHERE) -> tuple[Document, ...]:
        """The documents that `ask_each_file` asks, ordered by path. Raises NothingThere and BadRequest as it does."""
        check_scope(self._catalog, collection, filters)
        documents = self._catalog.stored_documents(collection, filters)
        if not documents:
            raise NothingThere("There is no file to ask here.", "Add files first, or ask with fewer filters.")
        return documents

    # --- passages alone ---

    def search(self, query: str, top_k: int, collection: str | None = None, filters: Filters = ANYWHERE) -> Evidence:
        """Passages for one query. Raises as `search_many` does."""
        return self.search_many([query], top_k, collection, filters)[0]

    def search_many(
        self, queries: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        """Passages for many queries at once: one sweep costs little more than one query.

        Raises:
            NothingThere: There is no such collection, or nothing of the library at a path of the filters.
            BadRequest: A date of the filters is none, or nobody reads so many passages.
        """
        check_top_k(top_k)
        check_scope(self._catalog, collection, filters)
        return self._parts.retrieval.search(list(map(well_formed, queries)), top_k, collection, filters)

    # --- inside ---

    def _asked(
        self, texts: Sequence[str], models: Sequence[str] | None, options: dict[str, Any]
    ) -> Generator[tuple[int, AnswerEnded], None, None]:
        """The numbers of the texts, each with how its question ended, as they do."""
        options = self._by_settings(options)
        # Many at once are a script's, which can wait for somebody at the window.
        options.setdefault("priority", "batch" if len(texts) > 1 else "interactive")

        def ask(number: int, question_id: str) -> Question:
            question = Question(question_id, texts[number], **options)
            return question if models is None else replace(question, model=models[number])

        return ask_each(range(len(texts)), ask, self.submit, self.cancel, self.subscribe)

    def _by_settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Fields of Question, with those that the settings choose where they are not given."""
        generation = self.settings.generation
        return {"sampling": generation.sampling(), "instructions": generation.instructions, **options}
