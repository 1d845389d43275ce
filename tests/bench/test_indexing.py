"""Tests for tests.bench.indexing: figures and bounds from measured seconds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.config import LibrarySettings
from engine.embedder import backends
from tests.bench.indexing import Contest, Sample, bound, chunks_of, ratio, told
from tests.bench.peers import PeerFailed
from tests.helpers.parsing import pool_of
from tests.helpers.pdf import Page, pdf


def contest(tmp_path: Path, **seconds: list[float]) -> Contest:
    sample = Sample(tmp_path, 2, ("one", "two", "three", "four"))
    return Contest(sample, tmp_path, tmp_path, None, seconds, {"embed": 0.97})


@pytest.fixture(autouse=True)
def plain_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "formats_worth_trying", lambda: ("float32",))


def test_the_best_round_of_each_counts_and_ratios_are_ours_over_theirs(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    measured = contest(tmp_path, ours=[4.0, 2.0], embedder_alone=[1.9, 5.0], langchain_chroma=[6.0])

    assert told(measured, file) == 0

    found = json.loads(file.read_text())
    assert found["ours"]["chunks_per_s"] == 2.0
    assert found["ratios"]["embedder_alone"] == pytest.approx(0.95)
    assert found["ratios"]["langchain_chroma"] == pytest.approx(1.5)


def test_rounds_that_a_peer_did_not_have_are_not_held_against_it(tmp_path: Path) -> None:
    measured = contest(tmp_path, ours=[4.0, 3.0, 1.0], embedder_alone=[3.0, 3.0, 2.0], langchain_chroma=[6.0, 7.0])

    assert ratio(measured.seconds, "langchain_chroma") == pytest.approx(2.0)
    assert ratio(measured.seconds, "embedder_alone") == pytest.approx(2.0)


def test_a_bound_that_does_not_hold_is_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(contest(tmp_path, ours=[2.0], embedder_alone=[1.0]), None) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_a_peer_that_fails_is_left_out_and_the_others_keep_their_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = contest(tmp_path)
    measured.peers, measured.storing_seconds = Path("python"), 3.0
    asked: list[str] = []

    def peer(what: str) -> float:
        asked.append(what)
        if what == "default":
            raise PeerFailed("The peer has ended.")
        return 4.0

    monkeypatch.setattr(measured, "ours", lambda: 2.0)
    monkeypatch.setattr(measured, "alone", lambda: 2.0)
    monkeypatch.setattr(measured, "peer", peer)
    measured.run(2)

    assert asked == ["default", "tuned", "tuned"]
    assert {name: len(seconds) for name, seconds in measured.seconds.items()} == {
        "ours": 2,
        "embedder_alone": 2,
        "langchain_chroma_tuned": 2,
        "langchain_chroma_tuned_from_texts": 2,
    }
    # What was measured holds, but a bound was not measured.
    assert told(measured, None) == 1


def test_a_peer_without_a_result_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = contest(tmp_path)
    measured.peers = Path(sys.executable)
    monkeypatch.setattr("tests.bench.indexing.resolve", lambda settings: SimpleNamespace(folder=tmp_path))
    monkeypatch.setattr("tests.bench.indexing.peer_environment.environment", lambda: {"PATH": ""})
    with pytest.raises(PeerFailed):
        measured.peer("of no such kind")


def test_more_is_asked_where_bfloat16_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound("langchain_chroma") == 1.1
    monkeypatch.setattr(backends, "formats_worth_trying", lambda: ("float32", "bfloat16"))

    assert (bound("langchain_chroma"), bound("embedder_alone")) == (2.0, 0.93)


def test_what_needs_ocr_is_no_part_of_the_sample_whoever_could_read_it(tmp_path: Path) -> None:
    limits = LibrarySettings()
    printed, half_scanned = tmp_path / "printed.pdf", tmp_path / "half.pdf"
    printed.write_bytes(pdf(["The notice period is three months."]))
    half_scanned.write_bytes(pdf(["The notice period is three months.", Page(has_picture=True)]))

    with pool_of(1, limits.parse_seconds, limits.parse_memory_bytes) as pool:
        assert len(chunks_of(pool, printed, None, limits)) == 1
        assert chunks_of(pool, half_scanned, None, limits) == []
