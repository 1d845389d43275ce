"""Tests for tests.bench.our_side and tests.bench.direct_bandwidth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.generation.request import PromptRead, RequestFinished, TextWritten
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from tests.bench import our_side
from tests.bench.batching import prompts
from tests.bench.bench_model import Shape, bench_model
from tests.bench.confined import Group, Usage
from tests.bench.direct_bandwidth import layer_extents
from tests.bench.our_side import OurSide, Way, Writing, planned_for

DEEP = Shape("deep", layers=6, width=256, feed_forward=512, heads=4, kv_heads=2, vocabulary=2_000, context=2048)
TOKENS = 6


class Anywhere(Group):
    """A group without a limit."""

    def usage(self) -> Usage:
        return Usage(anonymous_bytes=1, shared_bytes=0, file_bytes=0, limit_hits=0, kills=0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bench_model(tmp_path_factory.mktemp("models"), DEEP)


@pytest.fixture
def started(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns a function that starts sides, with layers streamed or as planned; closes them afterwards."""
    sides: list[OurSide] = []

    def streamed(placement: Placement) -> Placement:
        return replace(placement, streamed_layers=(1, 2, 4, 5), ring_slots=2, is_repacked=False)

    def unpacked(placement: Placement) -> Placement:
        return replace(placement, is_repacked=False)

    monkeypatch.setitem(our_side.WAYS, "streamed", Way(placed=streamed))
    monkeypatch.setitem(our_side.WAYS, "unpacked", Way(placed=unpacked))

    def start(way: str, at_once: int) -> OurSide:
        settings = {"model": str(model), "way": way, "at_once": at_once, "context_tokens": 128, "num_threads": 1}
        sides.append(OurSide(settings, Anywhere(model.parent, 1)))
        return sides[-1]

    yield start
    for side in sides:
        side.close()


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
@pytest.mark.parametrize("at_once", [1, 3])
def test_what_is_streamed_is_written_alike_and_counted(started: Any, model: Path, at_once: int) -> None:
    asked = {"prompts": prompts(DEEP, [16] * at_once, (at_once,)), "num_tokens": TOKENS}
    whole, ring = started("unpacked", at_once).write(asked), started("streamed", at_once).write(asked)

    assert ring.tokens == whole.tokens
    assert ring.checksums == whole.checksums
    assert [len(sums) for sums in ring.checksums] == [TOKENS] * at_once
    assert [len(answer) for answer in ring.tokens] == [TOKENS] * at_once
    assert ring.num_written == at_once * (TOKENS - 1)
    assert whole.streamed_bytes == 0
    # Each pass reads all of these layers except what they share with their neighbours.
    layers = sum(length for _, length in layer_extents(model, (1, 2, 4, 5)))
    assert ring.streamed_bytes_per_pass == pytest.approx(layers, rel=0.35)


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
def test_layers_move_while_an_answer_is_written_and_it_stays_the_same(started: Any) -> None:
    asked = {"prompts": prompts(DEEP, [16], (5,)), "num_tokens": 13}
    side = started("streamed", 1)
    still = side.write(asked)

    moved = side.write({**asked, "pinned_shares": (0.2, 0.8, 0.2), "stride": 4})

    assert moved.tokens == still.tokens
    assert len(moved.pass_seconds) == 12


@pytest.mark.parametrize(("prompt_tokens", "n_ubatch"), [(64, 128), (384, 512)])
def test_the_planner_reads_prompts_in_batches_that_suit_their_length(
    model: Path, prompt_tokens: int, n_ubatch: int
) -> None:
    settings = {"model": str(model), "at_once": 1, "num_threads": 1, "prompt_tokens": prompt_tokens, "tokens": 16}
    # Where computing takes no time, few passes are best.
    fast = Profile(processor_rate=1e15)

    planned = planned_for({**settings, "context_tokens": 512}, fast, Ledger())

    assert planned.placement.n_ubatch == n_ubatch


def test_as_many_are_answered_at_once_as_are_asked_for_also_on_a_slow_processor(model: Path) -> None:
    settings = {"model": str(model), "at_once": 8, "num_threads": 1, "prompt_tokens": 32, "tokens": 12}
    slow = Profile(processor_rate=1e9)

    planned = planned_for({**settings, "context_tokens": 128}, slow, Ledger())

    assert planned.placement.num_slots == 8


def test_given_tokens_are_written_with_drafts_and_without(started: Any) -> None:
    side = started("ours", 1)
    [prompt] = prompts(DEEP, [64], (7,))
    given = prompt[20:50]
    asked = {"prompts": [prompt], "num_tokens": len(given), "given": given, "quotable": prompt}

    for has_drafts in (True, False):
        measured = side.write({**asked, "has_drafts": has_drafts})
        assert measured.tokens == (given,)
        assert measured.ledger_bytes > 0


def test_writing_lasts_from_the_last_first_token_to_the_first_end() -> None:
    writing = Writing({"a", "b"})
    read = [PromptRead(request_id, 0, 16, 0.1) for request_id in ("a", "b")]
    text = TextWritten("a", "word", 1)

    assert not writing.note([read[0]], 1.0)
    assert writing.note([text, read[1]], 2.0)
    assert not writing.note([text], 3.0)
    assert writing.is_under_way
    writing.note([RequestFinished("a", ())], 4.0)
    writing.note([text], 5.0)

    assert writing.pass_seconds == [3.0, 4.0]
    assert writing.read_seconds > 0


def test_layers_lie_where_their_tensors_do(model: Path) -> None:
    first, second = layer_extents(model, (1, 2))

    assert first[1] == second[1]
    assert second[0] >= first[0] + first[1]
    assert first[0] + 2 * first[1] < model.stat().st_size
