"""What the tiers are called in the reader's words; a graphics card has the name that its maker gave it."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

# As the engine tells them.
TOLD = (str(QT_TRANSLATE_NOOP("tiers", "Memory")), str(QT_TRANSLATE_NOOP("tiers", "Disk")))


def tier_name(told: str) -> str:
    return QCoreApplication.translate("tiers", told)
