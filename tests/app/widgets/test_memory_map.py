"""Tests for app.widgets.memory_tiles, memory_lane, memory_map and memory_table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from app import theme
from app.models.memory_table import MemoryTable
from app.widgets import memory_picture, memory_tiles
from app.widgets.memory_lane import MemoryLane
from app.widgets.memory_map import MemoryMap
from app.widgets.memory_table import MemoryTableView
from app.widgets.memory_words import kind_name, sentence
from app.widgets.painted_bar import BAR_PX
from engine.protocol import Span, TierSnapshot
from tests.helpers.shown_values import GIB, gpu_tier

MODEL = Span("model weights", "layers 0–27", "gpu", 4 * GIB)
KV = Span("kv", "cells of 'Lease'", "gpu", GIB)
LOADING = Span("model weights", "layer 28", "gpu", GIB, "loading")


def test_a_run_of_layers_becomes_a_tile_each():
    lane = memory_tiles.tiles(gpu_tier(MODEL))
    layers = [tile for tile in lane if tile.kind == memory_tiles.MODEL]
    assert [tile.label for tile in layers] == [str(layer) for layer in range(28)]
    assert layers[0].start == 0
    assert layers[-1].end == pytest.approx(0.5)


def test_tiles_touch_and_never_leave_the_lane():
    lane = memory_tiles.tiles(gpu_tier(MODEL, KV, other_bytes=5 * GIB))
    for left, right in itertools.pairwise(lane):
        assert left.end == pytest.approx(right.start)
    assert lane[-1].end <= 1 + 1e-9


@pytest.mark.parametrize(
    ("owner", "kind"),
    [("model", memory_tiles.MODEL), ("model.kv", memory_tiles.KV), ("kv cells", memory_tiles.KV),
     ("embedder", memory_tiles.EMBEDDER), ("index", memory_tiles.INDEX), ("lance caches", memory_tiles.INDEX),
     ("knowledge tree", memory_tiles.KEPT), ("runtime", memory_tiles.SELF),
     ("pool", memory_tiles.WAITING), ("spare weights", memory_tiles.WAITING), ("something new", memory_tiles.SELF)],
)  # fmt: skip
def test_owners_have_kinds(owner, kind):
    assert memory_tiles.kind_of(owner) == kind


def test_layers_of_a_model_that_waits_are_none_of_the_one_that_computes():
    spans = (Span("spare weights", "other: layer 3", "ram", GIB), Span("weights", "layer 3", "ram", GIB))
    assert [memory_tiles.layers_of(span) is not None for span in spans] == [False, True]


def test_what_is_kept_outside_the_cells_is_told_apart_from_them():
    spans = (Span("kv", "4,096 cells", "ram", GIB), Span("kv", "what was read, kept in memory", "ram", GIB))
    assert [memory_tiles.kind_of(span.owner, span.what) for span in spans] == [memory_tiles.KV, memory_tiles.KEPT]


def colours(lane, width: int = 800, height: int = 24) -> np.ndarray:
    return memory_picture.indices(memory_picture.stretches(lane, width), width, height)


def test_the_picture_is_as_wide_as_asked_and_free_at_its_end():
    picture = colours(memory_tiles.tiles(gpu_tier(MODEL, other_bytes=0)))
    assert picture.shape == (24, 800)
    assert picture.dtype == np.uint8
    assert (picture[:, 401:] == memory_picture.FREE).all()
    assert memory_picture.FREE not in picture[:, :400]


def test_each_state_has_a_pattern_of_its_own():
    def pattern(state) -> bytes:
        tile = memory_tiles.Tile(memory_tiles.MODEL, "weights", "layer 1", "1", GIB, state, 0.0, 1.0)
        return colours((tile,)).tobytes()

    states = ("resident", "streaming", "loading", "evicting", "reserved")
    assert len({pattern(state) for state in states}) == len(states)


def test_an_empty_tier_is_free_from_end_to_end():
    assert (colours(memory_tiles.tiles(gpu_tier(other_bytes=0)), 100) == memory_picture.FREE).all()


@pytest.fixture
def lane(qtbot):
    made = MemoryLane()
    qtbot.addWidget(made)
    made.resize(800, 48)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_the_lane_paints_its_tiles(lane):
    lane.show_tier(gpu_tier(MODEL, other_bytes=0))
    picture = lane.grab().toImage()
    left, right = picture.pixelColor(100, 4), picture.pixelColor(700, 4)
    assert left != right


def test_the_same_snapshot_is_not_painted_anew(lane):
    lane.show_tier(gpu_tier(MODEL))
    lane.grab()
    before = lane.num_pictures
    lane.show_tier(gpu_tier(MODEL))
    lane.grab()
    assert lane.num_pictures == before
    lane.show_tier(gpu_tier(MODEL, KV))
    lane.grab()
    assert lane.num_pictures == before + 1


def test_the_tile_under_the_mouse_is_told(lane):
    lane.show_tier(gpu_tier(MODEL, other_bytes=0))
    assert lane.tile_at(1).label == "0"
    assert lane.tile_at(799) is None


def test_the_lane_describes_itself(lane):
    lane.show_tier(gpu_tier(KV, LOADING))
    assert "GPU 0" in lane.accessibleName()
    assert "cells of 'Lease'" in lane.accessibleDescription()
    assert "loading" in lane.accessibleDescription()


SHARDS = tuple(Span("index", f"shard {number}", "gpu", 2**22) for number in range(400))


def test_hundreds_of_shards_too_narrow_to_be_seen_stand_together(lane):
    lane.show_tier(gpu_tier(MODEL, *SHARDS, other_bytes=0))
    index = [tile for tile in lane.shown_tiles if tile.kind == memory_tiles.INDEX]
    assert [(tile.num_parts, tile.num_bytes) for tile in index] == [(400, 400 * 2**22)]
    assert sentence(lane.tile_at(450)) == "Index: 400 parts, 1.6 GiB"
    assert len([tile for tile in lane.shown_tiles if tile.kind == memory_tiles.MODEL]) == 28
    assert len(set(colours(lane.shown_tiles)[0, 402:540].tolist())) == 1


def test_shards_that_can_be_seen_keep_their_own_tiles(lane):
    shards = tuple(Span("index", f"shard {number}", "gpu", GIB // 8) for number in range(24))
    lane.show_tier(gpu_tier(*shards, other_bytes=0))
    assert [tile.what for tile in lane.shown_tiles] == [shard.what for shard in shards]
    lane.resize(160, 48)
    assert [tile.num_parts for tile in lane.shown_tiles] == [24]


def test_a_shard_on_its_way_is_told_apart_from_those_in_place(lane):
    coming = Span("index", "shard 400", "gpu", 2**22, "loading")
    lane.show_tier(gpu_tier(*SHARDS, coming, other_bytes=0))
    assert [(tile.num_parts, tile.is_moving) for tile in lane.shown_tiles] == [(400, False), (1, True)]
    assert lane.accessibleDescription() == "Index: 400 parts, 1.6 GiB. Index: shard 400, 4.0 MiB, loading."


@pytest.mark.parametrize(("uncounted_bytes", "is_over"), [(6 * GIB, False), (0, True)])
def test_a_streamed_model_breaks_no_budget_of_the_disk(lane, uncounted_bytes, is_over):
    streamed = Span("weights", "layer 0", "disk", 6 * GIB, "streaming")
    index = Span("index", "chunks, vectors and word index", "disk", GIB)
    lane.show_tier(
        TierSnapshot(
            tier="disk", name="Disk", capacity_bytes=16 * GIB, other_bytes=0, spans=(streamed, index),
            budget_bytes=2 * GIB, uncounted_bytes=uncounted_bytes,
        )
    )  # fmt: skip
    x = round(lane.scale.fraction(2 * GIB) * lane.width())
    mark = lane.grab().toImage().pixelColor(x, BAR_PX // 2)
    assert mark.name() == (theme.current().bad if is_over else theme.current().text)


def test_a_hidden_map_keeps_the_snapshot_until_it_is_seen(qtbot):
    made = MemoryMap()
    qtbot.addWidget(made)
    made.show_tiers((gpu_tier(MODEL),))
    assert made.lanes() == ()
    made.show()
    qtbot.waitExposed(made)
    assert len(made.lanes()) == 1
    assert made.lanes()[0].tiles


def test_a_tier_that_is_gone_leaves_no_lane_in_sight(qtbot):
    made = MemoryMap()
    qtbot.addWidget(made)
    made.show()
    made.show_tiers((gpu_tier(MODEL), gpu_tier(KV)))
    made.show_tiers((gpu_tier(KV),))
    assert [lane.isVisible() for lane in made.lanes()] == [True, False]


def test_the_table_lists_the_facts_the_lane_shows(qtbot):
    tier, table, view = gpu_tier(MODEL, KV), MemoryTable(), MemoryTableView()
    qtbot.addWidget(view)
    table.take((tier,))
    view.show_memory(table)
    rows = [table.row(number) for number in range(table.rowCount())]
    assert [row.what for row in rows[:2]] == [MODEL.what, KV.what]
    assert sum(row.num_bytes for row in rows) == tier.capacity_bytes
    lane = memory_tiles.tiles(tier)
    told = {tile.what for tile in lane if tile.what} | {MODEL.what}
    assert {row.what for row in rows if row.what} <= told
    assert kind_name(memory_tiles.KV) in sentence(next(tile for tile in lane if tile.kind == memory_tiles.KV))
