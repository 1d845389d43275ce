"""An uncaught exception is logged and reported in the window; the window continues."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QCoreApplication

log = logging.getLogger(__name__)
Tell = Callable[[str, str], object]


class UncaughtExceptions:
    """Takes `sys.excepthook`'s place, where PySide sends what slots raise, until `release`."""

    def __init__(self, tell: Tell) -> None:
        """`tell` gets a sentence and a way out."""
        self._tell = tell
        self._is_telling = False
        self._old = sys.excepthook
        sys.excepthook = self._on_exception

    def release(self) -> None:
        sys.excepthook = self._old

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt | SystemExit):
            self._old(kind, error, trace)
            return
        log.error("an exception that nobody caught", exc_info=(kind, error, trace))
        # A failure of the report must not be reported again.
        if not self._is_telling:
            self._is_telling = True
            try:
                words = _tr("Something went wrong inside the window: %1.")
                self._tell(words.replace("%1", f"{kind.__name__}: {error}"), _tr("Details are in the log."))
            finally:
                self._is_telling = False


def _tr(text: str) -> str:
    return QCoreApplication.translate("uncaught", text)
