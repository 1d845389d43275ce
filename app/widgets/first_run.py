"""The first page of a new user: put files in, perhaps choose a model, or ask one, and what will never happen."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.picture import Picture

_WIDTH_PX = 560


class FirstRun(QScrollArea):
    """Shown while the library is empty and nothing was asked; it takes no drops itself, the window does."""

    folder_wanted = Signal()
    files_wanted = Signal()
    model_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Takes the keyboard from the prompt that is not there yet.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setAccessibleName(self.tr("Welcome"))
        self._cat = QLabel()
        self._cat.setPixmap(theme.pixmap("ragdoll", 72, "black", self.devicePixelRatioF()))
        title = bits.label(self.tr("Ask your own files"), "hero")
        words = bits.label(
            self.tr("Ragdoll reads your documents on this computer and quotes what it finds."),
            "muted",
            wraps=True,
        )
        self._column = column = QWidget()
        column.setFixedWidth(_WIDTH_PX)
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
        inner.addLayout(self._promise())
        column.setLayout(inner)
        content = QWidget()
        content.setObjectName("column")
        layout = QVBoxLayout(content)
        layout.addStretch(2)
        # Between stretches and not merely aligned: else its height would be that of the whole page's width.
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
        """The model that can be asked already, below and without files; "" where there is none."""
        if name:
            self._model.setText(self.tr("%1 can be asked already").replace("%1", name))
            self._offer.setText(self.tr("Write below. Until there are files, it answers from what it knows."))
            text = self.tr("Choose another…")
        else:
            self._model.setText(self.tr("A language model, if you like"))
            self._offer.setText(self.tr("Without one, answers are quotes from your files."))
            text = self.tr("Choose a model…")
        self.choose_model.setText(text)
        self.choose_model.setAccessibleName(text)
        self._fit()

    def _fit(self) -> None:
        """In a low window it is scrolled: a layout would rather cut words that take two lines."""
        self._column.setMinimumHeight(self._column.heightForWidth(_WIDTH_PX))

    def _drop_card(self) -> QWidget:
        card = bits.card("drop")
        self.choose_folder = bits.button(
            self.tr("Choose a folder…"), "primary", "folder-plus", self.folder_wanted.emit
        )  # fmt: skip
        self.choose_files = bits.button(self.tr("Choose files…"), icon="file", clicked=self.files_wanted.emit)
        sentence = bits.label(self.tr("Drag a folder or files here"), "heading")
        sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        kinds = bits.label(self.tr("PDF, office files, mail, books, web pages, notes and code"), "small", wraps=True)
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        inner = bits.column(Picture("drop", "accent", 36), 8, sentence, 4, kinds, 16, spacing=0)
        inner.addLayout(bits.row(None, self.choose_folder, self.choose_files, None))
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

    def _promise(self) -> QHBoxLayout:
        words = bits.label(self.tr("Nothing leaves this computer. No account, no telemetry."), "small")
        return bits.row(None, Picture("lock", "muted", 16), words, None, spacing=8)
