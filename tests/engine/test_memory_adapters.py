"""Tests for engine.memory_adapters, over parts that only answer what they are asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.competing import Competitors, coarse, place_index
from engine.config import GIB, MIB, MemorySettings, Settings
from engine.core import Span
from engine.foreseen import USUAL_BYTES, Foreseen
from engine.generation.model_leases import SET_ASIDE
from engine.generation.weights.layer_leases import LayerLeases
from engine.memory.backlog import BacklogWatch
from engine.memory.demand import Budgets
from engine.memory.hardware import Device
from engine.memory.ledger import Ledger
from engine.memory.ledger_share import LedgerShare
from engine.memory.placement import Placement
from engine.memory.runtime import FREED, LIBRARIES
from engine.memory_adapters import EngineMemoryActions, EngineMemoryState
from tests.engine.memory.test_ladder import DEMAND

PLACEMENT = Placement(0, 16, 0, GIB, "All in memory.")
LOADED = SimpleNamespace(plan=SimpleNamespace(path=Path("/m.gguf"), placement=PLACEMENT, given_up=()))


class Asked:
    """Notes what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.counters: dict[str, float] = {}

    def __getattr__(self, name: str):
        return lambda *arguments: self.calls.append((name, *arguments))


class FakeStores:
    def __init__(self, sizes: tuple[int, ...] | None, movable_bytes: int = 0) -> None:
        index = SimpleNamespace(partition_bytes=sizes)
        self.moved: list[str] = []
        embedder = SimpleNamespace(
            place="memory", weights_name="MiniLM, float32", movable_bytes=movable_bytes, move=self.moved.append
        )
        self._opened = None if sizes is None else SimpleNamespace(index=index, embedder=embedder)
        self.partition_bytes: int | None = None

    def opened(self):
        return self._opened

    def set_partition_bytes(self, num_bytes: int) -> None:
        self.partition_bytes = num_bytes


@dataclass
class Process:
    """What it holds without a name, and whether libraries' part of that can be told by now."""

    num_bytes: int = 0
    is_settled: bool = True

    def settle(self) -> bool:
        return self.is_settled

    def unnamed_bytes(self) -> int:
        return self.num_bytes


def pool(**facts: object) -> SimpleNamespace:
    nothing = {"devices": (), "demand": None, "loaded_now": None}
    loader = SimpleNamespace(**{**nothing, **facts})
    return SimpleNamespace(principal=SimpleNamespace(loader=loader, loaded=loader.loaded_now))


def senses(tmp_path: Path, ledger: Ledger, stores: FakeStores, **facts: object) -> tuple[EngineMemoryState, Asked]:
    generation = Asked()
    competitors = Competitors(stores, ledger, Settings, Foreseen(tmp_path / "take.json"), Process())
    return EngineMemoryState(tmp_path, pool(**facts), generation, stores, competitors, BacklogWatch()), generation


def test_without_a_model_the_index_is_all_there_is(tmp_path: Path):
    stores = FakeStores((300, 200))
    seen, _ = senses(tmp_path, Ledger(), stores)
    in_force = seen.in_force()
    assert not in_force.is_loaded
    assert (in_force.demand.index_bytes, in_force.demand.partition_bytes, in_force.demand.num_partitions) == (
        500,
        300,
        2,
    )
    assert in_force.here.index_bytes == 0


def test_with_a_model_its_own_demand_and_placement_are_seen(tmp_path: Path):
    stores = FakeStores(None)
    stores.set_partition_bytes(77)
    seen, _ = senses(tmp_path, Ledger(), stores, demand=DEMAND, loaded_now=LOADED)
    in_force = seen.in_force()
    assert (in_force.demand, in_force.here.placement, in_force.here.index_bytes) == (DEMAND, PLACEMENT, 77)
    assert in_force.path == Path("/m.gguf")


def test_what_competes_joins_the_demand_and_small_changes_of_it_are_no_news(tmp_path: Path):
    ledger = Ledger()
    ledger.take("weights", "layer 0", "ram", GIB)
    ledger.take("index", "partition 3", "ram", GIB)
    rows = ledger.take("index", "newest passages", "ram", 1)
    ledger.take("runtime", "interpreter", "ram", 100 * MIB)
    ledger.take("embedder", "weights", "ram", 90 * MIB)
    seen, _ = senses(tmp_path, ledger, FakeStores((10,)))
    full = seen.beside(DEMAND, Budgets(1, 2, 3))
    taken = {span.owner: span.num_bytes for span in full.fixed}
    assert taken == {"index": 16 * MIB, "runtime": 112 * MIB, "embedder": 96 * MIB}
    assert full.budgets == Budgets(1, 2, 3)
    rows.resize(MIB)
    assert seen.beside(DEMAND, Budgets(1, 2, 3)) == full


