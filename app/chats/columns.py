"""An outcome, and collections, as columns of a table, and back: JSON for what has parts, text that UTF-8 can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.chats.records import JSON_FIELDS, OUTCOME_FIELDS, Outcome

OUTCOME = ", ".join(OUTCOME_FIELDS)
OUTCOME_PLACES = ", ".join(f"{name} = ?" for name in OUTCOME_FIELDS)
_NOTHING = Outcome()


def columns_of(outcome: Outcome) -> tuple[object, ...]:
    """In the order of `OUTCOME_FIELDS`."""
    values = {name: getattr(outcome, name) for name in OUTCOME_FIELDS}
    return tuple(
        # ASCII, so that surrogate escapes in file names pass.
        json.dumps(value) if name in JSON_FIELDS else storable(value) if isinstance(value, str) else value
        for name, value in values.items()
    )


def outcome_from(row: Sequence[Any], names: Sequence[str] = OUTCOME_FIELDS) -> Outcome:
    """Of columns in that order, or of those that are named; the others are as at the beginning."""
    values = {
        name: _tupled(parsed(value, getattr(_NOTHING, name))) if name in JSON_FIELDS else value
        for name, value in zip(names, row, strict=True)
    }
    return Outcome(**values)


def columns_of_collections(names: Sequence[str]) -> tuple[str | None, str]:
    """One by itself, NULL where all are asked or several; and several, as JSON."""
    return (names[0], "[]") if len(names) == 1 else (None, json.dumps(list(names)))


def collections_from(one: str | None, several: str) -> tuple[str, ...]:
    """What is asked by those columns; () is all."""
    if one is not None:
        return (one,)
    names = parsed(several, ())
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def parsed(stored: str, otherwise: Any) -> Any:
    """What was stored as JSON. SQLite does not notice all damage; what is no JSON any more is lost alone."""
    try:
        return json.loads(stored)
    except ValueError:
        return otherwise


def decoded(stored: bytes) -> str:
    """Text of the file, with replacements where damage has left no UTF-8: it would take all rows with it."""
    return stored.decode("utf-8", "replace")


def storable(text: str) -> str:
    """Text that UTF-8 can hold: surrogate pairs become their character, halves of pairs a replacement."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
