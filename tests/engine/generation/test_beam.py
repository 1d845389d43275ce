"""Tests for engine.generation.beam."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core import SamplingParams
from engine.generation.beam import Beam, Beams, best_of, is_over, log_softmax, next_beams
from engine.generation.context import Stretch
from engine.generation.request import RequestCancelled
from tests.helpers.loop_desk import LoopDesk
from tests.helpers.shared_data import shared_file
from tests.helpers.tiny_gguf import write_tiny_model

END = 9
SAMPLING = SamplingParams(max_tokens=16, beam_width=4, length_penalty=1.0)


def ends(tokens: tuple[int, ...], token: int) -> bool:
    return token == END


def logs(*rows: dict[int, float]) -> np.ndarray:
    """Log-probabilities of ten tokens from the probabilities of some."""
    return np.log([[row.get(token, 1e-9) for token in range(10)] for row in rows])


def test_the_likeliest_of_all_ways_to_go_on_are_taken():
    beams = [Beam((1,), math.log(0.6)), Beam((2,), math.log(0.4))]
    going_on, ended = next_beams(beams, logs({3: 0.5, 4: 0.5}, {5: 0.9, 6: 0.1}), 3, ends)
    assert [(beam.parent, beam.tokens) for beam in going_on] == [(1, (2, 5)), (0, (1, 3)), (0, (1, 4))]
    assert going_on[0].log_probability == pytest.approx(math.log(0.36))
    assert ended == []


def test_a_beam_that_ends_makes_no_place_for_a_worse_one_to_end():
    going_on, ended = next_beams([Beam()], logs({END: 0.5, 1: 0.3, 2: 0.1, 3: 0.05}), 2, ends)
    assert [beam.tokens for beam in going_on] == [(1,), (2,)]
    assert [(beam.tokens, beam.finish_reason, beam.length) for beam in ended] == [((), "stop", 1)]
    assert next_beams([Beam()], logs({1: 0.5, 2: 0.3, END: 0.2}), 2, ends)[1] == []


def test_equals_keep_their_order():
    going_on, _ = next_beams([Beam((1,)), Beam((2,))], np.log(np.full((2, 10), 0.1)), 3, ends)
    assert [beam.tokens for beam in going_on] == [(1, 0), (1, 1), (1, 2)]


def test_the_length_penalty_decides_between_short_and_long():
    short, long = Beam((1,), -2.0), Beam((1, 2, 3, 4), -3.0)
    assert best_of([short, long], 1, 0.0) == [short]
    assert best_of([short, long], 1, 1.0) == [long]


def test_a_search_is_over_when_nothing_going_on_is_as_good_as_what_ended():
    ended = [Beam((1,), -1.0, 0, "stop"), Beam((2,), -2.0, 0, "stop")]
    assert is_over([Beam((1, 2), -3.0)], ended, 2, 1.0)
    assert not is_over([Beam((1, 2), -1.0)], ended, 2, 1.0)
    assert not is_over([Beam((1, 2), -9.0)], ended, 3, 1.0)
    assert is_over([], [], 3, 1.0)


def test_log_softmax_is_exact_for_large_logits():
    rows = log_softmax(np.array([[1000.0, 999.0, -1000.0]], np.float32))
    assert np.exp(rows).sum() == pytest.approx(1.0)
    assert rows[0, 0] - rows[0, 1] == pytest.approx(1.0)


def naive(desk: LoopDesk, prompt: str, sampling: SamplingParams) -> list[tuple[int, ...]]:
    """Computes every beam again from its first token at every step, and considers every continuation."""
    prefix = list(desk.prompt(prompt))

    def scores(tokens: tuple[int, ...]) -> np.ndarray:
        desk.context.clear()
        read = prefix + list(tokens)
        for at in range(0, len(read), desk.context.n_ubatch):
            part = read[at : at + desk.context.n_ubatch]
            (row,) = desk.context.decode([Stretch(0, at, part, 1)])
        logits = desk.context.logits(row + len(part) - 1).astype(np.float64)
        return logits - (logits.max() + math.log(np.exp(logits - logits.max()).sum()))

    def quality(found: tuple[float, tuple[int, ...], bool]) -> float:
        return found[0] / max(1, len(found[1]) + found[2]) ** sampling.length_penalty

    width = sampling.beam_width
    beams: list[tuple[float, tuple[int, ...], bool]] = [(0.0, (), False)]
    ended: list[tuple[float, tuple[int, ...], bool]] = []
    for _ in range(sampling.max_tokens):
        ways = sorted(
            ((sure + more, tokens, token) for sure, tokens, _ in beams for token, more in enumerate(scores(tokens))),
            key=lambda way: -way[0],
        )[: 2 * width]
        beams = [(sure, (*old, new), False) for sure, old, new in ways if not desk.model.ends(new)][:width]
        ended += [(sure, old, True) for sure, old, new in ways[:width] if desk.model.ends(new)]
        ended = sorted(ended, key=quality, reverse=True)[:width]
        if len(ended) == width and quality(ended[-1]) >= max(map(quality, beams)):
            beams = []
            break
    desk.context.clear()
    return [tokens for _, tokens, _ in sorted([*ended, *beams], key=quality, reverse=True)[:width]]


@pytest.fixture(params=["llama", "qwen2", "stories"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoopDesk]:
    if request.param == "stories":
        path = shared_file("models/stories260K-f32.gguf")
    else:
        path = write_tiny_model(tmp_path / "tiny.gguf", architecture=request.param)
    desk = LoopDesk(path, make_beams=Beams)
    yield desk
    desk.close()


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_beams_on_shared_cells_find_what_a_naive_search_finds(desk: LoopDesk, penalty: float):
    sampling = replace(SAMPLING, length_penalty=penalty)
    expected = naive(desk, "Once upon a time", sampling)
    found = desk.write("Once upon a time", sampling).answers
    assert [answer.tokens for answer in found] == expected
    assert desk.loop.counters().cells_used == 0


def test_a_beam_is_at_least_as_likely_as_the_greedy_answer(desk: LoopDesk):
    width_one = naive(desk, "The dog", replace(SAMPLING, beam_width=1, length_penalty=0.0))
    best = desk.write("The dog", replace(SAMPLING, length_penalty=0.0)).answers[0]
    assert total(desk, best.tokens) >= total(desk, width_one[0]) - 1e-6


def total(desk: LoopDesk, tokens: tuple[int, ...]) -> float:
    desk.context.clear()
    prefix = list(desk.prompt("The dog"))
    (row,) = desk.context.decode([Stretch(0, 0, [*prefix, *tokens], len(tokens) + 1)])
    rows = [log_softmax(desk.context.logits(row + len(prefix) - 1 + at)) for at in range(len(tokens))]
    desk.context.clear()
    return float(sum(row[token] for row, token in zip(rows, tokens, strict=True)))


def test_beams_share_the_cells_of_what_they_have_in_common(desk: LoopDesk):
    desk.ask("r", "Once upon a time", sampling=SAMPLING)
    most = 0
    while desk.loop.has_work:
        desk.step()
        most = max(most, desk.cells.num_used)
    prompt = len(desk.prompt("Once upon a time"))
    assert most <= prompt + SAMPLING.beam_width * SAMPLING.max_tokens
    assert most < SAMPLING.beam_width * (prompt + SAMPLING.max_tokens)


@pytest.mark.parametrize("num_steps", [3, 5, 8])
def test_a_search_that_is_preempted_goes_on_with_its_own_beams(desk: LoopDesk, num_steps: int):
    undisturbed = desk.write("Once upon a time", SAMPLING).answers
    desk.ask("beams", "Once upon a time", sampling=SAMPLING)
    for _ in range(num_steps):
        desk.step()
    group = desk.loop._groups.find("beams")
    assert group is not None
    assert len(group.live) == SAMPLING.beam_width
    desk.loop._steps.admission.preempt(group)
    assert desk.loop.counters().preempted_by_swap == 1
    assert all(len(sequence.saved) <= 1 for sequence in group.live)

    desk.run()
    assert [answer.tokens for answer in desk.finished("beams").answers] == [answer.tokens for answer in undisturbed]


@pytest.mark.parametrize("num_steps", [5, 8])
def test_a_search_that_is_computed_again_finds_the_same_on_no_more_cells(tmp_path: Path, num_steps: int):
    desk = LoopDesk(write_tiny_model(tmp_path / "tiny.gguf"), make_beams=Beams, swap_budget_bytes=0)
    undisturbed = desk.write("Once upon a time", SAMPLING).answers
    desk.ask("beams", "Once upon a time", sampling=SAMPLING)
    for _ in range(num_steps):
        desk.step()
    group = desk.loop._groups.find("beams")
    assert group is not None
    desk.loop._steps.admission.preempt(group)
    desk.step()

    assert desk.cells.num_used == group.shared_length > group.prompt_length
    desk.run()
    assert desk.loop.counters().preempted_by_recompute == 1
    assert [answer.tokens for answer in desk.finished("beams").answers] == [answer.tokens for answer in undisturbed]
    desk.close()


def test_a_token_that_the_model_does_not_have_cannot_be_biased(desk: LoopDesk):
    desk.ask("biased", "The dog", sampling=replace(SAMPLING, logit_bias=((10**6, 1.0),)))
    desk.run()
    assert "no token" in str(getattr(desk.end_of("biased"), "error", ""))


def test_others_are_answered_beside_a_search(desk: LoopDesk):
    alone = desk.write("Once upon a time", SAMPLING).answers
    desk.ask("beside", "The dog")
    desk.ask("beams", "Once upon a time", sampling=SAMPLING)
    desk.run()
    assert [answer.text for answer in desk.finished("beams").answers] == [answer.text for answer in alone]
    assert len(desk.finished("beside").answers) == 1


def test_a_search_that_ends_while_its_model_is_closed_tells_what_it_had(desk: LoopDesk, monkeypatch):
    desk.ask("r", "Once upon a time", sampling=SAMPLING)
    for _ in range(5):
        desk.step()

    def closed(*_: object) -> None:
        raise AssertionError("llama.cpp was asked, which ends the process")

    for name in ("ends", "piece"):
        monkeypatch.setattr(desk.model, name, closed)
    desk.loop.cancel("r")
    (end,) = [event for event in desk.loop.take_events() if isinstance(event, RequestCancelled)]
    assert any(answer.text for answer in end.answers)


def test_a_search_that_is_cancelled_tells_what_it_had(desk: LoopDesk):
    desk.ask("r", "Once upon a time", sampling=SAMPLING)
    for _ in range(5):
        desk.step()
    desk.loop.cancel("r")
    desk.run()
    end = desk.end_of("r")
    assert isinstance(end, RequestCancelled)
    assert 0 < len(end.answers) <= SAMPLING.beam_width
    assert desk.cells.num_used == 0


def test_a_stop_string_ends_a_beam_before_it_appears(tmp_path: Path):
    desk = LoopDesk(shared_file("models/stories260K-f32.gguf"), make_beams=Beams)
    free = desk.write("Once upon a time", replace(SAMPLING, length_penalty=0.0), "free").answers[0].text
    stop = free.strip()[3:8]
    for answer in desk.write("Once upon a time", replace(SAMPLING, stop=(stop,)), "stopped").answers:
        assert stop not in answer.text
        if answer.finish_reason == "stop":
            assert not answer.text.endswith(stop[:-1])
    desk.close()


def test_a_banned_token_is_in_no_beam(desk: LoopDesk):
    found = desk.write("Once upon a time", SAMPLING, "free").answers
    banned = found[0].tokens[0]
    again = desk.write("Once upon a time", replace(SAMPLING, logit_bias=((banned, -math.inf),)), "banned").answers
    assert all(banned not in answer.tokens for answer in again)
