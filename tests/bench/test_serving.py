"""Tests for tests.bench.serving: its loads, figures, order of measurements, and the variants of our side."""

from __future__ import annotations

import argparse
import csv
import json
import random
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core import ModelShape, Passage, Question
from engine.generation.batching import Batching
from engine.generation.evidence import EvidencePassage
from engine.generation.pass_times import PassTimes
from engine.inflight import QuestionInFlight
from engine.memory import search
from engine.memory.demand import Backlog, Demand
from engine.memory.measured import Measured
from engine.models.gguf import read_shape
from tests.bench import report, serving
from tests.bench.azure import Length
from tests.bench.peers import PeerFailed
from tests.bench.plain_retrieval import plain_prompt
from tests.bench.real_library import Library, Text
from tests.bench.serving import FULL, LOADS, SMALL, Step, left, sides_of, steps
from tests.bench.serving_evidence import as_read
from tests.bench.serving_figures import (
    BOUNDS,
    OWN_RATE,
    RECORDED,
    Key,
    Moment,
    Run,
    Served,
    bound,
    bounds_of,
    busy_seconds,
    by_side,
    capacity_per_s,
    figures,
    gang_capacity_per_s,
    idle_shares,
    in_overload,
    interval,
    judged_beside,
    medians,
    named_ratios,
    percentile,
    phases_of,
    promised,
    ratio,
    shares,
    table,
    tails,
    without_one_thing,
)
from tests.bench.serving_load import (
    PLACE_TOKENS,
    Asked,
    Extent,
    Load,
    Place,
    arrivals_of,
    moving_poisson,
    places,
    questions,
    read_stamps,
    recorded,
)
from tests.bench.serving_our_side import Grown
from tests.bench.serving_plot import Line, arrival_rates, panels, stairs, write_moments
from tests.bench.serving_ways import DEFAULTS, WAYS, FullBatches, GangRoom, Way
from tests.bench.simulated_runs import Planned, Steps, read_runs
from tests.bench.whole_layers import next_layer_only
from tests.helpers.loop_parts import Parts, prompt
from tests.helpers.tiny_gguf import write_tiny_model

EXTENT = Extent(prompt_tokens_per_passage=500, most_passages=3, answer_divisor=10, most_answer_tokens=20)
SHAPE = ModelShape("", "llama", 128, (10, 10), 5, 5, (1, 1), 100, 25)


def served(*latencies: float, apart: float = 10.0) -> Run:
    """Returns questions `apart` seconds apart: a tenth each is waiting, searching and reading, the rest writing."""
    return Run(
        tuple(
            Served(
                arrival_s=begin,
                retrieval_began_s=begin + latency / 10,
                retrieval_ended_s=begin + latency * 2 / 10,
                prefill_began_s=begin + latency * 2 / 10,
                first_token_s=begin + latency * 3 / 10,
                ended_s=begin + latency,
                prompt_tokens=100,
                cached_tokens=40,
                answer_tokens=8,
            )
            for begin, latency in zip((apart * place for place in range(len(latencies))), latencies, strict=True)
        )
    )


def library(**words: int) -> Library:
    """Returns documents of these numbers of words; by default two of 200, and one that is too short for questions."""
    texts = []
    for name, count in (words or {"a": 200, "b": 200, "c": 3}).items():
        named = [f"{name}{number}" for number in range(count)]
        text, offsets, start = " ".join(named), [], 0
        for word in named:
            offsets.append((start, start + len(word)))
            start += len(word) + 1
        texts.append(Text(text, tuple(offsets)))
    return Library((), (), (), tuple(texts))


# --- the load ---


def test_a_moving_poisson_process_has_its_rate_on_the_average_and_four_times_as_many_in_the_middle() -> None:
    count, per_second = 6_000, 2.0

    arrivals = moving_poisson(count, per_second, seed=1)

    assert arrivals == sorted(arrivals)
    seconds = count / per_second
    assert arrivals[-1] == pytest.approx(seconds, rel=0.1)
    middle = sum(seconds / 3 <= arrival < 2 * seconds / 3 for arrival in arrivals)
    # 16 of 24 parts.
    assert middle == pytest.approx(count * 2 / 3, rel=0.05)


def test_the_same_seed_gives_the_same_moments_at_any_rate() -> None:
    slow, fast = moving_poisson(50, 1.0, seed=3), moving_poisson(50, 2.0, seed=3)

    assert slow == pytest.approx([2 * moment for moment in fast])
    assert slow != pytest.approx(moving_poisson(50, 1.0, seed=4))


def test_recorded_moments_keep_their_shape_at_another_rate() -> None:
    stamps = [100.0, 101.0, 103.0, 107.0]

    arrivals = recorded(stamps, 4, per_second=1.0, seed=1)

    # Three gaps, seven seconds in total, at one question per second.
    assert arrivals == pytest.approx([0.0, 3 / 7, 9 / 7, 3.0])


def test_stamps_are_read_with_seven_digits_of_a_second(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9305900,396,109\n"
    )

    first, second = read_stamps(file)

    assert second - first == pytest.approx(4.25)


