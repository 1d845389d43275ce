"""A model's thoughts before its answer, folded to a line, because they are long and not part of the answer.

While folded, they are not laid out.
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.figures import seconds_text
from app.widgets.markdown_view import MarkdownView

_INDENT_PX = 16


class ThoughtsCard(QWidget):
    """A line that shows and hides the thoughts on a click; hidden while there are none."""

    citation_clicked = Signal(int)  # the number as the reader sees it, 1-based
    citation_hovered = Signal(int, QPoint)
    grew = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._thoughts, self._num_passages = "", 0
        self._view: MarkdownView | None = None
        self._title = bits.button("", "quiet", "chevron-right", clicked=lambda: self.set_open(not self.is_open))
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(6)
        self._layout.addLayout(bits.row(self._title, None))
        self.hide()

    @property
    def thoughts(self) -> str:
        return self._thoughts

    @property
    def title(self) -> str:
        return self._title.text().strip()

    @property
    def is_open(self) -> bool:
        return self._view is not None

    @property
    def shown_text(self) -> str:
        """Returns the text that is laid out; "" while it is folded."""
        return self._view.text if self._view is not None else ""

    def show_thoughts(self, thoughts: str, num_passages: int, seconds: float | None) -> None:
        """Shows all thoughts so far; `seconds` is how long they took, None if unknown."""
        self._num_passages = num_passages
        self._name(seconds)
        if thoughts != self._thoughts:
            self._thoughts = thoughts
            if self._view is not None:
                self._view.set_num_passages(num_passages)
                self._view.show_text(thoughts)
        self.setVisible(bool(thoughts.strip()))

    def append(self, piece: str) -> None:
        """Adds the next piece."""
        self._thoughts += piece
        if self._view is not None:
            self._view.append(piece)
        if self.isHidden() and self._thoughts.strip():
            self._name(None)
            self.show()

    def clear_selection(self) -> None:
        if self._view is not None:
            self._view.selection.clear()

    def set_open(self, is_open: bool) -> None:
        if is_open == self.is_open:
            return
        if self._view is not None:
            bits.drop(self._layout, [self._view])
            self._view = None
        else:
            self._view = self._made_view()
        theme.dress(self._title, "chevron-down" if is_open else "chevron-right", side=18)
        self._title.setAccessibleDescription(self.tr("Shown") if is_open else self.tr("Hidden"))

    def _made_view(self) -> MarkdownView:
        view = MarkdownView(self)
        view.setContentsMargins(_INDENT_PX, 0, 0, 0)
        view.set_num_passages(self._num_passages)
        view.citation_clicked.connect(self.citation_clicked)
        view.citation_hovered.connect(self.citation_hovered)
        view.grew.connect(self.grew)
        view.show_text(self._thoughts)
        self._layout.addWidget(view)
        view.show()
        return view

    def _name(self, seconds: float | None) -> None:
        sentence = self.tr("Thoughts")
        if seconds:
            sentence = self.tr("Thought for %1").replace("%1", seconds_text(seconds))
        self._title.setText(f" {sentence}")
        self._title.setAccessibleName(sentence)
