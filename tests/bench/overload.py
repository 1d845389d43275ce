"""Responsiveness under ten times the load that can be served: the real application with its window, in real time.

    python -m tests.bench.overload [--quick] [--json FILE] [--peers FOLDER]

A question is put to every file of a library, many more than are answered in half a minute (overload_probe.py).
Meanwhile a person asks one question after the other in the window: before the overload, throughout it, and a minute
after the last file was answered. Each of these questions is about a file of its own that is not in that library, so
none of it is cached and all prompts are equally long. Measures the time to first token, the lateness of a 10 ms timer
of the window, and how the files' questions ended. There is no peer; ratios (lower bounds in brackets):

- `idle_ttft`: time to first token when idle ÷ the longest in the overload (0.5).
- `recovered`: time to first token when idle ÷ that a minute after the overload (0.8).
- `ended`: files answered ÷ files asked (1).

The timer's lateness has an upper bound: 50 ms at the 99th percentile. `times_capacity` says how many times as many
files were asked as are answered in half a minute. Exit code 1 if a bound does not hold; `--quick` (a small model, fewer
files, within five minutes) checks none.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from engine import Engine
from engine.config import Home
from engine.settings_file import SettingsStore
from tests.bench import ending, peers, report
from tests.bench.bench_model import ONE_BILLION, QUICK, bench_model
from tests.bench.command_line import parser_of
from tests.bench.ledger import WORDS
from tests.bench.window import ROOT, environment, percentile

# Lower bounds; for the timer, an upper bound.
BOUNDS = {"idle_ttft": 0.5, "recovered": 0.8, "ended": 1.0}
TIMER_LATE_P99_MS = 50.0
TICK_MS = 10
# Short answers, so that questions arrive at every stage of them.
ANSWER_TOKENS = 48
# More than a person can ask until all files are answered.
MOST_QUESTIONS = 400
# All files are asked at once. Seen as an overload of this duration, they are that many times what can be answered in
# it.
OFFERED_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("overload", __doc__, quick="a small model and fewer files, within five minutes")
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ragdoll-bench-") as folder:
        figures = measured(Path(folder), options.peers, is_quick=options.quick)
    ours, ratios = told(figures)
    report.show("overload", ours, {}, {"timer_late_p99_ms": TIMER_LATE_P99_MS})
    if options.json is not None:
        report.write(options.json, ours, {}, ratios)
    is_kept = report.show_ratios(ratios, BOUNDS) and ours["timer_late_p99_ms"] <= TIMER_LATE_P99_MS
    return 0 if is_kept or options.quick else 1


def measured(folder: Path, models: Path, *, is_quick: bool) -> dict[str, list[float]]:
    """Returns the probe's measurements by stage."""
    home = Home.under(folder / "home")
    home.create()
    model = bench_model(models, QUICK if is_quick else ONE_BILLION)
    chosen = {"models.current": str(model), "models.known": [str(model)]}
    SettingsStore(home.settings_file).change(chosen | {"generation.max_answer_tokens": ANSWER_TOKENS})
    documents = write_files(folder / "documents", "file", 100 if is_quick else 240)
    with Engine(home) as engine:
        engine.add([documents])
        engine.add([write_files(folder / "asked", "note", MOST_QUESTIONS)], "Notes")
    command = [sys.executable, "-m", "tests.bench.overload_probe", "10" if is_quick else "60"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(folder / "home"), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit("The application could not be measured; see its output above and engine.log.")
    seen: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return seen


def told(seen: dict[str, list[float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the figures, and the ratios under their documented names."""
    idle_s, later_s = statistics.median(seen["idle"]), statistics.median(seen["later"])
    late_ms = [max(0.0, gap_ms - TICK_MS) for gap_ms in seen["gaps_ms"]]
    ours = {
        "idle_ttft_s": idle_s,
        "overload_ttft_s": statistics.median(seen["overload"]),
        "longest_ttft_s": max(seen["overload"]),
        "later_ttft_s": later_s,
        "questions": float(len(seen["overload"])),
        "files": seen["files"][0],
        "files_answered": seen["files"][1],
        "files_failed": seen["files"][2],
        "times_capacity": seen["overload_s"][0] / OFFERED_SECONDS,
        "timer_late_p99_ms": percentile(late_ms, 99),
    }
    ratios = {
        "idle_ttft": idle_s / max(seen["overload"]),
        "recovered": idle_s / later_s,
        "ended": (seen["files"][1] - seen["files"][2]) / seen["files"][0],
    }
    return ours, ratios


def write_files(folder: Path, name: str, count: int) -> Path:
    """Writes files of one passage each, named "name-0.txt" and so on."""
    random = Random(name)
    folder.mkdir(parents=True)
    for number in range(count):
        text = " ".join(random.choices(WORDS, k=150))
        (folder / f"{name}-{number}.txt").write_text(f"Number {number}: {text}.", encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(ending.run(main))
