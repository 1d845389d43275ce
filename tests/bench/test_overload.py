"""Tests for tests.bench.overload: its figures and ratios."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.overload import BOUNDS, told, write_files

SEEN = {
    "idle": [2.0, 1.0, 3.0],
    "overload": [2.0, 5.0, 3.0],
    "later": [2.5],
    "gaps_ms": [10.0] * 95 + [40.0] * 5,
    "files": [50.0, 50.0, 1.0],
    "overload_s": [330.0],
}


def test_the_longest_counts_and_lateness_is_what_comes_over_the_interval() -> None:
    ours, ratios = told(SEEN)
    assert (ours["idle_ttft_s"], ours["longest_ttft_s"], ours["timer_late_p99_ms"]) == (2.0, 5.0, 30.0)
    assert ours["times_capacity"] == 11.0
    assert ratios == pytest.approx({"idle_ttft": 0.4, "recovered": 0.8, "ended": 0.98})
    assert ratios.keys() == BOUNDS.keys()


def test_no_file_says_what_another_says(tmp_path: Path) -> None:
    files = [*write_files(tmp_path / "a", "file", 12).iterdir(), *write_files(tmp_path / "b", "note", 12).iterdir()]
    assert len({file.read_text("utf-8") for file in files}) == 24
    assert "note-3.txt" in {file.name for file in files}
