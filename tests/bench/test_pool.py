"""Tests for tests.bench.pool: its figures, its load and the peer that reads texts again."""

from __future__ import annotations

import argparse
import json
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from engine.memory.profile import Profile
from tests.bench import pool
from tests.bench.azure import Length
from tests.bench.bench_model import bench_model, plain_tokens
from tests.bench.confined import Group
from tests.bench.llama_server import LlamaServer, ServerOptions
from tests.bench.peers import PeerFailed
from tests.bench.pool_figures import (
    BOUNDS,
    Reply,
    Switch,
    Targets,
    goodput,
    horizon_s,
    load_figures,
    models_at_once,
    over_peer,
    promised,
    switch_figures,
    token_times,
    tpot_met,
)
from tests.bench.pool_load import WORDS, Asked, arrivals, questions, shares, words
from tests.bench.pool_router_side import RETRY_SECONDS, RouterSide
from tests.bench.pool_unload_side import Text, UnloadSide, batches
from tests.bench.scripted_server import SERVER, program
from tests.bench.test_bench_model import SMALL

TARGETS = Targets(ttft_s=2.0, tpot_s=0.5)
GROUP = Group(Path("/nowhere"), 1)
OPTIONS = ServerOptions(num_cells=512, num_threads=1, num_slots=2)


def reply(*token_s: float, wanted: int | None = None, model: int = 0, arrival_s: float = 10.0) -> Reply:
    return Reply(model, arrival_s, len(token_s) if wanted is None else wanted, token_s)


def bench() -> pool.Bench:
    return pool.Bench(pool.SMALL, Path("home"), Profile(), (), (), None, has_peers=True, parent=GROUP)


def test_replies_and_switches_come_back_as_they_were_told() -> None:
    answered, switch = reply(11.0, 12.0), Switch(0.25, 0.5, 100)

    assert Reply.heard(json.loads(json.dumps(answered.told()))) == answered
    assert Switch.heard(json.loads(json.dumps(switch.told()))) == switch


def test_a_token_is_due_by_its_place_from_when_the_question_came() -> None:
    # The tokens are due at 12, 12.5 and 13.
    assert reply(12.0, 12.6, 13.0).num_in_time(TARGETS) == 2


def test_what_never_came_is_late() -> None:
    assert goodput([reply(11.0, 11.1, wanted=4), reply(wanted=4)], TARGETS) == 0.25


def test_the_pace_counts_from_the_first_token_however_late_that_is() -> None:
    slow_to_begin = reply(90.0, 90.5, 91.0, 92.0)

    assert slow_to_begin.num_in_pace(0.5) == 3
    assert slow_to_begin.num_in_time(TARGETS) == 0
    assert tpot_met([slow_to_begin, reply(wanted=4)], 0.5) == 3 / 8


def test_a_buffer_of_tokens_makes_up_for_a_pause() -> None:
    assert reply(10.0, 10.1, 10.2, 10.3, 11.9).num_in_pace(0.5) == 5


def test_nobody_waits_for_more_than_the_last_deadline() -> None:
    assert horizon_s([(0.0, 9), (5.0, 2)], TARGETS) == 7.5
    assert horizon_s([(0.0, 1)], TARGETS) == 2.0


def test_pieces_are_tokens_where_they_are_as_many() -> None:
    assert token_times([(1.0, 5), (2.0, 1)], 2) == (1.0, 2.0)
    assert token_times([], 0) == token_times([], 3) == ()


def test_other_pieces_are_shared_out_by_their_characters() -> None:
    # Two of the four arrive together; the last has arrived when its text ends.
    assert token_times([(1.0, 4), (2.0, 2), (3.0, 2)], 4) == (1.0, 1.0, 2.0, 3.0)
    assert token_times([(1.0, 1), (2.0, 7)], 4) == (2.0, 2.0, 2.0, 2.0)


def test_figures_of_switches_are_their_mean_their_maximum_and_their_parts() -> None:
    figures = switch_figures([Switch(0.1, 0.3, 100), Switch(0.1, 0.7, 300)])

    assert figures["switch_mean_s"] == pytest.approx(0.6)
    assert figures["switch_max_s"] == pytest.approx(0.8)
    assert (figures["switch_out_s"], figures["switch_in_s"]) == (pytest.approx(0.1), pytest.approx(0.5))
    assert figures["switch_moved_bytes"] == 200
    assert switch_figures([]) == {}


def test_figures_of_a_load_leave_out_waiting_for_what_never_began() -> None:
    figures = load_figures([reply(11.0), reply(13.0), reply(wanted=2)], TARGETS)

    assert figures["begun_share"] == pytest.approx(2 / 3)
    assert figures["ttft_max_s"] == 3.0
    assert figures["goodput"] == 0.25
    assert "ttft_max_s" not in load_figures([reply(wanted=2)], TARGETS)


