"""Below the question: its filters as chips that can be removed, and a button to add more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtWidgets import QMenu, QPushButton, QScrollArea, QSizePolicy, QWidget

from app.tips import plain_tip
from app.widgets import bits
from app.widgets.flow import FlowLayout

if TYPE_CHECKING:
    from app.models.question_filters import Chip

_LONGEST_CHARS = 40
# More lines are scrolled, because the question and the answers need room as well.
_MOST_LINES = 3


class FilterBar(QScrollArea):
    """Chips and a button; the receiver of `menu_wanted` fills its menu each time before it opens."""

    menu_wanted = Signal()
    removed = Signal(int)  # index of a chip

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("clear")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._content = QWidget()
        self._content.setObjectName("clear")
        self._flow = FlowLayout(self._content)
        self._chips: list[QPushButton] = []
        self._words: list[str] = []
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self.menu_wanted)
        self.button = bits.button(self.tr("Search in"), "quiet", "plus")
        self.button.setToolTip(self.tr("Search only some folders, kinds of files, or dates"))
        self.button.setMenu(self.menu)
        bits.opens_popup(self.button, self.menu)
        self._flow.addWidget(self.button)
        self.setWidgetResizable(True)
        self.setWidget(self._content)

    def chips(self) -> tuple[QPushButton, ...]:
        return tuple(self._chips)

    def show_chips(self, chips: Sequence[Chip]) -> None:
        bits.drop(self._flow, self._chips)
        self._words = [_shortened(chip.text) for chip in chips]
        self._chips = [self._chip(index, chip) for index, chip in enumerate(chips)]
        for made in self._chips:
            self._flow.addWidget(made)
            made.show()
        self._fit()

    def sizeHint(self) -> QSize:
        line = self._flow.sizeHint()
        most = _MOST_LINES * line.height() + (_MOST_LINES - 1) * self._flow.spacing()
        return QSize(line.width(), min(self._flow.heightForWidth(self._content.width()), most))

    def minimumSizeHint(self) -> QSize:
        return self._flow.minimumSize()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        """Elides the text of chips to the available room, so that each shows its cross."""
        width = self._content.width()
        for chip, words in zip(self._chips, self._words, strict=True):
            # The style sheet's paddings, the icon, and the gap.
            beside = chip.sizeHint().width() - _width_of(chip, chip.text().rstrip())
            cut = chip.fontMetrics().elidedText(words, Qt.TextElideMode.ElideMiddle, width - beside)
            chip.setText(f"{bits.literal(cut)} ")
        self.updateGeometry()

    def _chip(self, index: int, chip: Chip) -> QPushButton:
        made = bits.button("", "filter", "close", partial(self._on_removed, index))
        # Puts the cross after the words.
        made.setLayoutDirection(_other(self.layoutDirection()))
        made.setText(f"{bits.literal(self._words[index])} ")
        # Otherwise the page could not become narrower than the chips.
        made.setMinimumWidth(1)
        made.setAccessibleName(self.tr("Remove the filter: %1").replace("%1", chip.text))
        made.setToolTip(plain_tip(chip.detail))
        return made

    def _on_removed(self, index: int) -> None:
        self.removed.emit(index)
        # The chip that had the focus is gone.
        self.button.setFocus()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_CHARS else f"{text[:_LONGEST_CHARS]}…"


def _width_of(chip: QPushButton, text: str) -> int:
    return chip.fontMetrics().size(Qt.TextFlag.TextShowMnemonic, text).width()


def _other(direction: Qt.LayoutDirection) -> Qt.LayoutDirection:
    is_left = direction == Qt.LayoutDirection.LeftToRight
    return Qt.LayoutDirection.RightToLeft if is_left else Qt.LayoutDirection.LeftToRight