def test_questions_that_are_asked_alone_come_when_they_like() -> None:
    assert arrivals_of(Load("alone"), 3, 1.0, (), seed=1) == [0.0, 0.0, 0.0]
    assert arrivals_of(Load("at_once"), 3, 1.0, (), seed=1) == [0.0, 0.0, 0.0]
    assert arrivals_of(Load("poisson_own", 0.5), 3, 4.0, (), seed=1) == moving_poisson(3, 2.0, seed=1)
    assert [Load("alone").name, Load("at_once").name, Load("poisson_own", 0.9).name] == ["alone", "at_once", OWN_RATE]
    assert Load("poisson", 0.9).name == "poisson_0.9"


def test_lengths_of_the_trace_become_work_within_bounds() -> None:
    assert (EXTENT.passages(Length(10, 1)), EXTENT.answer_tokens(Length(10, 1))) == (1, 2)
    assert (EXTENT.passages(Length(1_000, 100)), EXTENT.answer_tokens(Length(1_000, 100))) == (2, 10)
    assert (EXTENT.passages(Length(9_000, 900)), EXTENT.answer_tokens(Length(9_000, 900))) == (3, 20)


def test_places_are_dealt_out_to_the_documents_that_have_room() -> None:
    assert [place.text for place in places(library(), 5)] == [0, 1, 0, 1, 0]


def test_questions_are_words_of_their_places_and_the_same_at_any_rate() -> None:
    about, lengths = [Place(0, 10), Place(1, 20)], [Length(600, 30), Length(1_600, 300)]

    slow = list(questions(library(), about, [0.0, 5.0, 9.0], lengths, EXTENT, seed=2))
    fast = list(questions(library(), about, [0.0, 0.5, 0.9], lengths, EXTENT, seed=2))

    assert [one.text for one in slow] == [one.text for one in fast]
    assert [one.arrival_s for one in fast] == [0.0, 0.5, 0.9]
    for one in slow:
        assert any(one.text in text.text for text in library().texts)
        assert len(one.text) <= 120
    assert Asked.heard(json.loads(json.dumps(slow[0].told()))) == slow[0]


