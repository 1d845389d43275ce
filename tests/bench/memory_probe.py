"""The Memory page with a timer on the window's main thread: run by memory_page.py in a process of its own.

It is the real application on a data folder whose model exceeds the memory budget. The page is open while the model
streams, a folder is indexed and questions are answered; gaps of a 10 ms timer count from the moment at which all of
these are under way. Prints one JSON object and saves a picture of the page.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

from tests.bench.window_probe import QUESTIONS, TICK_MS, watched

if TYPE_CHECKING:
    from app.main import Session
    from app.models import AppModels
    from app.models.turns import TurnView

# Ends the run if that moment never comes, for example because the model does not load.
LONGEST_S = 400.0


class MemoryProbe(QObject):
    """Records the gaps between ticks while everything is under way, for `seconds`."""

    def __init__(self, session: Session, corpus: Path, seconds: float, picture: Path) -> None:
        super().__init__(session)
        self._session, self._corpus, self._seconds, self._picture = session, corpus, seconds, picture
        self._models: AppModels | None = None
        self._began = self._last_tick = time.perf_counter()
        self._measured_since: float | None = None
        self._num_asked = self.num_answered = 0
        self._is_indexing = False
        self.gaps_ms: list[float] = []
        self.most_streamed = 0
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_tick)
        self._timer.start()

    def _on_tick(self) -> None:
        now = time.perf_counter()
        gap_ms, self._last_tick = (now - self._last_tick) * 1000, now
        if self._models is None and self._session.models is not None:
            self._attach(self._session.models)
        if self._is_under_way:
            self._measured_since = self._measured_since or now
            self.gaps_ms.append(gap_ms)
        is_enough = self._measured_since is not None and now - self._measured_since > self._seconds
        if is_enough or now - self._began > LONGEST_S:
            self._timer.stop()
            self._session.window.grab().save(str(self._picture))
            self._session.window.close()

    @property
    def _is_under_way(self) -> bool:
        memory = self._models.memory.memory if self._models is not None else None
        num_streamed = int(memory.counters.get("streamed_layers", 0.0)) if memory is not None else 0
        self.most_streamed = max(num_streamed, self.most_streamed)
        return bool(num_streamed and self._is_indexing and self._num_asked)

    def _attach(self, models: AppModels) -> None:
        self._models = models
        models.client.phase_changed.connect(self._on_phase)
        models.library.job_finished.connect(lambda _: self._add())
        models.conversation.turn_changed.connect(self._on_turn_changed)
        self._session.window.go_to("memory")

    def _on_phase(self, phase: str) -> None:
        if phase == "" and not self._is_indexing:
            self._add()
            self._ask()

    def _add(self) -> None:
        """Adds the folder again under another name whenever it is indexed, so that the index grows all the time."""
        self._is_indexing = True
        copy = self._corpus.with_name(f"{self._corpus.name}-{time.monotonic_ns()}")
        copy.symlink_to(self._corpus, target_is_directory=True)
        self._session.window.adding.add((str(copy),))
        self._session.window.go_to("memory")

    def _ask(self) -> None:
        assert self._models is not None
        self._models.conversation.ask(QUESTIONS[self._num_asked % len(QUESTIONS)])
        self._num_asked += 1

    def _on_turn_changed(self, turn_id: str) -> None:
        assert self._models is not None
        view: TurnView | None = self._models.conversation.turn(turn_id)
        if view is not None and view.has_ended:
            self.num_answered += view.state == "finished"
            QTimer.singleShot(200, self, self._ask)


def main(corpus: Path, seconds: float, picture: Path) -> int:
    probe = watched(lambda session: MemoryProbe(session, corpus, seconds, picture))
    figures = {"gaps_ms": probe.gaps_ms, "streamed_layers": probe.most_streamed, "answers": probe.num_answered}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])))
