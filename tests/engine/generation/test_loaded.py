"""Tests for engine.generation.loaded: how much of what was read may lie in cells."""

from __future__ import annotations

from engine.generation.loaded import KEPT_CELLS_SHARE, MOST_KEPT_HERE, cells_to_keep_in
from tests.helpers.machines import GIB, MODELS

SHAPE = MODELS[0]


def test_cells_keep_a_small_share_where_memory_holds_the_rest_and_most_of_it_where_that_has_no_room():
    assert cells_to_keep_in(2048, SHAPE, GIB) == int(2048 * KEPT_CELLS_SHARE)
    assert cells_to_keep_in(2048, SHAPE, 0) == 1536
    # In memory or here, it is as much.
    assert cells_to_keep_in(2048, SHAPE, SHAPE.kv_bytes(500)) == 1036


def test_attention_never_passes_over_many_cells_that_nobody_reads():
    assert cells_to_keep_in(16_384, SHAPE, 0) == MOST_KEPT_HERE
    assert cells_to_keep_in(65_536, SHAPE, 0) == int(65_536 * KEPT_CELLS_SHARE)
