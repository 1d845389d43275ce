"""Tests for engine.generation.drafting."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from engine.core import SamplingParams
from engine.generation import drafting
from engine.generation.drafting import Acceptance, PassCosts, PromptLookup, draft_lengths
from engine.generation.request import Request
from engine.generation.segment import Segment
from engine.generation.sequence import Guess
from tests.helpers.loop_desk import LoopDesk
from tests.helpers.tiny_gguf import write_tiny_model

PROMPT = tuple(range(1000, 1010))


def costs_of(first: float, more: float) -> PassCosts:
    """Passes that take `first` for one token and `more` for each further one."""
    costs = PassCosts()
    for num_tokens in (1, 2, 4, 8, 16, 32, 64):
        costs.note(num_tokens, 1, first + more * (num_tokens - 1))
    return costs


def draft_length(likely: Sequence[float], costs: PassCosts, num_writing: int = 1) -> int:
    """The only guess in a pass."""
    [length] = draft_lengths([Guess(range(len(likely)), likely, costs.seconds)], num_writing)
    return length


def drafted(lookup: PromptLookup, tokens: list[int], max_tokens: int) -> list[int]:
    """What is drafted when no other answer is being written."""
    guess = lookup.draft(tokens, max_tokens)
    return list(guess.tokens[: draft_lengths([guess])[0]])


def write(answer: list[int], quotable: tuple[int, ...], costs: PassCosts) -> Iterator[tuple[list[int], list[int]]]:
    """What is drafted in each pass, and how much of it comes true, as the step loop would drive it."""
    lookup = PromptLookup(Request("r", (Segment(PROMPT),), quotable=quotable), costs)
    tokens, end = [*PROMPT, answer[0]], len(PROMPT) + len(answer)
    while len(tokens) < end:
        rest = answer[len(tokens) - len(PROMPT) :]
        draft = drafted(lookup, tokens, len(rest) - 1)
        good = next((index for index, token in enumerate(draft) if token != rest[index]), len(draft))
        yield draft, draft[:good]
        tokens += rest[: good + 1]


def test_what_follows_in_a_passage_is_drafted():
    passage = tuple(range(50))
    drafts = list(write([7, 8, 9, *range(10, 40)], passage, costs_of(1.0, 0.01)))
    assert drafts[0] == ([], [])
    assert drafts[1][0] == list(range(9, 9 + len(drafts[1][0])))
    assert len(drafts) < 8
    assert all(draft == good for draft, good in drafts)


def test_what_was_said_before_is_drafted_too():
    answer = [*range(20), 99, *range(20), 98]
    drafts = list(write(answer, (), costs_of(1.0, 0.01)))
    assert sum(len(good) for _, good in drafts) > 10


def test_the_longest_match_is_taken_and_of_equals_the_last():
    quotable = (9, 2, 3, 70, 71, 5, 1, 2, 3, 90, 91, 8, 2, 3, 80, 81, 0)
    for prompt, foretold in (((5, 1, 2), 90), ((9, 2), 70), ((6, 2), 80)):
        lookup = PromptLookup(Request("r", (Segment(prompt),), quotable=quotable), costs_of(1.0, 0.0))
        assert drafted(lookup, [*prompt, 3], 4)[0] == foretold


def test_nothing_is_drafted_where_nothing_matches():
    assert all(not draft for draft, _ in write(list(range(500, 600)), tuple(range(50)), costs_of(1.0, 0.0)))


def test_nothing_is_drafted_where_a_token_more_costs_as_much_as_a_pass():
    passage = tuple(range(50))
    assert all(not draft for draft, _ in write(list(range(50)), passage, costs_of(1.0, 1.0)))


def test_a_pass_has_a_size_that_is_computed_well():
    for probability in (0.7, 0.9, 0.99):
        length = draft_length([probability] * 60, costs_of(1.0, 0.1), num_writing=3)
        assert (3 + length) % 4 == 0


def test_drafts_stay_within_what_is_left_to_write():
    passage = tuple(range(200))
    for draft, _ in write(list(range(20)), passage, costs_of(1.0, 0.0)):
        assert len(draft) <= 18


def test_an_answer_that_only_seems_to_quote_costs_little():
    pick = random.Random(5)
    passage = tuple(pick.randrange(40) for _ in range(2000))
    # Pairs of tokens recur by chance all the time, and rarely continue in the same way.
    answer = [pick.randrange(40) for _ in range(600)]
    costs = costs_of(1.0, 0.4)
    taken = sum(costs.seconds(1 + len(draft)) for draft, _ in write(answer, passage, costs))
    assert taken <= len(answer) / 0.97


@pytest.mark.parametrize(("more", "gain"), [(0.3, 1.5), (0.1, 3.0), (0.01, 6.0)])
def test_an_answer_that_quotes_is_written_faster(more: float, gain: float):
    pick = random.Random(6)
    passage = tuple(pick.randrange(5000) for _ in range(3000))
    answer: list[int] = []
    while len(answer) < 500:
        start = pick.randrange(2900)
        answer += [pick.randrange(5000) for _ in range(6)] + list(passage[start : start + 70])
    costs = costs_of(1.0, more)
    taken = sum(costs.seconds(1 + len(draft)) for draft, _ in write(answer, passage, costs))
    assert len(answer) / taken >= gain


def test_drafts_are_longer_where_a_pass_costs_much_and_a_token_little():
    likely = [0.9] * 64
    assert draft_length(likely, costs_of(1.0, 0.5)) < draft_length(likely, costs_of(1.0, 0.05))
    assert draft_length(likely, costs_of(1.0, 0.05)) < draft_length(likely, costs_of(1.0, 0.001))


@pytest.mark.parametrize("more", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("probability", [0.2, 0.6, 0.9, 0.99])
def test_no_other_length_would_be_faster(more: float, probability: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafting, "MIN_GAIN", 1.0)
    likely = [probability] * 40
    costs = costs_of(1.0, more)

    def rate(length: int) -> float:
        return sum(probability**index for index in range(length + 1)) / costs.seconds(1 + length)

    chosen = draft_length(likely, costs)
    sizes = [0, *range(3, 41, 4)]
    assert chosen in sizes
    assert rate(chosen) >= max(rate(length) for length in sizes) - 1e-12


def test_what_others_write_in_the_pass_counts():
    likely, costs = [0.9] * 40, costs_of(1.0, 0.1)
    assert draft_length(likely, costs, num_writing=16) <= draft_length(likely, costs)
    assert draft_length([0.3] * 40, costs, num_writing=16) == 0


def test_a_pass_that_answers_share_has_a_good_size_and_the_likeliest_tokens_of_all():
    costs = costs_of(1.0, 0.05)
    surer, doubtful, none = Guess(range(30), [0.95] * 30), Guess(range(30), [0.5] * 30), Guess()
    guesses = [replace(guess, pass_seconds=costs.seconds) for guess in (surer, doubtful, none, surer)]
    lengths = draft_lengths(guesses, num_writing=5)
    assert (5 + sum(lengths)) % 4 == 0
    assert lengths[0] > lengths[1] > 0 == lengths[2]
    assert abs(lengths[0] - lengths[3]) <= 1
    assert lengths[1] <= 6


@pytest.mark.parametrize("more", [0.02, 0.1, 0.3])
def test_no_other_share_of_the_pass_would_be_faster(more: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafting, "MIN_GAIN", 1.0)
    costs, chances = costs_of(1.0, more), (0.9, 0.6, 0.8)

    def rate(lengths: Sequence[int]) -> float:
        shares = zip(chances, lengths, strict=True)
        written = (sum(chance**n for n in range(length + 1)) for chance, length in shares)
        return sum(written) / costs.seconds(3 + sum(lengths))

    guesses = [Guess(range(9), [chance] * 9, costs.seconds) for chance in chances]
    chosen = draft_lengths(guesses, num_writing=3)
    others = [lengths for lengths in product(range(10), repeat=3) if sum(lengths) % 4 == 1 or not sum(lengths)]
    assert rate(chosen) >= max(map(rate, others)) - 1e-12


def test_without_a_price_all_of_every_guess_is_drafted():
    assert draft_lengths([Guess([1, 2, 3]), Guess(), Guess([4])], num_writing=3) == [3, 0, 1]


def test_nothing_is_drafted_before_a_pass_was_measured():
    assert draft_length([1.0] * 8, PassCosts()) == 0


def test_costs_are_drawn_through_what_was_measured():
    costs = costs_of(1.0, 0.1)
    assert costs.seconds(1) == pytest.approx(1.0)
    assert costs.seconds(3) == pytest.approx(1.2)
    assert costs.seconds(128) == pytest.approx(13.7)
    assert costs.seconds(129) is None


def test_what_reads_a_prompt_says_nothing_of_drafts():
    costs = costs_of(1.0, 0.1)
    costs.note(40, 0, 1000.0)
    costs.note(120, 1, 1000.0)
    assert costs.seconds(128) == pytest.approx(13.7)


def test_a_pass_that_was_held_up_counts_little_and_is_forgotten():
    costs = costs_of(1.0, 0.1)
    costs.note(4, 1, 1000.0)
    assert costs.seconds(4) < 2.0
    fresh = PassCosts()
    fresh.note(8, 1, 1000.0)
    for _ in range(300):
        fresh.note(1, 1, 1.0)
    assert fresh.seconds(4) < 10.0
    assert fresh.seconds(8) is None


def test_more_tokens_never_seem_to_take_less():
    costs = costs_of(1.0, 0.1)
    for _ in range(30):
        costs.note(2, 1, 3.0)
    seconds = [costs.seconds(num_tokens) for num_tokens in range(1, 100)]
    assert seconds == sorted(seconds)


def test_longer_matches_are_trusted_more_until_they_prove_wrong():
    acceptance = Acceptance()
    assert acceptance.likely(2) < acceptance.likely(8) < acceptance.likely(32) < 1
    for _ in range(20):
        acceptance.note(8, is_hit=False)
    assert acceptance.likely(8) < 0.2 < acceptance.likely(2)
    for _ in range(60):
        acceptance.note(8, is_hit=True)
    assert acceptance.likely(8) > 0.6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 1.0, "mirostat": True},
        {"temperature": 0.7, "dry_multiplier": 0.8, "xtc_probability": 0.5, "xtc_threshold": 0.01},
        {"temperature": 1.0, "top_k": 0, "grammar": 'root ::= ([a-d]{4} " ")*'},
    ],
)
def test_drafts_change_no_answer_whatever_it_is_sampled_with(path: Path, changes: dict[str, object]):
    sampling = SamplingParams(**{"max_tokens": 60, "seed": 3, "repeat_penalty": 1.1, **changes})
    plain = LoopDesk(path)
    expected = plain.write("Once upon a time", sampling).answers[0]
    plain.close()
    drafting = LoopDesk(path, make_drafter=partial(PromptLookup, costs=costs_of(1.0, 0.01)))
    prompt = Segment(drafting.prompt("Once upon a time"))
    # A passage that says exactly what will be said, with a slip here and there.
    quotable = tuple(7 if place % 17 == 5 else token for place, token in enumerate(expected.tokens))
    drafting.loop.submit(Request("r", (prompt,), sampling, quotable=quotable))
    drafting.run()
    counters = drafting.loop.counters()
    assert drafting.finished("r").answers[0] == expected
    assert 0 < counters.accepted_tokens < counters.drafted_tokens
    drafting.close()
