"""Tests for tests.bench.duel and tests.bench.quoting."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import SamplingParams
from engine.generation.drafting import PassCosts
from engine.generation.model import Model
from engine.generation.weights.stream import LayerStream
from engine.memory.ledger import Ledger
from engine.models.gguf import read_shape
from tests.bench import drafting, quoting
from tests.bench.bench_model import Shape, plain_tokens, write_model
from tests.bench.confined import CannotConfine
from tests.bench.duel import Pace, duel, most_by_passes
from tests.bench.peers import PeerFailed
from tests.bench.quoting import Library, Recorded
from tests.bench.streamed_duel import placed
from tests.helpers.machines import DESKTOP, MODELS

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
    """Returns the tokens of the longest stretch that answer and passages have in common."""
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
    # On this clock, each pass takes equally long, so drafts always pay.
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


# The layers are larger than pages, so that they can be read separately.
DEEPER = replace(SMALL, name="deeper", layers=6, width=256, feed_forward=768, heads=4, kv_heads=2)


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
def test_both_sides_of_a_model_that_is_streamed_read_layers_through_one_ring(tmp_path: Path, library: Library) -> None:
    write_model(tmp_path / "deeper.gguf", DEEPER)
    recorded = library.quoting(40, num_passages=1)
    found = []
    for is_streamed in (True, False):
        model = Model(tmp_path / "deeper.gguf", 0, lambda _: True, is_repacked=False)
        stream = LayerStream(model, model.path, (1, 2, 4), 2, Ledger()) if is_streamed else None
        ticks = iter(range(10**9))
        given, pace = SamplingParams(max_tokens=40, seed=1), Pace(1, lambda ticks=ticks: next(ticks))
        found.append(duel(model, [recorded], given, pace, stream=stream))
        if stream is not None:
            # Each pass reads three layers, for prompt and answer of both sides.
            assert stream.counters().read_bytes > 3 * 2 * 20 * min(read_shape(model.path).layer_bytes)
            stream.close()
        model.close()
    assert found[0].are_same
    assert found[0].num_passes_saved_share == found[1].num_passes_saved_share > 0.1


@pytest.mark.parametrize("shape", MODELS[:2], ids=lambda shape: shape.name)
def test_half_of_a_model_is_given_to_pinned_layers_and_the_ring(shape) -> None:
    half = shape.file_bytes // 2
    placement = placed(shape, half, DESKTOP, num_tokens=60)
    assert placement.streamed_layers
    assert placement.ring_slots
    assert not placement.is_repacked
    pinned = sum(shape.layer_bytes) - sum(shape.layer_bytes[layer] for layer in placement.streamed_layers)
    assert half / 3 < pinned < half
    more = placed(shape, half + half // 2, DESKTOP, num_tokens=60)
    assert len(more.streamed_layers) < len(placement.streamed_layers)
    assert not placed(shape, 3 * half, DESKTOP, num_tokens=60).streamed_layers


@pytest.mark.parametrize(
    ("streamed", "is_quick", "code"),
    [
        ({"with drafts": 30.0, "without": 10.0}, False, 0),
        ({"with drafts": 11.0, "without": 10.0}, False, 1),
        ({"with drafts": 11.0, "without": 10.0}, True, 0),
        (PeerFailed("It was killed."), False, 1),
        (PeerFailed("It was killed."), True, 0),
        (CannotConfine("There is no group."), False, 2),
        (CannotConfine("There is no group."), True, 0),
    ],
)
def test_a_quick_run_binds_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    streamed: dict[str, float] | Exception,
    is_quick: bool,
    code: int,
) -> None:
    def figures(*arguments: object) -> dict[str, float]:
        if isinstance(streamed, Exception):
            raise streamed
        return streamed

    kept = {"quoting": 2.0, "other": 1.0, "together_quoting": 1.0}
    monkeypatch.setattr(drafting, "bench_model", lambda folder, shape: tmp_path / "model.gguf")
    monkeypatch.setattr(drafting, "_measure", lambda *arguments: ({"same greedy text": 1.0}, dict(kept)))
    monkeypatch.setattr(drafting.streamed_duel, "figures", figures)
    assert drafting.main(["--quick"] if is_quick else []) == code