def test_what_may_be_written_anew_of_the_disk_has_nothing_of_the_models_file(tmp_path: Path):
    ledger = Ledger()
    ledger.take("kv", "what was read", "disk", 64 * MIB)
    LayerLeases(ledger, (GIB,), 0).show(0, 0, "resident")
    seen, _ = senses(tmp_path, ledger, FakeStores((10,)))
    assert seen.beside(DEMAND, Budgets(1, 2, 3)).held_disk_bytes == 64 * MIB


def test_an_embedder_that_a_card_can_take_is_the_plans_to_place(tmp_path: Path):
    ledger = Ledger()
    ledger.take("embedder", "MiniLM, float32", "ram", 90 * MIB)
    ledger.take("embedder", "MiniLM, tokenizers and buffers", "ram", 20 * MIB)
    device = Device("GPU0", "A card", GIB, MIB)
    stores = FakeStores((10,), movable_bytes=100 * MIB)
    seen, _ = senses(tmp_path, ledger, stores, devices=(device,), demand=DEMAND, loaded_now=LOADED)
    full = seen.beside(DEMAND, Budgets(1, 2, 3))
    assert full.embedder_bytes == 112 * MIB
    assert {span.owner: span.num_bytes for span in full.fixed} == {"embedder": 32 * MIB}
    assert not seen.in_force().here.embedder_on_gpu
    stores.opened().embedder.place = "card"
    assert seen.in_force().here.embedder_on_gpu
    # llama.cpp without one cannot share it.
    seen, _ = senses(tmp_path, ledger, stores)
    full = seen.beside(DEMAND, Budgets(1, 2, 3))
    assert (full.embedder_bytes, {span.owner: span.num_bytes for span in full.fixed}) == (0, {"embedder": 112 * MIB})


def test_the_embedder_is_moved_by_a_thread_of_its_own():
    stores = FakeStores((10,))
    hands = EngineMemoryActions(pool(), Asked(), stores)
    for to_gpu in (True, False):
        hands.move_embedder(to_gpu)
        hands._moving.join(30)
        assert not hands.is_embedder_moving
    assert stores.moved == ["card", "memory"]
    EngineMemoryActions(pool(), Asked(), FakeStores(None)).move_embedder(True)


def test_an_embedder_is_asked_to_leave_the_card_where_it_is_there():
    stores = FakeStores((10,))
    hands = EngineMemoryActions(pool(), Asked(), stores)
    assert hands.leave_card()
    assert EngineMemoryActions(pool(), Asked(), FakeStores(None)).leave_card()
    stores.opened().embedder.place = "card"
    assert not hands.leave_card()
    hands._moving.join(30)
    assert stores.moved == ["memory"]


def test_devices_are_asked_by_their_own_thread_where_there_are_any(tmp_path: Path):
    device = Device("GPU0", "A card", GIB, MIB)
    seen, generation = senses(tmp_path, Ledger(), FakeStores(None), devices=(device,))
    assert seen.hardware().devices == (device,)
    assert generation.calls == [("look_at_devices",)]
    seen, generation = senses(tmp_path, Ledger(), FakeStores(None))
    assert seen.hardware().devices == ()
    assert generation.calls == []


def test_only_what_is_in_use_can_be_given_back(tmp_path: Path):
    ledger = Ledger()
    ledger.take("index", "partition 3", "ram", 500)
    ledger.take("index", "newest passages", "ram", 50)
    ledger.take("kv", "answers set aside", "ram", 70)
    seen, generation = senses(tmp_path, ledger, FakeStores(None))
    generation.counters = {"kv_kept_in_memory_bytes": 9.0, "kv_kept_in_cells_bytes": 8.0}
    use = seen.use()
    assert (use.index_bytes, use.tree_bytes, use.kept_cells_bytes, use.set_aside_bytes) == (500, 9, 8, 70)


def test_what_is_set_aside_of_models_that_wait_can_be_given_back_as_well(tmp_path: Path):
    ledger = Ledger()
    for name, num_bytes in (("small", 70), ("smaller", 5)):
        share = LedgerShare(ledger)
        share.take("kv", SET_ASIDE, "ram", num_bytes)
        share.take("kv", "64 cells", "ram", 900)
        share.wait(name, is_away=True)
    ledger.take("kv", SET_ASIDE, "ram", 1)
    seen, _ = senses(tmp_path, ledger, FakeStores(None))
    assert seen.use().set_aside_bytes == 76


def test_hands_reach_the_parts():
    generation, stores, path = Asked(), FakeStores(None), Path("/m.gguf")
    hands = EngineMemoryActions(pool(loaded_now=LOADED), generation, stores)
    hands.apply(PLACEMENT, path)
    hands.keep_in_cells(False)
    hands.set_aside_on_disk(True)
    hands.set_index_bytes(12)
    hands.rest_model()
    assert generation.calls == [
        ("apply", PLACEMENT, path),
        ("keep_in_cells", False),
        ("set_aside_on_disk", True),
        ("rest", path),
    ]
    assert stores.partition_bytes == 12


