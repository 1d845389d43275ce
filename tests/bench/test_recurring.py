"""Tests for tests.bench.recurring, and for tests.bench.ttft_reuse with a tiny model."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.generation.ordering import Order, along_kept
from engine.generation.segment import Segment, tokens_of
from tests.bench import ttft_reuse
from tests.bench.bench_model import bench_model
from tests.bench.peers import PeerFailed
from tests.bench.recurring import (
    DOCUMENT_TOKENS,
    PER_QUESTION,
    QUESTION_TOKENS,
    TOP_DOCUMENTS,
    TOP_SHARE,
    Ask,
    Recurring,
    draw,
)
from tests.bench.scripted_server import SERVER, program
from tests.bench.test_bench_model import SMALL

OURS = {
    "ttft_s": 2.0,
    "cold_s": 10.0,
    "same_order_s": 0.2,
    "permuted_s": 0.25,
    "turn_10_new_share": 1.0,
    "after_restart_s": 0.5,
    "no_reorder_ttft_s": 3.0,
    "searched_ttft_s": 2.0,
    "no_speculation_ttft_s": 2.5,
    "questions_per_s": 0.5,
    "ttft_s_at_1.0": 3.0,
    "ttft_s_at_0.8": 3.0,
    "ttft_s_at_1.2": 3.0,
}
THEIRS = {
    "ttft_s": 9.0,
    "ttft_s_at_1.0": 15.0,
    "ttft_s_at_0.8": 15.0,
    "ttft_s_at_1.2": 15.0,
    "permuted_s": 10.0,
    "same_order_s": 0.3,
    "questions_per_s": 0.2,
}


@pytest.fixture(scope="module")
def recurring() -> Recurring:
    return Recurring(4_000)


def test_the_most_popular_documents_take_their_share_of_places(recurring: Recurring) -> None:
    assert recurring.top_share(2_000) == pytest.approx(TOP_SHARE, abs=0.03)


def test_no_question_gets_a_document_twice() -> None:
    drawn = draw(questions=300, documents=20, per_question=4, exponent=2.0, seed=1)

    assert all(len(set(documents)) == 4 for documents in drawn.tolist())


def test_questions_come_as_often_as_was_said(recurring: Recurring) -> None:
    arrivals = recurring.arrivals(4_000, per_second=2.0)

    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(2_000, rel=0.05)


def test_the_order_within_a_question_says_nothing_of_popularity() -> None:
    drawn = draw(questions=4_000, documents=200, per_question=4, exponent=1.4, seed=1)

    means = (drawn < TOP_DOCUMENTS).mean(axis=0)
    assert np.ptp(means) < 0.05


def test_the_same_questions_come_again(recurring: Recurring) -> None:
    few, many = list(recurring.stream(3)), list(Recurring(4_000).stream(6))

    assert few == many[:3]
    assert len({ask.question for ask in many}) == 6


def test_passages_come_best_first_and_as_long_as_said(recurring: Recurring) -> None:
    for ask in recurring.stream(5):
        assert sorted(ask.scores, reverse=True) == list(ask.scores)
        assert [len(passage.tokens) for passage in ask.passages] == [DOCUMENT_TOKENS] * PER_QUESTION
        assert len(ask.question.tokens) == QUESTION_TOKENS


def test_where_their_number_varies_all_numbers_of_passages_occur(recurring: Recurring) -> None:
    asks = list(recurring.varying(60))
    assert {len(ask.passages) for ask in asks} == set(range(2, 7))
    assert all(len(set(ask.passages)) == len(ask.passages) for ask in asks)
    assert list(recurring.varying(10)) == asks[:10]


def test_second_questions_are_over_the_same_documents_in_the_order_that_was_said(recurring: Recurring) -> None:
    first, same, permuted, after = recurring.second_questions(0, 3)

    assert first.passages == same.passages != permuted.passages
    assert set(first.passages) == set(permuted.passages) == set(after.passages)
    assert len({first.question, same.question, permuted.question, after.question}) == 4
    assert not set(first.passages) & set(recurring.second_questions(1)[0].passages)


def tokens_read(recurring: Recurring, counts_uses: bool) -> int:
    """Returns the passage tokens to compute for 60 questions with an unlimited cache."""
    paths, uses, num_read = set[tuple[Segment, ...]](), Counter[Segment](), 0
    for ask in recurring.stream(60):

        def path(order: Sequence[int], ask: Ask = ask) -> tuple[Segment, ...]:
            return tuple(ask.passages[place] for place in order)

        def follow(begun: Order, place: int, _: int, path: Any = path) -> Order | None:
            return longer if path(longer := (*begun, place)) in paths else None

        lengths = [len(passage.tokens) for passage in ask.passages]
        seen = [uses[passage] for passage in ask.passages] if counts_uses else None
        order = along_kept(ask.scores, lengths, (), follow, 0.1, seen)
        beginnings = [path(order[:end]) for end in range(1, len(order) + 1)]
        num_read += sum(len(beginning[-1].tokens) for beginning in beginnings if beginning not in paths)
        paths.update(beginnings)
        uses.update(ask.passages)
    return num_read


def test_less_has_to_be_read_where_the_most_used_comes_first(recurring: Recurring) -> None:
    assert tokens_read(recurring, counts_uses=True) < 0.9 * tokens_read(recurring, counts_uses=False)


def test_a_turn_follows_all_that_was_said(recurring: Recurring) -> None:
    first = recurring.turn(0, ())
    second = recurring.turn(1, first.segments)

    assert second.segments[: len(first.segments)] == first.segments
    new = tokens_of(second.segments)[len(tokens_of(first.segments)) :]
    assert len(new) == DOCUMENT_TOKENS + QUESTION_TOKENS


def test_every_search_settles_on_what_the_question_gets(recurring: Recurring) -> None:
    searches = list(recurring.searches(20))

    assert all(search.stages[-1].passages == ask.passages for ask, search in searches)
    assert any(search.stages[0].passages != ask.passages for ask, search in searches)
    assert any(search.stages[0].passages == ask.passages for ask, search in searches)


def test_ratios_have_the_names_that_were_promised() -> None:
    named = ttft_reuse.named_ratios({"ours": OURS, "llama_server": THEIRS, "llama_cpp_python": {"ttft_s": 8.0}})

    assert named.keys() == ttft_reuse.BOUNDS.keys()
    loaded = named["llama_server"], named["llama_server_at_0.8"], named["llama_server_at_1.2"]
    assert (*loaded, named["llama_server_alone"]) == (5.0, 5.0, 5.0, 4.5)
    assert named["throughput_llama_server"] == 2.5
    assert named["llama_cpp_python"] == 4.0
    assert named["second_question_cold"] == named["second_question_permuted"] == 40.0
    assert named["second_question_same_order"] == pytest.approx(1.5)
    assert named["after_restart"] == 20.0
    assert (named["no_reorder"], named["no_speculation"]) == (1.5, 1.25)


def test_without_peers_there_are_no_ratios_to_them() -> None:
    assert "llama_server" not in ttft_reuse.named_ratios({"ours": OURS})


def test_of_what_was_measured_in_part_there_are_the_ratios_of_that_part() -> None:
    found = {"ours": {"ttft_s": 2.0, "cold_s": 10.0}, "llama_server": {"ttft_s": 4.0}}
    assert ttft_reuse.named_ratios(found) == {"llama_server_alone": 2.0}
    assert ttft_reuse.named_ratios({}) == {}


def bench_with(**found: dict[str, float]) -> ttft_reuse.Bench:
    bench = ttft_reuse.Bench(ttft_reuse.SMALL, Path(), Path(), Recurring(4_000), None, has_python=False)
    bench.found = found
    bench.decisions.cpu_seconds, bench.decisions.wall_seconds = [1e-5], [1e-5]
    return bench


def told_to(**chosen: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"json": None, "quick": False, "no_peers": True, "peers": Path(), **chosen})


def test_peers_that_were_not_measured_break_their_bounds_but_in_a_quick_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not ttft_reuse._tell(bench_with(ours=OURS), told_to())
    broken = {line.split()[0] for line in capsys.readouterr().out.splitlines() if "BROKEN" in line}
    assert broken == {name for name in ttft_reuse.BOUNDS if "llama" in name or name.startswith("second_question_")} - {
        "second_question_cold"
    }
    assert ttft_reuse._tell(bench_with(ours=OURS), told_to(quick=True))
    everybody = bench_with(ours=OURS, llama_server=THEIRS, llama_cpp_python={"ttft_s": 8.0})
    assert ttft_reuse._tell(everybody, told_to())
    everybody.decisions.cpu_seconds.clear()
    assert not ttft_reuse._tell(everybody, told_to()), "nothing was decided"


def test_a_peer_that_fails_ends_the_bench_and_what_was_found_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def failing(bench: ttft_reuse.Bench) -> None:
        bench.found |= {"ours": {"ttft_s": 2.0}, "llama_server": {"ttft_s": 4.0}, "llama_cpp_python": {}}
        raise PeerFailed("It was killed.")

    monkeypatch.setattr(ttft_reuse.Bench, "run", failing)
    monkeypatch.setattr(ttft_reuse, "bench_model", lambda folder, shape: tmp_path / "model.gguf")
    told = tmp_path / "told.json"

    assert ttft_reuse.main(["--no-peers", "--json", str(told), "--peers", str(tmp_path)]) == 2

    assert capsys.readouterr().err == "It was killed.\n"
    written = json.loads(told.read_text())
    assert written["ours"] == {"ttft_s": 2.0}
    assert written["ratios"]["llama_server_alone"] == 2.0


def test_the_whole_bench_finds_every_ratio(tmp_path: Path) -> None:
    size = ttft_reuse.Size(SMALL, questions=6, varying=3, sets=1, searches=2, loads=ttft_reuse.LOADS)
    recurring, model = Recurring(SMALL.vocabulary), bench_model(tmp_path, SMALL)
    bench = ttft_reuse.Bench(size, model, tmp_path / "work", recurring, program(tmp_path, SERVER), has_python=True)

    bench.run()

    named, ours = ttft_reuse.named_ratios(bench.found), bench.found["ours"]
    assert named.keys() == ttft_reuse.BOUNDS.keys() | {"llama_server_varying"}
    assert all(ratio > 0 for ratio in named.values())
    assert named["turn_10"] == pytest.approx(1.0, abs=0.01)
    assert ours["computed_share"] < 1.0
    # One at a time, four at a time, and under three loads.
    assert len(bench.decisions.cpu_seconds) == len(bench.decisions.wall_seconds) > 6 * (1 + 1 + 3)
    assert bench.decision_times["decision_p99_ms"] > 0
    assert bench.decision_times["decision_wall_p99_ms"] > 0
    for way in ("", "no_reorder_", "no_speculation_"):
        assert ours[f"{way}hit_ratio_cells"] > 0
