"""The overlay shown while something is dragged over the window, which says what a drop would do.

"Drop to attach to this chat", "Drop to add to Documents", "Drop to open this model".
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes

from PySide6.QtCore import QEvent, QMimeData, QObject, QRectF, Qt, QUrl
from PySide6.QtGui import QColor, QDragEnterEvent, QDragMoveEvent, QDropEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app import theme

# What Qt puts in place of bytes that are not UTF-8.
REPLACED = "\ufffd"
_PART_OF_MODEL = re.compile(r"-\d{5}(?=-of-\d{5}\.gguf$)", re.IGNORECASE)


def dropped_paths(event: QDropEvent) -> tuple[str, ...]:
    """Returns the local folders and files of a drop; the engine expands folders."""
    return local_paths(event.mimeData())


def local_paths(data: QMimeData) -> tuple[str, ...]:
    """Returns the local folders and files of dropped or copied data."""
    return tuple(path for url in data.urls() if (path := _local_path(url)))


def models_among(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the model files among paths, once for each model."""
    return without_later_parts(tuple(path for path in paths if is_model(path)))


def without_later_parts(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Returns paths without the later parts of a model whose first part is among them."""
    firsts = {path: _PART_OF_MODEL.sub("-00001", path) for path in paths}
    return tuple(path for path in paths if firsts[path] == path or firsts[path] not in paths)


def is_model(path: str) -> bool:
    """Returns whether a file is a model, by its name: it is opened, not indexed."""
    return path.lower().endswith(".gguf")


def _local_path(url: QUrl) -> str:
    """Returns the path of a local file or folder, else ""; bytes that are not UTF-8 are kept as by `os.fsdecode`."""
    path = url.toLocalFile()
    if os.name != "nt" and REPLACED in path:
        return os.fsdecode(unquote_to_bytes(url.path(QUrl.ComponentFormattingOption.FullyEncoded)))
    return path


class DropOverlay(QWidget):
    """Covers its parent while visible; lets the mouse and the drop through to the window below."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._covered = parent
        self._sentence = self._detail = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleDescription(self.tr("Shown while files are dragged over the window"))
        parent.installEventFilter(self)
        self.hide()

    @property
    def sentence(self) -> str:
        return self._sentence

    @property
    def detail(self) -> str:
        """Returns what else the user should know before dropping; "" if the sentence suffices."""
        return self._detail

    def offer(self, event: QDragEnterEvent | QDragMoveEvent, collection: str, *, attaches: bool = False) -> None:
        """Takes a drag that holds folders or files, and says what a drop would do with them.

        All are added to the collection; a drop that `attaches` also limits the open chat to them.
        """
        paths = dropped_paths(event)
        if not paths:
            return
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        self._sentence = self._words(paths, attaches).replace("%1", collection)
        is_read = attaches and not all(is_model(path) for path in paths)
        detail = self.tr(
            "The next questions of this chat are answered from the attached files. They are also added to %1."
        )
        self._detail = detail.replace("%1", collection) if is_read else ""
        self.setGeometry(self._covered.rect())
        self.raise_()
        self.show()
        self.update()

    def _words(self, paths: tuple[str, ...], attaches: bool) -> str:
        models = models_among(paths)
        if attaches and not all(is_model(path) for path in paths):
            with_model = self.tr("Drop to open the model and attach the rest to this chat")
            return with_model if models else self.tr("Drop to attach to this chat")
        if not all(is_model(path) for path in paths):
            return self.tr("Drop to open the model and add the rest to %1") if models else self.tr("Drop to add to %1")
        return self.tr("Drop to open this model") if len(models) == 1 else self.tr("Drop to open these models")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self._covered.rect())
        return super().eventFilter(watched, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        look = theme.current()
        veil = QColor(look.window)
        veil.setAlphaF(0.88)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), veil)
        frame = QRectF(self.rect()).adjusted(24.5, 24.5, -24.5, -24.5)
        painter.setPen(QPen(QColor(look.accent), 2, Qt.PenStyle.DashLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(frame, 20, 20)
        middle = frame.center()
        picture = theme.pixmap("drop", 48, look.accent, self.devicePixelRatioF())
        painter.drawPixmap(round(middle.x() - 24), round(middle.y() - 64), picture)
        big = self.font()
        big.setPointSizeF(big.pointSizeF() * 1.5)
        big.setBold(True)
        painter.setFont(big)
        painter.setPen(QColor(look.text))
        painter.drawText(frame.translated(0, 16), Qt.AlignmentFlag.AlignCenter, self._sentence)
        if self._detail:
            painter.setFont(self.font())
            painter.setPen(QColor(look.muted))
            below = frame.adjusted(16, frame.height() / 2 + 40, -16, 0)
            around = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(below, around, self._detail)
        painter.end()
