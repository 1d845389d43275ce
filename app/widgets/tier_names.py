"""The translated names of the tiers; a graphics card keeps its own name."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

# The engine's names.
TOLD = (str(QT_TRANSLATE_NOOP("tiers", "Memory")), str(QT_TRANSLATE_NOOP("tiers", "Disk")))


def tier_name(told: str) -> str:
    return QCoreApplication.translate("tiers", told)
