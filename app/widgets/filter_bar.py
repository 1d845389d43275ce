"""Below the question: what it is confined to, as chips that can be taken away, and a button to confine it further."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from app.tips import plain_tip
from app.widgets import bits
from app.widgets.flow import FlowLayout

if TYPE_CHECKING:
    from app.models.question_filters import Chip

_LONGEST_CHARS = 40


class FilterBar(QWidget):
    """The menu of `button` is filled by whoever hears `menu_wanted`, each time just before it opens."""

    menu_wanted = Signal()
    removed = Signal(int)  # index of a chip

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = FlowLayout(self)
        self._chips: list[QPushButton] = []
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self.menu_wanted)
        self.button = bits.button(self.tr("Search in"), "quiet", "plus")
        self.button.setToolTip(self.tr("Search only some folders, kinds of files, or dates"))
        self.button.setMenu(self.menu)
        bits.opens_popup(self.button, self.menu)
        self._flow.addWidget(self.button)

    def chips(self) -> tuple[QPushButton, ...]:
        return tuple(self._chips)

    def show_chips(self, chips: Sequence[Chip]) -> None:
        bits.drop(self._flow, self._chips)
        self._chips = [self._chip(index, chip) for index, chip in enumerate(chips)]
        for made in self._chips:
            self._flow.addWidget(made)
            made.show()
        self.updateGeometry()

    def _chip(self, index: int, chip: Chip) -> QPushButton:
        text = chip.text if len(chip.text) <= _LONGEST_CHARS else f"{chip.text[:_LONGEST_CHARS]}…"
        made = bits.button("", "filter", "close", partial(self._on_removed, index))
        # The cross stands after the words it takes away.
        made.setLayoutDirection(_other(self.layoutDirection()))
        made.setText(f"{bits.literal(text)} ")
        made.setAccessibleName(self.tr("Do not confine to: %1").replace("%1", chip.text))
        made.setToolTip(plain_tip(chip.detail))
        return made

    def _on_removed(self, index: int) -> None:
        self.removed.emit(index)
        # The chip that had the keyboard is gone.
        self.button.setFocus()


def _other(direction: Qt.LayoutDirection) -> Qt.LayoutDirection:
    is_left = direction == Qt.LayoutDirection.LeftToRight
    return Qt.LayoutDirection.RightToLeft if is_left else Qt.LayoutDirection.LeftToRight
