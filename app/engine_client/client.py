"""EngineClient: the engine as the rest of the window sees it. Starts it, talks to it, outlives it."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from app.engine_client import deaths
from app.engine_client.deaths import Death, Record
from app.engine_client.exchange import Exchange
from app.engine_client.log_file import RotatedLog
from app.engine_client.process import EngineProcess
from app.engine_client.pulse import Patience, Pulse
from engine import protocol, wire
from engine.protocol import Method, Notice, P, ProtocolError, R
from engine.wire import Reply, WireError

log = logging.getLogger(__name__)

State = Literal["starting", "ready", "restarting", "failed", "stopped"]
CAREFUL_ARGUMENT = "--careful"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def no_engine_sentence() -> str:
    """Returns the error of a request that was made while no engine was running."""
    return QCoreApplication.translate("EngineClient", "The engine is not running.")


class EngineClient(QObject):
    """Lives on the main thread. Requests wait until the engine is ready and are answered exactly once.

    Attributes:
        state: starting, ready, restarting (it died and comes again), failed (it will not come by itself), stopped.
        phase: The long operation that the engine has declared, "" for none.
    """

    became_ready = Signal()  # a new engine process can be talked to
    notice_received = Signal(object)  # protocol.Notice, never Ready
    engine_died = Signal(str)  # a sentence; it is restarting
    engine_gave_up = Signal(str)  # a sentence; it stays down until `start` or `start_carefully`
    phase_changed = Signal(str)  # the phase
    state_changed = Signal(str)  # the state

    def __init__(
        self,
        logs: Path,
        command: Sequence[str] | None = None,
        patience: Patience | None = None,
        parent: QObject | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            logs: The folder for the engine's standard error.
            command: Program and arguments of the engine process.
            patience: How long to wait for what.
            parent: As in Qt.
        """
        super().__init__(parent)
        self.state: State = "stopped"
        self.phase = ""
        self._command = tuple(command or (sys.executable, "-m", "engine"))
        self._patience = patience or Patience()
        self._log = RotatedLog(logs / "engine.log")
        self._process: EngineProcess | None = None
        self._is_careful = False
        self._is_stopping = False
        self._kill_reason = ""
        self._record = Record()
        self._ready_since: float | None = None
        self._num_garbage = 0
        self._has_answered = False
        self._exchange = Exchange(self)
        self._pulse = Pulse(self._patience, time.monotonic())
        self._pinging = QTimer(self, interval=round(self._patience.ping_s * 1000))
        self._pinging.timeout.connect(self._on_ping_due)
        self._restarting = QTimer(self, singleShot=True)
        self._restarting.timeout.connect(self._launch)

    @property
    def engine_pid(self) -> int | None:
        return self._process.pid or None if self._process else None

    def start(self) -> None:
        """Starts the engine; does nothing while there is one."""
        self._start(is_careful=False)

    def start_again(self) -> None:
        """Replaces an engine that has given up, or one that is running but refuses everything."""
        if self.state == "ready":
            sentence = self.tr("The engine is restarting.")
            self._end_quietly()
            self._forget_process()
            # Before the requests fail, because a caller may ask again at once.
            self._set_state("stopped")
            self._exchange.fail_sent(sentence)
            # Open requests are lost with the engine, as when it dies.
            self.engine_died.emit(sentence)
        self.start()

    def start_carefully(self) -> None:
        """The safe mode: starts the engine without loading, watching or resuming anything by itself."""
        self._start(is_careful=True)

    def stop(self) -> None:
        """Asks the engine to end, then kills it. Returns when it has ended; open requests fail."""
        self._restarting.stop()
        self._pinging.stop()
        if self._process is not None:
            self._is_stopping = True
            if self.state == "ready":
                self.request(protocol.SHUTDOWN, protocol.Nothing())
            self._process.stop(self._patience.polite_stop_s, self._patience.terminate_s)
        self._forget_process()
        self._log.close()
        self._set_state("stopped")
        self._exchange.fail_all(self.tr("Ragdoll is closing."))

    def request(
        self,
        method: Method[P, R],
        params: P,
        on_result: Callable[[R], object] | None = None,
        on_error: Callable[[WireError], object] | None = None,
    ) -> int:
        """Asks the engine for something; exactly one of the two callbacks is called, later, on this thread.

        An engine that dies before it has answered is an error of kind "EngineDied".
        """
        request_id = self._exchange.add(method, params, on_result, on_error)
        if self.state == "ready":
            self._send()
        elif self.state == "failed":
            QTimer.singleShot(0, self, self._fail_waiting)
        return request_id

    # --- the life of a process ---

    def _start(self, is_careful: bool) -> None:
        if self.state in ("stopped", "failed"):
            self._is_careful = is_careful
            self._record = Record()
            self._set_state("starting")
            self._launch()

    def _launch(self) -> None:
        extra = (CAREFUL_ARGUMENT,) if self._is_careful else ()
        self._is_stopping = False
        self._kill_reason = ""
        self._num_garbage = 0
        self._has_answered = False
        self._pulse = Pulse(self._patience, time.monotonic())
        self._process = EngineProcess((*self._command, *extra), self._log, self)
        self._process.line_received.connect(self._on_line)
        self._process.ended.connect(self._on_ended)
        self._pinging.start()
        self._process.start()

    def _on_ready(self, ready: protocol.Ready) -> None:
        if ready.protocol_version != protocol.PROTOCOL_VERSION:
            self._refuse_version(ready.protocol_version)
            return
        self._ready_since = time.monotonic()
        self._pulse.beat(self._ready_since)
        self._set_state("ready")
        self._send()
        self.became_ready.emit()

    def _on_ended(self, death: Death) -> None:
        if self._is_stopping:
            return
        because = self._kill_reason or deaths.cause(death)
        log.warning("%s", because)
        now = time.monotonic()
        # Silent time does not count as life, so that an engine that hangs at every start is not restarted endlessly.
        lived_s = 0.0 if self._ready_since is None else self._pulse.last_beat - self._ready_since
        self._record = self._record.with_death(now, lived_s, self._patience)
        if not death.was_started:
            self._give_up(deaths.unstartable_sentence(self._command[0]))
        elif self._record.is_hopeless(self._patience):
            self._give_up(deaths.giving_up_sentence(because, self._record))
        else:
            self._restart(because)

    def _restart(self, because: str) -> None:
        self._forget_process()
        self.state = "restarting"
        sentence = deaths.restart_sentence(because)
        self._exchange.fail_sent(because)
        self.engine_died.emit(sentence)
        self._restarting.start(round(self._record.wait_s(self._patience) * 1000))
        self.state_changed.emit(self.state)

    def _give_up(self, sentence: str) -> None:
        self._forget_process()
        self.state = "failed"
        self._exchange.fail_all(sentence)
        self.engine_gave_up.emit(sentence)
        self.state_changed.emit(self.state)

    def _refuse_version(self, theirs: object) -> None:
        self._end_quietly()
        self._give_up(deaths.wrong_version_sentence(theirs, protocol.PROTOCOL_VERSION))

    def _end_quietly(self) -> None:
        """Kills the process; its end is not reported as a death."""
        self._is_stopping = True
        if self._process is not None:
            self._process.kill()
            self._process.stop(self._patience.polite_stop_s, self._patience.terminate_s)

    def _kill(self, reason: str) -> None:
        if self._process is not None and not self._kill_reason:
            self._kill_reason = reason
            self._process.kill()

    def _forget_process(self) -> None:
        self._pinging.stop()
        self._ready_since = None
        if self._process is not None:
            self._process.line_received.disconnect(self._on_line)
            self._process.ended.disconnect(self._on_ended)
            self._process.deleteLater()
            self._process = None
        self._set_phase("")

    # --- pings ---

    def _on_ping_due(self) -> None:
        now = time.monotonic()
        # It says `ready` before its heavy imports, so until its first answer it is still starting.
        is_in_phase = bool(self.phase) or not self._has_answered
        if self._pulse.is_hanging(now, is_in_phase):
            allowed = self._patience.phase_silence_s if is_in_phase else self._patience.silence_s
            self._kill(deaths.hang_cause(allowed))
        elif self.state == "ready":
            self.request(protocol.PING, protocol.Nothing(), self._on_pong)

    def _on_pong(self, _pong: protocol.Pong) -> None:
        self._has_answered = True
        self._pulse.beat(time.monotonic())

    # --- lines ---

    def _on_line(self, line: bytes) -> None:
        try:
            message = wire.decode_message(line)
        except ProtocolError as error:
            self._on_garbage(line, error)
            return
        if isinstance(message, Reply):
            self._exchange.settle(message)
        elif isinstance(message, protocol.Ready):
            self._on_ready(message)
        else:
            self._on_notice(message)

    def _on_garbage(self, line: bytes, error: ProtocolError) -> None:
        if self.state != "ready" and (version := _version_in(line)) not in (None, protocol.PROTOCOL_VERSION):
            self._refuse_version(version)
            return
        self._num_garbage += 1
        log.warning("%s %r", error.sentence, line[:200])
        if self._num_garbage > self._patience.max_garbage_lines:
            self._kill(deaths.garbage_cause())

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, protocol.Phase):
            self._pulse.beat(time.monotonic())
            self._set_phase(notice.phase)
        elif isinstance(notice, protocol.Log):
            log.log(_LEVELS[notice.level], "the engine says: %s", notice.message)
        self.notice_received.emit(notice)

    def _send(self) -> None:
        assert self._process is not None, "ready without a process"
        self._exchange.send(self._process.write)

    def _fail_waiting(self) -> None:
        if self.state == "failed":
            self._exchange.fail_all(no_engine_sentence())

    # --- what is reported ---

    def _set_state(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)

    def _set_phase(self, phase: str) -> None:
        if phase != self.phase:
            self.phase = phase
            self.phase_changed.emit(phase)


def _version_in(line: bytes) -> object:
    """Returns the protocol version in a `ready` of another version; None if there is none to read."""
    try:
        body = json.loads(line)
    except ValueError:
        return None
    if not isinstance(body, dict) or body.get("method") != "ready":
        return None
    params = body.get("params")
    return params.get("protocol_version") if isinstance(params, dict) else None
