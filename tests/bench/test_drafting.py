"""Tests for tests.bench.duel and tests.bench.quoting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import SamplingParams
from engine.generation.drafting import PassCosts
from engine.generation.model import Model
from tests.bench import quoting
from tests.bench.bench_model import Shape, plain_tokens, write_model
from tests.bench.duel import Pace, duel, most_by_passes
from tests.bench.quoting import Library, Recorded

SMALL = Shape("small", layers=2, width=64, feed_forward=96, heads=4, kv_heads=2, vocabulary=4_000, context=4096)
TOKENS = plain_tokens(SMALL.vocabulary)


@pytest.fixture(params=["real", "made up"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    if request.param == "made up":
        monkeypatch.setattr(quoting, "SQUAD", Path("none"))
    elif not quoting.SQUAD.exists():
        pytest.skip("shared data is not beside this checkout: SQuAD")
    return Library(TOKENS, seed=5)


def longest_quote(recorded: Recorded) -> int:
    """Tokens of the longest stretch that the answer has in common with the passages."""
    passages, answer = " " + " ".join(map(str, recorded.quotable)) + " ", recorded.answer

    def is_quoted(start: int, end: int) -> bool:
        return " " + " ".join(map(str, answer[start:end])) + " " in passages

    spans = ((start, end) for start in range(len(answer)) for end in range(start + 1, len(answer) + 1))
    return max(end - start for start, end in spans if is_quoted(start, end))


def test_one_answer_quotes_and_the_other_does_not(library: Library) -> None:
    quoting_answer, prose = library.quoting(150), library.prose(150)
    assert len(quoting_answer.answer) == len(prose.answer) == 150
    assert longest_quote(quoting_answer) >= 20
    assert longest_quote(prose) < 20
    assert set(quoting_answer.answer) <= set(TOKENS)


def test_the_same_seed_gives_the_same_answers(library: Library) -> None:
    again = Library(TOKENS, seed=5)
    assert library.quoting(80) == again.quoting(80)


def test_both_sides_write_the_same_and_drafts_save_passes(tmp_path: Path, library: Library) -> None:
    write_model(tmp_path / "small.gguf", SMALL)
    model = Model(tmp_path / "small.gguf", 0, lambda _: True)
    recorded = library.quoting(60, num_passages=1)
    ticks = iter(range(10**9))
    # A clock on which each pass takes as long as any other: drafts always pay.
    found = duel(model, [recorded], SamplingParams(max_tokens=60, seed=1), Pace(1, lambda: next(ticks)))
    assert found.are_same
    assert found.num_passes_saved_share > 0.1
    assert found.ratio > 1.1
    free = duel(model, [replace(recorded, answer=())], SamplingParams(max_tokens=20, temperature=0.0), Pace(1))
    assert free.are_same
    model.close()


def test_what_passes_take_says_how_much_there_is_to_gain() -> None:
    costs = PassCosts()
    assert most_by_passes(costs) == 1.0
    for num_tokens, seconds in ((1, 0.05), (4, 0.1), (16, 0.5)):
        costs.note(num_tokens, 1, seconds)
    assert most_by_passes(costs) == pytest.approx(2.0), "four tokens in the time of two; sixteen in that of ten"
