"""Ten times as much as can be done, for somebody who asks meanwhile: the real application, in real seconds.

    python -m tests.bench.overload [--quick] [--json FILE] [--peers FOLDER]

A question is put to every file of a library (tests/bench/overload_probe.py), many more than are answered in half a
minute, and somebody at the window asks one question after the other: before it, throughout, and a minute after the last
file has answered. Each of these questions is about a file of its own, which is none of those that are asked: nobody
has read it before, and all have as much to read. Told are the seconds to the first token, how late a 10 ms timer of the
window comes, and how many files ended how.
Ratios (bounds in brackets):

- `idle_ttft`: the time to a first token while nothing else is done ÷ the longest in the overload (at least .5).
- `recovered`: the same ÷ that of the question a minute later (at least .8).
- `ended`: files that have answered ÷ files that were asked (1).

Exit code 1 when a bound does not hold; `--quick` (a small model, fewer files) binds nothing.
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

# At least; of the timer, at most.
BOUNDS = {"idle_ttft": 0.5, "recovered": 0.8, "ended": 1.0}
TIMER_LATE_P99_MS = 50.0
TICK_MS = 10
# So short that answers come and go: what is asked meanwhile meets every stage of them.
ANSWER_TOKENS = 48
# More than somebody can ask until all files have answered.
MOST_QUESTIONS = 400


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
    """What the probe saw, by stage."""
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
        raise SystemExit("The application could not be measured: what it wrote is above, and in engine.log.")
    seen: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return seen


def told(seen: dict[str, list[float]]) -> tuple[dict[str, float], dict[str, float]]:
    """The figures, and the ratios by the names that are promised."""
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
        "timer_late_p99_ms": percentile(late_ms, 99),
    }
    ratios = {
        "idle_ttft": idle_s / max(seen["overload"]),
        "recovered": idle_s / later_s,
        "ended": (seen["files"][1] - seen["files"][2]) / seen["files"][0],
    }
    return ours, ratios


def write_files(folder: Path, name: str, count: int) -> Path:
    """Files of one passage each, which are called "name 0.txt" and so on."""
    random = Random(name)
    folder.mkdir(parents=True)
    for number in range(count):
        text = " ".join(random.choices(WORDS, k=150))
        (folder / f"{name}-{number}.txt").write_text(f"Number {number}: {text}.", encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(ending.run(main))
