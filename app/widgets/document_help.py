"""The name of a document's state, and what the user can do about it: a password, text recognition, another try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.widgets.bits import Tone

if TYPE_CHECKING:
    from engine.protocol import Document

Help = Literal["password", "ocr", "retry", "next"]

STATES: dict[str, tuple[str, str, Tone]] = {
    # state: icon, colour of the theme, tone of a chip
    "indexed": ("done", "good", "good"),
    "pending": ("pending", "accent", "accent"),
    "skipped": ("skipped", "warn", "warn"),
    "failed": ("failed", "bad", "bad"),
    "offline": ("pause", "muted", "plain"),
}
HELP_WORDS: dict[Help, str] = {
    "password": str(QT_TRANSLATE_NOOP("library", "Enter password…")),
    "ocr": str(QT_TRANSLATE_NOOP("library", "How to read it…")),
    "retry": str(QT_TRANSLATE_NOOP("library", "Try again")),
    "next": str(QT_TRANSLATE_NOOP("library", "Index next")),
}


def state_name(state: str) -> str:
    """Returns a document's state in words."""
    names = {
        "indexed": QCoreApplication.translate("library", "Indexed"),
        "pending": QCoreApplication.translate("library", "Waiting"),
        "skipped": QCoreApplication.translate("library", "Skipped"),
        "failed": QCoreApplication.translate("library", "Failed"),
        "offline": QCoreApplication.translate("library", "Offline"),
    }
    return names.get(state, state)


def words_of(offered: Help) -> str:
    return QCoreApplication.translate("library", HELP_WORDS[offered])


def help_for(document: Document) -> Help | None:
    """Returns what would help this document; None if there is no problem, or nothing can be done here."""
    if document.state == "pending":
        return "next"
    if document.needs and document.state != "offline":
        return "password" if document.needs == "password" else "ocr"
    return "retry" if document.state == "failed" else None


def helps_for(documents: Iterable[Document]) -> dict[Help, list[str]]:
    """Returns everything that would help one of these, with the paths it would help; the most urgent comes first."""
    found: dict[Help, list[str]] = {}
    for document in documents:
        offered = help_for(document)
        if offered is not None:
            found.setdefault(offered, []).append(document.path)
    return {offered: found[offered] for offered in HELP_WORDS if offered in found}
