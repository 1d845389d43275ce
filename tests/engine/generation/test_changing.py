"""Tests for engine.generation.changing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.core import ModelShape
from engine.generation.changing import Change, change_of
from engine.memory.placement import Placement

HERE = Placement(
    n_gpu_layers=4,
    num_layers=8,
    gpu_bytes=0,
    ram_bytes=0,
    sentence="",
    is_repacked=False,
    num_slots=4,
    num_cells=4096,
    n_ubatch=128,
    kv_ram_bytes=64 << 20,
    kv_disk_bytes=1 << 30,
)


SHAPE = ModelShape("m", "llama", 4096, (100,) * 8, 300, 200, (2,) * 8, 1000, 1100)


def change(**wanted: Any) -> Change:
    return change_of(HERE, replace(HERE, **wanted), SHAPE)


def kinds(change: Change) -> set[str]:
    names = ("reloads", "remakes_context", "rebounds")
    return {name for name in names if getattr(change, name)}


def test_nothing_is_done_where_nothing_differs_that_a_model_knows_of():
    same = change(sentence="Otherwise.", index_bytes=5, ram_bytes=7)
    assert same == Change()
    assert same.sentence == ""


@pytest.mark.parametrize(
    ("wanted", "expected", "words"),
    [
        ({"num_cells": 12_288, "num_slots": 12}, {"remakes_context"}, "12 answers at once instead of 4, 12,288 cells"),
        ({"num_slots": 1}, set(), "1 answer at once instead of 4"),
        ({"num_slots": 48}, {"remakes_context"}, "48 answers at once instead of 4"),
        ({"n_ubatch": 2048}, {"remakes_context"}, "steps of 2,048 tokens instead of 128"),
        ({"kv_type": "q8_0"}, {"remakes_context"}, "keys and values of 8 bits instead of 16"),
        ({"kv_on_gpu": False}, {"remakes_context"}, "keys and values in memory"),
        ({"n_gpu_layers": 9}, {"reloads", "remakes_context"}, "all 8 layers on the GPU instead of 3 layers"),
        ({"n_gpu_layers": 2}, {"reloads", "remakes_context"}, "1 layer on the GPU instead of 3 layers"),
        ({"n_gpu_layers": 1}, {"reloads", "remakes_context"}, "only the output head on the GPU instead of 3 layers"),
        (
            {"is_repacked": True, "n_gpu_layers": 9},
            {"reloads", "remakes_context"},
            "Now: all 8 layers on the GPU instead of 3 layers.",
        ),
        (
            {"is_repacked": True},
            {"reloads", "remakes_context"},
            "weights where the graphics card copies them from fastest",
        ),
        (
            {"is_repacked": True, "n_gpu_layers": 0},
            {"reloads", "remakes_context"},
            "weights in the order the processor reads fastest",
        ),
        ({"kv_ram_bytes": 32 << 20}, {"rebounds"}, "32 MiB of memory for what was read instead of 64 MiB"),
        ({"kv_disk_bytes": 2 << 30}, {"rebounds"}, "2.0 GiB of files for what was read instead of 1.0 GiB"),
    ],
)
def test_what_differs_decides_what_has_to_be_done_and_is_told(wanted: dict[str, Any], expected: set[str], words: str):
    found = change(**wanted)
    assert kinds(found) == expected
    assert words in found.sentence
    assert found.moves_answers == ("remakes_context" in expected)


def test_a_model_is_read_again_to_begin_streaming_and_other_layers_are_streamed_without_a_pause():
    begun = change(streamed_layers=(1, 3), ring_slots=2)
    assert (kinds(begun), begun.words) == ({"remakes_context", "reloads"}, ("2 layers streamed instead of 0",))
    streaming = replace(HERE, streamed_layers=(1, 3), ring_slots=2)
    more = change_of(streaming, replace(streaming, streamed_layers=(1, 2, 3)), SHAPE)
    assert (kinds(more), more.words) == (set(), ("3 layers streamed instead of 2",))
    deeper = change_of(streaming, replace(streaming, ring_slots=4), SHAPE)
    assert (kinds(deeper), deeper.words) == (set(), ("4 slots for streamed layers instead of 2",))
    copying = change_of(streaming, replace(streaming, copies_streamed=True), SHAPE)
    assert kinds(copying) == {"remakes_context"}
    assert copying.words == ("prompts computed on the GPU where layers are in memory",)
    others = change_of(streaming, replace(streaming, streamed_layers=(1, 2)), SHAPE)
    assert others.words == ("other layers streamed",)
    back = change_of(streaming, replace(HERE, can_leave=True), SHAPE)
    assert (kinds(back), back.words) == (set(), ("no layers streamed instead of 2",))
    # What the system is to read would be pinned whole in buffers of our own.
    assert "reloads" in kinds(change_of(streaming, HERE, SHAPE))


def test_without_layers_on_a_device_keys_and_values_are_in_memory_anyway():
    on_processor = replace(HERE, n_gpu_layers=0)
    assert change_of(on_processor, replace(on_processor, kv_on_gpu=False), SHAPE) == Change()


def test_a_placement_of_another_model_is_refused():
    with pytest.raises(ValueError, match="8 layers"):
        change(num_layers=9)


def test_a_model_with_large_states_has_another_context_for_more_answers() -> None:
    hybrid = replace(SHAPE, state_bytes=(0, 150 * 2**20))
    more = change_of(HERE, replace(HERE, num_slots=8), hybrid)
    assert more.remakes_context
    assert not change_of(HERE, replace(HERE, num_slots=8), SHAPE).remakes_context
    assert not change_of(HERE, replace(HERE, num_slots=3), hybrid).remakes_context