def test_a_model_is_wanted_until_its_answers_are_whole() -> None:
    one = reply(10.0, 14.0)
    two = reply(18.0, 20.0, model=1, arrival_s=16.0)

    # 4 seconds of each in 10; if the first question never ends, it counts for all 10.
    assert models_at_once([one, two]) == pytest.approx(0.8)
    assert models_at_once([replace(one, wanted=3), two]) == pytest.approx(1.4)


def test_questions_come_as_often_as_is_said() -> None:
    moments = list(arrivals(2.0, 1000.0, seed=1))

    assert moments == list(arrivals(2.0, 1000.0, seed=1)) == sorted(moments)
    assert 1800 < len(moments) < 2200
    assert moments[-1] < 1000.0


def test_the_first_model_is_asked_most_and_the_last_one_too() -> None:
    asked = questions([0.0] * 3000, 7, [Length(5, 9)], seed=1)
    counts = [sum(one.model == model for one in asked) for model in range(7)]

    assert counts == sorted(counts, reverse=True)
    assert counts[0] / len(asked) == pytest.approx(shares(7)[0], abs=0.05)
    assert counts[6] / len(asked) == pytest.approx(1 / 7 / statistics.harmonic_mean(range(1, 8)), abs=0.05)
    assert {one.answer_tokens for one in asked} == {9}
    assert asked == questions([0.0] * 3000, 7, [Length(5, 9)], seed=1)


def test_a_question_comes_back_as_it_was_told() -> None:
    [asked] = questions([1.5], 7, [Length(5, 9)], seed=1)

    assert Asked.heard(json.loads(json.dumps(asked.told()))) == asked


def test_a_word_is_a_token_of_the_bench_models(tmp_path: Path) -> None:
    from llama_cpp import Llama

    vocabulary = Llama(str(bench_model(tmp_path, replace(SMALL, vocabulary=2_000))), vocab_only=True, verbose=False)
    try:
        assert len(vocabulary.tokenize(words(50, random.Random(1)).encode(), add_bos=False)) == 50
    finally:
        vocabulary.close()
    assert len(set(WORDS)) == len(WORDS)


def test_models_of_other_seeds_have_other_weights_and_the_same_words(tmp_path: Path) -> None:
    one, other = (bench_model(tmp_path, SMALL, seed=seed) for seed in (1, 2))

    assert one != other
    assert one.stat().st_size == other.stat().st_size
    assert one.read_bytes() != other.read_bytes()
    assert one.read_bytes()[:1000] == other.read_bytes()[:1000]


def test_texts_are_read_in_batches_that_are_full() -> None:
    assert list(batches([3, 4], 5)) == [[(0, 0, 3), (1, 0, 2)], [(1, 2, 4)]]
    assert list(batches([5, 12], 5)) == [[(0, 0, 5)], [(1, 0, 5)], [(1, 5, 10)], [(1, 10, 12)]]
    assert list(batches([], 5)) == []


def test_texts_go_on_as_they_would_have_without_a_switch(tmp_path: Path) -> None:
    settings = {
        "models": [str(bench_model(tmp_path, SMALL, seed=seed)) for seed in (1, 2)],
        "num_threads": 1,
        "num_cells": 256,
        "num_sequences": 2,
    }

    def prompts() -> list[list[Text]]:
        plain = list(plain_tokens(SMALL.vocabulary))
        return [[plain[:9], plain[9:20]], [plain[:5], plain[5:30]]]

    switched, steady = prompts(), prompts()
    switches = UnloadSide(settings, GROUP).switch(switched, steps=3, num_switches=2)
    UnloadSide({**settings, "models": settings["models"][:1]}, GROUP).switch(steady[:1], steps=7, num_switches=0)

    assert len(switches) == 2
    assert all(switch.out_s > 0 and switch.moved_bytes == 0 for switch in switches)
    # The token after reading and three steps; the first model was loaded twice.
    assert switched[0] == steady[0]
    assert [len(text) for text in switched[1]] == [5 + 4, 25 + 4]


def test_a_router_is_told_its_folder_and_each_question_its_model(tmp_path: Path) -> None:
    telling = SERVER.replace("asked = json", "print(*sys.argv, file=sys.stderr); asked = json").replace(
        'asked["prompt"][:', '[len(asked["model"])] * 9 + asked["prompt"][:'
    )
    with LlamaServer.routing(program(tmp_path, telling), Path("models"), 2, OPTIONS) as server:
        assert server.complete([5, 6], 1, model="four").tokens == (4,) * 9 + (5,)

    arguments = OPTIONS.arguments(Path("llama-server"), {"--models-dir": "models", "--models-max": 2}, 80)
    assert arguments[1:5] == ["--models-dir", "models", "--models-max", "2"]
    assert "-m" not in arguments


