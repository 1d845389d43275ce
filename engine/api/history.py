"""Conversations that clients send whole with every question, and what is remembered so that nothing is read twice.

Applications that use this API keep the text of a chat and send all of it each time. What our answers are based on
(passages, their numbers, the tokens as they were written) is not included; so each answer stores its transcript here,
under a digest of the whole conversation, and the next question continues from it: its prompt begins with
the cached prompt of the previous one. A history that is not remembered is read as plain text, and so is one whose
passages are outside the question's filters.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

from engine.api.requests import ChatMessage
from engine.core import Filters
from engine.errors import BadRequest
from engine.generation.citations import without_markers
from engine.generation.conversation import Turn
from engine.generation.transcript import transcript_of
from engine.retrieval.query import ANYWHERE

# Conversations that are remembered: more than a user has open, and some megabytes at most.
MAX_REMEMBERED = 64
_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Said:
    """A conversation as it was sent: instructions, earlier turns, and the question."""

    instructions: str
    before: tuple[tuple[str, str], ...]
    question: str

    def with_answer(self, answer: str) -> tuple[tuple[str, str], ...]:
        """The turns before the next question."""
        return (*self.before, ("user", self.question), ("assistant", answer))


def said(messages: Sequence[ChatMessage]) -> Said:
    """Reads the messages of a request; consecutive ones of the same role are joined.

    An empty answer at the end is ignored. Without messages of the user, the last instruction is the question.

    Raises:
        BadRequest: There is no question, or a role is unknown.
    """
    instructions, turns = list[str](), list[tuple[str, str]]()
    for message in messages:
        text = message.text()
        if message.role in _INSTRUCTING:
            instructions.append(text)
        elif message.role not in ("user", "assistant"):
            raise BadRequest(f"Unknown message role {message.role!r}.")
        elif turns and turns[-1][0] == message.role:
            turns[-1] = (message.role, f"{turns[-1][1]}\n\n{text}")
        else:
            turns.append((message.role, text))
    instructions = list(filter(str.strip, instructions))
    if turns and turns[-1][0] == "assistant" and not turns[-1][1].strip():
        turns.pop()
    if not turns and instructions:
        turns.append(("user", instructions.pop()))
    if not turns or turns[-1][0] != "user":
        raise BadRequest("There is nothing to answer: the last message must be the user's.")
    return Said("\n\n".join(instructions), tuple(turns[:-1]), turns[-1][1])


@dataclass(frozen=True, slots=True)
class Searched:
    """Where passages may come from: one collection, several or all of them, and the filters."""

    collection: str | None = None
    filters: Filters = ANYWHERE

    def holds(self, other: Searched) -> bool:
        """Whether this scope contains the other, as far as names and filters show."""
        mine, theirs = self._collections, other._collections
        is_among = not mine or (bool(theirs) and theirs <= mine)
        return is_among and all(
            not one or one == other_one for one, other_one in zip(self._confined_to, other._confined_to, strict=True)
        )

    @property
    def _collections(self) -> frozenset[str]:
        """The collections that it is limited to; empty if it is not limited."""
        return frozenset(self.filters.collections if self.collection is None else (self.collection,))

    @property
    def _confined_to(self) -> tuple[object, ...]:
        filters = self.filters
        return (
            *(filters.paths, filters.formats),
            *(filters.changed_since, filters.changed_until, filters.document_ids),
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """`conversation_id` and `transcript`, as in `Question`.

    All passages of its transcript lie within `searched`; None means that it has no passages.
    """

    conversation_id: str
    transcript: tuple[dict[str, Any], ...]
    searched: Searched | None = None


class Conversations:
    """Remembers the newest conversations. From any thread."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_words: OrderedDict[str, Conversation] = OrderedDict()

    def of(self, words: Said, searched: Searched | None) -> Conversation:
        """The conversation that a question continues; `searched` is where its passages come from, None if no files are.

        It contains no passages from outside `searched`, because the question may not be answered from those.
        """
        if not words.before:
            return Conversation(uuid4().hex, (), searched)
        with self._lock:
            known = self._by_words.get(_digest(words.before))
        if known is None:
            return Conversation(uuid4().hex, as_it_was_said(words.before), searched)
        if known.searched is None or (searched is not None and searched.holds(known.searched)):
            return replace(known, searched=searched)
        # Their numbers would refer to other passages from now on.
        said_without = tuple((role, _without_numbers(role, text)) for role, text in words.before)
        return Conversation(uuid4().hex, as_it_was_said(said_without), searched)

    def note(self, words: Said, answer: str, conversation: Conversation, segments: tuple[dict[str, Any], ...]) -> None:
        """Remembers an answer, to which a later question may refer."""
        if not segments:
            return
        key = _digest(words.with_answer(answer))
        grown = replace(conversation, transcript=(*conversation.transcript, *segments))
        with self._lock:
            self._by_words[key] = grown
            self._by_words.move_to_end(key)
            while len(self._by_words) > self._most:
                self._by_words.popitem(last=False)


def as_it_was_said(before: Sequence[tuple[str, str]]) -> tuple[dict[str, Any], ...]:
    """A transcript of plain text; an answer without a question follows an empty one."""
    transcript, question = list[dict[str, Any]](), ""
    for role, text in before:
        if role == "user":
            question = text
        else:
            transcript += transcript_of(Turn(question, (), text, searches=False))
            question = ""
    return tuple(transcript)


def _without_numbers(role: str, text: str) -> str:
    return without_markers(text) if role == "assistant" else text


def _digest(turns: Sequence[tuple[str, str]]) -> str:
    """A digest of turns, ignoring white space around them, which clients may change."""
    pieces = (f"{role}\0{text.strip()}\0" for role, text in turns)
    return sha256("".join(pieces).encode("utf-8", "surrogatepass")).hexdigest()
