"""Closing the window: unsent text is kept for the next start, and the user is asked before anything is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.models.open_chat import Choices
from app.models.turn_records import filters_of, manner_of, stored_filters, stored_manner
from app.widgets.prompt_edit import MAX_CHARACTERS
from app.windows.questions import ask_first
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMessageBox, QWidget

    from app.settings import SettingsStore

MOST_EDITS = 20
_UNSENT = (
    "unsent_question",
    "unsent_for_every_file",
    "unsent_edits",
    "unsent_choices",
    "unsent_drafts",
    "unsent_waiting",
)


def as_text(edits: Mapping[str, str]) -> str:
    """Returns the newest drafts as JSON: of edited questions by their turns, of new ones by their chats."""
    kept = list(edits.items())[-MOST_EDITS:]
    if not kept:
        return ""
    return json.dumps({turn_id: text[:MAX_CHARACTERS] for turn_id, text in kept}, ensure_ascii=False)


def edits_in(text: str) -> dict[str, str]:
    """Returns the drafts in such a text; none if it is not ours."""
    try:
        edits = json.loads(text or "{}")
    except ValueError:
        return {}
    pairs = edits.items() if isinstance(edits, dict) else ()
    return {turn_id: edit for turn_id, edit in pairs if isinstance(edit, str)}


def waiting_as_text(texts: Mapping[str, Sequence[str]]) -> str:
    """Returns the waiting questions as JSON, by their chats; "" for none."""
    kept = {chat_id: [text[:MAX_CHARACTERS] for text in row] for chat_id, row in list(texts.items())[-MOST_EDITS:]}
    return json.dumps(kept, ensure_ascii=False) if kept else ""


def waiting_in(text: str) -> dict[str, tuple[str, ...]]:
    """Returns the waiting questions in such a text; none if it is not ours."""
    try:
        stored = json.loads(text or "{}")
    except ValueError:
        return {}
    rows = stored.items() if isinstance(stored, dict) else ()
    found = {
        chat_id: tuple(one for one in row if isinstance(one, str) and one.strip())
        for chat_id, row in rows
        if isinstance(row, list)
    }
    return {chat_id: row for chat_id, row in found.items() if row}


def choices_as_text(chosen: Choices) -> str:
    """Returns what was chosen for a new chat as JSON; "" for nothing."""
    if chosen == Choices():
        return ""
    stored = {
        "filters": stored_filters(chosen.filters),
        "model": chosen.model,
        "manner": None if chosen.manner is None else stored_manner(chosen.manner),
        "searches": chosen.searches,
    }
    # In ASCII, because paths may hold bytes that are not UTF-8.
    return json.dumps(stored)


def choices_in(text: str) -> Choices:
    """Returns what was chosen in such a text; nothing if it is not ours."""
    try:
        stored = json.loads(text or "{}")
    except ValueError:
        return Choices()
    if not isinstance(stored, dict):
        return Choices()
    model, manner = stored.get("model"), stored.get("manner")
    return Choices(
        filters=filters_of(stored.get("filters") or {}),
        model=model if isinstance(model, str) else "",
        manner=manner_of(manner) if isinstance(manner, dict) else None,
        searches=stored.get("searches") is not False,
    )


def unsent_problem(settings: SettingsStore) -> RagdollError | None:
    """Returns why unsent text is not on the disk; None if it is, or if there is none."""
    return RagdollError(settings.problem) if settings.has_unwritten(*_UNSENT) else None


def ask_before_losing(window: QWidget, problem: RagdollError, on_yes: Callable[[], object]) -> QMessageBox:
    """Asks whether to close although the newest of the chats, or unsent text, cannot be written to the disk."""
    lost = _tr("If you close Ragdoll now, the newest answers, chat settings or unsent text are lost.")
    return ask_first(
        window,
        _tr("Not everything is saved yet."),
        " ".join(filter(None, (problem.sentence, problem.way_out, lost))),
        _tr("Close anyway"),
        on_yes,
    )


def _tr(text: str) -> str:
    return QCoreApplication.translate("closing", text)
