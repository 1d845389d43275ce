"""Chats as JSON that can be read back: everything that is stored of them, in a format with a version.

Text is UTF-8; what of a file name is not UTF-8 is a JSON escape. What is read is checked whole before anything of it is
used, because such a file may have been cut, edited, or made by another application.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, get_args

from PySide6.QtCore import QCoreApplication

from app.chats.copies import WholeChat
from app.chats.records import JSON_FIELDS, OUTCOME_FIELDS, Conversation, Json, Outcome, Turn, TurnRecordState
from engine.protocol import RagdollError

_FORMAT = "ragdoll-chats"
_VERSION = 1
_STATES = frozenset(get_args(TurnRecordState))
# The parts of an outcome that are one object or none, and the texts that may be missing.
_OBJECTS = frozenset({"scope", "timings"})
_MAYBE_TEXTS = frozenset({"model", "finish_reason"})


class NotImported(RagdollError):
    """A file that holds no chats that this version can read."""


class _Damaged(Exception):
    """A value is missing or of the wrong type."""


def json_of(chats: Iterable[WholeChat]) -> bytes:
    """Returns the content of a file with these chats."""
    content = {"format": _FORMAT, "version": _VERSION, "chats": [_chat_to(chat) for chat in chats]}
    # A lone surrogate stands for a byte of a file name; its backslash escape is also that of JSON.
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


def chats_in(content: bytes, name: str) -> tuple[WholeChat, ...]:
    """Returns the chats in such a file, under the ids they had; `name` is the file's. Raises NotImported."""
    if _FORMAT.encode() not in content:
        # Parsing it would hold up the window, which shares the interpreter.
        raise _foreign(name)
    try:
        root = json.loads(content.decode("utf-8-sig"), parse_constant=_refused, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        # Any other text is more likely a file of something else than a damaged one of ours.
        is_ours = _FORMAT.encode() in content[:200]
        raise (_damaged(name) if is_ours else _foreign(name)) from error
    if not isinstance(root, dict) or root.get("format") != _FORMAT:
        raise _foreign(name)
    version = root.get("version")
    if isinstance(version, int) and version > _VERSION:
        sentence = _tr("“%1” was written by a newer Ragdoll, so nothing was imported.").replace("%1", name)
        raise NotImported(sentence, _tr("Update Ragdoll, then import it again."))
    try:
        return tuple(_chat_from(record) for record in _records(root, "chats"))
    except (_Damaged, OverflowError) as error:
        raise _damaged(name) from error


def _chat_to(chat: WholeChat) -> Json:
    one = chat.conversation
    return {
        "conversation_id": one.conversation_id,
        "title": one.title,
        "created": one.created,
        "updated": one.updated,
        "is_pinned": one.is_pinned,
        "collections": list(one.collections),
        "searches": one.searches,
        "filters": one.filters,
        "model": one.model,
        "manner": one.manner,
        "leaf_id": one.leaf_id,
        "turns": [_turn_to(turn) for turn in chat.turns],
    }


def _turn_to(turn: Turn) -> Json:
    return {
        "turn_id": turn.turn_id,
        "parent_id": turn.parent_id,
        "question": turn.question,
        "created": turn.created,
        "filters": turn.filters,
        "searches": turn.searches,
        **{name: getattr(turn.outcome, name) for name in OUTCOME_FIELDS},
    }


def _chat_from(record: Json) -> WholeChat:
    conversation_id, seen = _text(record, "conversation_id"), set[str]()
    turns = tuple(_turn_from(part, conversation_id, seen) for part in _records(record, "turns"))
    collections = _value(record, "collections", list, [])
    if not all(isinstance(name, str) for name in collections):
        raise _Damaged("collections")
    conversation = Conversation(
        conversation_id,
        _text(record, "title"),
        _seconds(record, "created"),
        _seconds(record, "updated"),
        _value(record, "is_pinned", bool, False),
        tuple(collections),
        _maybe_text(record, "leaf_id"),
        _value(record, "filters", dict, {}),
        _value(record, "model", str, ""),
        _value(record, "searches", bool, True),
        _value(record, "manner", dict, {}),
    )
    return WholeChat(conversation, turns)


def _turn_from(record: Json, conversation_id: str, seen: set[str]) -> Turn:
    """Returns a turn; `seen` are the ids of those before it, and then its own as well."""
    turn_id, parent_id = _text(record, "turn_id"), _maybe_text(record, "parent_id")
    if turn_id in seen or (parent_id is not None and parent_id not in seen):
        raise _Damaged("turn_id")
    seen.add(turn_id)
    return Turn(
        turn_id,
        conversation_id,
        parent_id,
        _text(record, "question"),
        _seconds(record, "created"),
        Outcome(**{name: _part(record, name) for name in OUTCOME_FIELDS}),
        _value(record, "filters", dict, {}),
        _value(record, "searches", bool, True),
    )


def _part(record: Json, name: str) -> Any:
    """Returns a part of an outcome."""
    if name == "state":
        state = _text(record, name)
        if state not in _STATES:
            raise _Damaged(name)
        return state
    if name in _OBJECTS:
        return None if record.get(name) is None else _value(record, name, dict, None)
    if name in JSON_FIELDS:
        return tuple(_records(record, name) if name in record else ())
    return _maybe_text(record, name) if name in _MAYBE_TEXTS else _value(record, name, str, "")


def _records(record: Json, name: str) -> list[Json]:
    found = record.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _Damaged(name)
    return found


def _text(record: Json, name: str) -> str:
    found = record.get(name)
    if not isinstance(found, str):
        raise _Damaged(name)
    return found


def _maybe_text(record: Json, name: str) -> str | None:
    return None if record.get(name) is None else _text(record, name)


def _seconds(record: Json, name: str) -> float:
    found = record.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _Damaged(name)
    return float(found)


def _value(record: Json, name: str, kind: type, otherwise: Any) -> Any:
    """Returns a value of this type, or `otherwise` if there is none."""
    found = record.get(name, otherwise)
    if not isinstance(found, kind):
        raise _Damaged(name)
    return found


def _refused(name: str) -> float:
    """Refuses NaN and infinities, which nothing could be shown of."""
    raise ValueError(name)


def _whole(digits: str) -> int:
    """Returns a whole number. Raises ValueError for one beyond 64 bits, which Qt cannot show."""
    number = int(digits)
    if not -(2**63) <= number < 2**63:
        raise ValueError("too large")
    return number


def _foreign(name: str) -> NotImported:
    sentence = _tr("“%1” holds no chats of Ragdoll, so nothing was imported.").replace("%1", name)
    return NotImported(sentence, _tr("Choose JSON files that Ragdoll has exported."))


def _damaged(name: str) -> NotImported:
    sentence = _tr("“%1” is incomplete or damaged, so nothing was imported.").replace("%1", name)
    return NotImported(sentence, _tr("Export the chats again, or leave this file out."))


def _tr(text: str) -> str:
    return QCoreApplication.translate("exchange", text)
