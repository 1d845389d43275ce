"""Chooses the days between which files were changed; either end may stay open."""

from __future__ import annotations

from datetime import date

from PySide6.QtCore import QDate, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDateEdit, QDialog, QGridLayout, QWidget

from app.widgets import bits

# The margins around a day in its field, and the arrow.
_AROUND_PX = 76


class DaysDialog(QDialog):
    """`chosen` carries the first and the last day; None is open."""

    chosen = Signal(object, object)  # date | None, date | None

    def __init__(self, since: date | None, until: date | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Changed between"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        today = date.today()
        self.has_since, self.since = self._end(self.tr("On or after"), since, date(today.year, 1, 1))
        self.has_until, self.until = self._end(self.tr("On or before"), until, today)
        self.has_since.setChecked(since is not None or until is None)
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(10)
        for line, (check, field) in enumerate(((self.has_since, self.since), (self.has_until, self.until))):
            grid.addWidget(check, line, 0)
            grid.addWidget(field, line, 1)
        self.use = bits.button(self.tr("Search these days"), "primary", clicked=self.accept)
        self.use.setDefault(True)
        layout = bits.column(bits.label(self.tr("Files that were changed"), "heading"), spacing=14)
        layout.addLayout(grid)
        layout.addLayout(bits.row(None, bits.button(self.tr("Cancel"), clicked=self.reject), self.use))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)

    def accept(self) -> None:
        since = _date(self.since) if self.has_since.isChecked() else None
        until = _date(self.until) if self.has_until.isChecked() else None
        if since and until and until < since:
            since, until = until, since
        self.chosen.emit(since, until)
        super().accept()

    def _end(self, words: str, day: date | None, otherwise: date) -> tuple[QCheckBox, QDateEdit]:
        check, field = QCheckBox(words), QDateEdit()
        shown = day or otherwise
        field.setDate(QDate(shown.year, shown.month, shown.day))
        field.setDisplayFormat("yyyy-MM-dd")
        field.setCalendarPopup(True)
        field.setFixedWidth(field.fontMetrics().horizontalAdvance(field.text()) + _AROUND_PX)
        field.setAccessibleName(words)
        field.setEnabled(day is not None)
        bits.tame(field)
        check.setChecked(day is not None)
        check.toggled.connect(field.setEnabled)
        return check, field


def _date(field: QDateEdit) -> date:
    shown = field.date()
    return date(shown.year(), shown.month(), shown.day())
