"""Tests for engine.generation.opening: weights are opened as planned, or the next best way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import Settings
from engine.errors import ModelLoadFailed, NotStreamable
from engine.generation import opening
from engine.generation.load_plan import LoadPlan, plan_load
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases
from engine.generation.opening import Opening, OpenWeights
from engine.generation.weights.packing import Packing
from engine.memory.ledger import Ledger
from engine.memory.placement import PinnedPart
from engine.models import layer_stages
from tests.helpers.machines import machine
from tests.helpers.tiny_gguf import write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")

PACKED = {"is_repacked": True, "streamed_layers": (1, 3), "ring_slots": 1}
IN_FILE_ORDER = {**PACKED, "is_repacked": False}
RESIDENT = {"is_repacked": True, "streamed_layers": (), "ring_slots": 0}


class Desk:
    """Opens one model after the other; `loads` are the ways in which that was tried."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.ledger = Ledger()
        self.leases = ModelLeases(self.ledger)
        self.loads: list[tuple[bool, bool]] = []
        self.failing: Exception | None = None
        # How much of the disk was left to kept KV, and how many loads there had been by then.
        self.cleared: list[tuple[int, int]] = []

    def plan(self, **changes: object) -> LoadPlan:
        plan = plan_load(self.path, Settings(), machine(0, 16), None)
        return plan.placed(replace(plan.placement, **changes))  # type: ignore[arg-type]

    def load(self, is_repacked: bool, packing: Packing | None) -> Model:
        self.loads.append((is_repacked, packing is not None))
        if self.failing is not None and packing is not None:
            raise self.failing
        return Model(self.path, 0, lambda _: True, is_repacked, packing)

    def open(self, **changes: object) -> OpenWeights:
        return self.open_as(self.plan(**changes))

    def open_as(self, plan: LoadPlan) -> OpenWeights:
        opening = Opening(
            self.load,
            self.folder,
            self.ledger,
            self.leases,
            clear_disk=lambda kept_bytes: self.cleared.append((kept_bytes, len(self.loads))),
        )
        return opening.open(plan)

    def close(self, weights: OpenWeights) -> None:
        for part in (weights.stream, weights.copied, weights.model):
            if part is not None:
                part.close()
        self.leases.release()
        assert self.ledger.spans() == ()


def told_of(weights: OpenWeights) -> list[str]:
    return [remark.sentence for remark in weights.plan.remarks]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    path = write_tiny_model(tmp_path / "m.gguf", layers=5, dim=128, ff=352)
    yield Desk(path, tmp_path / "kv")
    assert not (tmp_path / "kv").exists() or not list((tmp_path / "kv").iterdir())


def test_all_of_it_is_loaded_where_none_is_streamed(desk: Desk) -> None:
    weights = desk.open(**RESIDENT)
    assert weights.stream is None
    assert desk.loads == [(True, False)]
    desk.close(weights)


def test_a_model_without_a_faster_order_is_streamed_from_its_file_and_planned_so_from_then_on(desk: Desk) -> None:
    weights = desk.open(**PACKED)
    assert weights.stream is not None
    assert desk.loads == [(True, True)]
    assert (weights.plan.placement.is_repacked, weights.plan.demand.is_packable) == (False, False)
    assert weights.plan.remarks == ()
    assert not weights.plan.demand_by(Settings()).is_packable
    desk.close(weights)


def test_what_was_read_leaves_the_room_on_the_disk_that_a_copy_is_planned_for_before_it_is_made(desk: Desk) -> None:
    desk.close(desk.open(**PACKED, kv_disk_bytes=12_345))
    assert desk.cleared == [(12_345, 0)]
    # Others make no copy.
    desk.close(desk.open(**IN_FILE_ORDER))
    desk.close(desk.open(**RESIDENT))
    assert len(desk.cleared) == 1


@pytest.mark.parametrize(("may_pass", "unpacked"), [(True, "for_now"), (False, "for_good")])
def test_whether_another_load_may_have_a_copy_is_told(desk: Desk, may_pass: bool, unpacked: str) -> None:
    desk.failing = NotStreamable("There is none.", may_pass=may_pass)
    weights = desk.open(**PACKED)
    assert weights.plan.unpacked == unpacked
    # This one is left as it is; otherwise it would be loaded again and again.
    assert not weights.plan.demand_by(Settings()).is_packable
    desk.close(weights)


def test_a_model_without_a_faster_order_never_has_a_copy(desk: Desk) -> None:
    weights = desk.open(**PACKED)
    assert weights.plan.unpacked == "for_good"
    desk.close(weights)


def test_layers_that_no_device_can_copy_are_planned_so_from_then_on(desk: Desk) -> None:
    # None of them turns out to lie on a device.
    weights = desk.open(**IN_FILE_ORDER, n_gpu_layers=3, copies_streamed=True)
    assert weights.stream is not None
    assert not weights.stream.can_copy
    assert not weights.plan.spec.op_offload
    assert (weights.plan.placement.copies_streamed, weights.plan.demand.can_copy_streamed) == (False, False)
    assert not weights.plan.demand_by(Settings()).can_copy_streamed
    desk.close(weights)


def test_where_no_copy_can_be_written_layers_are_read_from_the_model_s_file(desk: Desk) -> None:
    desk.failing = NotStreamable("The disk is full.")
    weights = desk.open(**PACKED)
    assert desk.loads == [(True, True), (False, False)]
    assert weights.stream is not None
    assert weights.stream.streamed == (1, 3)
    assert told_of(weights) == ["The disk is full. They are read as they lie in the model's file."]
    assert {span.what for span in desk.ledger.spans("disk")} == {"layer 1", "layer 3"}
    desk.close(weights)


