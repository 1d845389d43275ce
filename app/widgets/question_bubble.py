"""The question as it was asked, at the right, with buttons to copy or edit it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.marked_label import MarkedLabel
from app.widgets.prompt_edit import PromptEdit
from app.widgets.turn_texts import shown_question

_WIDEST_SHARE = 0.82


class QuestionBubble(QWidget):
    """Turns into a prompt while it is edited; the edited question becomes a new branch."""

    edited = Signal(str)

    def __init__(self, question: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._question = question
        self._shown = shown_question(question)
        self._text = MarkedLabel(self._shown, selectable=True)
        self._bubble = QFrame()
        self._bubble.setProperty("card", "bubble")
        inner = QVBoxLayout(self._bubble)
        inner.setContentsMargins(16, 10, 16, 10)
        inner.addWidget(self._text)
        self._edit = bits.tool("rename", self.tr("Edit the question"), self._on_edit, side=16)
        copy = bits.tool("copy", self.tr("Copy the question"), self._on_copy, side=16)
        self._tools = QWidget()
        self._tools.setLayout(bits.row(None, copy, self._edit, spacing=0))
        self._editor: PromptEdit | None = None
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)
        self._layout.addWidget(self._bubble, 0, Qt.AlignmentFlag.AlignRight)
        self._layout.addWidget(self._tools)

    @property
    def question(self) -> str:
        return self._question

    @property
    def text(self) -> MarkedLabel:
        return self._text

    @property
    def draft(self) -> str | None:
        """Returns the edited text; None while it is not being edited."""
        return self._editor.text if self._editor is not None else None

    def edit(self, text: str) -> PromptEdit:
        """Opens the editor with this text; the focus stays where it is."""
        self._editor = editor = PromptEdit(attaches=False)
        editor.field.setAccessibleName(self.tr("Edit the question"))
        editor.set_text(text)
        editor.submitted.connect(self._on_edited)
        editor.field.installEventFilter(self)
        self._layout.insertWidget(0, editor)
        self._bubble.hide()
        return editor

    def set_editable(self, is_editable: bool) -> None:
        self._edit.setEnabled(is_editable)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Closes the editor on Escape, which elsewhere in the window stops answers."""
        is_escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if is_escape and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        if is_escape and event.type() == QEvent.Type.KeyPress:
            self._close_editor()
            return True
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        # A wrapping label takes any width, so it gets no more than its longest line needs.
        widest = int(self.width() * _WIDEST_SHARE)
        lines = self._shown.splitlines() or [""]
        natural = max(self._text.fontMetrics().horizontalAdvance(line) for line in lines) + 36
        width = min(widest, natural)
        self._bubble.setFixedWidth(max(48, width))
        self._bubble.setFixedHeight(self._text.heightForWidth(max(12, width - 32)) + 20)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._question)

    def _on_edit(self) -> None:
        if self._editor is not None:
            self._close_editor()
        else:
            self.edit(self._question).setFocus()

    def _on_edited(self, text: str) -> None:
        self._close_editor()
        self.edited.emit(text)

    def _close_editor(self) -> None:
        if self._editor is not None:
            self._layout.removeWidget(self._editor)
            # Otherwise Qt would move the focus to an arbitrary widget.
            self._edit.setFocus()
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
        self._bubble.show()
