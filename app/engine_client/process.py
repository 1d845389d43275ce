"""One life of the engine process: lines in, lines out, standard error to its log, and its end reported once."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

import app
from app.engine_client.deaths import Death
from app.engine_client.lines import LineBuffer
from app.engine_client.log_file import RotatedLog
from engine.wire import MAX_LINE_BYTES

log = logging.getLogger(__name__)
# Many messages are handled in slices, so that the window stays responsive.
SLICE_S = 0.008


class EngineProcess(QObject):
    """Can be started once; `ended` comes after the last line was delivered."""

    line_received = Signal(object)  # bytes, without the newline
    ended = Signal(object)  # Death

    def __init__(self, command: Sequence[str], log: RotatedLog, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._log = log
        self._lines = LineBuffer(MAX_LINE_BYTES)
        # One timer for all, so that in a burst the slices do not add up.
        self._more = QTimer(self, singleShot=True, interval=0)
        self._more.timeout.connect(lambda: self._deliver(time.monotonic() + SLICE_S))
        self._death: Death | None = None
        self._has_told = False
        self._process = QProcess(self)
        self._process.setProgram(command[0])
        self._process.setArguments(list(command[1:]))
        # `python -m engine` looks in the working directory first, where our engine lies alongside `app`.
        self._process.setWorkingDirectory(str(Path(app.__file__).parents[1]))
        self._process.setProcessEnvironment(_environment())
        self._process.readyReadStandardOutput.connect(self._on_output)
        self._process.readyReadStandardError.connect(self._on_error_output)
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)

    @property
    def pid(self) -> int:
        """0 when it is not running."""
        return self._process.processId()

    def start(self) -> None:
        """Must be called on the main thread: the engine dies with the thread that started it."""
        self._process.start()

    def write(self, line: bytes) -> None:
        self._process.write(line)

    def kill(self) -> None:
        self._process.kill()

    def stop(self, polite_s: float, terminate_s: float) -> None:
        """Closes the standard input and waits, then terminates, then kills. Returns when the process has ended."""
        running = self._process.state() != QProcess.ProcessState.NotRunning
        if running:
            self._process.waitForStarted(_ms(polite_s))
            self._process.closeWriteChannel()
            if not self._process.waitForFinished(_ms(polite_s)):
                self._process.terminate()
                if not self._process.waitForFinished(_ms(terminate_s)):
                    self._process.kill()
                    if not self._process.waitForFinished(_ms(terminate_s)):
                        # A hanging disk or driver may keep the process in the kernel; the window does not wait for it.
                        log.error("the engine (process %d) cannot be ended", self.pid)
        self._deliver(until=None)

    # --- inside ---

    def _on_output(self) -> None:
        self._lines.feed(bytes(self._process.readAllStandardOutput().data()))
        if not self._more.isActive():
            self._deliver(time.monotonic() + SLICE_S)

    def _on_error_output(self) -> None:
        self._log.write(bytes(self._process.readAllStandardError().data()))

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._end(Death(was_started=False))

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._lines.feed(bytes(self._process.readAllStandardOutput().data()))
        self._on_error_output()
        self._end(Death(has_crashed=status == QProcess.ExitStatus.CrashExit, code=code))

    def _end(self, death: Death) -> None:
        self._death = death
        self._deliver(time.monotonic() + SLICE_S)

    def _deliver(self, until: float | None) -> None:
        """Emits lines until the time is over, then continues after other events."""
        while (line := self._lines.next()) is not None:
            self.line_received.emit(line)
            if until is not None and time.monotonic() > until:
                self._more.start()
                return
        if self._death is not None and not self._has_told:
            self._has_told = True
            self.ended.emit(self._death)


def _environment() -> QProcessEnvironment:
    """Returns our environment, with a relative data folder made absolute: the engine starts in another folder."""
    environment = QProcessEnvironment.systemEnvironment()
    named = os.environ.get("RAGDOLL_HOME")
    if named and not os.path.isabs(named):
        environment.insert("RAGDOLL_HOME", str(Path(named).expanduser().absolute()))
    return environment


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
