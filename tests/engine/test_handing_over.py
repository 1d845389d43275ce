"""Tests for engine.handing_over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import GIB, MIB
from engine.handing_over import REFUSED_SECONDS, UNHEARD_SECONDS, HandOver, Here, is_free, is_same_model, is_there, step
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement

NOW = Placement(0, 32, 0, 4 * GIB, "Now.", num_slots=4, num_cells=8192, index_bytes=GIB, kv_ram_bytes=500 * MIB)
LARGER = replace(NOW, num_slots=8, num_cells=16384, ram_bytes=5 * GIB)
SMALLER = replace(NOW, num_slots=2, num_cells=4096, ram_bytes=3 * GIB)
MODEL = Path("/m.gguf")


class FakeMovers:
    def __init__(self) -> None:
        self.done: list[object] = []
        self.is_embedder_moving = False

    def apply(self, placement: Placement, path: Path) -> None:
        assert path == MODEL
        self.done.append(placement)

    def set_index_bytes(self, num_bytes: int) -> None:
        self.done.append(num_bytes)

    def move_embedder(self, to_gpu: bool) -> None:
        self.done.append("embedder to gpu" if to_gpu else "embedder to memory")


@pytest.fixture
def movers() -> FakeMovers:
    return FakeMovers()


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.take("weights", "all of it", "ram", 4 * GIB)
    return ledger


def room(num_bytes: int):
    return lambda tier: num_bytes


def test_who_shrinks_needs_no_room(movers: FakeMovers, ledger: Ledger):
    over, progress = step(HandOver(SMALLER, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(0), 0.0)
    assert (movers.done, progress, over.is_asked) == ([SMALLER], "under_way", True)


def test_it_is_asked_for_once(movers: FakeMovers, ledger: Ledger):
    over, _ = step(HandOver(SMALLER, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(0), 0.0)
    _, progress = step(over, Here(NOW, GIB), movers, ledger, room(0), 1.0)
    assert (movers.done, progress) == ([SMALLER], "under_way")
    _, progress = step(over, Here(SMALLER, GIB), movers, ledger, room(0), 2.0)
    assert progress == "done"


def test_who_grows_waits_for_room_and_keeps_its_size_when_that_takes_long(movers: FakeMovers, ledger: Ledger):
    over = HandOver(LARGER, 10.0, MODEL)
    assert step(over, Here(NOW, GIB), movers, ledger, room(4 * GIB), 10.0) == (over, "under_way")
    assert step(over, Here(NOW, GIB), movers, ledger, room(4 * GIB), 10.0 + REFUSED_SECONDS) == (over, "refused")
    assert movers.done == []
    _, progress = step(over, Here(NOW, GIB), movers, ledger, room(6 * GIB), 11.0)
    assert (movers.done, progress) == ([LARGER], "under_way")


def test_no_promise_is_held_on_to(movers: FakeMovers, ledger: Ledger):
    step(HandOver(LARGER, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(6 * GIB), 0.0)
    assert ledger.reserved_bytes("ram") == 0


def test_the_index_shrinks_before_the_model_grows(movers: FakeMovers, ledger: Ledger):
    wanted = replace(LARGER, index_bytes=GIB // 2)
    step(HandOver(wanted, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(8 * GIB), 0.0)
    assert movers.done == [GIB // 2, wanted]


def test_the_index_grows_after_the_model_has_shrunk_and_there_is_room(movers: FakeMovers, ledger: Ledger):
    wanted = replace(SMALLER, index_bytes=2 * GIB)
    over, _ = step(HandOver(wanted, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(4 * GIB), 0.0)
    assert movers.done == [wanted]
    _, progress = step(over, Here(wanted, GIB), movers, ledger, room(4 * GIB), 1.0)
    assert progress == "under_way"
    _, progress = step(over, Here(wanted, GIB), movers, ledger, room(5 * GIB), 2.0)
    assert (movers.done[-1], progress) == (2 * GIB, "done")


@pytest.mark.parametrize("also", [{"index_bytes": 2 * GIB}, {"embedder_on_gpu": True}])
def test_what_comes_after_the_model_is_waited_for_however_long_that_took(movers: FakeMovers, ledger: Ledger, also):
    wanted = replace(SMALLER, **also)
    over, _ = step(HandOver(wanted, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(4 * GIB), 0.0)
    here, late = Here(SMALLER, GIB, False, 100 * MIB), 4 * REFUSED_SECONDS
    over, progress = step(over, here, movers, ledger, room(MIB), late)
    assert (movers.done, progress) == ([wanted], "under_way")
    assert step(over, here, movers, ledger, room(MIB), late + REFUSED_SECONDS - 1.0)[1] == "under_way"
    assert step(over, here, movers, ledger, room(MIB), late + REFUSED_SECONDS)[1] == "refused"


def test_how_long_a_thread_takes_to_answer_counts_from_when_it_was_asked(movers: FakeMovers, ledger: Ledger):
    over = HandOver(LARGER, 0.0, MODEL)
    over, _ = step(over, Here(NOW, GIB), movers, ledger, room(8 * GIB), 4.0)
    assert step(over, Here(NOW, GIB), movers, ledger, room(8 * GIB), UNHEARD_SECONDS)[1] == "under_way"
    assert step(over, Here(NOW, GIB), movers, ledger, room(8 * GIB), UNHEARD_SECONDS + 4.0)[1] == "refused"


def test_the_embedder_leaves_the_card_before_the_model_comes_there(movers: FakeMovers, ledger: Ledger):
    wanted, there = replace(NOW, n_gpu_layers=4, gpu_bytes=GIB), Here(NOW, GIB, True, 100 * MIB)
    over, progress = step(HandOver(wanted, 0.0, MODEL), there, movers, ledger, room(8 * GIB), 3.0)
    assert (movers.done, progress) == (["embedder to memory"], "under_way")
    # It waits for the batch that is being computed.
    over, progress = step(over, there, movers, ledger, room(8 * GIB), 4.0)
    assert (movers.done, progress) == (["embedder to memory"], "under_way")
    step(over, Here(NOW, GIB, False, 100 * MIB), movers, ledger, room(8 * GIB), 5.0)
    assert movers.done == ["embedder to memory", wanted]


def test_the_embedder_comes_to_the_card_when_there_is_room_and_stays_where_it_is_refused(
    movers: FakeMovers, ledger: Ledger
):
    wanted, here = replace(NOW, embedder_on_gpu=True), Here(NOW, GIB, False, 100 * MIB)
    over, progress = step(HandOver(wanted, 0.0, MODEL), here, movers, ledger, room(99 * MIB), 0.0)
    assert (movers.done, progress) == ([], "under_way")
    over, progress = step(over, here, movers, ledger, room(8 * GIB), 1.0)
    assert (movers.done, progress) == (["embedder to gpu"], "under_way")
    assert step(over, here, movers, ledger, room(8 * GIB), 1.0 + REFUSED_SECONDS)[1] == "refused"
    assert step(over, replace(here, embedder_on_gpu=True), movers, ledger, room(8 * GIB), 2.0)[1] == "done"
    assert movers.done == ["embedder to gpu"]


@pytest.mark.parametrize("to_gpu", [True, False])
def test_an_embedder_on_its_way_is_waited_for_as_long_as_a_model(movers: FakeMovers, ledger: Ledger, to_gpu: bool):
    over, here = HandOver(replace(NOW, embedder_on_gpu=to_gpu), 0.0, MODEL), Here(NOW, GIB, not to_gpu, 100 * MIB)
    over, _ = step(over, here, movers, ledger, room(8 * GIB), 0.0)
    movers.is_embedder_moving = True
    over, progress = step(over, here, movers, ledger, room(8 * GIB), UNHEARD_SECONDS - 1.0)
    assert progress == "under_way"
    assert step(over, here, movers, ledger, room(8 * GIB), UNHEARD_SECONDS)[1] == "refused"
    there = replace(here, embedder_on_gpu=to_gpu)
    assert step(over, there, movers, ledger, room(8 * GIB), UNHEARD_SECONDS)[1] == "done"


def test_an_embedder_whose_way_ended_where_it_was_is_not_waited_for(movers: FakeMovers, ledger: Ledger):
    over, here = HandOver(replace(NOW, embedder_on_gpu=True), 0.0, MODEL), Here(NOW, GIB, False, 100 * MIB)
    over, _ = step(over, here, movers, ledger, room(8 * GIB), 0.0)
    movers.is_embedder_moving = True
    over, _ = step(over, here, movers, ledger, room(8 * GIB), 30.0)
    movers.is_embedder_moving = False
    # It may have come since its place was looked at.
    assert step(over, here, movers, ledger, room(8 * GIB), 30.1)[1] == "under_way"
    assert step(over, here, movers, ledger, room(8 * GIB), 30.0 + REFUSED_SECONDS)[1] == "refused"


def test_what_an_embedder_takes_counts_where_it_is():
    planned_there = replace(NOW, gpu_bytes=GIB, embedder_on_gpu=True)
    here = Here(planned_there, GIB, False, 100 * MIB)
    assert (here.gpu_bytes, here.ram_bytes) == (GIB - 100 * MIB, 4 * GIB + 100 * MIB)
    here = Here(planned_there, GIB, True, 100 * MIB)
    assert (here.gpu_bytes, here.ram_bytes) == (GIB, 4 * GIB)


def test_a_thread_that_never_answers_is_not_waited_for_for_ever(movers: FakeMovers, ledger: Ledger):
    over, _ = step(HandOver(SMALLER, 0.0, MODEL), Here(NOW, GIB), movers, ledger, room(0), 0.0)
    assert step(over, Here(NOW, GIB), movers, ledger, room(0), UNHEARD_SECONDS)[1] == "refused"


def test_bounds_that_hardly_differ_are_the_same_and_none_is_not_a_little():
    assert is_same_model(NOW, replace(NOW, kv_ram_bytes=510 * MIB))
    assert not is_same_model(NOW, replace(NOW, kv_ram_bytes=600 * MIB))
    assert not is_same_model(replace(NOW, kv_ram_bytes=MIB), replace(NOW, kv_ram_bytes=0))


def test_where_prompts_are_computed_is_carried_out_by_a_thread():
    streamed = replace(NOW, n_gpu_layers=4, streamed_layers=(1,), ring_slots=1)
    assert not is_same_model(streamed, replace(streamed, copies_streamed=True))
    assert not is_free(Here(streamed, 0), replace(streamed, copies_streamed=True))


def test_only_bounds_are_free():
    assert is_free(Here(NOW, 0), replace(NOW, kv_ram_bytes=GIB, kv_disk_bytes=GIB, index_bytes=2 * GIB))
    assert not is_free(Here(NOW, 0), SMALLER)
    # It changes place between two batches.
    assert is_free(Here(NOW, GIB), replace(NOW, embedder_on_gpu=True))
    assert not is_there(Here(NOW, GIB), replace(NOW, embedder_on_gpu=True))
    assert is_there(Here(NOW, GIB), NOW)
    assert not is_there(Here(NOW, 0), NOW)