def test_what_was_planned_for_a_model_stays_its_own_when_another_comes():
    generation = Asked()
    hands = EngineMemoryActions(pool(loaded_now=None), generation, FakeStores(None))
    hands.apply(PLACEMENT, Path("/gone.gguf"))
    assert generation.calls == [("apply", PLACEMENT, Path("/gone.gguf"))]


@pytest.mark.parametrize(
    ("mode", "wish", "budget", "expected"),
    [
        ("resident", None, 8 * GIB, 4 * GIB),
        ("resident", None, 2 * GIB, GIB),
        ("resident", GIB // 2, 8 * GIB, GIB // 2),
        ("resident", None, MIB, 0),
        ("on_disk", None, 8 * GIB, 0),
    ],
)
def test_an_index_alone_has_a_share_of_memory_within_the_budget(mode, wish, budget, expected, tmp_path: Path):
    settings = Settings(memory=MemorySettings(index_budget_bytes=wish))
    settings = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"index_mode": mode})})
    ledger = Ledger()
    ledger.take("runtime", "interpreter", "ram", GIB)
    ledger.take("embedder", "weights", "gpu", MIB)
    foreseen = Foreseen(tmp_path / "take.json")
    demand = Competitors(FakeStores(()), ledger, lambda: settings, foreseen, Process()).alone()
    placement = place_index(replace(demand, budgets=Budgets(0, budget, 0)), 16 * GIB)
    assert placement.index_bytes == expected


def test_room_is_left_for_libraries_that_are_bound_to_come(tmp_path: Path):
    ledger, foreseen = Ledger(), Foreseen(tmp_path / "take.json")
    ledger.take("runtime", "interpreter", "ram", 32 * MIB)
    before = Competitors(FakeStores(None), ledger, Settings, foreseen, Process()).alone()
    ledger.take("embedder", "weights", "ram", 32 * MIB)
    there = Competitors(FakeStores(()), ledger, Settings, foreseen, Process()).alone()
    assert {span.owner: span.num_bytes for span in before.fixed} == USUAL_BYTES
    assert {span.owner: span.num_bytes for span in there.fixed} == {"runtime": 32 * MIB, "embedder": 32 * MIB}


def test_room_is_left_for_a_reranker_that_comes_with_the_next_question(tmp_path: Path):
    ledger, coming = Ledger(), [90 * MIB]
    ledger.take("embedder", "weights", "ram", 32 * MIB)
    for stores in (FakeStores(None), FakeStores(())):
        foreseen = Foreseen(tmp_path / "take.json")
        competitors = Competitors(stores, ledger, Settings, foreseen, Process(), reranker_bytes=lambda: coming[0])
        demand = competitors.beside(competitors.alone(), num_questions=0, has_device=False)
        assert [span.num_bytes for span in demand.fixed if span.owner == "reranker"] == [96 * MIB]
    coming[0] = 0
    assert not [span for span in competitors.alone().fixed if span.owner == "reranker"]


def test_spans_are_summed_by_owner():
    spans = (Span("a", "x", "ram", 1), Span("a", "y", "ram", 32 * MIB), Span("a", "z", "disk", 5))
    assert [(span.tier, span.num_bytes) for span in coarse(spans)] == [("disk", 16 * MIB), ("ram", 48 * MIB)]
    assert [(span.tier, span.num_bytes) for span in coarse(spans, MIB)] == [("disk", MIB), ("ram", 33 * MIB)]


@pytest.mark.parametrize(
    ("capacity_bytes", "grain_bytes"),
    [(100 * MIB, MIB), (755 * MIB, 2 * MIB), (2 * GIB, 8 * MIB), (32 * GIB, 16 * MIB)],
)
def test_what_competes_is_counted_finer_where_there_is_less_memory(
    tmp_path: Path, capacity_bytes: int, grain_bytes: int
):
    ledger = Ledger()
    ledger.take("runtime", "torch", "ram", 32 * MIB + 1)
    ledger.take("embedder", "weights", "ram", 32 * MIB)
    competitors = Competitors(
        FakeStores(()),
        ledger,
        Settings,
        Foreseen(tmp_path / "take.json"),
        Process(),
        ram_capacity=lambda: capacity_bytes,
    )
    assert of_runtime(competitors) == 32 * MIB + grain_bytes


