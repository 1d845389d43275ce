"""Tests for engine.memory.placement."""

from __future__ import annotations

import pytest

from engine.core import ModelShape
from engine.memory.placement import context_cells, place

GIB = 2**30
SHAPE = ModelShape("m", "llama", 4096, (100,) * 10, 300, 200, (2,) * 10, 1000, 1300, True)


def placed(free: int, chosen: int | None = None, reserve: int = 0, ram: int = 10**9):
    return place(SHAPE, 10, free, ram, reserve, chosen)


def test_a_layer_brings_its_weights_and_its_cells():
    assert placed(120).n_gpu_layers == 1
    assert placed(119).n_gpu_layers == 0


def test_the_output_head_follows_when_all_layers_are_there():
    assert placed(1399).n_gpu_layers == 10
    assert placed(1400).n_gpu_layers == 11
    assert placed(1400).tier_of_output == "gpu"


@pytest.mark.parametrize("free", [0, 1, 500, 1199, 1400, 10**6])
def test_no_byte_is_lost_between_the_tiers_and_none_exceeds_the_device(free: int):
    placement = placed(free)
    assert placement.gpu_bytes + placement.ram_bytes == SHAPE.weight_bytes + SHAPE.kv_bytes(10)
    assert placement.gpu_bytes <= free


def test_the_reserve_stays_free():
    assert placed(1400, reserve=300).gpu_bytes <= 1100


def test_the_last_layers_go_to_the_device():
    placement = placed(250)
    assert [placement.tier_of_layer(layer) for layer in (7, 8, 9)] == ["ram", "gpu", "gpu"]


def test_the_user_overrides_the_arithmetic_but_not_the_model():
    assert placed(120, chosen=4).n_gpu_layers == 4
    assert placed(10**6, chosen=99).n_gpu_layers == 11
    assert placed(0, chosen=4).n_gpu_layers == 0


def test_the_sentence_says_where_and_whether_it_is_too_much():
    assert placed(250).sentence == "2 of 10 layers on the GPU, the rest in memory."
    assert "slow" in placed(0, ram=10).sentence


def test_the_context_is_the_smaller_of_training_and_settings():
    assert (context_cells(SHAPE, 8192), context_cells(SHAPE, 1024)) == (4096, 1024)
