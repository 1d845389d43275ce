"""A conversation as a Markdown text that reads well anywhere: questions as headings, sources as a numbered list."""

from __future__ import annotations

import os
from collections.abc import Sequence

from app.chats.records import Json, Turn

_ENDS = {"cancelled": "Stopped before the answer was complete.", "failed": "This answer failed."}
# Of what a chat has of its own, figures.
_FIGURES = {
    "max_tokens": "at most %1 tokens an answer",
    "temperature": "temperature %1",
    "top_p": "top P %1",
    "min_p": "min P %1",
}


def markdown_of(title: str, turns: Sequence[Turn], manner: Json | None = None) -> str:
    """One branch as Markdown; `manner` is what its chat has of its own instead of the settings."""
    parts = [f"# {_one_line(title)}", *_manner(manner or {})]
    for turn in turns:
        parts.append(f"## {_one_line(turn.question)}")
        if "\n" in turn.question.strip():
            parts.append(_quoted(turn.question))
        parts += _answer(turn)
    return "\n\n".join(parts) + "\n"


def _manner(manner: Json) -> list[str]:
    instructions = str(manner.get("instructions") or "").strip()
    figures = [words.replace("%1", str(manner[name])) for name, words in _FIGURES.items() if name in manner]
    parts = [f"*Instructions of this chat:*\n\n{_quoted(instructions)}"] if instructions else []
    return [*parts, f"*Settings of this chat: {', '.join(figures)}.*"] if figures else parts


def _answer(turn: Turn) -> list[str]:
    outcome = turn.outcome
    parts = [outcome.text.strip()] if outcome.text.strip() else []
    if outcome.state == "finished" and not parts:
        parts.append(f"*{_nothing(turn)}*")
    if outcome.state in _ENDS:
        parts.append(f"*{outcome.error_sentence or _ENDS[outcome.state]}*")
    if outcome.passages:
        parts.append("**Sources**\n\n" + "\n".join(_source(n, p) for n, p in enumerate(outcome.passages, start=1)))
    if outcome.model:
        parts.append(f"*Answered by {outcome.model}.*")
    return parts


def _nothing(turn: Turn) -> str:
    """Why there is no answer, as the window says it."""
    outcome = turn.outcome
    if outcome.thoughts:
        return "The model ended without an answer."
    if outcome.model or not turn.searches:
        return "The model wrote nothing."
    return "Not found in the files."


def _source(number: int, passage: Json) -> str:
    path = os.fsencode(str(passage.get("document", ""))).decode("utf-8", "replace")
    page = passage.get("page")
    spot = str(passage.get("place") or "") or (f"page {page}" if page else "")
    place = f"{path}, {spot}" if spot else path
    return f"{number}. {_one_line(place)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())
