"""A conversation as a Markdown text that reads well anywhere: questions as headings, sources as a numbered list."""

from __future__ import annotations

import os
from collections.abc import Sequence

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.chats.records import Json, Turn
from app.sentences import listed

_ENDS = {
    "cancelled": str(QT_TRANSLATE_NOOP("export", "Stopped before the answer was complete.")),
    "failed": str(QT_TRANSLATE_NOOP("export", "This answer failed.")),
}


def markdown_of(title: str, turns: Sequence[Turn]) -> str:
    """One branch as Markdown."""
    parts = [f"# {_one_line(title)}"]
    for turn in turns:
        parts.append(f"## {_one_line(turn.question)}")
        if "\n" in turn.question.strip():
            parts.append(_quoted(turn.question))
        parts += _answer(turn)
    return "\n\n".join(parts) + "\n"


def _answer(turn: Turn) -> list[str]:
    outcome = turn.outcome
    parts = [outcome.text.strip()] if outcome.text.strip() else []
    if outcome.state == "finished" and not parts:
        parts.append(f"*{_nothing(turn)}*")
    if outcome.state in _ENDS:
        parts.append(f"*{outcome.error_sentence or _tr(_ENDS[outcome.state])}*")
    if outcome.passages:
        sources = "\n".join(_source(n, p) for n, p in enumerate(outcome.passages, start=1))
        parts.append(f"**{_tr('Sources')}**\n\n{sources}")
    if outcome.model:
        parts.append(f"*{_tr('Answered by %1.').replace('%1', outcome.model)}*")
    return parts


def _nothing(turn: Turn) -> str:
    """Why there is no answer, as the window says it."""
    outcome = turn.outcome
    if outcome.thoughts:
        return _tr("The model ended without an answer.")
    if outcome.model or not turn.searches:
        return _tr("The model wrote nothing.")
    return _tr("Not found in the files.")


def _source(number: int, passage: Json) -> str:
    path = os.fsencode(str(passage.get("document", ""))).decode("utf-8", "replace")
    page = passage.get("page")
    spot = str(passage.get("place") or "") or (_tr("page %1").replace("%1", str(page)) if page else "")
    return f"{number}. {_one_line(listed((path, spot)))}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


def _tr(text: str) -> str:
    return QCoreApplication.translate("export", text)
