"""How full the context of a model was with an answer, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.sentences import joined
from app.widgets.figures import count_text

if TYPE_CHECKING:
    from engine.protocol import ContextUse


def in_use_sentence(use: ContextUse) -> str:
    """Returns `3,200 of 8,192 tokens of the context were in use after the last answer`."""
    words = _tr("%1 of %2 tokens of the context were in use after the last answer")
    return words.replace("%1", count_text(use.used)).replace("%2", count_text(use.size))


def use_lines(use: ContextUse) -> tuple[str, ...]:
    """Returns what fills the context, one line each, without what is empty."""
    parts = (
        (_tr("Instructions: %1"), use.instructions),
        (_tr("Passages from your files: %1"), use.passages),
        (_tr("Conversation: %1"), use.conversation),
        (_tr("Last answer: %1"), use.answer),
        (_tr("Kept free for an answer: %1"), use.reserve),
    )
    lines = [words.replace("%1", count_text(count)) for words, count in parts if count]
    if sentence := left_out_sentence(use):
        lines.append(joined(sentence, _tr("A larger “Context length” in the settings can make room for more.")))
    return tuple(lines)


def left_out_sentence(use: ContextUse | None) -> str:
    """Returns that the model no longer reads the oldest questions; "" if it reads all."""
    if use is None or not use.turns_left_out:
        return ""
    if use.turns_left_out == 1:
        return _tr("The oldest question is no longer read by the model.")
    words = _tr("The oldest %1 questions are no longer read by the model.")
    return words.replace("%1", count_text(use.turns_left_out))


def _tr(text: str) -> str:
    return QCoreApplication.translate("context", text)
