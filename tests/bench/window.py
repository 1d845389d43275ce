"""Responsiveness of the window: first paint, memory, and gaps of the main thread while the engine works.

    python -m tests.bench.window [--quick] [--json FILE]

- First paint: from process start to the first flushed frame, `warm` (median of nine starts, three with `--quick`) and
  `cold`, with the files of a start dropped from the page cache. Both use compiled bytecode, like an installation.
  Beside it stands a bare Qt window, the least that any such window needs.
- `timer_gap_…`: gaps between the ticks of a 10 ms timer while a folder is indexed and questions are answered with
  quotes.
- `rss_peak_mb`: the window process's peak memory.

Upper bounds are the design's budgets (`BOUNDS`). Exit code 1 if one does not hold; `--quick` checks none. Runs
offscreen unless QT_QPA_PLATFORM is set.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench import ending, report
from tests.helpers.corpus import write_corpus
from tests.helpers.shared_data import SHARED_DATA

ROOT = Path(__file__).resolve().parents[2]
BOUNDS = {
    "first_paint_cold_s": 1.5,
    "first_paint_warm_s": 0.5,
    "rss_peak_mb": 150.0,
    "timer_gap_p99_ms": 50.0,
}
# A bare Qt window: the least that any such window needs on this machine.
BARE_WINDOW = """
import sys, time, psutil
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
from app.first_paint import FirstPaint
from app.startup_trace import seconds_since_process_start
application = QApplication([])
window = QMainWindow()
window.setCentralWidget(QLabel("bare"))
watch = FirstPaint(window)
def done():
    print(seconds_since_process_start(), time.process_time(), psutil.Process().memory_info().rss / 1e6)
    application.quit()
watch.painted.connect(done)
window.resize(1200, 800)
window.show()
application.exec()
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.window", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three starts instead of nine, and a small folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there (JSON)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        ours, peers = measure(Path(folder), options.quick)
    report.show("window", ours, peers, BOUNDS)
    if options.json:
        report.write(options.json, ours, peers)
    return 0 if options.quick or report.are_within(ours, BOUNDS) else 1


def measure(folder: Path, is_quick: bool) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns our figures, and those of a bare Qt window."""
    num_warm, bytecode = 3 if is_quick else 9, folder / "bytecode"
    # Not counted: these runs compile the bytecode for the others.
    first_paint(folder / "compiling", bytecode)
    bare_window(bytecode)
    drop_from_page_cache(bytecode)
    cold = first_paint(folder / "cold", bytecode)
    warm = statistics.median(first_paint(folder / f"warm-{n}", bytecode) for n in range(num_warm))
    bare = [bare_window(bytecode) for _ in range(num_warm)]
    ours = {"first_paint_cold_s": cold, "first_paint_warm_s": warm, **while_working(folder, is_quick)}
    names = ("first_paint_warm_s", "first_paint_cpu_s", "rss_after_first_paint_mb")
    medians = (statistics.median(figures) for figures in zip(*bare, strict=True))
    return ours, {"a bare Qt window": dict(zip(names, medians, strict=True))}


def first_paint(home: Path, bytecode: Path) -> float:
    """Returns seconds from process start to first paint of `python -m app` on an empty data folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app"],
        cwd=ROOT,
        env=_compiled(environment(home), bytecode) | {"RAGDOLL_TRACE_STARTUP": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        seen: dict[str, str] = {}
        for line in process.stderr:
            name, _, seconds = line.strip().partition("=")
            seen[name] = seconds
            if name == "attached_s":
                process.send_signal(signal.SIGTERM)
    return float(seen["first_paint_s"])


def bare_window(bytecode: Path) -> tuple[float, ...]:
    """Returns seconds to first paint, processor time until then, and resident MB of an empty window."""
    done = subprocess.run(
        [sys.executable, "-c", BARE_WINDOW],
        cwd=ROOT,
        env=_compiled(environment(Path("unused")), bytecode),
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(float(figure) for figure in done.stdout.split())


def while_working(folder: Path, is_quick: bool) -> dict[str, float]:
    """Runs the real window through start, indexing with questions, and rest; returns percentiles of its gaps."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.window_probe", str(corpus(folder, is_quick)), "60" if is_quick else "300"],
        cwd=ROOT,
        env=environment(folder / "work"),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"The window could not be measured:\n{done.stderr}")
    figures = json.loads(done.stdout.splitlines()[-1])
    gaps = figures.pop("gaps_ms")
    if heavy := figures.pop("heavy_modules"):
        raise SystemExit(f"The window has loaded modules that only the engine may load: {', '.join(heavy)}.")
    if "working" not in gaps:
        raise SystemExit("The engine did not get ready; see engine.log.")
    return {
        **figures,
        "timer_gap_p50_ms": percentile(gaps["working"], 50),
        "timer_gap_p99_ms": percentile(gaps["working"], 99),
        "timer_gap_max_ms": max(gaps["working"]),
        "timer_gap_p99_starting_ms": percentile(gaps["starting"], 99),
        "timer_gap_p99_idle_ms": percentile(gaps.get("idle", [0.0]), 99),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns the smallest value that `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def drop_from_page_cache(bytecode: Path) -> None:
    """Drops what a start reads from the page cache: everything, or without privileges our files, Qt and Python.

    Without privileges, files that another running process has mapped stay cached.
    """
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")
    except OSError:
        for file in _files_of_a_start(bytecode):
            _forget(file)


def _forget(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _files_of_a_start(bytecode: Path) -> Iterator[Path]:
    installed = Path(sysconfig.get_path("platlib"))
    heavy = {"torch", "transformers", "lancedb", "scipy", "sklearn", "sympy", "pyarrow", "llama_cpp"}
    folders = [bytecode, ROOT / "app", ROOT / "engine", ROOT / "resources", Path(sysconfig.get_path("stdlib"))]
    folders += [folder for folder in installed.iterdir() if folder.is_dir() and folder.name not in heavy]
    for folder in folders:
        yield from (file for file in folder.rglob("*") if file.suffix in (".py", ".pyc", ".so", ".svg", ".qss", ".6"))


def corpus(folder: Path, is_quick: bool) -> Path:
    real = SHARED_DATA / "docs" / "tree-rust-book"
    if real.is_dir() and not is_quick:
        return real
    corpus = folder / "corpus"
    for copy in range(3 if is_quick else 30):
        write_corpus(corpus / str(copy))
    return corpus


def environment(home: Path) -> dict[str, str]:
    # Offscreen, so that the theme of a desktop does not affect the measurement.
    return {"QT_QPA_PLATFORM": "offscreen", **os.environ, "RAGDOLL_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def _compiled(environment: dict[str, str], bytecode: Path) -> dict[str, str]:
    """Adds a bytecode folder of our own: a checkout may have none, an installation always has."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(bytecode)}


if __name__ == "__main__":
    sys.exit(ending.run(main))
