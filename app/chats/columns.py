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
    """Returns an outcome's values for the table, in the order of `OUTCOME_FIELDS`."""
    values = {name: getattr(outcome, name) for name in OUTCOME_FIELDS}
    return tuple(
        # ASCII, so that surrogate escapes in file names pass.
        json.dumps(value) if name in JSON_FIELDS else storable(value) if isinstance(value, str) else value
        for name, value in values.items()
    )


def outcome_from(row: Sequence[Any], names: Sequence[str] = OUTCOME_FIELDS) -> Outcome:
    """Returns the outcome of a row with the columns `names`; the other fields have their defaults."""
    values = {
        name: _tupled(parsed(value, getattr(_NOTHING, name))) if name in JSON_FIELDS else value
        for name, value in zip(names, row, strict=True)
    }
    return Outcome(**values)


def columns_of_collections(names: Sequence[str]) -> tuple[str | None, str]:
    """Returns two columns: the name of a single collection, else NULL; and several names as JSON."""
    return (names[0], "[]") if len(names) == 1 else (None, json.dumps(list(names)))


def collections_from(one: str | None, several: str) -> tuple[str, ...]:
    """Returns the collections that these two columns name; () stands for all."""
    if one is not None:
        return (one,)
    names = parsed(several, ())
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def parsed(stored: str, otherwise: Any) -> Any:
    """Returns what was stored as JSON, or `otherwise` if it is damaged: SQLite does not detect all damage."""
    try:
        return json.loads(stored)
    except ValueError:
        return otherwise


def decoded(stored: bytes) -> str:
    """Returns text of the file, with replacements for invalid UTF-8, which would make all rows unreadable."""
    return stored.decode("utf-8", "replace")


def storable(text: str) -> str:
    """Returns text that UTF-8 can hold: surrogate pairs become their character, lone halves a replacement."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
