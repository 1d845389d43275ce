"""The field for a question: Enter sends, Shift+Enter breaks the line, it grows to eight lines; it takes files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.sentences import joined
from app.widgets import bits, scroll_keys
from app.widgets.figures import count_text
from app.widgets.recall import Recall

if TYPE_CHECKING:
    from app.widgets.paste_offer import PasteOffer

MAX_LINES = 8
# The minimum, in a small window with much below the question.
_FEWEST_LINES = 2
# Each key lays out its line again, so a longer text would slow typing down.
MAX_CHARACTERS = 50_000
# A pasted text of this length is probably not a question but something to ask about.
LONG_CHARACTERS = 4_000


class _Field(QPlainTextEdit):
    entered = Signal()
    recalled = Signal(str)  # an earlier question, or "" after the newest one
    focus_changed = Signal(bool)
    long_pasted = Signal(str, int, int)  # a text, its start and end here; both the same if it was too long
    files_pasted = Signal(object)  # a tuple of paths
    picture_pasted = Signal(object)  # a QImage

    def __init__(self, parent: QWidget, *, takes_files: bool) -> None:
        super().__init__(parent)
        self._takes_files = takes_files
        self.recall = Recall()
        # By default, a text edit inserts dropped folders as text, and keeps the Tab key.
        self.setAcceptDrops(False)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.document().setDocumentMargin(2)
        self._height_px = 0
        self.textChanged.connect(self._fit)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.entered.emit()
        elif (question := self._question_at(event)) is not None:
            self.recalled.emit(question)
        elif self._is_for_the_chat(event):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def _question_at(self, event: QKeyEvent) -> str | None:
        """Returns the question that an arrow key recalls; None if the key moves the cursor."""
        is_up = event.key() == Qt.Key.Key_Up
        is_arrow = is_up or event.key() == Qt.Key.Key_Down
        is_modified = bool(event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier)
        if not is_arrow or is_modified or not self.textCursor().atEnd() or self._is_composing():
            return None
        return self.recall.step(self.toPlainText(), -1 if is_up else 1)

    def _is_composing(self) -> bool:
        """Returns whether an input method offers characters, to which keys then belong."""
        return bool(self.textCursor().block().layout().preeditAreaText())

    def _is_for_the_chat(self, event: QKeyEvent) -> bool:
        """Returns whether a key has no effect here, so that it scrolls the chat above."""
        if self._is_composing():
            return False
        if scroll_keys.is_by_page(event):
            return not self.verticalScrollBar().maximum()
        return scroll_keys.is_to_end(event) and self.document().isEmpty()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 - Qt's name
        takes_all = self._takes_files and (source.hasUrls() or source.hasImage())
        return takes_all or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802 - Qt's name
        """Pastes a text, unless the question would become too long; files and pictures are passed on."""
        # Imported when something is pasted, not at the first paint.
        from app.widgets.drop_overlay import local_paths

        if not self._takes_files:
            self._paste_text(source)
        elif paths := local_paths(source):
            self.files_pasted.emit(paths)
        elif source.hasImage() and not source.hasText():
            self.picture_pasted.emit(source.imageData())
        else:
            self._paste_text(source)

    def _paste_text(self, source: QMimeData) -> None:
        text, start = source.text(), self.textCursor().selectionStart()
        num_kept = len(self.toPlainText()) - len(self.textCursor().selectedText())
        if num_kept + len(text) > MAX_CHARACTERS:
            self.long_pasted.emit(text, start, start)
        else:
            super().insertFromMimeData(source)
            if len(text) >= LONG_CHARACTERS:
                self.long_pasted.emit(text, start, self.textCursor().position())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        # If it has become lower, the cursor must stay in sight.
        self.ensureCursorVisible()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self._height_of(MAX_LINES))

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), self._height_of(_FEWEST_LINES))

    def _height_of(self, most_lines: int) -> int:
        # The height of a plain text document is in lines, not pixels.
        lines = min(max(1, round(self.document().size().height())), most_lines)
        return lines * self.fontMetrics().lineSpacing() + 8

    def _fit(self) -> None:
        # Only changes, because otherwise each key would lay out the page again.
        if self._height_px != (height := self._height_of(MAX_LINES)):
            self._height_px = height
            self.updateGeometry()


class PromptEdit(QFrame):
    """The card at the foot of a chat: the field, a button to attach files, and one that sends or stops.

    Unless it `attaches`, it takes only text.
    """

    submitted = Signal(str)
    stop_requested = Signal()
    attach_wanted = Signal()
    files_pasted = Signal(object)  # a tuple of paths
    picture_pasted = Signal(object)  # a QImage
    keep_wanted = Signal(str)  # a pasted text is to become a file; see `paste_is_kept`

    def __init__(self, parent: QWidget | None = None, *, attaches: bool = True) -> None:
        super().__init__(parent)
        self.setObjectName("prompt")
        # The prompt of a chat has the focus when the window opens; restyling it for that would delay the first paint.
        self.setProperty("focused", attaches)
        self._is_busy, self._attaches = False, attaches
        self.field = _Field(self, takes_files=attaches)
        self.show_asked()
        self.field.setAccessibleName(self.tr("Your question"))
        self.field.setAccessibleDescription(self.tr("Enter sends, Shift+Enter starts a new line"))
        self.button = bits.tool("send", self.tr("Send (Enter)"), self._on_button, side=20)
        self.button.setProperty("kind", "send")
        theme.dress(self.button, "send", "on_accent", side=20)
        self.button.setFixedSize(34, 34)
        self.button.setEnabled(False)
        self.attach = bits.tool("attach", self.tr("Attach files"), self.attach_wanted.emit, side=20)
        self.attach.setFixedSize(34, 34)
        bits.opens_popup(self.attach)
        # A long pasted text, and its start and end in the field.
        self._pasted: tuple[str, int, int] = ("", 0, 0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 10)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.field, 1, Qt.AlignmentFlag.AlignVCenter)
        line.addWidget(self.attach, 0, Qt.AlignmentFlag.AlignBottom)
        line.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        layout.addLayout(line)
        if not attaches:
            self.attach.hide()
        self._layout, self._line = layout, line
        self.field.entered.connect(self._submit)
        self.field.recalled.connect(self.set_text)
        self.field.textChanged.connect(self._enable)
        self.field.focus_changed.connect(self._on_focus)
        self.field.long_pasted.connect(self._on_long_pasted)
        self.field.files_pasted.connect(self.files_pasted)
        self.field.picture_pasted.connect(self.picture_pasted)
        self.setFocusProxy(self.field)

    @cached_property
    def paste_offer(self) -> PasteOffer:
        """Returns the offer for a long pasted text, shown until the question changes; made at the first use."""
        from app.widgets.paste_offer import PasteOffer

        made = PasteOffer()
        self._layout.insertWidget(self._layout.indexOf(self._line) + 1, made)
        self.field.textChanged.connect(made.hide)
        made.accepted.connect(lambda: self.keep_wanted.emit(self._pasted[0]))
        return made

    @property
    def text(self) -> str:
        return self.field.toPlainText()

    def recall_from(self, questions: Callable[[], Sequence[str]]) -> None:
        """Lets the arrow keys recall these questions, given oldest first, in a field that is empty."""
        self.field.recall.questions = questions

    def set_text(self, text: str) -> None:
        self.field.setPlainText(text)
        cursor = self.field.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.field.setTextCursor(cursor)

    def paste_is_kept(self) -> None:
        """Removes the text that was pasted last from the question, because it is a file now."""
        _, start, end = self._pasted
        cursor = self.field.textCursor()
        cursor.setPosition(start)
        cursor.setPosition(end, cursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self.paste_offer.hide()
        self.field.setFocus()

    def show_asked(self, *, is_model: bool = False) -> None:
        """Shows in the empty field what the question goes to: the user's files, or the model alone."""
        self.field.setPlaceholderText(self.tr("Ask the model…") if is_model else self.tr("Ask your files…"))

    def put_below(self, widget: QWidget) -> None:
        """Puts something into the card, below the field."""
        self._layout.addWidget(widget)

    def put_above(self, widget: QWidget) -> None:
        """Puts something into the card, above the field."""
        self._layout.insertWidget(0, widget)

    def put_beside(self, widget: QWidget) -> None:
        """Puts something into the card, between the field and its buttons."""
        self._line.insertWidget(1, widget, 0, Qt.AlignmentFlag.AlignBottom)

    def set_busy(self, is_busy: bool) -> None:
        """Makes the button stop the answer while busy; Enter still sends, and the question waits for the answer."""
        if is_busy == self._is_busy:
            return
        self._is_busy = is_busy
        bits.rename(self.button, self.tr("Stop (Esc)") if is_busy else self.tr("Send (Enter)"))
        theme.dress(self.button, "stop" if is_busy else "send", "on_accent", side=20)
        self._enable()

    def _on_focus(self, has_focus: bool) -> None:
        if self.property("focused") != has_focus:
            theme.restyle(self, focused=has_focus)

    def _on_long_pasted(self, text: str, start: int, end: int) -> None:
        self._pasted = (text, start, end)
        if end > start and not self._attaches:
            return
        words = self.tr("This text has %1 characters; a question can have %2 at most.")
        if end > start:
            words = self.tr("This text has %1 characters. As a file, it can be searched and cited.")
        elif self._attaches:
            words = joined(words, self.tr("As a file, you can ask about it."))
        words = words.replace("%1", count_text(len(text))).replace("%2", count_text(MAX_CHARACTERS))
        self.paste_offer.offer(words, can_keep=self._attaches)

    def _enable(self) -> None:
        is_of_use = self._is_busy or bool(self.text.strip())
        focused = self.window().focusWidget()
        if focused is self.button and not is_of_use:
            # Qt moves the focus from a disabled widget to the next one.
            self.field.setFocus()
        self.button.setEnabled(is_of_use)

    def _on_button(self) -> None:
        if self._is_busy:
            self.stop_requested.emit()
        else:
            self._submit()

    def _submit(self) -> None:
        text = self.text.strip()
        if text:
            self.field.clear()
            self.submitted.emit(text)