def test_a_question_that_a_router_refuses_is_handed_over_again(tmp_path: Path) -> None:
    refusing = SERVER.replace(
        "        asked = json", "        Handler.asked = getattr(Handler, 'asked', 0) + 1\n        asked = json"
    ).replace("        self.send_response(200)\n", "        self.send_response(503 if Handler.asked == 1 else 200)\n")
    model = bench_model(tmp_path / "models", SMALL)
    settings = {
        "binary": str(program(tmp_path, refusing)),
        "folder": str(model.parent),
        "names": [model.stem],
        "most": 1,
        "num_threads": 1,
        "num_slots": 1,
        "slot_tokens": 512,
        "is_repacked": True,
    }
    side = RouterSide(settings, GROUP)
    try:
        [reply] = side.answer([Asked("ba be", 0, 0.05, 3)], until_s=5.0)
        refused = list(side.refused)
        [unanswered] = side.answer([Asked("ba be", 0, 0.05, 300)], until_s=0.2)
    finally:
        side.close()

    assert len(refused) == 1
    assert (len(reply.token_s), reply.arrival_s) == (3, 0.05)
    assert reply.token_s[0] >= 0.05 + RETRY_SECONDS
    assert len(unanswered.token_s) < 300


def test_what_was_found_is_told_by_the_names_that_are_promised() -> None:
    measured = bench()
    measured.switches = [Switch(0.0, 0.5)] * 6
    measured.reloading = [Switch(1.0, 5.0)] * 6
    measured.chats = [reply(10.0, 10.05, 10.3), reply(10.0, 10.1, 10.2)]
    measured.ours, measured.router = [[reply(11.0, 11.1)]], [[reply(11.0, 90.0)]]
    measured.server = pool.Server(1, 2, 3.0)

    ours, others, named = pool.found(measured)

    assert named == {
        "unload_load": pytest.approx(12.0),
        "router_goodput": pytest.approx(2.0),
        "tpot_met_two_chats": pytest.approx(5 / 6),
    }
    assert named.keys() == BOUNDS.keys()
    assert ours["tpot_met_two_chats"] == pytest.approx(5 / 6)
    assert not pool.tell(measured, None, {}), "two chats are bound"
    assert others["router"]["goodput"] == 0.5
    assert others["reloading"]["switch_mean_s"] == 6.0


def test_what_was_not_measured_has_no_ratio() -> None:
    assert pool.found(bench()) == ({}, {}, {})


def test_a_bound_of_which_nothing_was_measured_is_broken_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    measured = bench()
    measured.switches, measured.reloading = [Switch(0.0, 0.5)], [Switch(1.0, 5.0)]

    assert not pool.tell(measured, None, promised(pool.PARTS, has_peers=True))

    broken = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert sorted(broken) == ["router_goodput", "tpot_met_two_chats"]
    assert pool.tell(measured, None, {})


def test_only_what_is_to_be_measured_is_promised() -> None:
    assert promised(pool.PARTS, has_peers=True) == BOUNDS
    assert promised(["switch"], has_peers=False).keys() == {"tpot_met_two_chats"}
    assert promised(["goodput"], has_peers=False) == {}


def test_who_has_no_token_in_time_is_taken_to_have_one() -> None:
    assert over_peer([reply(11.0, 11.1)], [reply(wanted=2)], TARGETS) == 2.0
    assert over_peer([reply(11.0, 11.1)], [reply(11.0, 90.0)], TARGETS) == 2.0


def test_who_fails_ends_the_bench_and_what_was_found_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def failing(self: pool.Bench, parts: object) -> None:
        self.switches = [Switch(0.0, 0.5)]
        raise PeerFailed("It was killed.")

    monkeypatch.setattr(pool, "prepared", lambda *arguments: bench())
    monkeypatch.setattr(pool.Bench, "run", failing)
    monkeypatch.setattr(pool.peers, "_wanted_server", lambda options: None)
    told = tmp_path / "told.json"
    options = argparse.Namespace(quick=True, no_peers=True, peers=Path(), only=pool.PARTS, json=told)

    assert pool._beside_peers(options, GROUP) == 2
    assert capsys.readouterr().err == "It was killed.\n"
    assert json.loads(told.read_text())["ours"]["switch_mean_s"] == 0.5
