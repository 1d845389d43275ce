"""Smoothness of the Memory page: with a great deal to show, and while a model streams and an index grows.

    python -m tests.bench.memory_page [--quick] [--seconds 15] [--json FILE] [--picture FILE] [--peers FOLDER]

Two measurements of the window's main thread, by the lateness of a 10 ms timer:

- `streaming_…`: the real application (memory_probe.py), with a model larger than the memory budget, a folder that is
  being indexed, and questions. All of them compete with the window for the processor.
- `map_…`, `table_…`: the page's map and its table alone, with a scripted engine (tests/helpers/scripted_memory.py: 80
  layers and 200 partitions, ten snapshots a second). `cpu_per_snapshot` is the processor time for receiving and
  painting one snapshot.

Upper bounds: the 99th percentile of lateness is at most 50 ms in each. Exit code 1 if one does not hold; `--quick`
(five seconds instead of 15) checks none. Runs offscreen unless QT_QPA_PLATFORM is set. There is no peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
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
from engine.config import Home
from engine.settings_file import SettingsStore as EngineSettings
from tests.bench import ending, peers, report
from tests.bench.bench_model import ONE_BILLION, bench_model
from tests.bench.window import ROOT, corpus, environment, percentile
from tests.helpers.fake_engine_client import FakeEngineClient
from tests.helpers.scripted_memory import LARGE, snapshot

if TYPE_CHECKING:
    from app.engine_client import EngineClient

TICK_MS, SNAPSHOT_MS = 10, 100
# Upper bounds.
BOUNDS = {"map_timer_late_p99_ms": 50.0, "table_timer_late_p99_ms": 50.0, "streaming_timer_late_p99_ms": 50.0}
# For model, index, embedder and libraries: part of a model of 622 MB has to be streamed.
RAM_BUDGET_BYTES = 900 * 2**20
_BUDGETS = {f"{tier}_budget_bytes": None for tier in ("gpu", "ram", "disk")}


class Watch(QObject):
    """Feeds scripted snapshots to the window and records its timer's lateness; `done` when the script ends."""

    done = Signal()

    def __init__(self, client: FakeEngineClient, seconds: float) -> None:
        super().__init__()
        self._client = client
        # Created beforehand: in the application, the engine's process bears this cost.
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
        # From one snapshot to the next: receiving, painting and the ticks, which cost almost nothing.
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
    """Returns the figures of the map and of the table."""
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


def while_streaming(seconds: float, folder: Path, models: Path, picture: Path) -> dict[str, float]:
    """Measures the timer in the real application while its model streams and its index grows."""
    home = Home.under(folder / "home")
    home.create()
    model = bench_model(models, ONE_BILLION)
    chosen = {"models.current": str(model), "models.known": [str(model)], "memory.ram_budget_bytes": RAM_BUDGET_BYTES}
    EngineSettings(home.settings_file).change(chosen)
    probe = [sys.executable, "-m", "tests.bench.memory_probe", corpus(folder, is_quick=True), str(seconds), picture]
    done = subprocess.run(
        list(map(str, probe)), cwd=ROOT, env=environment(folder / "home"), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"The window could not be measured:\n{done.stderr}")
    figures = json.loads(done.stdout.splitlines()[-1])
    if not (gaps_ms := figures["gaps_ms"]):
        raise SystemExit("The model was not streamed, or nothing was indexed; see engine.log.")
    late_ms = [max(0.0, gap_ms - TICK_MS) for gap_ms in gaps_ms]
    return {
        "streaming_timer_late_p50_ms": percentile(late_ms, 50),
        "streaming_timer_late_p99_ms": percentile(late_ms, 99),
        "streamed_layers": figures["streamed_layers"],
        "answers": figures["answers"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="five seconds instead of 15")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="seconds for map and table each; streaming takes four times that"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there (JSON)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="save a picture of the page while a model streams")
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    seconds = 5.0 if options.quick else options.seconds
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        picture = options.picture or Path(folder) / "page.png"
        figures = while_streaming(4 * seconds, Path(folder), options.peers, picture.absolute())
        figures |= measure(seconds, Path(folder))
    report.show("memory page", figures, {}, BOUNDS)
    if options.json:
        report.write(options.json, figures, {})
    is_kept = all(figures[name] <= most for name, most in BOUNDS.items())
    return 0 if is_kept or options.quick else 1


if __name__ == "__main__":
    sys.exit(ending.run(main))
