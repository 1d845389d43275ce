"""The application under overload: run by overload.py in a process of its own.

It asks a few questions at rest, puts one to every file, keeps asking in chats until the files are answered, and asks
again some time later. Prints one JSON object: times to first token by stage, and gaps of a timer.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Qt, QTimer

from tests.bench.window_probe import TICK_MS, watched

if TYPE_CHECKING:
    from app.main import Session
    from app.models import AppModels
    from app.models.turns import TurnView

Stage = Literal["starting", "idle", "overload", "resting", "later"]
# The idle questions come first. The very first does not count: libraries are loaded and the instructions are read for
# it.
NUM_IDLE, NUM_LATER = 4, 2
# Time in which a person reads the answer.
BETWEEN_MS = 3000
LONGEST_S = 1500.0


class OverloadProbe(QObject):
    """Runs through the stages, with one of the person's questions at a time."""

    def __init__(self, session: Session, rest_s: float) -> None:
        super().__init__(session)
        self._session, self._rest_s = session, rest_s
        self._models: AppModels | None = None
        self._stage: Stage = "starting"
        self._began = self._last_tick = time.perf_counter()
        self._num_asked, self._overloaded_at = 0, 0.0
        self.seen: dict[str, list[float]] = defaultdict(list)
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_tick)
        self._timer.start()

    def _on_tick(self) -> None:
        now = time.perf_counter()
        if self._stage == "overload":
            self.seen["gaps_ms"].append((now - self._last_tick) * 1000)
        self._last_tick = now
        if self._models is None and self._session.models is not None:
            self._attach(self._session.models)
        if now - self._began > LONGEST_S:
            print(f"It was not over after {LONGEST_S:.0f} s, but at: {self._stage}.", file=sys.stderr)
            self._session.window.close()

    def _attach(self, models: AppModels) -> None:
        self._models = models
        models.client.phase_changed.connect(self._on_phase)
        models.conversation.turn_changed.connect(self._on_turn_changed)
        models.each_file.run_changed.connect(self._on_run_changed)

    def _on_phase(self, phase: str) -> None:
        if phase == "" and self._stage == "starting":
            self._go_on("idle")

    def _go_on(self, stage: Stage) -> None:
        self._stage = stage
        self._ask()

    def _ask(self) -> None:
        """Asks about a new file each time, so that only the instructions of its prompt are cached."""
        assert self._models is not None
        self._models.conversation.new_chat()
        self._models.conversation.ask(f"What is said in note-{self._num_asked}.txt?")
        self._num_asked += 1

    def _on_turn_changed(self, turn_id: str) -> None:
        assert self._models is not None
        view: TurnView | None = self._models.conversation.turn(turn_id)
        if view is None or not view.has_ended:
            return
        if view.timings is not None and self._num_asked > 1:
            self.seen[self._stage if self._stage != "resting" else "overload"].append(view.timings.ttft_s)
        QTimer.singleShot(BETWEEN_MS, self, self._next)

    def _next(self) -> None:
        assert self._models is not None
        if self._stage == "idle" and len(self.seen["idle"]) == NUM_IDLE:
            self._stage, self._overloaded_at = "overload", time.perf_counter()
            self._models.each_file.begin("What is said here, and of what?", ("Documents",))
        if self._stage == "later" and len(self.seen["later"]) == NUM_LATER:
            self._session.window.close()
        elif self._stage != "resting":
            self._ask()

    def _on_run_changed(self) -> None:
        assert self._models is not None
        run = self._models.each_file
        if self._stage == "overload" and run.state == "finished":
            self.seen["files"] = [run.num_files, run.num_answered, run.num_failed]
            self.seen["overload_s"] = [time.perf_counter() - self._overloaded_at]
            self._stage = "resting"
            QTimer.singleShot(round(self._rest_s * 1000), self, lambda: self._go_on("later"))


def main(rest_s: float) -> int:
    probe = watched(lambda session: OverloadProbe(session, rest_s))
    print(json.dumps(probe.seen))
    return 0 if probe.seen["later"] else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
