"""Tests for app.widgets.layer_homes, layer_strip, memory_legend and move_marks."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject

from app import theme
from app.widgets import layer_homes, layer_strip
from app.widgets.layer_homes import HOMES, Layer
from app.widgets.layer_strip import LayerStrip
from app.widgets.memory_legend import MemoryLegend
from app.widgets.memory_tiles import KV, MODEL
from app.widgets.move_marks import LIFE_S, MoveMarks
from engine.protocol import Span, TierSnapshot
from tests.helpers.scripted_memory import LARGE, Machine, snapshot

GIB = 2**30


def tier(name: str, *spans: Span) -> TierSnapshot:
    return TierSnapshot(tier=name, name=name, capacity_bytes=8 * GIB, other_bytes=0, spans=spans)


def test_each_layer_has_the_home_that_its_span_tells():
    tiers = (
        tier("gpu", Span("weights", "layer 3", "gpu", 7), Span("weights", "layer 4", "gpu", 7, "loading")),
        tier(
            "ram",
            Span("weights", "layer 0", "ram", 5),
            Span("weights", "layer 1", "ram", 5, "evicting"),
            Span("weights", "layer 5", "ram", 5, is_mapped=True),
        ),
        tier("disk", Span("weights", "layer 2", "disk", 6, "streaming"), Span("index", "partitions", "disk", 9)),
    )
    homes = [(layer.index, layer.home) for layer in layer_homes.layers(tiers)]
    assert homes == [(0, "pinned"), (1, "evicting"), (2, "streamed"), (3, "gpu"), (4, "loading"), (5, "mapped")]


def test_a_layer_in_two_tiers_is_where_it_is_fastest():
    tiers = (
        tier("ram", Span("weights", "layers 0–1", "ram", 10)),
        tier("disk", Span("weights", "layer 0", "disk", 5, "streaming"), Span("weights", "layers 0–1", "disk", 10)),
    )
    assert [layer.home for layer in layer_homes.layers(tiers)] == ["streamed", "pinned"]


def test_letters_colours_and_patterns_tell_homes_apart():
    assert len({layer_homes.letter_of(home) for home in HOMES}) == len(HOMES)
    assert len({layer_homes.home_name(home) for home in HOMES}) == len(HOMES)
    for look in (theme.LIGHT, theme.DARK):
        assert len({layer_strip.home_colours(home, look)[0].name() for home in HOMES}) == len(HOMES)
    # Only what is in place for good is solid.
    assert [layer_homes.state_of(home) == "resident" for home in HOMES] == [True, True, True, False, False, False]


@pytest.fixture
def strip(qtbot):
    made = LayerStrip()
    qtbot.addWidget(made)
    made.resize(840, 60)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_the_strip_shows_each_layer_under_its_index(strip):
    strip.show_layers(layer_homes.layers(snapshot(Machine(), 60).tiers))
    assert [layer.index for layer in strip.layers] == list(range(28))
    assert strip.layer_at(1).index == 0
    assert strip.layer_at(839).index == 27
    assert strip.layer_at(840) is None


def test_the_strip_describes_runs_of_layers(strip):
    layers = (Layer(0, "pinned", 1), Layer(1, "pinned", 1), Layer(2, "streamed", 1), Layer(3, "gpu", 1))
    strip.show_layers(layers)
    described = "Layers 0 to 1: pinned in memory. Layer 2: streamed from disk. Layer 3: on the GPU."
    assert strip.accessibleDescription() == described


def test_a_layer_that_moves_is_marked_for_a_moment(strip):
    strip.show_layers((Layer(0, "loading", 1), Layer(1, "pinned", 1)))
    assert strip.num_marks == 0
    strip.show_layers((Layer(0, "pinned", 1), Layer(1, "pinned", 1)))
    assert strip.num_marks == 1


def test_the_same_layers_are_not_painted_anew_unless_bytes_flow(strip):
    layers = layer_homes.layers(snapshot(LARGE, 60).tiers)
    strip.show_layers(layers)
    strip.grab()
    before = strip.num_pictures
    strip.show_layers(layers)
    strip.grab()
    assert strip.num_pictures == before
    strip.show_layers(layers, flow=3)
    strip.grab()
    assert strip.num_pictures == before + 1


def test_what_streams_is_seen_to_move(strip):
    strip.show_layers((Layer(0, "streamed", 1),))
    still = strip.grab().toImage()
    strip.show_layers((Layer(0, "streamed", 1),), flow=3)
    assert strip.grab().toImage() != still


def test_the_legend_tells_what_has_occurred_and_keeps_it(qtbot):
    legend = MemoryLegend()
    qtbot.addWidget(legend)
    legend.show_occurring((MODEL,), (), ("pinned",))
    assert legend.entries() == ("Model layers", "pinned in memory")
    legend.show_occurring((MODEL, KV), ("loading", "reserved"), ("loading",))
    told = ("Model layers", "Context (KV cells)", "reserved", "pinned in memory", "being read")
    assert legend.entries() == told
    legend.show_occurring((MODEL,), (), ("pinned",))
    assert legend.entries() == told


def test_marks_fade_and_leave_nothing_running(qapp):
    now, parent = [0.0], QObject()
    marks = MoveMarks(parent, clock=lambda: now[0])
    marks.add(0.0, 0.5)
    now[0] = LIFE_S / 2
    ((mark, strength),) = marks.strengths()
    assert (mark.start, mark.end) == (0.0, 0.5)
    assert strength == pytest.approx(0.5)
    now[0] = LIFE_S
    marks._on_step()
    assert marks.strengths() == ()
    assert not marks._timer.isActive()
