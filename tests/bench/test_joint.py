"""Tests for tests.bench.joint: its figures, library, fixed splits and heat map."""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core import ModelShape, Span
from engine.memory.demand import Backlog, Budgets, Demand
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from engine.partitions.schema import chunk_schema
from engine.profiled import ProfiledPlanner
from tests.bench import joint
from tests.bench.confined import Group
from tests.bench.heat_map import heat_map, write_csv
from tests.bench.joint_figures import Answered, Phase, Split, figures, named_ratios, rate
from tests.bench.joint_library import batches
from tests.bench.joint_side import FixedPlanner, as_split, demand_of
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted

PHASES = (Phase("calm", 2, 2), Phase("busy", 8, 4), Phase("calm", 2, 2))
SHAPE = ModelShape("", "llama", 128, (10, 10), 5, 5, (1, 1), 100, 25)


def course(*seconds: float) -> list[Answered]:
    """Returns phases that took these seconds for their answers."""
    latencies = [(1.0,) * phase.answers for phase in PHASES]
    return [
        Answered(taken, latency, pinned_layers=3, index_bytes=100, limit_hits=0)
        for taken, latency in zip(seconds, latencies, strict=True)
    ]


def test_answers_come_back_as_they_were_told() -> None:
    [answered, *_] = course(10, 20, 10)

    assert Answered.heard(json.loads(json.dumps(answered.told()))) == answered
    assert answered.answers_per_minute == 12.0
    assert answered.mean_latency == 1.0


def test_a_rate_is_that_of_all_phases() -> None:
    assert rate(course(10, 20, 10)) == 12.0


def test_ratios_are_to_the_best_and_the_worst_and_to_the_best_of_each_phase() -> None:
    calm_one, busy_one = course(8, 40, 8), course(20, 16, 20)

    named = named_ratios(course(10, 20, 10), {"calm_one": calm_one, "busy_one": busy_one})

    # Each split took 56 seconds, ours 40.
    assert named["best_static"] == pytest.approx(1.4)
    assert named["worst_static"] == pytest.approx(1.4)
    # The best split took 8 of our 10 seconds, and 16 of our 20.
    assert named["best_static_per_phase"] == pytest.approx(0.8)
    assert named.keys() == joint.BOUNDS.keys()


def test_figures_are_told_by_phase() -> None:
    found = figures(PHASES, course(10, 20, 10))

    assert found["answers_per_min"] == 12.0
    assert found["2_busy_answers_per_min"] == 12.0
    assert {"1_calm_latency_s", "3_calm_pinned_layers"} <= found.keys()


def test_a_split_plans_for_a_load_that_does_not_change() -> None:
    backlog = as_split(Backlog(waiting=7, running=1, prompt_tokens=300), Split(4, 0.5))

    assert backlog == Backlog(waiting=0, running=4, prompt_tokens=300)
    assert backlog.num_answers == 4


def test_a_split_has_no_more_under_way_than_it_says() -> None:
    demand, placement = Demand(SHAPE, 128, 8), Placement(0, 2, 0, 1_000, "All in memory.", num_cells=4096, n_ubatch=128)
    for at_once in (1, 2, 8):
        planner = FixedPlanner(Split(at_once, 0.5), Profile)
        found = planner.sharing(placement, Backlog(waiting=8), demand)
        assert found is not None
        assert len(found.step_seconds) == at_once


def test_a_split_gives_the_index_and_the_model_their_shares() -> None:
    fixed = (Span("runtime", "interpreter", "ram", 100), Span("runtime", "driver", "gpu", 900))
    budgets = Budgets(ram_bytes=1_000)
    demand = Demand(SHAPE, 128, 2, fixed=fixed, index_bytes=1_600, partition_bytes=40, budgets=budgets)

    half = demand_of(demand, Split(4, 0.5, 0.5))
    whole = demand_of(demand, Split(8, 0.0))

    assert half.wishes.index_bytes == 0
    assert half.parallel_answers == 4
    # Of 1,000 bytes, 100 are fixed and the index has 200, of which 40 are planned as the partition a search reads; the
    # model has half of the rest.
    assert half.budgets.ram_bytes == 100 + (900 - 160) // 2
    assert whole.budgets.ram_bytes == 1_000


