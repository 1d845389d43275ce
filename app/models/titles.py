"""The title of a chat until the user renames it."""

from __future__ import annotations

_TITLE_CHARS = 60


def title_from(question: str) -> str:
    """Returns a chat's first title: the first line of its first question, cut at a word."""
    line = " ".join(question.strip().splitlines()[0].split()) if question.strip() else ""
    if len(line) <= _TITLE_CHARS:
        return line
    cut = line[:_TITLE_CHARS]
    # Chinese has no spaces to cut at.
    return (cut.rsplit(" ", 1)[0] if " " in cut[-20:] else cut).rstrip(" ,;:.") + "…"