def test_few_places_get_most_of_the_questions() -> None:
    about = [Place(0, PLACE_TOKENS * number) for number in range(100)]
    asked = questions(library(a=6_400), about, [0.0] * 400, [Length(1, 1)], EXTENT, seed=5)

    counted = Counter(int(one.text.split()[0][1:]) // PLACE_TOKENS for one in asked)
    assert sum(count for _, count in counted.most_common(3)) / 400 == pytest.approx(0.6, abs=0.1)
    assert len(counted) > 20


# --- what becomes of it ---


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert percentile(values, 0.5) == 3.0
    assert percentile(values, 0.95) == 5.0
    assert percentile([7.0], 0.5) == 7.0
    random.Random(1).shuffle(values)
    assert percentile(values, 0.2) == 1.0


def test_what_overlaps_is_busy_once() -> None:
    assert busy_seconds([(0.0, 2.0), (1.0, 3.0), (1.5, 1.6), (5.0, 6.0)]) == pytest.approx(4.0)
    assert busy_seconds([]) == 0.0


def test_shares_say_where_the_time_of_questions_went() -> None:
    found = shares(served(10.0, 20.0).served)

    assert found == {
        "waiting_share": pytest.approx(0.1),
        "retrieval_share": pytest.approx(0.1),
        "prefill_share": pytest.approx(0.1),
        "decode_share": pytest.approx(0.7),
    }


def test_a_prompt_that_was_read_during_its_search_did_not_wait() -> None:
    one = Served(0.0, 1.0, 5.0, 3.0, 6.0, 8.0)

    assert one.stages_s == {"waiting": 1.0, "retrieval": 4.0, "prefill": 1.0, "decode": 2.0}
    assert sum(one.stages_s.values()) == one.latency_s


def test_waiting_is_also_that_for_the_model() -> None:
    one = Served(0.0, 1.0, 2.0, 5.0, 6.0, 8.0)

    assert one.stages_s["waiting"] == 1.0 + 3.0
    assert sum(one.stages_s.values()) == one.latency_s


def test_stages_are_idle_when_no_question_is_in_them() -> None:
    found = idle_shares(served(10.0, 10.0).served)

    # From 0 to 20 s: searched from 1 to 2 and 11 to 12, read and written from 2 to 10 and 12 to 20.
    assert found == {"retrieval_idle": pytest.approx(0.9), "generation_idle": pytest.approx(0.2)}


def test_figures_and_medians_of_runs() -> None:
    first, second, third = served(1.0, 3.0), served(2.0, 4.0), served(9.0, 9.0)

    assert figures(first)["mean_s"] == pytest.approx(2.0)
    assert figures(first)["max_s"] == pytest.approx(3.0)
    assert figures(first)["ttft_mean_s"] == pytest.approx(0.6)
    assert medians([first, second, third])["mean_s"] == pytest.approx(3.0)
    assert capacity_per_s(first) == pytest.approx(0.5)


def test_runs_come_back_as_they_were_told() -> None:
    run = Run(served(1.0, 2.0).served, (Moment(0.5, 1, 1, 4, 100, 3),), {"streamed_bytes": 7.0})

    assert Run.heard(json.loads(json.dumps(run.told()))) == run


def test_ratios_are_paired_by_seed_and_over_as_many_questions_as_both_were_asked() -> None:
    found = {
        Key("oversubscribed", "ours", "poisson_0.9"): [served(1.0, 9.0), served(2.0, 2.0)],
        Key("oversubscribed", "serial_batched", "poisson_0.9"): [served(10.0, 10.0), served(8.0, 8.0)],
        Key("oversubscribed", "accelerate", "poisson_0.9"): [served(30.0)],
        Key("oversubscribed", "ours", "alone"): [served(1.0)],
        Key("oversubscribed", "serial", "alone"): [served(0.98)],
        Key("fits", "ours", "poisson_1.2"): [served(1.0)],
        Key("fits", "serial", "poisson_1.2"): [served(5.0)],
    }

    named = named_ratios(found)

    assert named == {
        # 10 ÷ 5 and 8 ÷ 2.
        "serial_batched": pytest.approx(3.0),
        # This side was asked one question, which took ours a second.
        "accelerate": pytest.approx(30.0),
        "one_at_a_time": pytest.approx(0.98),
        "serial_overload_fits": pytest.approx(5.0),
    }
    assert bound(named).keys() == {"serial_batched", "one_at_a_time"}
    assert report.unmeasured({"serial_batched": 2.5}, named) == []
    assert ratio(found, "fits", "llama_server", "poisson_0.9") is None


def test_an_interval_is_of_questions_in_pairs_and_narrow_where_all_of_them_say_the_same() -> None:
    key = ("oversubscribed", "poisson_0.9")
    found = {
        Key(key[0], "ours", key[1]): [served(*range(1, 41)), served(*range(1, 41))],
        Key(key[0], "no_tree", key[1]): [served(*(1.5 * s for s in range(1, 41)))] * 2,
        Key(key[0], "no_ring", key[1]): [served(*(s * (3.0 if s % 2 else 0.5) for s in range(1, 41)))],
    }

    assert interval(found, key[0], "no_tree", key[1]) == pytest.approx((1.5, 1.5))
    low, high = interval(found, key[0], "no_ring", key[1]) or (0.0, 0.0)
    assert 1.0 < low < ratio(found, key[0], "no_ring", key[1]) < high < 2.6
    assert interval(found, key[0], "no_drafting", key[1]) is None
    assert interval(found, key[0], "no_ring", key[1]) == (low, high)


def test_ratios_at_recorded_moments_bind_where_peers_have_bounds_and_those_of_code_are_told() -> None:
    azure, code = RECORDED["azure"], RECORDED["code"]
    found = {
        Key("fits", "ours", azure): [served(1.0, 1.0)],
        Key("fits", "serial", azure): [served(4.0, 4.0)],
        Key("fits", "llama_server", azure): [served(2.0, 2.0)],
        Key("fits", "ours", code): [served(1.0, 1.0)],
        Key("fits", "llama_server", code): [served(3.0, 3.0)],
    }

    named = named_ratios(found)

    assert named == {
        "serial_azure_fits": pytest.approx(4.0),
        "llama_server_azure_fits": pytest.approx(2.0),
        "llama_server_code_fits": pytest.approx(3.0),
    }
    assert bound(named).keys() == {"llama_server_azure_fits"}
    assert {trace: Load(trace, 0.9).name for trace in ("azure", "code")} == RECORDED


def test_at_recorded_moments_everybody_with_a_bound_there_is_asked() -> None:
    asked = [
        step for step in steps(FULL, "oversubscribed", FULL.sides["oversubscribed"]) if step.load.arrivals != "poisson"
    ]

    curve = {"ours", "serial", "serial_batched", "llama_server"}
    assert {step.side for step in asked if step.load.arrivals == "azure"} == curve | {"llama_server_with_ring"}
    assert {step.side for step in asked if step.load.arrivals == "code"} == curve
    assert bounds_of("fits", "azure") == ["serial_batched", "llama_server"]
    assert bounds_of("scarce", "azure") == []


def test_where_memory_is_scarcest_one_rate_is_asked_for() -> None:
    asked = list(steps(FULL, "scarce", FULL.sides["scarce"]))

    assert {step.load.name for step in asked} == {"alone", "poisson_0.9"}
    assert sides_of(FULL, "scarce", ["no_ring"]) == ["ours", "serial", "no_ring"]


def test_an_ablation_that_may_be_as_fast_is_not_shown() -> None:
    ours = [served(*range(1, 41))]
    found = {
        Key("fits", "ours", "poisson_0.9"): ours,
        Key("fits", "no_tree", "poisson_0.9"): [served(*(1.5 * s for s in range(1, 41)))],
        Key("fits", "no_drafting", "poisson_0.9"): ours,
    }

    told = without_one_thing(found, "fits", ("no_tree", "no_ring", "no_drafting"))
    assert {side: is_shown for side, (_, is_shown) in told.items()} == {"no_tree": True, "no_drafting": False}
    (slower, _), (alike, _) = told.values()
    assert slower.split()[:3] == ["fits,", "no_tree", "1.500"]
    assert slower.endswith("95 % interval 1.500 to 1.500")
    assert alike.split()[:3] == ["fits,", "no_drafting", "1.000"]
    assert alike.endswith(": not shown")


def test_tails_are_those_of_the_peers_that_bounds_are_for() -> None:
    found = {
        Key("fits", "ours", "poisson_0.9"): [served(1.0, 2.0, 10.0)],
        Key("fits", "llama_server", "poisson_0.9"): [served(5.0, 5.0, 5.0)],
        Key("fits", "no_tree", "poisson_0.9"): [served(5.0)],
    }

    assert tails(found, "fits") == {"p95_llama_server_fits": 0.5, "max_llama_server_fits": 0.5}
    assert tails(found, "oversubscribed") == {}


def test_in_overload_waiting_is_held_against_the_serial_peers() -> None:
    ours = Run((Served(0.0, 1.0, 2.0, 2.0, 3.0, 10.0),))
    theirs = Run((Served(0.0, 19.0, 20.0, 21.0, 22.0, 30.0),))
    found = {
        Key("oversubscribed", "ours", "poisson_1.2"): [ours],
        Key("oversubscribed", "serial", "poisson_1.2"): [theirs],
    }

    # Searching takes one second of twenty, reading and writing eight of ten.
    assert in_overload(found, "oversubscribed") == {
        "overload_waiting": pytest.approx(1 / 20),
        "overload_idle": pytest.approx(0.2),
    }
    assert in_overload(found, "fits") == {}


def test_every_bound_is_of_something_that_a_full_run_measures() -> None:
    assert promised(FULL.sides) == BOUNDS
    assert promised({"fits": ["ours", "serial", "no_tree"]}).keys() == {"one_at_a_time_fits"}
    # Sides that are not measured have no bounds.
    sides = {"oversubscribed": ["ours", "serial", "serial_batched"]}
    assert promised(sides, [OWN_RATE]).keys() == {"one_at_a_time", "serial_batched_own_rate"}
    assert promised(sides, ["poisson_0.9"]).keys() == {"one_at_a_time", "serial_batched"}
    assert promised(sides, ["poisson_1.2"]).keys() == {"one_at_a_time", "serial_overload"}
    assert promised(sides, ["azure_0.9"]).keys() == {"one_at_a_time", "serial_batched_azure"}


def test_who_answers_in_gangs_manages_as_many_as_end_where_all_wait() -> None:
    # Ten and twenty seconds, both from the start.
    assert gang_capacity_per_s(served(10.0, 20.0, apart=0.0)) == pytest.approx(0.1)


def test_at_its_own_rate_the_peer_in_gangs_has_a_ratio_of_its_own() -> None:
    found = {
        Key("oversubscribed", "ours", OWN_RATE): [served(1.0, 1.0)],
        Key("oversubscribed", "serial_batched", OWN_RATE): [served(3.0, 3.0)],
        Key("oversubscribed", "ours", "poisson_0.9"): [served(1.0, 1.0)],
        Key("oversubscribed", "serial_batched", "poisson_0.9"): [served(2.0, 2.0)],
    }

    named = named_ratios(found)

    assert named == {"serial_batched": pytest.approx(2.0), "serial_batched_own_rate": pytest.approx(3.0)}
    assert bound(named) == named


def test_a_table_has_a_line_for_each_side_and_ours_first() -> None:
    found = {
        Key("fits", "serial", "poisson_0.9"): [served(5.0)],
        Key("fits", "ours", "poisson_0.9"): [served(1.0)],
        Key("fits", "ours", "alone"): [served(1.0)],
    }

    title, heads, ours, serial = table(found, "fits", "poisson_0.9")

    assert title == "fits, poisson_0.9:"
    assert ours.split()[0] == "ours"
    assert serial.split()[:2] == ["serial", "5"]
    assert len(heads) == len(ours)
    assert table(found, "oversubscribed", "alone") == []
    assert by_side(found)["serial"]["fits_poisson_0.9_max_s"] == pytest.approx(5.0)


# --- the order ---


def test_what_rates_are_made_of_is_measured_first() -> None:
    for size in (FULL, SMALL):
        first = next(steps(size, "fits", size.sides["fits"]))
        assert first == Step("serial", Load("alone"), size.seeds[0])


def test_everybody_is_asked_at_the_rate_that_is_judged_and_ablations_once() -> None:
    asked = list(steps(FULL, "oversubscribed", FULL.sides["oversubscribed"]))
    judged = [step for step in asked if step.load.name == "poisson_0.9"]

    assert {step.side for step in judged} == set(FULL.sides["oversubscribed"])
    assert sum(step.side == "no_tree" for step in asked) == 1
    of_all = steps(replace(FULL, all_ablations=True), "oversubscribed", FULL.sides["oversubscribed"])
    assert sum(step.side == "no_tree" for step in of_all) == len(FULL.seeds)
    assert sum(step.side == "llama_server" for step in judged) == len(FULL.seeds)
    assert sum(step.side == "serial" and step.load.name == "poisson_1.2" for step in asked) == len(FULL.seeds)
    assert {step.load.factor for step in asked if step.load.arrivals == "poisson"} == set(
        FULL.factors["oversubscribed"]
    )


def test_loads_that_are_named_are_asked_and_no_others() -> None:
    sides = FULL.sides["oversubscribed"]
    for size, is_asked in ((FULL, True), (SMALL, False)):
        assert (OWN_RATE in {step.load.name for step in steps(size, "oversubscribed", sides)}) == is_asked
    for named in LOADS:
        asked = list(steps(FULL, "oversubscribed", sides, [named]))
        assert {step.load.name for step in asked} - {"at_once"} == {"alone", named}
    own = [step for step in asked if step.load.name not in ("alone",)]
    # The measurements that determine rates come first.
    assert own[: len(FULL.seeds)] == [Step("serial_batched", Load("at_once"), seed) for seed in FULL.seeds]
    assert {step.side for step in own[len(FULL.seeds) :]} == {"ours", "serial_batched"}
    assert len(own) == 3 * len(FULL.seeds)


def failing(*fails: tuple[str, str], **options: Any) -> tuple[serving.Bench, list[tuple[str, str, int]]]:
    """Returns a bench whose sides fail at these loads, and the list of what it measures, in order."""
    bench, asked = serving.Bench.__new__(serving.Bench), list[tuple[str, str, int]]()
    bench.size, bench.found, bench.server, bench.interpreters = FULL, {}, None, {}
    bench.options = argparse.Namespace(only=["serial_batched"], json=None, csv=None, runs=None, plot=None, load=())
    vars(bench.options).update(options)

    def measure(regime: serving.Regime, step: Step) -> None:
        asked.append((step.side, step.load.name, step.seed))
        if (step.side, step.load.name) in fails:
            raise PeerFailed("It was killed.")
        bench.found.setdefault(Key(regime, step.side, step.load.name), []).append(served(1.0, 2.0))

    bench.measure = measure  # type: ignore[attr-defined]
    return bench, asked


@pytest.fixture
def unmeasuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes benches skip the model's profile, and measure by a `measure` that the test sets."""
    monkeypatch.setattr(serving, "Bench", type("Bench", (serving.Bench,), {}))
    monkeypatch.setattr(serving.Bench, "_rehearse", lambda bench, regime: None)
    monkeypatch.setattr(serving.Bench, "_measure", lambda bench, regime, step: bench.measure(regime, step))


@pytest.mark.usefixtures("unmeasuring")
@pytest.mark.parametrize("side", ["ours", "serial"])
def test_a_load_at_which_ours_or_the_serial_peer_fails_is_dropped_and_the_rest_measured(
    side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, asked = failing((side, "poisson_1.2"))

    bench.run("oversubscribed")

    assert [name for one, name, _ in asked if one == side].count("poisson_1.2") == 1
    assert Key("oversubscribed", side, "poisson_1.2") not in bench.found
    for load in ("poisson_0.9", "poisson_1.5", "azure_0.9"):
        assert bench.found[Key("oversubscribed", side, load)]
    assert len(bench.found[Key("oversubscribed", "serial_batched", "poisson_1.2")]) == len(FULL.seeds)
    assert f"{side} is left out at poisson_1.2: It was killed." in capsys.readouterr().err


@pytest.mark.usefixtures("unmeasuring")
@pytest.mark.parametrize("side", ["ours", "serial"])
def test_without_what_rates_are_made_of_there_is_nothing_to_go_on_with(side: str) -> None:
    bench, asked = failing((side, "alone"))

    with pytest.raises(PeerFailed):
        bench.run("oversubscribed")

    assert {name for _, name, _ in asked} == {"alone"}


@pytest.mark.usefixtures("unmeasuring")
def test_another_peer_that_fails_is_left_out_from_there_on() -> None:
    bench, asked = failing(("serial_batched", "at_once"), load=["poisson_0.9", OWN_RATE])

    bench.run("oversubscribed")

    # Without its capacity, there is no load at its own rate.
    assert asked[-1] == ("serial_batched", "at_once", FULL.seeds[0])
    assert bench.found[Key("oversubscribed", "serial_batched", "poisson_0.9")]


@pytest.mark.usefixtures("unmeasuring")
def test_rates_are_those_of_whoever_they_are_named_by() -> None:
    bench, _ = failing(load=[OWN_RATE])
    bench.found = {
        Key("fits", "serial", "alone"): [served(2.0, 2.0)],
        Key("fits", "serial_batched", "at_once"): [served(4.0, 8.0, apart=0.0)],
    }
    rates = [bench._capacity_for("fits", load) for load in (Load("poisson", 0.9), Load("poisson_own", 0.9))]
    assert rates == [pytest.approx(1 / 2), pytest.approx(2 / 8)]


class TellingSide:
    """A side that gives the same answer to everything, and returns plans."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []

    def ask(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(set(asked))
        planned = {"alone_bytes": 5.0, "streamed_bytes": [5.0, 7.0], "bytes_per_s": 10.0}
        return planned if "plans" in asked else served(1.0).told()


def test_what_is_planned_is_told_where_questions_came_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, side = serving.Bench.__new__(serving.Bench), TellingSide()
    bench.found, bench.step_times = {}, {"fits": Steps({1: 0.1}, 0.75, 0.5, {"serial_batched": Planned()})}
    monkeypatch.setattr(serving.Bench, "_asked", lambda bench, regime, step: [])
    monkeypatch.setattr(serving.Bench, "_opened", lambda bench, regime, name: nullcontext(side))

    bench._measure("fits", Step("ours", Load("alone"), 1))
    bench._measure("fits", Step("ours", Load("poisson", 0.9), 1))

    assert side.asked == [{"asked", "is_alone"}, {"plans"}, {"asked", "is_alone"}]
    planned = {"serial_batched": Planned(), "ours": Planned(5.0, (5.0, 7.0), 10.0)}
    assert bench.step_times == {"fits": Steps({1: 0.1}, 0.75, 0.5, planned)}
    assert {key.load for key in bench.found} == {"alone", "poisson_0.9"}


def test_a_server_that_cannot_be_built_is_left_out_and_its_bounds_are_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(folder: Path) -> Path:
        raise PeerFailed("llama-server is built by CMake, which is not installed.")

    monkeypatch.setattr(serving.peers, "llama_server", fail)
    options = argparse.Namespace(regime=("fits",), only=None, quick=False, peers=tmp_path)

    assert serving._server(options, FULL) is None
    assert "left out: llama-server is built by CMake" in capsys.readouterr().err
    missing = report.unmeasured(promised({"fits": sides_of(FULL, "fits", None)}), {})
    assert any(line.split()[0] == "llama_server_fits" and "BROKEN" in line for line in missing)


def test_what_is_known_of_a_load_are_its_first_seeds() -> None:
    wanted = list(steps(FULL, "fits", ["ours", "serial", "llama_server"]))
    known = {
        Key("fits", "serial", "alone"): [served(1.0)] * 3,
        Key("fits", "ours", "alone"): [served(1.0)] * 2,
        Key("oversubscribed", "ours", "poisson_0.9"): [served(1.0)],
    }
    again = list(left(wanted, "fits", known))
    assert again[0] == Step("ours", Load("alone"), FULL.seeds[2])
    assert again[1:] == wanted[6:]
    # The result becomes known during the measurement.
    for step in (going_on := left(wanted, "fits", known)):
        known.setdefault(Key("fits", step.side, step.load.name), []).append(served(1.0))
    assert list(going_on) == list(left(wanted, "fits", known)) == []
    assert len(known[Key("fits", "ours", "poisson_0.9")]) == len(FULL.seeds)


def test_who_is_named_is_measured_where_it_means_anything() -> None:
    assert sides_of(SMALL, "fits", None) == list(SMALL.sides["fits"])
    assert sides_of(SMALL, "fits", ["no_tree", "no_ring"]) == ["ours", "serial", "no_tree"]
    assert sides_of(SMALL, "oversubscribed", ["no_ring"]) == ["ours", "serial", "no_ring"]


# --- our side ---


def test_ways_differ_from_ours_in_settings_that_are_set_back() -> None:
    for way in WAYS.values():
        assert way.settings.keys() <= DEFAULTS.keys()
    assert WAYS["ours"] == Way()


def test_a_fixed_way_plans_for_a_load_that_does_not_change() -> None:
    demand = Demand(SHAPE, 128, 9, index_bytes=400)

    backlog, wanted = Way(answers=4).wanted(Backlog(waiting=7, running=1), demand, 0.25)

    assert (backlog.waiting, backlog.running, wanted.parallel_answers) == (0, 4, 4)
    assert wanted.wishes.index_bytes is None
    _, wanted = Way(has_fixed_index=True).wanted(backlog, demand, 0.25)
    assert wanted.wishes.index_bytes == 100
    _, wanted = Way(is_mapped=True).wanted(backlog, demand, 0.25)
    assert not wanted.is_streamable


def test_full_batches_have_a_token_of_each_answer_and_as_much_of_prompts_as_has_room() -> None:
    parts, times = Parts(num_cells=2048), PassTimes()
    times.begin(0.01, 0.0, 0.0)
    reading = parts.running(prompt(1, 600), lacks=600, priority="batch")
    writing = parts.running(prompt(1000, 100), ((7,),), priority="batch")
    shared = parts.groups, parts.cells, parts.profile, parts.admission, 64, True, None, times
    asked = [
        {work.group.request_id: work.num_tokens for work in batching.next()}
        for batching in (FullBatches(*shared), Batching(*shared))
    ]
    assert asked == [{reading.request_id: 63, writing.request_id: 1}, {reading.request_id: 64}]


def test_a_ring_of_two_whole_layers_is_planned_for_and_left_again(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", layers=4, dim=512, ff=2048)
    in_stages = read_shape(path).stage_bytes
    with next_layer_only():
        shape = read_shape(path)
        assert (shape.stage_bytes, search.RING_SLOTS) == (max(shape.layer_bytes), (2,))
    assert read_shape(path).stage_bytes == in_stages < max(shape.layer_bytes)


def test_nothing_leaves_the_room_before_the_last_gang_was_answered() -> None:
    # Not within a search: the answers that others wait for would have fewer cores.
    was_answered, left = threading.Event(), list[Any]()
    room = GangRoom(2, lambda: was_answered.wait(30))
    questions_of = [QuestionInFlight(Question(name, "?", priority="batch")) for name in "abc"]
    for one in questions_of:
        room.put(one)
    taking = threading.Thread(target=lambda: left.append(room.take()))
    taking.start()
    taking.join(0.1)
    assert not left

    was_answered.set()
    taking.join()

    assert left == [questions_of[:2]]
    assert len(room) == 1


def test_a_count_that_begins_anew_goes_on_growing() -> None:
    grown = Grown()
    for count in (5.0, 7.0, 1.0, 4.0):
        grown.see(count)

    # 2 more, then 1 of a new counter, then 3 more.
    assert grown.total == 6.0


# --- the picture and the files ---


def test_arrivals_are_counted_by_windows_of_time() -> None:
    run = served(1.0, 1.0, 1.0, apart=30.0)

    assert arrival_rates(run, 2) == [(0.0, 2.0), (30.0, 4.0)]


def test_a_line_holds_its_value_until_the_next() -> None:
    line = Line("backlog", ((0.0, 0.0), (5.0, 2.0)))

    assert stairs(line, seconds=10.0, most=2.0, width=100.0, height=50.0) == [
        (0.0, 50.0),
        (50.0, 50.0),
        (50.0, 0.0),
        (100.0, 0.0),
    ]
    assert stairs(Line("none", ()), 10.0, 1.0, 100.0, 50.0) == []


def test_what_was_found_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moments = (Moment(0.0, 1, 0, 4, 2**20, 3), Moment(1.0, 2, 1, 4, 2**21, 2))
    run = Run(served(1.0, 2.0).served, moments, {"streamed_bytes": 7.0})
    options = argparse.Namespace(
        json=tmp_path / "figures.json",
        csv=tmp_path / "loads.csv",
        runs=tmp_path / "runs.json",
        plot=tmp_path / "plots",
        disk_rate=None,
        regime=("fits",),
        only=["serial_batched"],
        load=("poisson_0.9", RECORDED["azure"]),
        quick=False,
    )
    bench = serving.Bench.__new__(serving.Bench)
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(12))
    bench.options, bench.size, bench.models = options, FULL, dict.fromkeys(serving.REGIMES, model)
    bench.found = {
        Key("fits", "ours", "poisson_0.9"): [run],
        Key("fits", "serial_batched", "poisson_0.9"): [served(2.0, 4.0)],
        Key("fits", "serial", "alone"): [served(2.0, 2.0)],
        Key("fits", "ours", "alone"): [served(2.0, 2.0)],
        Key("fits", "ours", RECORDED["azure"]): [replace(served(1.0), moments=moments)],
        Key("fits", "serial_batched", RECORDED["azure"]): [served(1.5)],
    }
    bench.step_times = {"fits": Steps.of(Measured())}

    assert serving.tell(bench)

    written = json.loads(options.json.read_text())
    assert written["ratios"]["serial_batched_fits"] == pytest.approx(2.0)
    assert written["ours"]["fits_poisson_0.9_streamed_bytes"] == 7.0
    assert written["ours"]["oversubscribed_limit_bytes"] == 10
    assert read_runs(options.runs)[0] == bench.found
    with options.csv.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [(row["side"], row["load"], row["seed"], row["mean_s"]) for row in lines] == [
        ("ours", "poisson_0.9", "1", "1.5"),
        ("serial_batched", "poisson_0.9", "1", "3.0"),
        ("serial", "alone", "1", "2.0"),
        ("ours", "alone", "1", "2.0"),
        ("ours", "azure_0.9", "1", "1.0"),
        ("serial_batched", "azure_0.9", "1", "1.5"),
    ]
    assert [row["streamed_bytes"] for row in lines] == ["7.0", *[""] * 5]
    assert (options.plot / "serving-fits-poisson_0.9.png").read_bytes().startswith(b"\x89PNG")
    with (options.plot / "serving-fits-poisson_0.9.csv").open(newline="") as stream:
        assert [row["backlog"] for row in csv.DictReader(stream)] == ["1", "2"]
    assert written["ratios"]["p95_serial_batched_fits"] == pytest.approx(2.0)
    told = capsys.readouterr().out
    assert "30.0 questions a minute" in told
    assert "poisson_0.9, by phases of the rate: answers at once 0.00 → " in told

    key = Key("fits", "serial_batched", OWN_RATE)
    bench.found |= {
        replace(key, load="at_once"): [served(10.0, 20.0, apart=0.0)],
        key: [served(3.0)],
        replace(key, side="ours"): [replace(served(1.0), moments=moments)],
    }
    options.load = ()
    assert serving.tell(bench)
    told = capsys.readouterr().out
    assert "in gangs 6.0" in told
    assert [line.split() for line in told.splitlines() if "own_rate" in line] == [
        ["serial_batched_own_rate_fits", "3.000", "bound", "1.3:", "kept"]
    ]
    assert json.loads(options.json.read_text())["ratios"]["serial_batched_own_rate_fits"] == pytest.approx(3.0)

    options.only = ["serial_batched", "llama_server"]
    assert not serving.tell(bench)
    broken = {line.split()[0] for line in capsys.readouterr().out.splitlines() if "BROKEN" in line}
    assert broken == {"llama_server_fits", "llama_server_azure_fits"}
    options.quick = True
    assert serving.tell(bench)


@pytest.mark.parametrize(
    ("side", "times", "is_kept"),
    [("no_tree", 1.5, True), ("no_tree", 1.0, False), ("no_drafting", 1.0, True)],
)
def test_where_memory_is_short_what_one_thing_is_for_has_to_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, times: float, is_kept: bool
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(12))
    bench = serving.Bench.__new__(serving.Bench)
    bench.options = argparse.Namespace(
        json=None, csv=None, runs=None, plot=None, regime=("oversubscribed",), only=[side], load=(), quick=True
    )
    bench.size, bench.models = FULL, dict.fromkeys(serving.REGIMES, model)
    bench.found = {
        Key("oversubscribed", "ours", "poisson_0.9"): [served(1.0, 2.0)],
        Key("oversubscribed", side, "poisson_0.9"): [served(times, 2 * times)],
        Key("oversubscribed", "serial", "alone"): [served(2.0, 2.0)],
        Key("oversubscribed", "ours", "alone"): [served(1.0, 1.0)],
    }
    assert serving.tell(bench) == is_kept
    assert ("not shown: BROKEN" in capsys.readouterr().out) != is_kept


def test_moments_are_written_line_by_line(tmp_path: Path) -> None:
    run = Run((), (Moment(0.0, 1, 0, 4, 100, 3, kv_ram_bytes=2**20),))

    write_moments(tmp_path / "moments.csv", run)

    assert (tmp_path / "moments.csv").read_text().splitlines() == [
        "at_s,backlog,answers_at_once,slots,index_bytes,pinned_layers,kv_ram_bytes,kv_disk_bytes",
        "0.0,1,0,4,100,3,1048576,0",
    ]
    run = Run(served(1.0).served, run.moments)
    assert [panel.most for panel in panels(run)][1:] == [1.0, 4.0, 100 / 2**20, 3.0, 1.0]


@pytest.mark.parametrize("page", [None, 3])
def test_peers_read_passages_as_our_side_does(page: int | None) -> None:
    passages = [
        Passage(f"r{number}", 1, "/home/me/report.pdf", number, page, 0, 10, "", f"Passage {number}.", 0.5)
        for number in (1, 2)
    ]
    ours = "".join(EvidencePassage.of(passage).block(n).text for n, passage in enumerate(passages, start=1))
    asked = replace(Asked("Why?", 0.0, 2, 4), evidence=as_read(passages))
    theirs = plain_prompt(asked.text, Asked.heard(asked.told()).read(["what it found"]))
    assert f"<|im_start|>user\n{ours}Question: Why?" in theirs


def test_who_is_handed_no_evidence_reads_what_it_found() -> None:
    assert Asked("Why?", 0.0, 1, 4).read(["what it found"]) == ["what it found"]


def test_phases_say_how_a_load_was_followed() -> None:
    # Two, eight and two questions: at 1 and 2 s, at 11 to 18 s, at 21 and 22 s; each is answered at once.
    arrivals = [1.0, 2.0, *(float(at_s) for at_s in range(11, 19)), 21.0, 22.0]
    questions = tuple(Served(at_s, at_s, at_s, at_s, at_s, at_s) for at_s in arrivals)
    moments = (Moment(0.0, 1, 1, 1, 40, 9), Moment(2.0, 8, 4, 4, 10, 6), Moment(10.0, 8, 4, 4, 30, 6))
    after = (Moment(18.0, 0, 0, 1, 40, 9),)

    calm, busy, calm_again = phases_of(Run(questions, (*moments, *after)))

    assert (calm["slots"], busy["slots"], calm_again["slots"]) == (1.0, 4.0, 1.0)
    assert busy["index_bytes"] == pytest.approx((8 * 10 + 8 * 30) / 16)
    assert calm["index_bytes"] == calm_again["index_bytes"] == 40.0
    assert phases_of(Run(questions)) == []


def test_what_is_judged_beside_ratios_is_written_as_well() -> None:
    found = {
        Key("oversubscribed", "ours", "poisson_0.9"): [served(1.0, 2.0)],
        Key("oversubscribed", "no_ring", "poisson_0.9"): [served(2.0, 4.0)],
        Key("oversubscribed", "serial_batched", "poisson_0.9"): [served(3.0, 6.0)],
        Key("oversubscribed", "ours", "poisson_1.2"): [served(1.0, 2.0)],
        Key("oversubscribed", "serial", "poisson_1.2"): [served(9.0, 9.0)],
    }

    told = judged_beside(found, ("no_ring", "no_tree"))

    assert told.keys() == {
        "p95_serial_batched", "max_serial_batched", "overload_waiting", "overload_idle", "no_ring_low", "no_ring_high",
    }  # fmt: skip
    assert told["no_ring_low"] == pytest.approx(told["no_ring_high"]) == pytest.approx(2.0)
    assert told["p95_serial_batched"] == pytest.approx(3.0)
