"""The window with a timer on its main thread: run by window.py in a process of its own.

It is the real application (`app.main.Session` and its engine process) with a 10 ms timer; it adds a folder and asks one
question after the other while the folder is indexed. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil
from PySide6.QtCore import QObject, Qt, QTimer

from app.first_paint import FirstPaint
from app.main import Session, make_application
from app.settings import AppHome
from app.single_instance import SingleInstance
from app.startup_trace import seconds_since_process_start

if TYPE_CHECKING:
    # Not imported at run time: the window imports these only after its first paint, and the probe must not change that.
    from app.models import AppModels
    from app.models.turns import TurnView
    from engine import protocol

Watching = TypeVar("Watching", bound=QObject)

TICK_MS = 10
IDLE_S = 2.0
# A small folder would be indexed before there are enough gaps for a 99th percentile.
SHORTEST_WORK_S = 10.0
QUESTIONS = (
    "How do I share state between threads?",
    "What happens when a value goes out of scope?",
    "Who is responsible for repairs?",
    "Which errors can be recovered from?",
)
HEAVY = {"torch", "llama_cpp", "lancedb", "sentence_transformers", "transformers", "pyarrow"}


class Probe(QObject):
    """Records gaps between ticks by phase: starting, working (indexing and answering), idle."""

    def __init__(self, session: Session, corpus: Path, longest_s: float) -> None:
        super().__init__(session)
        self._session, self._corpus, self._longest_s = session, corpus, longest_s
        self._models: AppModels | None = None
        self._phase = "starting"
        self._phase_began = self._last_tick = time.perf_counter()
        self.num_asked = 0
        self.gaps_ms: dict[str, list[float]] = defaultdict(list)
        self.rss_bytes: list[int] = []
        self.figures: dict[str, float] = {}
        self._process = psutil.Process()
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_tick)
        self._timer.start()
        # Processor time, because other programs stretch elapsed time but not this.
        FirstPaint(session.window).painted.connect(self._on_painted)

    def _on_painted(self) -> None:
        self.figures["first_paint_cpu_s"] = time.process_time()

    def _on_tick(self) -> None:
        now = time.perf_counter()
        self.gaps_ms[self._phase].append((now - self._last_tick) * 1000)
        self._last_tick = now
        if len(self.gaps_ms[self._phase]) % 20 == 1:
            self.rss_bytes.append(self._process.memory_info().rss)
        if self._models is None and self._session.models is not None:
            self._attach(self._session.models)
        if now - self._phase_began > (IDLE_S if self._phase == "idle" else self._longest_s):
            self._session.window.close()

    def _attach(self, models: AppModels) -> None:
        self._models = models
        self.figures["rss_after_first_paint_mb"] = self._process.memory_info().rss / 1e6
        models.client.became_ready.connect(lambda: self._note_time("engine_ready_s"))
        models.client.phase_changed.connect(self._on_phase)
        models.library.job_finished.connect(self._on_job_finished)
        models.conversation.turn_changed.connect(self._on_turn_changed)

    def _note_time(self, name: str) -> None:
        self.figures.setdefault(name, seconds_since_process_start() or 0.0)

    def _on_phase(self, phase: str) -> None:
        if phase == "" and self._phase == "starting" and self._models is not None:
            self._note_time("libraries_loaded_s")
            self._enter("working")
            self._session.window.adding.add((str(self._corpus),))
            self._ask()

    def _ask(self) -> None:
        assert self._models is not None
        self._models.conversation.ask(QUESTIONS[self.num_asked % len(QUESTIONS)])
        self.num_asked += 1

    def _on_turn_changed(self, turn_id: str) -> None:
        assert self._models is not None
        view: TurnView | None = self._models.conversation.turn(turn_id)
        if self._phase == "working" and view is not None and view.has_ended:
            QTimer.singleShot(200, self, self._ask)

    def _on_job_finished(self, finished: protocol.IndexFinished) -> None:
        self.figures["indexed_documents"] = finished.indexed
        self.figures["indexed_chunks"] = finished.chunks
        self.figures["indexing_s"] = finished.seconds
        rest_s = max(0.0, SHORTEST_WORK_S - (time.perf_counter() - self._phase_began))
        QTimer.singleShot(round(rest_s * 1000), self, lambda: self._enter("idle"))

    def _enter(self, phase: str) -> None:
        self._phase, self._phase_began = phase, time.perf_counter()


def watched(make_probe: Callable[[Session], Watching]) -> Watching:
    """Runs the application with a probe until its window is closed; returns the probe."""
    application = make_application(["ragdoll"])
    home = AppHome.find()
    home.create()
    instance = SingleInstance(home.lock_file, home.socket_file)
    if not instance.claim():
        raise SystemExit(f"A window is already open on {home.data}.")
    session = Session(home, instance, ())
    probe = make_probe(session)
    session.show()
    try:
        application.exec()
    finally:
        session.close()
    return probe


def main(corpus: Path, longest_s: float) -> int:
    probe = watched(lambda session: Probe(session, corpus, longest_s))
    print(json.dumps(
        {
            **probe.figures,
            "questions": probe.num_asked,
            "rss_peak_mb": max(probe.rss_bytes) / 1e6,
            "gaps_ms": probe.gaps_ms,
            "heavy_modules": sorted(HEAVY & set(sys.modules)),
        }
    ))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
