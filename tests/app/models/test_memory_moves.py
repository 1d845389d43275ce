"""Tests for app.models.memory_moves, and for the words that moves have."""

from __future__ import annotations

import pytest

from app.models.memory_moves import keyed, moves
from app.widgets.memory_words import moves_sentence
from engine.protocol import Span
from tests.helpers.shown_values import GIB, gpu_tier

MIB = 2**20
LAYER = Span("weights", "layer 3", "gpu", 60 * MIB)
PARTITION = Span("index", "partition 7", "gpu", 48 * MIB)


def told(before: tuple[Span, ...], after: tuple[Span, ...]) -> list[tuple[str, str]]:
    return [(move.kind, move.span.what) for move in moves((gpu_tier(*before),), (gpu_tier(*after),))]


def test_what_came_and_what_went_is_told():
    assert told((LAYER,), (PARTITION,)) == [("went", "layer 3"), ("came", "partition 7")]


def test_another_state_is_a_move():
    loading = Span("weights", "layer 3", "gpu", 60 * MIB, "loading")
    assert told((loading,), (LAYER,)) == [("changed", "layer 3")]


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [(GIB, 2 * GIB, "grew"), (2 * GIB, GIB, "shrank"), (GIB, GIB + 16 * MIB, None), (0, 1, None)],
)
def test_growth_that_can_be_seen_is_a_move(was, now, kind):
    found = told((Span("kv", "kept", "gpu", was),), (Span("kv", "kept", "gpu", now),))
    assert found == ([(kind, "kept")] if kind else [])


def test_equal_spans_are_told_apart():
    assert len(keyed((LAYER, LAYER, PARTITION))) == 3
    assert told((LAYER,), (LAYER, LAYER)) == [("came", "layer 3")]


def test_a_tier_that_was_not_known_has_not_moved():
    assert moves((), (gpu_tier(LAYER),)) == ()


def test_moves_are_said_together():
    layers = tuple(Span("weights", f"layer {number}", "gpu", 60 * MIB, "loading") for number in range(3))
    found = moves((gpu_tier(PARTITION),), (gpu_tier(*layers),))
    assert moves_sentence(found) == "partition 7 (48.0 MiB) released · 3 layers being read"


def test_what_the_interpreter_takes_is_not_worth_a_word():
    runtime = Span("runtime", "interpreter and libraries", "gpu", GIB)
    assert moves_sentence(moves((gpu_tier(),), (gpu_tier(runtime),))) == ""
