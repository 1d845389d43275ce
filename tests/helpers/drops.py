"""Drops of folders and files as the platform delivers them: to the window's own handle, over any widget."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget


def mime_of(*paths: Path) -> QMimeData:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return mime


def drag_over(window: QWidget, widget: QWidget, mime: QMimeData) -> tuple[QPoint, bool]:
    """Drags to the middle of `widget`; returns where that is, and whether the window would take it."""
    where = widget.mapTo(window, widget.rect().center())
    enter = QDragEnterEvent(
        where, Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    # QGuiApplication hands drags to the window handle, which finds the widget below the mouse: as on a real screen.
    QApplication.sendEvent(window.windowHandle(), enter)
    return where, enter.isAccepted()


def drop_on(window: QWidget, widget: QWidget, mime: QMimeData) -> None:
    where, _ = drag_over(window, widget, mime)
    drop = QDropEvent(
        QPointF(where), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(window.windowHandle(), drop)
