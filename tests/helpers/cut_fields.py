"""Fields of the window in which something is not seen whole."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QWidget


def cut_fields(root: QWidget) -> list[str]:
    """The names of lists narrower than their choices want, and of fields narrower than their figures."""
    boxes = (box for box in root.findChildren(QComboBox) if box.width() < box.sizeHint().width())
    spins = (spin for spin in root.findChildren(QAbstractSpinBox) if _room_px(spin) < _wanted_px(spin))
    return [field.accessibleName() for field in (*boxes, *spins)]


def _room_px(spin: QAbstractSpinBox) -> int:
    return spin.lineEdit().width() - spin.lineEdit().textMargins().left()


def _wanted_px(spin: QAbstractSpinBox) -> int:
    return spin.fontMetrics().horizontalAdvance(spin.text())
