"""The first page of a new user: add files, choose a model or ask one, and a promise of what never happens."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.flow import FlowLayout
from app.widgets.picture import Picture

# A line length that is easy to read.
_LETTERS = 80
_LEAST_PX, _MARGIN_PX = 240, 12
_LOCK_PX, _GAP_PX = 16, 8


class FirstRun(QScrollArea):
    """Shown while the library is empty and nothing was asked; it takes no drops itself, the window does."""

    folder_wanted = Signal()
    files_wanted = Signal()
    model_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Takes the focus in place of the prompt, which is hidden.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setAccessibleName(self.tr("Welcome"))
        self._cat = QLabel()
        self._cat.setPixmap(theme.pixmap("ragdoll", 72, "black", self.devicePixelRatioF()))
        title = bits.label(self.tr("Ask your own files"), "hero", wraps=True)
        words = bits.label(
            self.tr("Ragdoll reads your documents on this computer and quotes what it finds."),
            "muted",
            wraps=True,
        )
        self._column = column = QWidget()
        inner = bits.column(spacing=0)
        for part, gap in ((self._cat, 16), (title, 8), (words, 28)):
            if isinstance(part, QLabel):
                part.setAlignment(Qt.AlignmentFlag.AlignCenter)
            inner.addWidget(part)
            inner.addSpacing(gap)
        inner.addWidget(self._drop_card())
        inner.addSpacing(12)
        inner.addWidget(self._model_card())
        inner.addSpacing(20)
        inner.addLayout(self._promise_line())
        column.setLayout(inner)
        content = QWidget()
        content.setObjectName("column")
        layout = QVBoxLayout(content)
        layout.setContentsMargins(_MARGIN_PX, _MARGIN_PX, _MARGIN_PX, _MARGIN_PX)
        layout.addStretch(2)
        # Between stretches instead of aligned; otherwise its height would be that of the whole page's width.
        layout.addLayout(bits.row(None, column, None))
        layout.addStretch(3)
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        theme.appearance().changed.connect(self._fit)
        self.show_model("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def show_model(self, name: str) -> None:
        """Shows the model that can already be asked without files; "" if there is none."""
        if name:
            self._model.setText(self.tr("%1 is ready").replace("%1", name))
            self._offer.setText(self.tr("Type your question below. Without files, it answers from general knowledge."))
            text = self.tr("Choose another…")
        else:
            self._model.setText(self.tr("A language model (optional)"))
            self._offer.setText(self.tr("Without one, answers are quotes from your files."))
            text = self.tr("Choose a model…")
        self.choose_model.setText(text)
        self.choose_model.setAccessibleName(text)
        self._fit()

    def _fit(self) -> None:
        """Fixes the column's size, so that a low window scrolls instead of cutting words that take two lines."""
        for label in self._column.findChildren(QLabel):
            # A label that was never shown does not have its font yet.
            label.ensurePolished()
        width = bits.letters_wide(self, _LETTERS, max(_LEAST_PX, self.viewport().width() - 2 * _MARGIN_PX))
        # A wrapping label asks for less width than its text needs in one line.
        in_one_line = self._promise.fontMetrics().horizontalAdvance(self._promise.text()) + 1
        self._promise.setFixedWidth(min(in_one_line, width - _LOCK_PX - _GAP_PX))
        self._column.setFixedWidth(width)
        self._column.setMinimumHeight(self._column.heightForWidth(width))

    def _drop_card(self) -> QWidget:
        card = bits.card("drop")
        self.choose_folder = bits.button(
            self.tr("Choose a folder…"), "primary", "folder-plus", self.folder_wanted.emit
        )  # fmt: skip
        self.choose_files = bits.button(self.tr("Choose files…"), icon="file", clicked=self.files_wanted.emit)
        sentence = bits.label(self.tr("Drag a folder or files here"), "heading", wraps=True)
        sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        kinds = bits.label(self.tr("PDF, office files, mail, books, web pages, notes and code"), "small", wraps=True)
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        buttons = QWidget()
        flow = FlowLayout(buttons, spacing=8, is_centred=True)
        flow.addWidget(self.choose_folder)
        flow.addWidget(self.choose_files)
        inner = bits.column(Picture("drop", "accent", 36), 8, sentence, 4, kinds, 16, buttons, spacing=0)
        inner.setContentsMargins(24, 28, 24, 28)
        card.setLayout(inner)
        return card

    def _model_card(self) -> QWidget:
        card = bits.card("soft")
        self.choose_model = bits.button(self.tr("Choose a model…"), clicked=self.model_wanted.emit)
        self._model, self._offer = bits.label("", "strong", wraps=True), bits.label("", "small", wraps=True)
        words = bits.column(None, self._model, self._offer, None, spacing=2)
        inner = bits.row(Picture("models", "muted"), spacing=14)
        inner.addLayout(words, 1)
        inner.addWidget(self.choose_model)
        inner.setContentsMargins(18, 14, 14, 14)
        card.setLayout(inner)
        return card

    def _promise_line(self) -> QHBoxLayout:
        self._promise = bits.label(
            self.tr("Nothing leaves this computer. No account, no telemetry."), "small", wraps=True
        )  # fmt: skip
        return bits.row(None, Picture("lock", "muted", _LOCK_PX), self._promise, None, spacing=_GAP_PX)
