"""Joins sentences and lists with the separators of the window's language."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QCoreApplication

# Followed by no space.
_FULL_WIDTH_STOPS = ("。", "！", "？")


def joined(*sentences: str) -> str:
    """Returns the non-empty sentences as one text; each may be in a different language."""
    text = ""
    for sentence in filter(None, sentences):
        text += sentence if not text or text.endswith(_FULL_WIDTH_STOPS) else f" {sentence}"
    return text


def listed(words: Iterable[str]) -> str:
    """Returns the non-empty words, separated by commas."""
    between = QCoreApplication.translate("sentences", "%1, %2").removeprefix("%1").removesuffix("%2")
    return between.join(filter(None, words))
