"""The embedding model in use; and, while the library moves to another one, the progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QFrame, QProgressBar, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import EmbedderState

_STEPS = 1000


class EmbedderLine(QFrame):
    """A line of text; a card with a progress bar while documents move. Hidden while nothing is known."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = ElidedLabel("", "small")
        self._figures = bits.label("", "small")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, _STEPS)
        self._bar.setAccessibleName(self.tr("Switching to another embedding model"))
        self._still = bits.label("", "small", wraps=True)
        self._layout = QVBoxLayout(self)
        self._layout.setSpacing(6)
        head = bits.row(Picture("models", "muted", 16), spacing=8)
        head.addWidget(self._title, 1)
        head.addWidget(self._figures)
        self._layout.addLayout(head)
        self._layout.addWidget(self._bar)
        self._layout.addWidget(self._still)
        self.hide()

    @property
    def title(self) -> str:
        return self._title.text()

    @property
    def figures(self) -> str:
        return self._figures.text()

    @property
    def share(self) -> float:
        return self._bar.value() / _STEPS

    def show_embedder(self, embedder: EmbedderState) -> None:
        self.setVisible(bool(embedder.name or embedder.next_name))
        is_moving = bool(embedder.next_name)
        if bool(self.property("card")) != is_moving:
            theme.restyle(self, card=is_moving)
        edge = 14 if is_moving else 0
        self._layout.setContentsMargins(edge + 2 if is_moving else 17, edge, edge + 2 if is_moving else 0, edge)
        for part in (self._bar, self._still, self._figures):
            part.setVisible(is_moving)
        if is_moving:
            self._show_move(embedder)
        else:
            words = self.tr("Searched by meaning with %1").replace("%1", embedder.name)
            self._title.setText(" · ".join(part for part in (words, embedder.description) if part))
            self._still.setText("")

    def _show_move(self, embedder: EmbedderState) -> None:
        self._title.setText(self.tr("Switching to the embedding model %1").replace("%1", embedder.next_name))
        done, total = embedder.documents_moved, embedder.documents_to_move
        words = self.tr("%1 of %2 files")
        self._figures.setText(words.replace("%1", count_text(done)).replace("%2", count_text(total)))
        self._bar.setValue(round(_STEPS * done / total) if total else 0)
        still = self.tr("%1 is used until all files are re-indexed.")
        self._still.setText(still.replace("%1", embedder.name or self.tr("The current one")))
