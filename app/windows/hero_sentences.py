"""What an empty chat says above its prompt: what the answer to the first question is based on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.widgets.collection_picker import words_of
from app.widgets.figures import count_text

if TYPE_CHECKING:
    from app.models import AppModels


def alone_sentence(models: AppModels) -> str:
    """Returns what answers a question for which no file is searched."""
    if not models.chat_model.path:
        return _tr("Without files and without a model nobody answers. Choose one of them above.")
    return _tr("The model answers from what it knows; your files are not searched.")


def scope_sentence(models: AppModels) -> str:
    """Returns which files are searched for a question, and how many of them have been read."""
    if not models.library.is_known:
        return ""
    if models.conversation.filters.paths:
        return _tr("Answers come from what is named below the question.")
    library, chosen = models.library, models.conversation.asked_collections
    states = [one.documents_by_state for one in library.collections if not chosen or one.name in chosen]
    num_indexed = sum(state.get("indexed", 0) for state in states)
    num_waiting = sum(state.get("pending", 0) for state in states)
    if library.progress is not None and not num_indexed:
        return _tr("Your files are being read; you can already ask.")
    words = _tr("Answers come from 1 file in %2.") if num_indexed == 1 else _tr("Answers come from %1 files in %2.")
    if library.progress is not None and num_waiting:
        words = _tr("%1 of %3 files in %2 have been read so far; you can already ask.")
    figures = {"%1": count_text(num_indexed), "%3": count_text(num_indexed + num_waiting)}
    for place, figure in figures.items():
        words = words.replace(place, figure)
    return words.replace("%2", words_of(chosen) or _tr("your library"))


def _tr(text: str) -> str:
    return QCoreApplication.translate("ChatPage", text)
