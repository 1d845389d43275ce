"""Tests for tests.bench.placements: what its table must show on any machine."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.core import ModelShape
from engine.memory.demand import Backlog
from engine.memory.planner import plan
from engine.memory.room import room_of
from tests.bench import placements
from tests.bench.placements import CARDS_GB, MEMORY_GB, Row
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted


@pytest.fixture(scope="module")
def shapes() -> list[ModelShape]:
    return placements.shapes_of_headers()


@pytest.fixture(scope="module")
def table(shapes: list[ModelShape]) -> list[Row]:
    return list(placements.rows(shapes, Backlog(), runs=1))


def test_shapes_are_read_from_headers_and_are_those_that_other_tests_plan_with(shapes: list[ModelShape]):
    for read, known in zip(shapes, MODELS, strict=True):
        assert (read.name, read.num_layers, read.vocabulary_size) == (
            known.name,
            known.num_layers,
            known.vocabulary_size,
        )
        assert (read.kv_cell_bytes, read.trained_context) == (known.kv_cell_bytes, known.trained_context)
        assert sum(read.layer_bytes) == pytest.approx(sum(known.layer_bytes), rel=0.03)
        assert read.other_bytes == pytest.approx(known.other_bytes, rel=0.04)
        # Some layers have finer quantisation than others.
        assert len(set(read.layer_bytes)) == 2


def test_every_machine_gets_a_placement_and_a_sentence(table: list[Row]):
    assert len(table) == len(CARDS_GB) * len(MEMORY_GB) * len(MODELS)
    assert all(row.placement.fits for row in table)
    assert all("tokens/s" in row.placement.sentence for row in table)


def test_no_machine_is_given_more_than_it_has(table: list[Row], shapes: list[ModelShape]):
    for row in table:
        shape = next(shape for shape in shapes if shape.name == row.model)
        room = room_of(machine(row.card_gb, row.memory_gb), wanted(shape))
        assert row.placement.gpu_bytes <= room.gpu_bytes
        assert row.placement.ram_bytes <= room.ram_bytes
        assert row.placement.disk_bytes <= room.disk_bytes


@pytest.mark.parametrize("model", [shape.name for shape in MODELS])
def test_more_of_either_memory_is_never_slower(table: list[Row], model: str):
    latency = {(row.card_gb, row.memory_gb): row.placement.prediction.latency_s for row in table if row.model == model}
    for card in CARDS_GB:
        assert all(latency[card, more] <= latency[card, less] for less, more in pairwise(MEMORY_GB))
    for memory in MEMORY_GB:
        assert all(latency[more, memory] <= latency[less, memory] for less, more in pairwise(CARDS_GB))


def test_what_fits_a_card_lies_there_and_what_fits_no_memory_is_streamed(table: list[Row]):
    found = {(row.card_gb, row.memory_gb, row.model): row.placement for row in table}
    assert found[12, 16, "8B"].layers_on_gpu == 32
    assert not found[0, 16, "8B"].streamed_layers
    assert found[0, 16, "70B"].streamed_layers
    assert found[8, 16, "70B"].layers_on_gpu
    assert not found[24, 64, "70B"].streamed_layers


def test_a_decision_looks_at_few_of_all_placements(table: list[Row]):
    assert max(row.placement.num_evaluated for row in table) < 400


def test_the_figures_count_what_does_not_fit(table: list[Row]):
    tiny = plan(machine(0, 0.7), DESKTOP, Backlog(), wanted(MODELS[-1]))
    figures = placements.figures_of([*table, Row(0, 1, "70B", tiny, 2.0, 3.0)])
    assert (figures["without_placement"], figures["slowest_s"]) == (1, 2.0)