def test_that_layers_are_read_as_they_lie_is_told_until_they_lie_otherwise(desk: Desk) -> None:
    desk.failing = NotStreamable("The disk is full.")
    weights = desk.open(**PACKED)
    assert "as they lie in the model's file" in weights.plan.sentence
    in_memory = weights.plan.placed(replace(weights.plan.placement, **RESIDENT))  # type: ignore[arg-type]
    assert "as they lie in the model's file" not in in_memory.sentence
    desk.close(weights)


def test_a_system_that_gives_no_room_for_all_weights_at_once_reads_them_from_the_file(desk: Desk) -> None:
    desk.failing = ModelLoadFailed("m.gguf could not be loaded (failed to allocate CPU_REPACK buffer).", "Or smaller.")
    weights = desk.open(**PACKED)
    assert desk.loads == [(True, True), (False, False)]
    assert weights.stream is not None
    assert told_of(weights)[0].startswith("There is no room to put the weights into the processor's order.")
    desk.close(weights)


def test_a_damaged_model_is_not_read_a_second_time(desk: Desk) -> None:
    desk.failing = ModelLoadFailed("m.gguf could not be loaded (tensor data is cut).", "Download it again.")
    with pytest.raises(ModelLoadFailed, match="cut"):
        desk.open(**PACKED)
    assert desk.loads == [(True, True)]
    assert desk.ledger.spans() == ()


def test_where_nothing_can_be_streamed_the_system_reads_the_file(desk: Desk, monkeypatch) -> None:
    def refuse(*what: object, **named: object) -> None:
        raise NotStreamable("Layers lie across each other.")

    monkeypatch.setattr(opening, "LayerStream", refuse)
    weights = desk.open(**PACKED)
    assert desk.loads == [(True, True), (False, False)]
    assert weights.stream is None
    assert weights.plan.placement.is_mapped
    assert len(weights.plan.remarks) == 2
    desk.close(weights)


@pytest.mark.parametrize("changes", [PACKED, IN_FILE_ORDER])
def test_nothing_is_left_of_a_load_that_failed(desk: Desk, monkeypatch, changes: dict[str, object]) -> None:
    def fail(*what: object, **named: object) -> None:
        raise ModelLoadFailed("It is damaged.", "Download it again.")

    monkeypatch.setattr(opening, "LayerStream", fail)
    with pytest.raises(ModelLoadFailed):
        desk.open(**changes)
    assert desk.ledger.spans() == ()


def test_a_model_that_comes_apart_otherwise_than_promised_is_planned_by_what_it_is(desk: Desk, monkeypatch) -> None:
    monkeypatch.setattr(layer_stages, "LEAST_BYTES", 1)
    promised = desk.plan().shape.stage_bytes
    # Its graph turns out not to come apart.
    monkeypatch.setattr(layer_stages, "STAGES_OF_LAYER", 1)
    weights = desk.open(is_repacked=False, streamed_layers=(1, 2, 3), ring_slots=8)
    assert weights.stream is not None
    assert weights.plan.shape.stage_bytes == weights.stream.stage_bytes > 2 * promised
    assert weights.plan.placement.ring_slots == weights.stream.num_slots < 8
    # From now on both count the same.
    weights.stream.retarget((1, 2, 3, 4), 2)
    assert weights.stream.num_slots == 2
    desk.close(weights)
    # Also where it is loaded again.
    plan = weights.plan.placed(replace(weights.plan.placement, ring_slots=2))
    again = desk.open_as(plan)
    assert again.stream is not None
    assert (again.stream.num_slots, again.plan) == (2, plan)
    desk.close(again)


def test_no_part_of_a_layer_stays_where_parts_are_others_than_promised(desk: Desk, monkeypatch) -> None:
    monkeypatch.setattr(layer_stages, "LEAST_BYTES", 1)
    part = PinnedPart(2, 1)
    placed = {"is_repacked": False, "streamed_layers": (1, 2, 3), "ring_slots": 1, "pinned_part": part}
    plan = desk.plan(**placed)
    # A part would be a whole layer now, though there are as many slots as before.
    monkeypatch.setattr(layer_stages, "STAGES_OF_LAYER", 1)
    weights = desk.open_as(plan)
    assert weights.stream is not None
    assert weights.stream.streamed == (1, 2, 3)
    assert weights.stream.num_slots == 1
    placement = weights.plan.placement
    assert (placement.pinned_part, placement.ring_slots) == (None, 1)
    assert weights.plan.shape.stage_bytes == weights.stream.stage_bytes
    homes = {span.what for span in desk.ledger.spans("ram")}
    assert {"layer 0", "layer 4"} <= homes
    assert not {"layer 1", "layer 2", "layer 3"} & homes
    desk.close(weights)


def test_a_model_that_comes_apart_as_promised_is_planned_as_before(desk: Desk, monkeypatch) -> None:
    monkeypatch.setattr(layer_stages, "LEAST_BYTES", 1)
    part = PinnedPart(2, 1)
    weights = desk.open(is_repacked=False, streamed_layers=(1, 2, 3), ring_slots=3, pinned_part=part)
    assert weights.stream is not None
    assert weights.plan.shape == desk.plan().shape
    assert weights.plan.placement.pinned_part == part
    assert "layer 2" in {span.what for span in desk.ledger.spans("ram")}
    assert weights.stream.num_slots == weights.plan.placement.ring_slots == 3
    desk.close(weights)
