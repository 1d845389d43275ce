"""The title of a chat until the user renames it: of a new one by its first question, of a copy by a number."""

from __future__ import annotations

import re
from collections.abc import Collection

_TITLE_CHARS = 60
_NUMBER = re.compile(r" \((\d{1,6})\)$")


def title_from(question: str) -> str:
    """Returns a chat's first title: the first line of its first question, cut at a word."""
    line = " ".join(question.strip().splitlines()[0].split()) if question.strip() else ""
    if len(line) <= _TITLE_CHARS:
        return line
    cut = line[:_TITLE_CHARS]
    # Chinese has no spaces to cut at.
    return (cut.rsplit(" ", 1)[0] if " " in cut[-20:] else cut).rstrip(" ,;:.") + "…"


def title_of_copy(title: str, taken: Collection[str]) -> str:
    """Returns the title with the next free number: `Lease (2)`, or `Lease (3)` for a copy of that."""
    found = _NUMBER.search(title)
    stem, number = (title[: found.start()], int(found[1])) if found else (title, 1)
    while (made := f"{stem} ({number + 1})") in taken:
        number += 1
    return made
