"""Requests about what is in the files: a question to be answered, or passages to be found."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.core import MAX_INSTRUCTIONS, Filters, Passage, Priority, SamplingParams, Scope, Unfinished
from engine.protocol.message import Message, Method, Nothing


class Manner(Message):
    """How a question is answered if not as the engine's settings say; None is as they say.

    The fields are called as in SamplingParams, except for `instructions`.
    """

    instructions: str | None = Field(None, max_length=MAX_INSTRUCTIONS)
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    thinks: bool | None = None
    beam_width: int | None = None


class Ask(Message):
    """A question. Its answer comes as `answer.*` notifications and ends in exactly one of finished, cancelled, failed.

    `transcript` is the concatenation of the `segments` that the answers of this conversation returned. `sampling` and
    `instructions` None mean the engine's settings; `manner` and `num_answers` change single values of these. `priority`
    says who waits for the answer. `model` is the file of the model that is to answer, "" for the chosen one, "none" for
    quotes. `unfinished` is an interrupted answer to this question, after this transcript, that is continued: nothing is
    searched for, `answer.tokens` follow its text, and the finished answer is all of it. Unless it `searches`, the model
    answers alone, without the user's files.
    """

    question_id: str
    text: str
    collection: str | None = None
    conversation_id: str = ""
    transcript: tuple[dict[str, Any], ...] = ()
    top_k: int | None = None
    sampling: SamplingParams | None = None
    manner: Manner = Manner()
    num_answers: int | None = None
    filters: Filters = Filters()
    priority: Priority = "interactive"
    model: str = ""
    instructions: str | None = None
    unfinished: Unfinished | None = None
    searches: bool = True


class CancelQuestion(Message):
    question_id: str


class Search(Message):
    query: str
    top_k: int = 6
    collection: str | None = None
    filters: Filters = Filters()


class SearchReply(Message):
    passages: tuple[Passage, ...]
    scope: Scope


class SearchMany(Message):
    """Several queries in one sweep; the other fields as in `Search`."""

    queries: tuple[str, ...]
    top_k: int = 6
    collection: str | None = None
    filters: Filters = Filters()


class SearchManyReply(Message):
    """One reply for each query, in their order."""

    found: tuple[SearchReply, ...]


class Confined(Message):
    """Where to ask: a collection, None for all, and further filters."""

    collection: str | None = None
    filters: Filters = Filters()


class DocumentsToAsk(Message):
    """The documents that a question to every file is put to, ordered by path."""

    document_ids: tuple[int, ...]


ASK = Method("ask", Ask, Nothing)
CANCEL = Method("cancel", CancelQuestion, Nothing)
SEARCH = Method("search", Search, SearchReply)
SEARCH_MANY = Method("search.many", SearchMany, SearchManyReply)
DOCUMENTS_TO_ASK = Method("documents.to_ask", Confined, DocumentsToAsk)
