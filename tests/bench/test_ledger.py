"""Tests for tests.bench.ledger: its comparison, without an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import Span
from engine.protocol import MemoryReply, TierSnapshot
from tests.bench.ledger import MAX_ERROR, Look, figures, look_of, write_documents

SPANS = (
    Span("kv", "cells", "ram", 600),
    Span("weights", "layer 0", "ram", 300),
    Span("weights", "token embeddings", "ram", 70, is_mapped=True),
    Span("unaccounted", "not accounted for", "ram", 40),
)
MEMORY = MemoryReply(
    tiers=(
        TierSnapshot(
            tier="gpu", name="A card", capacity_bytes=9_000, other_bytes=0, spans=(Span("kv", "x", "gpu", 5),)
        ),
        TierSnapshot(tier="ram", name="Memory", capacity_bytes=9_000, other_bytes=0, spans=SPANS),
    )
)


def look(named: int, least: int, most: int, phase: str = "rest") -> Look:
    return Look(phase, named, least, most, 0, 0, ())


def test_only_memory_that_stays_and_has_an_owner_is_compared():
    seen = look_of("rest", MEMORY, 950, 930)
    assert (seen.named_bytes, seen.mapped_bytes, seen.unaccounted_bytes) == (900, 70, 40)
    assert (seen.least_bytes, seen.most_bytes) == (930, 950)
    assert dict(seen.owners) == {"kv": 600, "weights": 300}


@pytest.mark.parametrize(("named", "error"), [(1_000, 0.0), (1_050, 0.0), (1_100, 0.0), (950, -0.05), (1_210, 0.1)])
def test_the_error_is_the_distance_to_what_was_counted_around_it(named: int, error: float):
    assert look(named, 1_000, 1_100).error == pytest.approx(error)


def test_figures_have_the_median_and_the_worst_of_each_phase():
    looks = [
        look(1_000, 1_000, 1_000, "at work"),
        look(900, 1_000, 1_000, "at work"),
        look(980, 1_000, 1_000, "at work"),
    ]
    found = figures(looks)
    assert found["at_work_median_error"] == pytest.approx(0.02)
    assert found["at_work_worst_error"] == pytest.approx(0.1)
    assert found["at_work_worst_error"] > MAX_ERROR > found["at_work_median_error"]


def test_documents_are_the_same_each_time(tmp_path: Path):
    first, second = (write_documents(tmp_path / name, 60) for name in ("a", "b"))
    texts = [sorted(file.read_text() for file in folder.iterdir()) for folder in (first, second)]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 3
