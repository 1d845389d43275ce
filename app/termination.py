"""A signal to end closes the window as if by its button: nothing is lost, and the engine shuts down in order.

Such signals are Ctrl+C, SIGTERM, and the closing of the terminal that started the window.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier


class Termination(QObject):
    """Calls `on_wanted` on the main thread, soon after the signal; `release` puts the old handlers back."""

    def __init__(self, on_wanted: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._on_wanted = on_wanted
        # Python runs a handler only between two of its own instructions, which do not come while Qt waits for
        # events; the byte that the interpreter writes at once wakes Qt up.
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._reading.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_woken)
        self._old_wakeup = signal.set_wakeup_fd(self._writing.fileno())
        self._old = {number: signal.signal(number, self._ignore) for number in _heard()}

    def release(self) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._notifier.setEnabled(False)
        self._reading.close()
        self._writing.close()

    def _on_woken(self) -> None:
        numbers = b""
        with suppress(BlockingIOError):
            numbers = self._reading.recv(64)
        if set(numbers) & set(self._old):
            self._on_wanted()

    def _ignore(self, number: int, frame: FrameType | None) -> None:
        """The byte in the socket pair reports the signal; without a handler, the process would end."""


def _heard() -> tuple[signal.Signals, ...]:
    """The signals that end us; nohup ignores the end of a terminal, and that stays so."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP
