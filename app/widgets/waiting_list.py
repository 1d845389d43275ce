"""The questions that are asked next, above the prompt: each can be edited, removed or, if it is held, asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QSizePolicy, QToolButton, QWidget

from app.tips import plain_tip
from app.widgets import bits

if TYPE_CHECKING:
    from app.models.waiting_questions import WaitingQuestion

# The rest is scrolled, because the question and the answers need room as well.
_MOST_ROWS = 3
_SPACING_PX = 6
# The field shows all of it once it is edited.
_LONGEST_CHARS = 200
_LONGEST_TIP_CHARS = 1_000


class _Row(QFrame):
    """One question: its first words, when it will be asked, and its buttons."""

    def __init__(self, question: WaitingQuestion, when: str, ask: str) -> None:
        super().__init__()
        self.setProperty("card", "soft")
        words = " ".join(question.text.split())
        self.text = bits.button("", "quiet", gives_way=True)
        self.text.setObjectName("waitingQuestion")
        self.text.setText(bits.literal(words[:_LONGEST_CHARS]))
        self.text.setAccessibleName(self.tr("Edit the waiting question: %1").replace("%1", words[:_LONGEST_TIP_CHARS]))
        self.text.setToolTip(plain_tip(f"{self.tr('Edit')}: {question.text[:_LONGEST_TIP_CHARS]}"))
        # The button takes the room that is left, so that a click beside short words is one on them.
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.when = bits.label(when, "small", wraps=True)
        self.when.setContentsMargins(7, 0, 0, 0)
        self.ask = bits.button(ask, "link")
        self.ask.setVisible(question.is_held)
        self.remove = bits.tool("close", self.tr("Remove this question"), side=14)
        line = bits.row(spacing=4)
        line.setContentsMargins(4, 2, 4, 4)
        line.addLayout(bits.column(self.text, self.when, spacing=0), 1)
        line.addWidget(self.ask, 0, Qt.AlignmentFlag.AlignVCenter)
        line.addWidget(self.remove, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(line)


class WaitingList(QScrollArea):
    """Hidden while nothing waits; the signals carry the id of a question."""

    edit_wanted = Signal(str)
    remove_wanted = Signal(str)
    ask_wanted = Signal(str)
    keyboard_left = Signal()  # the widget with the focus is about to be removed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("clear")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setAccessibleName(self.tr("Questions that are asked next"))
        self._content = QWidget()
        self._content.setObjectName("clear")
        self._column = bits.column(spacing=_SPACING_PX)
        self._content.setLayout(self._column)
        self._rows: list[_Row] = []
        self._shown: tuple[tuple[WaitingQuestion, ...], bool] = ((), False)
        self.setWidgetResizable(True)
        self.setWidget(self._content)
        self.hide()

    @property
    def texts(self) -> tuple[QPushButton, ...]:
        """Returns the questions, each a button that edits it."""
        return tuple(row.text for row in self._rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns when each question will be asked."""
        return tuple(row.when.text() for row in self._rows)

    def ask_button(self, place: int) -> QPushButton:
        return self._rows[place].ask

    def remove_button(self, place: int) -> QToolButton:
        return self._rows[place].remove

    def show_questions(self, questions: Sequence[WaitingQuestion], *, is_answering: bool) -> None:
        """Shows the waiting questions of a chat; while it `is_answering`, a held one can only be asked next."""
        shown = (tuple(questions), is_answering)
        if shown == self._shown:
            return
        num_before, self._shown = len(self._rows), shown
        focused = self.window().focusWidget()
        if focused is not None and self._content.isAncestorOf(focused):
            # Qt would give the focus to an arbitrary widget.
            self.keyboard_left.emit()
        bits.drop(self._column, self._rows)
        self._rows = [self._row(questions, place, is_answering) for place in range(len(questions))]
        for row in self._rows:
            self._column.addWidget(row)
            row.show()
        self.setVisible(bool(self._rows))
        self.updateGeometry()
        if len(self._rows) > num_before:
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self._rows[-1].when.text()))

    def sizeHint(self) -> QSize:
        heights = [row.sizeHint().height() for row in self._rows[:_MOST_ROWS]]
        return QSize(super().sizeHint().width(), sum(heights) + _SPACING_PX * max(0, len(heights) - 1))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self._rows[0].sizeHint().height() if self._rows else 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # A line that wraps makes a row higher.
        self.updateGeometry()

    def _row(self, questions: Sequence[WaitingQuestion], place: int, is_answering: bool) -> _Row:
        question = questions[place]
        ask = self.tr("Ask next") if is_answering else self.tr("Ask now")
        row = _Row(question, self._when(questions, place), ask)
        row.text.clicked.connect(lambda: self.edit_wanted.emit(question.question_id))
        row.ask.clicked.connect(lambda: self.ask_wanted.emit(question.question_id))
        row.remove.clicked.connect(lambda: self.remove_wanted.emit(question.question_id))
        return row

    def _when(self, questions: Sequence[WaitingQuestion], place: int) -> str:
        if questions[place].is_held:
            return self.tr("Not asked, because the answer before it was not completed.")
        if any(not one.is_held for one in questions[:place]):
            return self.tr("Asked after that")
        return self.tr("Asked next, when this answer is done")
