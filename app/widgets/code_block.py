"""A block of code in an answer: its language, a copy button, and lines that scroll sideways instead of wrapping."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QGuiApplication, QResizeEvent, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.answer_text import AnswerText
from app.widgets.copied_mark import CopiedMark
from app.widgets.highlight import highlight


class _Lines(AnswerText):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("code")
        self.setAccessibleName(self.tr("Code"))
        self.setWordWrapMode(QTextOption.WrapMode.NoWrap)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().x():
            super().wheelEvent(event)
        else:
            event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.fit()

    def fit(self) -> None:
        # Without a width, a document that was never shown has no height.
        self.document().setTextWidth(max(self.viewport().width(), self.document().idealWidth()))
        is_wide = self.document().idealWidth() > self.viewport().width()
        extra = self.horizontalScrollBar().sizeHint().height() if is_wide else 0
        self.setFixedHeight(round(self.document().size().height()) + extra + 2)


class CodeBlock(QFrame):
    """Takes code and its language; highlights it again when either or the theme changes."""

    def __init__(self, code: str, language: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("codeBlock")
        self._code, self._language_name = code, language
        self._look = theme.current()
        self._language = bits.label(language, "small")
        self._copy = bits.tool("copy", self.tr("Copy code"), self._on_copy, side=16)
        self._lines = _Lines(self)
        self._copied = CopiedMark(self._copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 6, 8, 12)
        layout.setSpacing(4)
        layout.addLayout(bits.row(self._language, None, self._copy))
        layout.addWidget(self._lines)
        self._render()

    @property
    def code(self) -> str:
        return self._code

    @property
    def text(self) -> AnswerText:
        return self._lines

    def show_code(self, code: str, language: str) -> None:
        self._code, self._language_name = code, language
        self._language.setText(language)
        self._render()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._look is not theme.current():
            self._look = theme.current()
            self._render()

    def _render(self) -> None:
        mono = ", ".join(f"'{family}'" for family in theme.mono_families())
        html = highlight(self._code, self._language_name, theme.current())
        self._lines.put_html(f'<pre style="font-family:{mono};margin:0;line-height:112%">{html}</pre>')
        self._lines.fit()

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._code)
        self._copied.show()
