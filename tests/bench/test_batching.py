"""Tests for tests.bench.batching, tests.bench.reserving, tests.bench.azure and our side of them."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from engine.generation.context import Context
from engine.generation.segment import Segment
from tests.bench import batching
from tests.bench.azure import CONVERSATIONS, Length, Scale, read_lengths, sample
from tests.bench.bench_model import bench_model
from tests.bench.our_generation import Kept, OurGeneration, greedy
from tests.bench.reserving import Ranges, Reserving, policies, power_of_two
from tests.bench.scripted_server import SERVER, program
from tests.bench.test_bench_model import SMALL

LENGTHS = [Length(9, 5), Length(20, 3), Length(4, 8), Length(30, 2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bench_model(tmp_path_factory.mktemp("models"), SMALL)


def test_lengths_are_brought_to_scale_and_too_long_ones_left_out() -> None:
    scale = Scale(prompt_divisor=16, answer_divisor=2, most=100)

    assert scale(Length(160, 50)) == Length(10, 25)
    assert scale(Length(3, 1)) == Length(1, 1)
    assert scale(Length(1_600, 50)) is None


def test_a_choice_of_requests_is_the_same_for_a_seed() -> None:
    lengths, scale = [Length(number, number) for number in range(1, 200)], Scale(1, 1, 200)

    assert sample(lengths, 10, scale, seed=1) == sample(lengths, 10, scale, seed=1) != sample(lengths, 10, scale, 2)
    assert all(length.total <= 200 for length in sample(lengths, 50, scale, seed=3))


def test_a_trace_is_read_row_by_row(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,374,44\nlater,396,109\n", encoding="utf-8")

    assert read_lengths(file) == [Length(374, 44), Length(396, 109)]


@pytest.mark.skipif(not CONVERSATIONS.is_file(), reason="the Azure traces are not beside this checkout")
def test_the_trace_has_all_its_requests() -> None:
    assert len(read_lengths(CONVERSATIONS)) == 19_366


@pytest.mark.parametrize(("count", "power"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_answers_are_rounded_up_to_powers_of_two(count: int, power: int) -> None:
    assert power_of_two(count) == power


def test_policies_reserve_ever_less() -> None:
    reserved = {name: reserve(Length(100, 65)) for name, reserve in policies(2048).items()}

    assert reserved == {"max": 2048, "pow2": 228, "oracle": 165}


def test_ranges_are_in_one_piece_and_never_overlap() -> None:
    ranges = Ranges(10)
    assert [ranges.take(4), ranges.take(4), ranges.take(3)] == [0, 4, None]

    ranges.give_back(0)

    # Six cells are free, in ranges of four and two, so five do not fit.
    assert ranges.take(5) is None
    assert ranges.take(3) == 0
    assert ranges.take(2) == 8


@pytest.mark.parametrize("policy", ["max", "pow2", "oracle"])
def test_reserved_answers_are_those_of_the_step_loop(model: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Padding a batch changes the order of summation, and a random model's likeliest tokens are nearly tied.
    monkeypatch.setattr(Context, "_num_to_add", lambda *_: 0)
    texts = batching.prompts(SMALL, [length.prompt for length in LENGTHS], (1,))
    with OurGeneration(model, 128, num_sequences=8) as ours:
        for number, (text, length) in enumerate(zip(texts, LENGTHS, strict=True)):
            ours.submit(str(number), (Segment(text),), greedy(length.answer))
        while ours.loop.has_work:
            ours.step()
        written = [ours.answered[str(number)].answers[0].tokens for number in range(len(LENGTHS))]
        reserving = Reserving(ours.context, policies(64)[policy], step_tokens=16)
        batched = reserving.answer_all(texts, LENGTHS)
        ours.context.clear()

    assert [len(tokens) for tokens in written] == [length.answer for length in LENGTHS]
    assert reserving.answers == [list(tokens) for tokens in written]
    assert batched.tokens_per_second > 0
    assert 0 <= batched.utilisation <= 1


def test_our_side_keeps_what_it_read_over_a_restart(model: Path, tmp_path: Path) -> None:
    kept = Kept(tmp_path / "kept", ram_bytes=1 << 20, disk_bytes=1 << 24)
    text = batching.prompts(SMALL, [100], (2,))[0]
    segments = (Segment(text[:64], "passage", frozenset((1,))), Segment(text[64:]))

    reads = []
    for run in range(2):
        with OurGeneration(model, 256, num_sequences=16, kept=kept) as ours:
            reads += [ours.ask(f"{run} {place}", segments, greedy(3)).read for place in range(2)]

    assert reads[0] is not None
    assert reads[0].computed_tokens == 100
    assert all(read is not None and read.cached_tokens >= 64 for read in reads[1:])


def test_as_many_are_asked_at_once_as_was_said(model: Path) -> None:
    texts = batching.prompts(SMALL, [8] * 5, (3,))
    with OurGeneration(model, 256, num_sequences=16) as ours:
        asked = ((str(number), (Segment(text),)) for number, text in enumerate(texts))
        answered = ours.answer_all(asked, greedy(4), at_once=2)

    assert [len(one.token_times) for one in answered] == [4] * 5
    assert answered[2].submitted >= min(answered[0].token_times[-1], answered[1].token_times[-1])


def test_speed_counts_only_while_all_are_writing() -> None:
    times = [[0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0]]

    # From 2 to 3: one token of each answer.
    assert batching.steady_rate(times) == 2.0


def test_the_worst_number_of_answers_counts() -> None:
    ours = {"tokens_per_s_1": 40.0, "tokens_per_s_16": 72.0}
    theirs = {"tokens_per_s_1": 38.0, "tokens_per_s_16": 80.0}

    sharing = {"tokens_per_s_16": 72.0}
    named = batching.named_ratios(ours, theirs, sharing)
    assert named == {"llama_server": 0.9, "llama_server_sharing": 1.0}


def test_ratios_have_the_names_that_were_promised() -> None:
    ours = {"tokens_per_s_1": 40.0, "backlog_utilisation": 0.97, "backlog_tokens_per_s": 60.0}
    ours |= {f"backlog_{name}_tokens_per_s": 30.0 for name in ("max", "pow2", "oracle")}

    named = batching.named_ratios(ours, {"tokens_per_s_1": 40.0})

    assert named.keys() == batching.BOUNDS.keys()
    assert named["cell_utilisation"] == 0.97
    assert named["reservation_max"] == 2.0


@pytest.mark.parametrize(("speed", "is_kept"), [(41.0, True), (50.0, False)])
def test_what_was_measured_beside_a_server_is_told_and_judged(
    speed: float,
    is_kept: bool,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = {"tokens_per_s_1": 40.0, "backlog_utilisation": 0.97, "backlog_tokens_per_s": 60.0}
    ours |= {f"backlog_{name}_tokens_per_s": 30.0 for name in ("max", "pow2", "oracle")}

    def run(bench: batching.Bench) -> None:
        bench.ours, bench.theirs, bench.sharing = ours, {"tokens_per_s_1": speed}, {"tokens_per_s_1": 80.0}

    monkeypatch.setattr(batching.Bench, "run", run)
    monkeypatch.setattr(batching, "bench_model", lambda *_: model)
    file = tmp_path / "found.json"
    options = Namespace(quick=True, peers=tmp_path, json=file)

    assert batching._measure(options, tmp_path / "llama-server") is is_kept
    # Slots that share all cells have no bound: the difference is llama.cpp's own cost of sharing.
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  llama_server_sharing"))
    assert "bound" not in line
    assert json.loads(file.read_text())["ratios"]["llama_server_sharing"] == 0.5


@pytest.mark.skipif(not CONVERSATIONS.is_file(), reason="the Azure traces are not beside this checkout")
def test_the_whole_bench_finds_every_ratio(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "TOGETHER", (1, 3))
    monkeypatch.setattr(batching, "SCALE", Scale(prompt_divisor=64, answer_divisor=32, most=batching.LONGEST))
    bench = batching.Bench(batching.Size(SMALL, rounds=1, requests=8, cells=4096), model, program(tmp_path, SERVER))

    bench.run()

    named = batching.named_ratios(bench.ours, bench.theirs)
    assert named.keys() == batching.BOUNDS.keys()
    assert bench.sharing.keys() == {"tokens_per_s_3"}
    # Four answers share all but the end of the prompt; six beams share more than half of everything.
    assert 0.5 < bench.ours["cells_saved_by_4_answers"] < 0.75
    assert 0.5 < bench.ours["cells_saved_by_beam_6"] < 1.0
