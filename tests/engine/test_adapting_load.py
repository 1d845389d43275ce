"""Tests for engine.adapting under a load that comes and goes: 4 → 16 → 4 questions at a time, with real partitions.

The planner, the loop over memory and the partitions are the engine's own; machine and model are figures, and time
passes when it is told to. A resident partition of the machine is one of the store, which is smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.config import GIB, MIB
from engine.memory.demand import Backlog
from engine.memory.profile import Profile
from engine.partitions import open_rows
from engine.partitions.store import PartitionStore
from tests.helpers.partitions import FakeTable, filled_table, open_store, queries
from tests.helpers.scripted_machine import PARTITION_BYTES, PARTITIONS, ScriptedMachine

CALM, BUSY = 4, 16
PHASE_SECONDS = 240
# A quick processor, and an index on a hard disk: slots are worth much there, and so are partitions in memory.
QUICK = replace(Profile(), ram_bytes_per_s=40e9, processor_rate=1e12)
HARD_DISK = replace(QUICK, retrieval_load_s=2.5, disk_bytes_per_s=(1e8, 1e8, 1e8))
PROMPT_TOKENS = ANSWER_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Look:
    """How things lay at a second of the run."""

    num_slots: int
    num_cells: int
    num_resident: int
    num_streamed: int


@dataclass
class LoadedMachine(ScriptedMachine):
    """A machine whose index is a store that is searched, with `num_open` questions at a time.

    In every seventh second one has ended, and the next has not been asked yet.
    """

    store: PartitionStore = field(kw_only=True)
    num_open: int = CALM
    looks: list[Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backlog = self._backlog(CALM)
        self.on_tick = self._live_a_second
        super().__post_init__()

    def set_index_bytes(self, num_bytes: int) -> None:
        super().set_index_bytes(num_bytes)
        # Whole partitions of the machine are whole partitions of the store.
        self.store.set_partition_bytes(num_bytes * sum(self.store.partition_bytes) // (PARTITIONS * PARTITION_BYTES))

    def phase(self, num_open: int) -> list[Look]:
        """So many questions at a time for some minutes; how things lay in each second of them."""
        self.num_open, begun = num_open, len(self.looks)
        self.run(PHASE_SECONDS)
        return self.looks[begun:]

    def _live_a_second(self) -> None:
        assert self.placement is not None
        self.backlog = self._backlog(max(0, self.num_open - (int(self.now) % 7 == 0)))
        self.store.search(queries(2, seed=int(self.now)), 5)
        num_resident = round(self.store.counters()["partitions_resident"])
        assert num_resident == min(PARTITIONS, self.index_bytes // PARTITION_BYTES)
        lying = self.placement
        self.looks.append(Look(lying.num_slots, lying.num_cells, num_resident, len(lying.streamed_layers)))

    def _backlog(self, num_open: int) -> Backlog:
        running = min(num_open, self.placement.num_slots if getattr(self, "placement", None) else num_open)
        # Whoever ends, another takes the place.
        return Backlog(num_open - running, running, PROMPT_TOKENS, ANSWER_TOKENS, refill=1.0)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> FakeTable:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 16)
    return filled_table(PARTITIONS + 1)


@pytest.fixture
def store(table: FakeTable, tmp_path: Path) -> Iterator[PartitionStore]:
    store = open_store(table, tmp_path / "shards")
    store.maintain()
    assert len(store.partition_bytes) == PARTITIONS
    yield store
    store.close()


@pytest.fixture
def machine(store: PartitionStore) -> LoadedMachine:
    """One with room for the whole index beside the cells of four answers, and not beside those of sixteen."""
    return LoadedMachine(ram_bytes=6_600 * MIB, others_bytes=GIB // 2, profile=HARD_DISK, store=store)


def test_slots_rise_with_the_load_and_partitions_make_room_for_them_and_both_come_back(machine: LoadedMachine) -> None:
    calm, busy, calm_again, busy_again = (machine.phase(num_open)[-1] for num_open in (CALM, BUSY, CALM, BUSY))
    assert calm.num_resident == PARTITIONS
    assert busy.num_slots >= BUSY > calm.num_slots >= CALM
    assert 1 <= busy.num_resident < calm.num_resident
    assert calm_again == calm
    # One may have ended just when that is decided, and another slot is not worth a pause of all.
    assert busy_again.num_slots >= BUSY - 1
    assert busy_again.num_resident == busy.num_resident
    assert machine.most_bytes <= machine.loop.budgets().ram_bytes


def test_partitions_leave_before_slots_come_and_come_after_slots_have_left(machine: LoadedMachine) -> None:
    machine.phase(CALM)
    rising, falling = machine.phase(BUSY), machine.phase(CALM)
    assert _first_change(rising, "num_resident") <= _first_change(rising, "num_slots")
    assert _first_change(falling, "num_slots") <= _first_change(falling, "num_resident")


def test_a_load_that_has_changed_moves_things_once_each_way_and_says_so(machine: LoadedMachine) -> None:
    machine.phase(CALM)
    for num_open in (BUSY, CALM):
        num_applied, num_told = len(machine.applied), len(machine.sentences("placement"))
        machine.phase(num_open)
        assert len(machine.applied) - num_applied == 1
        [told] = machine.sentences("placement")[num_told:]
        assert told.startswith(f"{BUSY} questions wait or are being answered." if num_open == BUSY else "Fewer")
        # Whose room the cells took, or to whom they gave it back.
        moved = "releases 3 parts" if num_open == BUSY else "keeps more in memory"
        assert f"Answers paused for 0.1 s. The index {moved}: up to " in told
        short = machine.loop.decisions.newest[0].short
        assert short.startswith(told.partition(".")[0])
        assert " answers at once instead of " in short
        assert short.endswith(f". The index {moved}.")
        assert "cells" not in short
    assert machine.sentences("given_up", "refused") == []


def test_a_bound_of_the_index_that_nothing_comes_near_is_not_told_of(machine: LoadedMachine) -> None:
    machine.used_index_bytes = PARTITION_BYTES
    for num_open in (CALM, BUSY, CALM):
        machine.phase(num_open)
    assert len(machine.applied) == 2
    assert not any("The index" in told for told in machine.sentences("placement"))


def test_where_weights_are_streamed_layers_leave_for_the_cells_of_more_answers_and_come_back(
    store: PartitionStore,
) -> None:
    machine = LoadedMachine(ram_bytes=3_900 * MIB, others_bytes=GIB // 2, profile=QUICK, store=store)
    calm, busy, calm_again = (machine.phase(num_open)[-1] for num_open in (CALM, BUSY, CALM))
    assert busy.num_slots >= BUSY > calm.num_slots
    assert busy.num_streamed > calm.num_streamed > 0
    assert busy.num_resident <= calm.num_resident
    assert calm_again == calm


def test_what_a_burst_had_moved_comes_back_once_nobody_asks_although_it_gains_little(store: PartitionStore) -> None:
    # Here sixteen slots cost a question alone less than a tenth: by that gain they would stay for good.
    machine = LoadedMachine(ram_bytes=6_400 * MIB, others_bytes=GIB // 2, profile=QUICK, store=store)
    calm, busy, idle = (machine.phase(num_open)[-1] for num_open in (CALM, BUSY, 0))
    assert busy.num_slots >= BUSY > calm.num_slots
    assert busy.num_resident < calm.num_resident
    assert idle.num_slots < busy.num_slots
    assert idle.num_resident >= calm.num_resident


def _first_change(looks: list[Look], name: str) -> int:
    """The place of the first look in which it is another than in the first."""
    values = [getattr(look, name) for look in looks]
    return next(place for place, value in enumerate(values) if value != values[0])
