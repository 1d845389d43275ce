"""Tests for engine.rehearsing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.errors import WeightsNotRead
from engine.events import Event, MeasuringProgressed
from engine.generation.rehearsal import Rehearsed
from engine.handing_over import Here
from engine.memory.known_profile import KnownProfile
from engine.memory.measured import Beside, Kind, Measured, Point, Split, table_key
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from engine.memory.profile_file import save_profile
from engine.memory_interfaces import InForce
from engine.rehearsing import (
    MOST_IN_VAIN,
    MOST_SECONDS,
    PATIENCE_SECONDS,
    Pass,
    Rehearsing,
    Search,
    Together,
    sentence_of,
    wishes,
)
from engine.retrieval.rehearsal import Searched
from tests.engine.memory.test_ladder import DEMAND, PLACEMENT, SHAPE

RESIDENT = replace(PLACEMENT, n_gpu_layers=0, streamed_layers=(), ring_slots=0, is_repacked=True, n_ubatch=512)
SPLIT, KEY = Split(0, is_repacked=True), table_key(SHAPE)
THREADS = (2, 2)
# On which no pass takes so long that whoever asks meanwhile would notice.
QUICK = Profile(ram_bytes_per_s=1e12, processor_rate=1e13, disk_bytes_per_s=(1e11, 1e11, 1e11))
WANTED = replace(DEMAND, parallel_answers=4)


def done(value: object) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


@dataclass
class Machine:
    """A model and a library that take as long as the test says, and are told what was asked of them."""

    file: Path
    placement: Placement = RESIDENT
    is_loaded: bool = True
    is_busy: bool = False
    has_documents: bool = True
    infeasible_from: int = 10**9
    slowed: float = 2.0
    # Of everything, by something else that goes on: at the next points, and then at all others.
    held_up: list[float] = field(default_factory=lambda: [1.0])
    now: float = 0.0
    seconds_each: float = 1.0
    asked: list[object] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    on_pass: Callable[[Kind, int], None] = lambda kind, size: None

    def __post_init__(self) -> None:
        if not self.file.exists():
            save_profile(self.file, QUICK)
        self.profile = KnownProfile(self.file)
        self.rehearsing = self.opened()

    def opened(self) -> Rehearsing:
        return Rehearsing(
            self.profile,
            self,
            Library(self),
            self.in_force,
            lambda: THREADS,
            self.events.append,
            is_busy=lambda: self.is_busy,
            tell=self.told.append,
            clock=lambda: self.now,
        )

    def in_force(self) -> InForce:
        demand = WANTED if self.is_loaded else replace(WANTED, shape=replace(SHAPE, layer_bytes=()))
        return InForce(demand, Here(self.placement, 0), path=Path("/m.gguf"))

    def rehearse(self, kind: Kind, size: int, until: threading.Event | None = None, num_threads: int = 0) -> Future:
        self.now += self.seconds_each
        if until is not None:
            is_alone = self.asked[-1:] == [("search", 1, None)]
            self.asked.append((kind, size, num_threads))
            seconds = 0.1 * self.holding_up() * (1.0 if is_alone else self.slowed)
            return done(Rehearsed(self.placement, seconds, num_passes=9))
        self.asked.append(Pass(kind, size))
        self.on_pass(kind, size)
        if self.is_busy:
            return done(None)
        return done(Rehearsed(self.placement, None if size >= self.infeasible_from else 0.05 * size))

    def holding_up(self) -> float:
        return self.held_up.pop(0) if len(self.held_up) > 1 else self.held_up[0]

    def table(self) -> Measured:
        return self.profile().table(KEY)

    def measure(self) -> list[MeasuringProgressed]:
        return list(self.rehearsing.points())


@dataclass
class Library:
    machine: Machine

    def rehearse(self, num_questions: int, least_seconds: float, scan_threads: int | None = None) -> Future:
        self.machine.asked.append(("search", num_questions, scan_threads))
        if not self.machine.has_documents:
            return done(None)
        slowed = 1.0 if scan_threads is None else self.machine.slowed
        return done(Searched(0.2 * self.machine.holding_up() * slowed, 5))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "profile.json")


# --- what is missing ---


def missing(measured: Measured, split: Split = SPLIT) -> tuple[object, ...]:
    return wishes(measured, split, 32, 4, 512, THREADS)


def test_everything_is_missing_at_first_the_most_useful_first():
    assert missing(Measured()) == (
        *(Pass("write", size) for size in (1, 2, 4)),
        *(Pass("read", size) for size in (32, 128, 512)),
        *(Search(count) for count in (1, 4, 16)),
        *(Together(*way) for way in ((2, 2), (2, 1), (1, 1))),
    )


def test_sizes_end_where_answers_at_once_and_passes_do():
    sizes = {(one.kind, one.size) for one in wishes(Measured(), SPLIT, 32, 6, 100, THREADS) if isinstance(one, Pass)}
    assert sizes == {("write", 1), ("write", 2), ("write", 4), ("write", 6), ("read", 32), ("read", 100)}


def test_what_is_known_is_not_missing():
    table = Measured().with_point(Point(SPLIT, "write", 2, seconds=1.0)).with_beside(Beside(SPLIT, 2, 2, 0.5, 0.5))
    assert Pass("write", 2) not in missing(table)
    assert Together(2, 2) not in missing(table)
    assert not any(isinstance(wish, Search) for wish in missing(table))
    assert missing(table, Split(0, is_repacked=False)) == missing(Measured())


# --- measuring ---


def test_all_points_are_measured_and_told(machine: Machine):
    told = machine.measure()
    assert [one.done for one in told] == list(range(len(told)))
    assert told[-1].done == told[-1].total == 12
    assert {(one.kind, one.size): one.seconds for one in machine.table().points} == {
        (kind, size): pytest.approx(0.05 * size)
        for kind, sizes in (("write", (1, 2, 4)), ("read", (32, 128, 512)))
        for size in sizes
    }
    assert machine.measure() == []


def test_both_at_once_are_held_against_each_alone(machine: Machine):
    machine.slowed = 2.5
    machine.measure()
    assert [(one.write_threads, one.scan_threads) for one in machine.table().beside] == [(2, 2), (2, 1), (1, 1)]
    assert all(one.searching == pytest.approx(0.4) for one in machine.table().beside)
    assert all(one.writing == pytest.approx(0.4) for one in machine.table().beside)


def together(machine: Machine) -> list[Beside]:
    """What came of it where everything else is known."""
    for wish in missing(Measured()):
        if isinstance(wish, Pass):
            point = Point(SPLIT, wish.kind, wish.size, seconds=0.1)
            machine.profile.note_table(KEY, lambda table, point=point: table.with_point(point))
    # Searches of several questions, of which nothing is held against anything.
    machine.held_up = [1.0] * 3 + machine.held_up
    machine.measure()
    return list(machine.table().beside)


def test_a_first_search_that_finds_nothing_warm_makes_company_no_better(machine: Machine):
    machine.held_up = [30.0, 1.0]
    assert [one.gain for one in together(machine)] == pytest.approx([1.0] * 3)


def test_a_machine_that_gets_slower_meanwhile_makes_company_no_worse(machine: Machine):
    machine.held_up = [1.01**number for number in range(200)]
    assert [one.gain for one in together(machine)] == pytest.approx([1.0] * 3, rel=0.02)


def test_what_holds_one_window_up_is_not_what_counts(machine: Machine):
    # The first search, then both alone; then both together, whose steps are timed first.
    machine.held_up = [1.0, 5.0, 5.0, 1.0]
    assert [one.gain for one in together(machine)] == pytest.approx([1.0] * 3)
    assert all(one.writing <= 1 and one.searching <= 1 for one in machine.table().beside)


def test_nobody_is_faster_in_company(machine: Machine):
    machine.slowed = 0.8
    assert [(one.writing, one.searching) for one in together(machine)] == [(1.0, 1.0)] * 3


def test_who_is_killed_goes_on_behind_the_last_point(machine: Machine):
    points = machine.rehearsing.points()
    for _ in range(3):
        next(points)
    points.close()
    asked = list(machine.asked)
    assert asked == [Pass("write", 1), Pass("write", 2)]
    again = Machine(machine.file)
    again.measure()
    assert again.asked[0] == Pass("write", 4)


def test_a_question_ends_it_and_what_was_under_way_is_measured_again_later(machine: Machine):
    def ask(kind: Kind, size: int) -> None:
        machine.is_busy = (kind, size) == ("write", 4)

    machine.on_pass = ask
    told = machine.measure()
    assert told[-1].done < told[-1].total
    assert [one.size for one in machine.table().points] == [1, 2]
    machine.is_busy, machine.on_pass = False, lambda kind, size: None
    machine.asked.clear()
    machine.measure()
    assert machine.asked[0] == Pass("write", 4)


def test_a_size_that_cannot_be_computed_is_kept_and_nothing_larger_is_tried_again(machine: Machine):
    machine.infeasible_from = 4
    machine.measure()
    assert [one.size for one in machine.table().points if one.kind == "write" and one.is_infeasible] == [4]
    assert Pass("write", 4) not in missing(machine.table())


def test_a_placement_that_changes_meanwhile_ends_it(machine: Machine):
    def move(kind: Kind, size: int) -> None:
        if size == 2:
            machine.placement = replace(RESIDENT, is_repacked=False, streamed_layers=(3,), ring_slots=2)

    machine.on_pass = move
    machine.measure()
    assert Pass("write", 4) not in machine.asked
    assert machine.table().points[-1].split == Split(0, is_repacked=False)


def test_what_the_disk_hides_is_kept_as_such(machine: Machine):
    streamed = tuple(range(1, SHAPE.num_layers))
    machine.placement = replace(RESIDENT, is_repacked=False, streamed_layers=streamed, ring_slots=2)
    next_points = machine.rehearsing.points()
    for _ in range(2):
        next(next_points)
    (point,) = machine.table().points
    assert point.is_hidden
    assert point.seconds is None
    assert not point.is_infeasible


def test_it_takes_minutes_at_most_and_the_rest_another_time(machine: Machine):
    machine.seconds_each = MOST_SECONDS
    machine.measure()
    first = list(machine.asked)
    machine.measure()
    assert len(first) == 2
    assert machine.asked[2:4] == [Pass("write", 4), Pass("read", 32)]


def test_a_library_without_documents_is_not_asked_over_and_over(machine: Machine):
    machine.has_documents = False
    for _ in range(MOST_IN_VAIN):
        machine.measure()
    machine.asked.clear()
    assert machine.measure() == []
    assert machine.table().beside == ()


def test_without_a_model_there_is_nothing_to_measure(machine: Machine):
    machine.is_loaded = False
    machine.rehearsing.start()
    assert machine.measure() == []
    assert machine.events == []


def test_in_the_background_it_tells_how_far_it_is_and_what_came_of_it(machine: Machine):
    machine.rehearsing.start()
    machine.rehearsing.close()
    assert machine.events[-1] == MeasuringProgressed(0, 0)
    assert len(machine.told) <= 1
    again = machine.opened()
    while machine.rehearsing._missing():
        again.start()
    again.close()
    assert machine.told == [sentence_of(machine.table(), SPLIT, SHAPE.name)]


@pytest.mark.expects_warnings
def test_a_disk_that_fails_ends_it_and_nothing_else(machine: Machine):
    def fail(kind: Kind, size: int) -> None:
        raise WeightsNotRead("The disk does not answer.", "Try again.")

    machine.on_pass = fail
    machine.rehearsing.start()
    while machine.events[-1:] != [MeasuringProgressed(0, 0)]:
        pass
    machine.rehearsing.close()
    assert machine.told == []


def test_the_sentence_names_the_ends_of_the_table_and_what_both_at_once_do():
    table = (
        Measured().with_point(Point(SPLIT, "write", 1, seconds=0.05)).with_point(Point(SPLIT, "write", 8, seconds=0.2))
    )
    table = table.with_beside(Beside(SPLIT, 2, 2, 0.5, 0.75))
    assert sentence_of(table, SPLIT, "m") == (
        "Measured m: 20 tokens/s with 1 at once, 40 tokens/s with 8 at once. "
        "Writing and searching at once do 1.25 times what they do in turn."
    )


def test_a_pass_that_somebody_would_wait_for_is_not_tried(machine: Machine):
    save_profile(machine.file, replace(QUICK, processor_rate=1e11))
    slow = Machine(machine.file)
    slow.measure()
    assert Pass("write", 1) in slow.asked
    assert Pass("read", 512) not in slow.asked
    slow.asked.clear()
    slow.measure()
    assert slow.asked == []


def test_only_one_measures_at_a_time_and_after_an_error_it_is_let_be(machine: Machine):
    points = machine.rehearsing.points()
    next(points)
    assert machine.rehearsing.is_under_way
    assert list(machine.rehearsing.points()) == []
    machine.rehearsing.start()
    assert machine.asked == []

    def fail(kind: Kind, size: int) -> None:
        raise WeightsNotRead("The disk does not answer.", "Try again.")

    machine.on_pass = fail
    with pytest.raises(WeightsNotRead):
        next(points)
    assert not machine.rehearsing.is_under_way
    machine.asked.clear()
    machine.rehearsing.start()
    assert not machine.rehearsing.is_under_way
    machine.now += PATIENCE_SECONDS
    machine.on_pass = lambda kind, size: None
    machine.measure()
    # What failed is not tried again by this process.
    assert machine.asked[0] == Pass("write", 2)


def test_what_a_command_came_between_is_measured_once_more_and_what_comes_to_nothing_again_is_let_be(machine: Machine):
    machine.has_documents = False
    machine.measure()
    num_searches = len([one for one in machine.asked if isinstance(one, tuple)])
    machine.asked.clear()
    machine.measure()
    assert len(machine.asked) == num_searches > 0
    machine.asked.clear()
    machine.measure()
    assert machine.asked == []
