"""What is stored of a conversation, as frozen values; what the engine returned stays plain JSON data here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from PySide6.QtCore import QT_TRANSLATE_NOOP

TurnRecordState = Literal["asked", "writing", "finished", "cancelled", "failed"]
Json = dict[str, Any]

# The `model` of a chat that is answered with quotes only; the same in the protocol.
NO_MODEL = "none"
# The error of a turn that was open when the window's process ended.
INTERRUPTED = str(QT_TRANSLATE_NOOP("chats", "Ragdoll was closed before this answer was complete."))


@dataclass(frozen=True, slots=True)
class Conversation:
    """One chat. Times are seconds since 1970; no `collections` searches all; `leaf_id` is the last turn shown.

    `filters` confine its next questions. `model` is the file of the model that answers them, "" the one chosen at the
    time, "none" only quotes. Unless it `searches`, questions go to the model alone, without files. `manner` holds the
    chat's own settings for answers, which override the general ones.
    """

    conversation_id: str
    title: str
    created: float
    updated: float
    is_pinned: bool = False
    collections: tuple[str, ...] = ()
    leaf_id: str | None = None
    filters: Json = field(default_factory=dict)
    model: str = ""
    searches: bool = True
    manner: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preset:
    """A manner with a name, to be copied into chats; new ones begin with a copy of the one that `is_for_new_chats`."""

    preset_id: str
    name: str
    manner: Json
    is_for_new_chats: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The part of a turn that changes while it is answered; from `passages` on, as the engine returned it."""

    state: TurnRecordState = "asked"
    text: str = ""
    error_sentence: str = ""
    passages: tuple[Json, ...] = ()
    quotes: tuple[Json, ...] = ()
    citations: tuple[Json, ...] = ()
    segments: tuple[Json, ...] = ()
    scope: Json | None = None
    timings: Json | None = None
    model: str | None = None
    finish_reason: str | None = None
    refreshes: tuple[Json, ...] = ()
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer; `parent_id` is the turn before it on its branch, None for the first.

    `filters` are what this question was confined to. Unless it `searches`, it was put to the model alone.
    """

    turn_id: str
    conversation_id: str
    parent_id: str | None
    question: str
    created: float
    outcome: Outcome = Outcome()
    filters: Json = field(default_factory=dict)
    searches: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """A question that is put to each file of some collections (none: of all) separately."""

    run_id: str
    question: str
    collections: tuple[str, ...]
    created: float


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file of a run and its answer, as far as a table shows it; until it is finished or failed, it waits.

    `places` say where in the file the answer was found. Its passages are read separately (`RunStore.outcome`).
    """

    file_id: str
    document_id: int
    path: str
    outcome: Outcome = Outcome()
    places: tuple[str, ...] = ()


# In the order of the table's columns.
OUTCOME_FIELDS: tuple[str, ...] = tuple(part.name for part in fields(Outcome))
JSON_FIELDS = frozenset({"passages", "quotes", "citations", "segments", "scope", "timings", "refreshes"})
