"""Tests for engine.profiled: when so much more is known of a machine that another plan may come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from engine.core import Span
from engine.memory.demand import BOUND_TO_COME, Backlog, Budgets, Demand, Wishes
from engine.memory.measured import Measured, Point, Split, table_key
from engine.memory.profile import PassObserved, Profile, ReadsObserved, refined
from engine.memory.work import Work
from engine.profiled import NOTABLE_SHARE, ProfiledPlanner
from tests.helpers.machines import DESKTOP, GIB, MIB, MODELS, machine, wanted
from tests.helpers.scripted_machine import NO_SHAPE

SHAPE = MODELS[1]
POINT = Point(Split(), "write", 1, Work(processor_bytes=1e9), 0.1)


@dataclass
class Known:
    """A planner that has planned with `profile`, which can be changed behind its back."""

    profile: Profile = DESKTOP

    def __post_init__(self) -> None:
        self.planner = ProfiledPlanner(lambda: self.profile)
        self.plan()

    def plan(self) -> None:
        self.planner.plan(machine(8, 32), Backlog(), wanted(SHAPE))

    def is_news(self, change: Callable[[Profile], Profile]) -> bool:
        self.profile = change(self.profile)
        return self.planner.knows_better()


def with_point(point: Point, key: str = table_key(SHAPE)) -> Callable[[Profile], Profile]:
    return lambda profile: profile.with_table(key, profile.table(key).with_point(point))


def faster(by: float) -> Callable[[Profile], Profile]:
    return lambda profile: replace(profile, disk_bytes_per_s=tuple(rate * by for rate in profile.disk_bytes_per_s))


def test_nothing_is_news_where_nothing_was_learnt():
    assert not Known().planner.knows_better()


def test_a_small_refinement_is_no_news_and_many_of_them_are_in_the_end():
    known = Known()
    times = [known.is_news(faster(1.01)) for _ in range(7)]
    assert times == [False] * 5 + [True] * 2
    known.plan()
    assert not known.is_news(faster(1.01))


@pytest.mark.parametrize(
    "change",
    [
        lambda profile: replace(profile, is_measured=not profile.is_measured),
        lambda profile: replace(profile, card="Another card"),
        lambda profile: replace(profile, offloads_from_tokens=profile.offloads_from_tokens + 1),
        lambda profile: replace(profile, retrieval_load_s=2 * profile.retrieval_load_s),
        lambda profile: replace(profile, step_s=profile.step_s / 2),
        faster(1 + 2 * NOTABLE_SHARE),
        with_point(POINT),
    ],
)
def test_what_was_measured_is_news_once(change: Callable[[Profile], Profile]):
    known = Known()
    assert known.is_news(change)
    known.plan()
    assert not known.planner.knows_better()


def test_a_point_that_takes_another_time_is_news_and_one_that_is_refined_is_not():
    known = Known(with_point(POINT)(DESKTOP))
    assert not known.is_news(with_point(replace(POINT, seconds=0.102)))
    assert known.is_news(with_point(replace(POINT, seconds=0.12)))
    assert known.is_news(with_point(replace(POINT, seconds=None)))


def test_what_is_measured_of_another_model_is_no_news():
    assert not Known().is_news(with_point(POINT, "another"))


def test_what_a_pause_takes_is_for_judging_a_plan_and_not_for_making_it():
    known = Known()
    assert not known.is_news(lambda profile: replace(profile, context_change_s=9.0, load_bytes_per_s=1e7))


def test_without_a_model_nothing_that_is_learnt_matters():
    known = Known()
    known.planner.plan(machine(8, 32), Backlog(), replace(wanted(SHAPE), shape=NO_SHAPE))
    assert not known.is_news(faster(2.0))


def test_a_pass_like_all_others_and_reads_as_fast_as_ever_are_no_news():
    known = Known(DESKTOP.with_table(table_key(SHAPE), Measured((POINT,))))
    for _ in range(50):
        seen = PassObserved(POINT.work, 0.101, 0.0, table_key(SHAPE), Split(), "write", 1)
        assert not known.is_news(lambda profile, seen=seen: refined(profile, seen))
        reads = ReadsObserved(10**9, 10**9 / DESKTOP.stream_bytes_per_s * 0.98)
        assert not known.is_news(lambda profile, reads=reads: refined(profile, reads))


# --- a reranker that is not there yet ---

HARDWARE = machine(0, 16)


def beside_reranker(num_bytes: int, **changes: object) -> Demand:
    demand = wanted(MODELS[0], **changes)
    return replace(demand, fixed=(*demand.fixed, Span("reranker", BOUND_TO_COME, "ram", num_bytes)))


@pytest.mark.parametrize("may_lose", [False, True])
@pytest.mark.parametrize("is_streamable", [False, True])
@pytest.mark.parametrize("budget_bytes", [1200 * MIB, 1500 * MIB, 3 * GIB, 4 * GIB])
def test_no_model_runs_badly_for_a_reranker_that_has_no_room_beside_it(
    budget_bytes: int, is_streamable: bool, may_lose: bool
):
    changes = {
        "budgets": Budgets(None, budget_bytes),
        "is_streamable": is_streamable,
        "wishes": Wishes(may_lose=may_lose),
    }
    planner = ProfiledPlanner(lambda: DESKTOP)
    without = planner.placed(HARDWARE, Backlog(), wanted(MODELS[0], **changes))
    for num_bytes in (budget_bytes // 2, budget_bytes, 100 * GIB):
        placement = planner.placed(HARDWARE, Backlog(), beside_reranker(num_bytes, **changes))
        is_left_out = not any(span.owner == "reranker" for span in placement.spans)
        if is_left_out:
            assert placement == without
        else:
            assert not placement.is_starved
            assert not placement.num_concessions
        assert is_left_out or num_bytes < budget_bytes
        # Whether it changes is judged by the same.
        assert planner.plan(HARDWARE, Backlog(), beside_reranker(num_bytes, **changes)) == placement


def test_a_reranker_that_has_room_beside_the_model_finds_it():
    placement = ProfiledPlanner(lambda: DESKTOP).placed(HARDWARE, Backlog(), beside_reranker(500 * MIB))
    assert [span.num_bytes for span in placement.spans if span.owner == "reranker"] == [500 * MIB]
    assert placement.fits


def test_an_index_without_a_model_keeps_what_it_can_where_a_reranker_has_no_room():
    planner = ProfiledPlanner(lambda: DESKTOP)

    def index_bytes(reranker_bytes: int) -> int:
        demand = beside_reranker(reranker_bytes, budgets=Budgets(None, 2 * GIB))
        return planner.placed(HARDWARE, Backlog(), replace(demand, shape=NO_SHAPE)).index_bytes

    assert index_bytes(GIB) == index_bytes(0) - GIB > 0
    assert index_bytes(3 * GIB) == index_bytes(0)
