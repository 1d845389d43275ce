"""Stall detector: when the main thread has not come back to its event loop for a while, says where it is.

A timer on the main thread leaves a time stamp; a watching thread checks its age and, when it is too old,
records the main thread's stack at that moment.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from types import FrameType

from PySide6.QtCore import QObject, Qt, QTimer

log = logging.getLogger(__name__)
STALL_S = 0.1
# The error of the reported times.
BEAT_S = 0.05
_STACK_LINES = 24


class StallDetector(QObject):
    """Made and started on the thread it watches; `stop` ends its own thread."""

    def __init__(self, stall_s: float = STALL_S, beat_s: float = BEAT_S, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stall_s, self._beat_s = stall_s, beat_s
        self._watched = threading.get_ident()
        self._last_beat = 0.0
        self._stopped = threading.Event()
        self._timer = QTimer(self, interval=round(beat_s * 1000), timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._thread = threading.Thread(target=self._watch, name="stall-detector", daemon=True)

    def start(self) -> None:
        self._beat()
        self._timer.start()
        self._thread.start()

    def stop(self) -> None:
        self._timer.stop()
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        self._last_beat = time.monotonic()

    def _watch(self) -> None:
        while not self._stopped.wait(self._beat_s / 2):
            beat = self._last_beat
            if time.monotonic() - beat > self._stall_s:
                self._report(beat)

    def _report(self, beat: float) -> None:
        stack = stack_of(sys._current_frames().get(self._watched))
        while self._last_beat == beat:
            if self._stopped.wait(self._beat_s / 10):
                return
        away_s = self._last_beat - beat
        # The beat before may have been up to one interval old when the stall began.
        if away_s > self._stall_s + self._beat_s / 2:
            log.info("the window did not come back to its event loop for %.0f ms:\n%s", away_s * 1000, stack)


def stack_of(frame: FrameType | None) -> str:
    """The innermost lines of a stack; says so where Python cannot see one."""
    if frame is None:
        return "  (no Python frame)"
    return "".join(traceback.format_stack(frame)[-_STACK_LINES:]).rstrip()
