"""Tests for engine.memory.placement."""

from __future__ import annotations

import pytest

from engine.core import ModelShape
from engine.memory.placement import Placement, context_cells

SHAPE = ModelShape("m", "llama", 4096, (100,) * 10, 300, 200, (2,) * 10, 1000, 1300, True)


def placed(n_gpu_layers: int, **changes: object) -> Placement:
    return Placement(n_gpu_layers, 10, 0, 0, "Here.", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("counted", "layers"), [(0, 0), (1, 0), (2, 1), (10, 9), (11, 10), (99, 10)])
def test_the_output_head_is_the_first_to_lie_on_the_device(counted: int, layers: int):
    placement = placed(counted)
    assert placement.layers_on_gpu == layers
    assert placement.tier_of_output == ("gpu" if counted else "ram")


def test_the_last_layers_are_the_ones_on_the_device():
    assert [placed(3).tier_of_layer(layer) for layer in (7, 8, 9)] == ["ram", "gpu", "gpu"]


def test_what_is_neither_repacked_nor_streamed_is_mapped():
    assert placed(0, is_repacked=False).is_mapped
    assert not placed(0, is_repacked=False, streamed_layers=(2, 4), ring_slots=1).is_mapped
    assert not placed(0).is_mapped


def test_the_context_is_the_smaller_of_training_and_settings():
    assert (context_cells(SHAPE, 8192), context_cells(SHAPE, 1024)) == (4096, 1024)
