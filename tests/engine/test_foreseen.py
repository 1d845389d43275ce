"""Tests for engine.foreseen."""

from __future__ import annotations

from pathlib import Path

from engine.config import MIB
from engine.core import Span
from engine.foreseen import USUAL_BYTES, Foreseen


def spans(**owners: int) -> tuple[Span, ...]:
    return tuple(Span(owner, "all of it", "ram", num_bytes) for owner, num_bytes in owners.items())


def by_owner(held: tuple[Span, ...]) -> dict[str, int]:
    assert len({span.owner for span in held}) == len(held)
    return {span.owner: span.num_bytes for span in held}


def test_before_anything_is_known_the_usual_is_expected(tmp_path: Path):
    coming = Foreseen(tmp_path / "take.json").with_what_comes(spans(runtime=40 * MIB, parsers=10 * MIB))

    assert by_owner(coming) == {**USUAL_BYTES, "parsers": 10 * MIB}


def test_the_next_run_expects_what_this_one_took_at_most(tmp_path: Path):
    seen = Foreseen(tmp_path / "take.json")
    seen.note(spans(runtime=640 * MIB, embedder=160 * MIB, kv=MIB))
    seen.note(spans(runtime=600 * MIB, embedder=160 * MIB))

    coming = Foreseen(tmp_path / "take.json").with_what_comes(spans(runtime=40 * MIB))

    assert by_owner(coming) == {"runtime": 640 * MIB, "embedder": 160 * MIB}


def test_a_run_that_takes_less_lowers_what_is_expected(tmp_path: Path):
    Foreseen(tmp_path / "take.json").note(spans(runtime=900 * MIB, embedder=400 * MIB))
    Foreseen(tmp_path / "take.json").note(spans(runtime=500 * MIB, embedder=96 * MIB))

    assert by_owner(Foreseen(tmp_path / "take.json").with_what_comes(())) == {
        "runtime": 500 * MIB,
        "embedder": 96 * MIB,
    }


def test_what_is_there_already_counts_as_it_is_where_it_is_more(tmp_path: Path):
    coming = Foreseen(tmp_path / "take.json").with_what_comes(spans(runtime=2000 * MIB))

    assert by_owner(coming)["runtime"] == 2000 * MIB


def test_little_news_is_not_written_and_a_damaged_note_is_none(tmp_path: Path):
    file = tmp_path / "take.json"
    Foreseen(file).note(spans(runtime=USUAL_BYTES["runtime"] + MIB, embedder=USUAL_BYTES["embedder"]))
    assert not file.exists()

    file.write_bytes(b'{"runtime": "much"')

    assert by_owner(Foreseen(file).with_what_comes(())) == USUAL_BYTES


def test_a_note_that_cannot_be_written_harms_nobody(tmp_path: Path):
    seen = Foreseen(tmp_path / "missing" / "folder" / "take.json")

    seen.note(spans(runtime=900 * MIB))

    assert by_owner(seen.with_what_comes(()))["runtime"] == 900 * MIB
