"""Closing the window: unsent text is kept for the next start, and the user is asked before anything is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.models.turn_records import manner_of, stored_manner
from app.widgets.prompt_edit import MAX_CHARACTERS
from app.windows.questions import ask_first
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMessageBox, QWidget

    from app.settings import SettingsStore
    from engine.protocol import Manner

MOST_EDITS = 20
_UNSENT = ("unsent_question", "unsent_for_every_file", "unsent_edits", "unsent_manner")


def as_text(edits: Mapping[str, str]) -> str:
    """Returns the newest drafts of edited questions as JSON, by their turns."""
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


def manner_as_text(manner: Manner | None) -> str:
    """Returns what was chosen for a new chat as JSON; "" for nothing."""
    return "" if manner is None else json.dumps(stored_manner(manner), ensure_ascii=False)


def manner_in(text: str) -> Manner | None:
    """Returns what was chosen in such a text; None for nothing, and if it is not ours."""
    try:
        stored = json.loads(text) if text else None
    except ValueError:
        stored = None
    return manner_of(stored) if isinstance(stored, dict) else None


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
