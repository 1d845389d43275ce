"""A label with plain text in which the matches of a search can be marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QLabel, QWidget

from app import theme
from app.models.matches import Span, spans_of


class MarkedLabel(QLabel):
    """Shows plain text; while something is marked, escaped HTML of the same text."""

    def __init__(self, text: str, *, selectable: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._plain = text
        self._spans: list[Span] = []
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", "plain")
        self.setWordWrap(True)
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def seek(self, sought: str) -> int:
        """Finds matches and returns their number; `mark` marks them."""
        self._spans = spans_of(self._plain, sought)
        return len(self._spans)

    def mark(self, current: int | None = None) -> None:
        """Marks all matches, and the one with that number as the current one."""
        is_marked = bool(self._spans)
        text = _marked(self._plain, self._spans, current) if is_marked else self._plain
        if text != self.text():
            self.setTextFormat(Qt.TextFormat.RichText if is_marked else Qt.TextFormat.PlainText)
            self.setText(text)

    def place_of(self, number: int) -> QRect:
        """Returns roughly where a match is, because a label does not expose its lines."""
        share = self._spans[number][0] / max(1, len(self._plain))
        return QRect(0, round(share * self.height()), self.width(), self.fontMetrics().lineSpacing())


def _marked(text: str, spans: Sequence[Span], current: int | None) -> str:
    look, parts, end = theme.current(), [], 0
    for number, (first, last) in enumerate(spans):
        style = f"background-color:{look.mark}"
        if number == current:
            style = f"background-color:{look.accent};color:{look.on_accent};text-decoration:underline"
        parts.append(f'{escape(text[end:first])}<span style="{style}">{escape(text[first:last])}</span>')
        end = last
    return f'<div style="white-space:pre-wrap">{"".join(parts)}{escape(text[end:])}</div>'
