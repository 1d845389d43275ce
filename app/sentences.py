"""Sentences one after the other, and lists, as the language of the window sets them apart."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QCoreApplication

# No space comes after them.
_FULL_WIDTH_STOPS = ("。", "！", "？")


def joined(*sentences: str) -> str:
    """The non-empty ones, in whatever language each is."""
    text = ""
    for sentence in filter(None, sentences):
        text += sentence if not text or text.endswith(_FULL_WIDTH_STOPS) else f" {sentence}"
    return text


def listed(words: Iterable[str]) -> str:
    """The non-empty ones, separated by commas."""
    between = QCoreApplication.translate("sentences", "%1, %2").removeprefix("%1").removesuffix("%2")
    return between.join(filter(None, words))