def test_what_libraries_take_is_noted_down_without_what_only_passes(tmp_path: Path):
    ledger = Ledger()
    ledger.take("runtime", "torch", "ram", 640 * MIB)
    ledger.take("embedder", "weights", "gpu", 96 * MIB)
    freed = ledger.take("runtime", FREED, "ram", 512 * MIB)
    weights = ledger.take("weights", "layers", "ram", GIB, "loading")
    pages = ledger.take("runtime", "libraries' files", "ram", GIB)
    foreseen = Foreseen(tmp_path / "take.json")
    competitors = Competitors(FakeStores(()), ledger, Settings, foreseen, Process())
    assert of_runtime(competitors) == 640 * MIB + 512 * MIB + GIB
    pages.release()
    weights.mark("resident")
    assert of_runtime(competitors) == 640 * MIB + 512 * MIB
    freed.release()
    expected = {span.owner: span.num_bytes for span in Foreseen(tmp_path / "take.json").with_what_comes(())}
    assert expected["runtime"] == 640 * MIB


def test_the_embedder_is_foreseen_until_it_is_there_also_when_the_stores_are_open(tmp_path: Path):
    ledger = Ledger()
    ledger.take("runtime", "torch", "ram", 96 * MIB)
    competitors = Competitors(FakeStores(()), ledger, Settings, Foreseen(tmp_path / "take.json"), Process())
    expected = {("embedder", USUAL_BYTES["embedder"]), ("runtime", USUAL_BYTES["runtime"])}
    assert {(span.owner, span.num_bytes) for span in competitors.alone().fixed} == expected
    coming = ledger.take("embedder", "weights", "ram", 64 * MIB, "loading")
    assert {(span.owner, span.num_bytes) for span in competitors.alone().fixed} == expected
    coming.mark("resident")
    assert of_runtime(competitors) == 96 * MIB


def test_libraries_are_foreseen_until_what_they_took_is_known(tmp_path: Path):
    ledger, process = Ledger(), Process(num_bytes=320 * MIB, is_settled=False)
    ledger.take("embedder", "weights", "ram", 64 * MIB)
    competitors = Competitors(FakeStores(()), ledger, Settings, Foreseen(tmp_path / "take.json"), process)
    assert of_runtime(competitors) == USUAL_BYTES["runtime"]
    ledger.take("runtime", "torch", "ram", process.num_bytes)
    process.num_bytes, process.is_settled = 0, True
    assert of_runtime(competitors) == 320 * MIB


def test_what_comes_with_each_question_and_what_nobody_names_is_planned_for_all_the_time(tmp_path: Path):
    ledger, now, process = Ledger(), [0.0], Process()
    ledger.take("embedder", "weights", "ram", 32 * MIB)
    ledger.take("runtime", "torch", "ram", 320 * MIB)
    pages = ledger.take("runtime", LIBRARIES, "ram", 128 * MIB)
    foreseen = Foreseen(tmp_path / "take.json")
    competitors = Competitors(FakeStores(()), ledger, Settings, foreseen, process, clock=lambda: now[0])
    assert of_runtime(competitors) == 448 * MIB
    now[0] = 30.0
    pages.resize(32 * MIB)
    assert of_runtime(competitors) == 448 * MIB
    # What has come back is counted once, also while a model is being loaded, which has no name meanwhile.
    weights = ledger.take("weights", "layers", "ram", GIB, "loading")
    process.num_bytes = GIB
    pages.resize(128 * MIB)
    assert of_runtime(competitors) == 448 * MIB
    weights.release()
    pages.resize(32 * MIB)
    # What stays without a name counts when it has stayed a while.
    process.num_bytes = 64 * MIB
    now[0] = 100.0
    assert of_runtime(competitors) == 448 * MIB
    now[0] = 170.0
    assert of_runtime(competitors) == 416 * MIB


def test_what_the_allocator_keeps_between_questions_is_planned_for_while_it_is_away(tmp_path: Path):
    ledger, now = Ledger(), [0.0]
    ledger.take("embedder", "weights", "ram", 32 * MIB)
    pages = ledger.take("runtime", LIBRARIES, "ram", 64 * MIB)
    freed = ledger.take("runtime", FREED, "ram", 96 * MIB)
    foreseen = Foreseen(tmp_path / "take.json")
    competitors = Competitors(FakeStores(()), ledger, Settings, foreseen, Process(), clock=lambda: now[0])
    assert of_runtime(competitors) == 160 * MIB
    now[0] = 30.0
    freed.resize(0)
    assert of_runtime(competitors) == 160 * MIB
    # Both are seldom at their most at the same time.
    pages.resize(128 * MIB)
    assert of_runtime(competitors) == 160 * MIB
    pages.resize(0)
    for now[0] in (100.0, 170.0):
        last = of_runtime(competitors)
    assert last == 0


def of_runtime(competitors: Competitors) -> int:
    return sum(span.num_bytes for span in competitors.alone().fixed if span.owner == "runtime")
