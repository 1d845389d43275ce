"""Tests for app.models.steady_progress."""

from __future__ import annotations

import pytest

from app.models.steady_progress import NOTHING_DONE, advanced
from engine.protocol import IndexProgress


def shown(*steps: tuple[int, int]) -> list[float | None]:
    share, fractions = NOTHING_DONE, []
    for done, total in steps:
        share = advanced(share, IndexProgress(documents_done=done, documents_total=total, chunks_done=0))
        fractions.append(share.fraction)
    return fractions


def test_it_is_exact_while_the_total_stays():
    assert shown((0, 8), (2, 8), (6, 8), (8, 8)) == [0.0, 0.25, 0.75, 1.0]


def test_nothing_is_known_while_files_are_counted():
    assert shown((0, 0), (0, 4)) == [None, 0.0]


def test_more_files_slow_it_down_and_never_throw_it_back():
    fractions = shown((50, 100), (50, 200), (125, 200), (200, 200))
    assert fractions == [0.5, 0.5, 0.75, 1.0]


def test_a_smaller_figure_than_before_changes_nothing():
    assert shown((5, 10), (3, 10), (0, 0), (6, 10)) == pytest.approx([0.5, 0.5, 0.5, 0.6])


def test_a_total_that_shrinks_to_what_is_done_ends_it():
    assert shown((5, 10), (5, 5)) == [0.5, 1.0]
