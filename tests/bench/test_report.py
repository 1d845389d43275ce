"""Tests for tests.bench.report and the arithmetic of tests.bench.window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import report
from tests.bench.window import percentile

OURS = {"seconds": 2.0, "only ours": 1.0}
PEERS = {"other": {"seconds": 4.0, "only theirs": 1.0}, "idle": {"seconds": 0.0}}


def test_only_what_both_have_is_compared() -> None:
    assert report.ratios(OURS, PEERS) == {"other": {"seconds": 0.5}, "idle": {}}


def test_what_was_promised_and_not_measured_is_no_bound_that_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.show_promised({"other": 1.5}, {"other": 1.5})
    capsys.readouterr()
    assert not report.show_promised({"other": 1.5}, {"other": 1.5, "idle": 2.0})
    told = capsys.readouterr().out.splitlines()
    assert [(line.split()[0], line.rpartition(": ")[2]) for line in told] == [
        ("idle", "BROKEN, it was not measured"),
        ("other", "kept"),
    ]


def test_a_report_holds_ours_peers_and_ratios(tmp_path: Path) -> None:
    report.write(tmp_path / "results" / "window.json", OURS, PEERS)

    content = json.loads((tmp_path / "results" / "window.json").read_text(encoding="utf-8"))
    assert content == {"ours": OURS, "peers": PEERS, "ratios": {"other": {"seconds": 0.5}, "idle": {}}}


def test_a_broken_bound_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    report.show("window", OURS, PEERS, {"seconds": 1.0, "only ours": 1.0})

    seconds, only_ours = capsys.readouterr().out.splitlines()[1:]
    assert seconds.endswith("bound 1: BROKEN")
    assert "other: 4" in seconds
    assert only_ours.endswith("bound 1: kept")


def test_upper_bounds_hold_for_measured_figures_only() -> None:
    assert report.are_within({"seconds": 1.0, "more": 9.0}, {"seconds": 1.0})
    assert not report.are_within({"seconds": 1.1}, {"seconds": 1.0})
    assert not report.are_within({}, {"seconds": 1.0})


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 5), (90, 9), (99, 10), (100, 10)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], percent) == value


def test_ratios_are_kept_when_none_is_less_than_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.show_ratios({"other": 1.5}, {"other": 1.5, "unmeasured": 2.0})
    assert not report.show_ratios({"other": 1.5, "idle": 0.9}, {"other": 1.5, "idle": 1.0})

    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["kept", "kept", "BROKEN"]


def test_a_ratio_without_a_bound_is_only_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.show_promised({"other": 1.5, "told only": 0.1}, {"other": 1.5})

    kept, plain = capsys.readouterr().out.splitlines()
    assert kept.endswith("bound 1.5: kept")
    assert plain.split() == ["told", "only", "0.100"]
