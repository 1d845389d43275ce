"""Conversations that come back whole with every question, and what is remembered of them so that nothing is read twice.

Applications that speak this protocol keep the words of a chat and send all of them each time. What our answers rest on
(passages, their numbers, the tokens as they were written) is not among them; so each answer leaves its transcript here,
under a digest of all that was said until then, and the question that follows goes on from it: its prompt begins with
what is kept of the one before. A history that nobody remembers is read as it was said, and so is one whose passages
are from elsewhere than where the question may be answered from.
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

# Conversations that go on: more than anybody has open, and some megabytes at most.
MAX_REMEMBERED = 64
_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Said:
    """A conversation as it was sent: what is wanted of every answer, what was said before, and the question."""

    instructions: str
    before: tuple[tuple[str, str], ...]
    question: str

    def with_answer(self, answer: str) -> tuple[tuple[str, str], ...]:
        """What comes before the next question."""
        return (*self.before, ("user", self.question), ("assistant", answer))


def said(messages: Sequence[ChatMessage]) -> Said:
    """Reads the messages of a request; those of one role that follow each other are one.

    An answer without a word at the end is none yet. Where nobody says anything, the last instruction is what is asked.

    Raises:
        BadRequest: Nothing is asked, or somebody speaks whom we do not know.
    """
    instructions, turns = list[str](), list[tuple[str, str]]()
    for message in messages:
        text = message.text()
        if message.role in _INSTRUCTING:
            instructions.append(text)
        elif message.role not in ("user", "assistant"):
            raise BadRequest(f"A message is of the role {message.role!r}, which nobody has here.")
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
        raise BadRequest("The last message has to be the user's: there is nothing to answer.")
    return Said("\n\n".join(instructions), tuple(turns[:-1]), turns[-1][1])


@dataclass(frozen=True, slots=True)
class Searched:
    """Where passages may come from: one collection, or all of them, and what filters leave of that."""

    collection: str | None = None
    filters: Filters = ANYWHERE

    def holds(self, other: Searched) -> bool:
        """Whether whatever lies in the other lies in this one as well, as far as their words tell."""
        return all(
            not mine or mine == theirs for mine, theirs in zip(self._confined_to, other._confined_to, strict=True)
        )

    @property
    def _confined_to(self) -> tuple[object, ...]:
        filters = self.filters
        return (
            *(self.collection, filters.paths, filters.formats),
            *(filters.changed_since, filters.changed_until, filters.document_ids),
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """`conversation_id` and `transcript` as a question has them.

    All passages of its transcript lie where was `searched`; None: it has none.
    """

    conversation_id: str
    transcript: tuple[dict[str, Any], ...]
    searched: Searched | None = None


class Conversations:
    """Remembers the newest ones. From any thread."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_words: OrderedDict[str, Conversation] = OrderedDict()

    def of(self, words: Said, searched: Searched | None) -> Conversation:
        """What a question goes on from that is `searched` for there; None: it is for a model by itself.

        Passages from elsewhere are none of it: it may not be answered from them.
        """
        if not words.before:
            return Conversation(uuid4().hex, (), searched)
        with self._lock:
            known = self._by_words.get(_digest(words.before))
        if known is None:
            return Conversation(uuid4().hex, as_it_was_said(words.before), searched)
        if known.searched is None or (searched is not None and searched.holds(known.searched)):
            return replace(known, searched=searched)
        # Their numbers would be those of other passages from now on.
        said_without = tuple((role, _without_numbers(role, text)) for role, text in words.before)
        return Conversation(uuid4().hex, as_it_was_said(said_without), searched)

    def note(self, words: Said, answer: str, conversation: Conversation, segments: tuple[dict[str, Any], ...]) -> None:
        """An answer was given in it, and may be asked back about."""
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
    """A transcript of words alone; an answer that nobody asked for stands behind an empty question."""
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
    """Of what was said: white space around an answer is nobody's to keep."""
    pieces = (f"{role}\0{text.strip()}\0" for role, text in turns)
    return sha256("".join(pieces).encode("utf-8", "surrogatepass")).hexdigest()
