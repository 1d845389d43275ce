"""How smoothly the Memory page moves: 80 layers and 200 partitions, ten snapshots a second, in the real window.

    python -m tests.bench.memory_page [--seconds 15] [--json FILE]

The engine is a script (tests/helpers/scripted_memory.py), so that only the window is measured: how late a 10 ms timer
comes, and what taking in and painting a snapshot takes of the processor. Offscreen unless QT_QPA_PLATFORM says
otherwise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app import theme
from app.chats import ChatStore
from app.main import make_application
from app.models import AppModels
from app.settings import SettingsStore
from app.windows.main_window import MainWindow
from app.windows.memory_page import MemoryPage
from engine import protocol
from tests.bench import report
from tests.bench.window import percentile
from tests.helpers.fake_engine_client import FakeEngineClient
from tests.helpers.scripted_memory import LARGE, snapshot

if TYPE_CHECKING:
    from app.engine_client import EngineClient

TICK_MS, SNAPSHOT_MS = 10, 100
BOUNDS = {"map_timer_late_p99_ms": 50.0, "table_timer_late_p99_ms": 50.0}
_BUDGETS = {f"{tier}_budget_bytes": None for tier in ("gpu", "ram", "disk")}


class Watch(QObject):
    """Plays the script to the window, and notes how late its own timer is; `done` when the script is over."""

    done = Signal()

    def __init__(self, client: FakeEngineClient, seconds: float) -> None:
        super().__init__()
        self._client = client
        # Made before: making them costs the engine's process, not the window's.
        ticks = range(round(seconds * 1000 / SNAPSHOT_MS))
        self._script = iter([protocol.MemorySnapshot(memory=snapshot(LARGE, tick)) for tick in ticks])
        self._last_s, self._cpu_s = time.perf_counter(), time.thread_time()
        self.late_ms: list[float] = []
        self.cpu_ms: list[float] = []
        self._ticks = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._ticks.timeout.connect(self._on_tick)
        self._snapshots = QTimer(self, interval=SNAPSHOT_MS)
        self._snapshots.timeout.connect(self._on_snapshot)
        self._ticks.start()
        self._snapshots.start()

    def _on_tick(self) -> None:
        now = time.perf_counter()
        self.late_ms.append(max(0.0, (now - self._last_s) * 1000 - TICK_MS))
        self._last_s = now

    def _on_snapshot(self) -> None:
        # From one to the next: taking in, painting, and the ticks, which are next to nothing.
        now = time.thread_time()
        self.cpu_ms.append((now - self._cpu_s) * 1000)
        self._cpu_s = now
        if (told := next(self._script, None)) is not None:
            self._client.tell(told)
        else:
            self._ticks.stop()
            self._snapshots.stop()
            self.done.emit()


def measure(seconds: float, folder: Path) -> dict[str, float]:
    """The figures of the map, then those of the table."""
    application = make_application(["ragdoll"])
    theme.appearance("light")
    client = FakeEngineClient()
    store = ChatStore(folder / "chats.sqlite")
    models = AppModels(cast("EngineClient", client), store, SettingsStore(folder / "window.toml"))
    window = MainWindow()
    window.attach(models)
    window.show()
    page = window.go_to("memory")
    assert isinstance(page, MemoryPage)
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"memory": _BUDGETS}))
    figures: dict[str, float] = {}
    for name in ("map", "table"):
        page.show_table(name == "table")
        application.processEvents()
        watch = Watch(client, seconds)
        watch.done.connect(application.quit)
        application.exec()
        figures |= {
            f"{name}_timer_late_p50_ms": percentile(watch.late_ms, 50),
            f"{name}_timer_late_p99_ms": percentile(watch.late_ms, 99),
            f"{name}_cpu_per_snapshot_ms": statistics.median(watch.cpu_ms),
        }
    window.close()
    models.close()
    store.close()
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="of the map, and as long of the table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        figures = measure(options.seconds, Path(folder))
    report.show("memory page", figures, {}, BOUNDS)
    if options.json:
        report.write(options.json, figures, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