def test_a_split_keeps_its_share_of_the_index_whatever_would_be_faster() -> None:
    (partition_bytes, index_bytes), hardware = (2**20, 2**30), machine(0, 4)
    demand = replace(wanted(MODELS[0]), index_bytes=index_bytes, partition_bytes=partition_bytes, num_partitions=256)
    demand = replace(demand, budgets=Budgets(ram_bytes=5 * 2**29))
    adaptive = ProfiledPlanner(lambda: DESKTOP).plan(hardware, Backlog(), demand)

    placed = {
        share: FixedPlanner(Split(2, share), lambda: DESKTOP).plan(hardware, Backlog(), demand)
        for share in (0.0, 0.5, 1.0)
    }

    assert [placed[share].index_bytes for share in (0.0, 0.5, 1.0)] == [partition_bytes, 2**27, 2**28]
    streamed = [len(placed[share].streamed_layers) for share in (0.0, 0.5, 1.0)]
    assert len(adaptive.streamed_layers) <= streamed[0] < streamed[1] < streamed[2]
    assert all(one.ram_bytes <= 5 * 2**29 for one in placed.values())
    planner = FixedPlanner(Split(2, 1.0), lambda: DESKTOP)
    wanted_now = planner.plan(hardware, Backlog(), demand)
    assert planner.should_change(adaptive, wanted_now, 0.0)
    assert not planner.should_change(wanted_now, wanted_now, 1.0)


def test_synthetic_rows_are_spread_over_the_documents() -> None:
    schema = chunk_schema(4, "test@1")
    blocks = iter([np.eye(4, dtype=np.float32)[[0, 1, 2]], np.eye(4, dtype=np.float32)[[3, 0]]])

    first, second = batches(blocks, np.array([7, 9]), schema)

    assert first.schema == second.schema == schema
    assert first.column("document_id").to_pylist() == [7, 9, 7]
    assert second.column("document_id").to_pylist() == [9, 7]
    names = first.column("row_id").to_pylist() + second.column("row_id").to_pylist()
    assert len(set(names)) == 5
    assert {len(name) for name in names} == {16}


def test_the_map_is_a_grid_with_the_best_of_each_place() -> None:
    rows = [
        {"b": 2.0, "index": 0.0, "rate": 5.0},
        {"b": 2.0, "index": 0.0, "rate": 4.0},
        {"b": 8.0, "index": 1.0, "rate": 10.0},
    ]

    title, heads, calm, busy = heat_map(rows, "b", "index", "rate").splitlines()

    assert title == "rate: b (down) by index (across)"
    assert heads.split() == ["0", "1"]
    assert calm.split() == ["2", "5", "▒▒"]
    assert busy.split() == ["8", "10", "██"]
    assert len(busy) == len(heads)


def test_what_was_found_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = joint.Bench(
        joint.SMALL, tmp_path, Profile(), 100, tmp_path / "model", (), Group(tmp_path, 1), limit_bytes=7
    )
    bench.courses |= {"adaptive": course(10, 20, 10), "even": course(12, 40, 12)}
    bench.swept.append({"at_once": 2, "index_share": 0.0, "pinned_layers": 3, "answers_per_min": 4.0})
    options = argparse.Namespace(json=tmp_path / "figures.json", csv=tmp_path / "sweep.csv")

    assert joint.tell(bench, options)

    written = json.loads(options.json.read_text())
    assert written["ratios"]["best_static"] == pytest.approx(1.6)
    assert written["ours"]["limit_bytes"] == 7.0
    with options.csv.open(newline="") as stream:
        assert list(csv.DictReader(stream)) == [
            {"at_once": "2", "index_share": "0.0", "pinned_layers": "3", "answers_per_min": "4.0"}
        ]
    assert "BROKEN" not in capsys.readouterr().out
    bench.courses["adaptive"] = course(20, 40, 20)
    assert not joint.tell(bench, argparse.Namespace(json=None, csv=None))


def test_a_table_is_written_row_by_row(tmp_path: Path) -> None:
    write_csv(tmp_path / "new" / "table.csv", [{"a": 1, "b": 2}, {"a": 3, "b": 4}])

    assert (tmp_path / "new" / "table.csv").read_text().splitlines() == ["a,b", "1,2", "3,4"]
