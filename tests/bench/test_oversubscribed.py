"""Tests for tests.bench.oversubscribed: its figures, bounds and peers' models."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench import accelerate_peer, confined, oversubscribed
from tests.bench.accelerate_side import memory_room
from tests.bench.bench_model import SIX_HUNDRED_MILLION, THREE_BILLION, Shape
from tests.bench.confined import CannotConfine, Group
from tests.bench.direct_bandwidth import bandwidth, pieces
from tests.bench.llama_weights import comparable, tensors, weights_folder
from tests.bench.measured_answers import MeasuredAnswers, same_share
from tests.bench.oversubscribed import Bench
from tests.bench.oversubscription import Moved, Point, Rounds, Turns, batch_of_four, faults, least, named_ratios
from tests.bench.peers import PeerFailed
from tests.bench.process_marks import Marks
from tests.bench.test_bench_model import SMALL

QUIET = Marks(read_bytes=0, written_bytes=0, major_faults=0, limit_hits=0)
MIB = 2**20


def answers(seconds: float, streamed: int = 0, waited: float = 0.0, marks: Marks = QUIET) -> MeasuredAnswers:
    """Returns two passes of one token, each with these seconds, streamed bytes and seconds waited."""
    if marks == QUIET:
        marks = replace(QUIET, read_bytes=2 * streamed)
    return MeasuredAnswers(
        tokens=((7, 8, 9),),
        read_seconds=1.0,
        pass_seconds=(seconds, seconds),
        num_written=2,
        marks=marks,
        streamed_bytes=2 * streamed,
        waited_seconds=2 * waited,
        ledger_bytes=100,
        held_bytes=100,
        checksums=((4, 5, 6),),
    )


def rounds(*ours: MeasuredAnswers, stock: float = 1.0, bytes_per_second: float = 1000.0) -> Rounds:
    return Rounds(list(ours), [answers(stock)] * len(ours), [bytes_per_second] * len(ours))


def test_answers_come_back_as_they_were_told() -> None:
    told = answers(0.5, streamed=300, waited=0.1)

    assert MeasuredAnswers.heard(json.loads(json.dumps(told.told()))) == told


def test_rates_count_what_was_written_and_whole_ones_their_prompts_too() -> None:
    measured = answers(0.5)

    assert measured.tokens_per_second == 2.0
    assert measured.whole_tokens_per_second == 1.5


def test_a_ratio_is_that_of_the_middle_round() -> None:
    noisy = rounds(answers(0.25), answers(0.5), answers(4.0))

    # The rounds' ratios are 4, 2 and a quarter.
    assert noisy.over_stock == 2.0


def test_the_bound_is_what_the_disk_alone_would_take() -> None:
    # 400 bytes at 1,000 per second are 0.4 s of a pass of 0.5 s, of which 0.2 s were computed.
    measured = rounds(answers(0.5, streamed=400, waited=0.3))

    assert measured.bound_share == pytest.approx(0.8)
    assert measured.is_streaming_dominant
    assert measured.bound_figures(Point(1.2, 1)) == {"1.2x_b1_tokens_per_s": 2.5, "1.2x_b1_bytes_per_s": 1000.0}


def test_where_computing_takes_longer_the_disk_is_no_bound() -> None:
    measured = rounds(answers(0.5, streamed=100, waited=0.0))
    point = Point(1.7, 8)

    assert measured.bound_share == pytest.approx(0.2)
    assert not measured.is_streaming_dominant
    assert "bound_1.7x_b8" in named_ratios({point: measured})
    assert "bound_1.7x_b8" not in least({point: measured})


def test_what_fits_has_no_bound_of_the_disk() -> None:
    fitting = rounds(answers(0.5))

    assert fitting.bound_share is None
    assert fitting.bound_figures(Point(0.8, 1)) == {}
    assert fitting.read_share == 1.0


def test_ratios_have_the_names_that_were_promised() -> None:
    found = {
        Point(0.8, 1): rounds(answers(0.5)),
        Point(0.8, 4): rounds(answers(0.8)),
        Point(1.2, 1): rounds(answers(0.25, streamed=200, waited=0.2)),
        Point(2.5, 8): rounds(answers(0.5, streamed=450, waited=0.4)),
    }

    named = named_ratios(found)

    assert named.keys() == {
        *("stock_0.8x_b1", "stock_0.8x_b4", "stock_1.2x_b1", "stock_2.5x_b8"),
        *("bound_1.2x_b1", "bound_2.5x_b8", "stock_fits"),
    }
    assert named["stock_fits"] == pytest.approx(1.25)
    assert named["bound_2.5x_b8"] == pytest.approx(0.9)
    assert least(found) == {
        "stock_1.2x_b1": 2.5,
        "stock_fits": 0.97,
        "bound_1.2x_b1": 0.9,
        "bound_2.5x_b8": 0.9,
    }


def test_nothing_is_wrong_where_all_is_as_promised() -> None:
    assert faults({Point(1.2, 1): rounds(answers(0.5, streamed=400, waited=0.3))}) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"marks": replace(QUIET, read_bytes=840)}, "1.050 times the streamed bytes were read"),
        ({"marks": replace(QUIET, read_bytes=800, limit_hits=3)}, "hit 3 times while decoding"),
        ({"marks": replace(QUIET, read_bytes=800, major_faults=2)}, "2 major page faults"),
        ({"tokens": ((7, 8, 1),)}, "100% of the answers differ"),
        ({"ledger_bytes": 90}, "0.900 times the bytes held"),
        ({"checksums": ((4, 5, 7),)}, "100% of the answers have different logits"),
    ],
)
def test_each_broken_promise_is_a_sentence(change: dict[str, object], sentence: str) -> None:
    measured = replace(answers(0.5, streamed=400, waited=0.3), **change)  # type: ignore[arg-type]

    [told] = faults({Point(1.2, 1): rounds(measured)})

    assert told.startswith("1.2x_b1: ")
    assert sentence in told


def test_four_answers_at_once_must_pay() -> None:
    four = replace(answers(0.5), num_written=8)
    found = {Point(1.7, 1): rounds(answers(0.5)), Point(1.7, 4): rounds(four)}
    slow = {**found, Point(1.7, 4): rounds(replace(four, num_written=5))}

    assert batch_of_four(found) == 4.0
    assert faults(found) == []
    assert faults(slow) == ["At 1.7x, four answers reach 2.50 times the tokens/s of one; the bound is 3."]
    assert batch_of_four({}) is None


def test_a_step_while_layers_move_is_held_against_the_slower_steady_state() -> None:
    steady = replace(answers(0.5), pass_seconds=(0.4, 0.4, 0.4, 0.5, 0.1, 0.1, 0.4, 0.4, 0.4))
    slow = replace(steady, pass_seconds=(*steady.pass_seconds[:-1], 0.8), marks=replace(QUIET, written_bytes=4096))

    assert Moved(steady, stride=3).worst_step == pytest.approx(1.25)
    assert Moved(steady, stride=3).faults() == []
    assert Moved(slow, stride=3).faults() == [
        "While layers moved, a step took 2.00 times the slower steady state.",
        "While layers moved, 4,096 bytes were written.",
    ]


def test_turns_count_prompts_only_where_these_are_what_differs() -> None:
    writing, whole = Turns(), Turns(with_prompts=True)
    for turns in (writing, whole):
        turns.note(answers(0.5), answers(1.0))

    assert writing.ratio == 2.0
    assert whole.ratio == 1.5
    assert writing.figures("simpler") == {
        "simpler_ours_tokens_per_s": 2.0,
        "simpler_theirs_tokens_per_s": 1.0,
        "simpler_ratio": 2.0,
    }


def test_texts_are_compared_answer_by_answer() -> None:
    assert same_share([(1, 2), (3, 4)], [[1, 2], [3, 5]]) == 0.5


def test_what_was_found_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {Point(1.2, 1): rounds(answers(0.25, streamed=240, waited=0.2))}
    turns = {"next_layer_only": Turns([answers(0.5)], [answers(0.6)])}
    turns["next_layer_only_beside_hog"] = turns["next_layer_only"]
    file = tmp_path / "figures.json"

    assert oversubscribed.tell(found, turns, Moved(answers(0.5), stride=1), file)

    written = json.loads(file.read_text())
    assert written["ratios"]["stock_1.2x_b1"] == 4.0
    assert written["ratios"]["next_layer_only"] == pytest.approx(1.2)
    assert written["ours"]["next_layer_only_beside_hog_ratio"] == pytest.approx(1.2)
    assert "next_layer_only_beside_hog" not in written["ratios"]
    assert written["ours"]["moving_worst_step"] == 1.0
    assert "BROKEN" not in capsys.readouterr().out
    assert not oversubscribed.tell({Point(1.2, 1): rounds(answers(0.5, streamed=480, waited=0.4))}, {}, None, None)


def test_a_simpler_way_must_not_be_better(capsys: pytest.CaptureFixture[str]) -> None:
    found = {Point(1.2, 1): rounds(answers(0.25, streamed=240, waited=0.2))}

    for name in oversubscribed.SIMPLER:
        assert oversubscribed.tell(found, {name: Turns([answers(0.5)], [answers(0.49)])}, None, None)
        assert not oversubscribed.tell(found, {name: Turns([answers(0.5)], [answers(0.4)])}, None, None)
    assert capsys.readouterr().out.count("BROKEN") == len(oversubscribed.SIMPLER)


@dataclass
class Side:
    """Replaces a side's process: reports its prompt batches, and answers everything at once."""

    settled: dict[str, int]

    def ask(self, **asked: Any) -> dict[str, Any]:
        return answers(0.5).told()


@dataclass
class Sides:
    """Sides of a bench with the settings they are started with, and their prompt batch sizes by way."""

    bench: Bench
    ubatches: dict[str, int] = field(default_factory=lambda: {"ours": 128, "next_layer_only": 128, "phase_blind": 512})
    settings: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def started(self, module: str, settings: dict[str, Any], limit: object, *, is_ours: bool = False) -> Iterator[Side]:
        self.settings.append(settings)
        yield Side({"n_ubatch": self.ubatches[settings["way"]]})


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sides:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"weights")
    sides = Sides(Bench(oversubscribed.SMALL, model, model, model, Group(tmp_path, 2), None))
    monkeypatch.setattr(oversubscribed, "SideProcess", sides)
    return sides


def test_sides_are_placed_for_the_prompts_and_answers_that_they_are_asked_for(sides: Sides) -> None:
    sides.bench._compare_simpler()

    asked = [(one["way"], one["prompt_tokens"], one["tokens"], one["context_tokens"]) for one in sides.settings]
    assert asked[:2] == [("ours", 32, 8, 128), ("next_layer_only", 32, 8, 128)]
    assert asked[2:] == [("ours", 160, 4, 256), ("phase_blind", 160, 4, 256)]
    assert sides.bench.turns.keys() == {"next_layer_only", "phase_blind"}


def test_ways_that_come_to_the_same_are_not_compared(sides: Sides, capsys: pytest.CaptureFixture[str]) -> None:
    sides.ubatches["ours"] = 512

    sides.bench._compare_simpler()

    assert sides.bench.turns.keys() == {"next_layer_only"}
    assert "phase_blind is left out: both sides read prompts 512 tokens at a time.\n" in capsys.readouterr().out
    assert sides.bench.alike == {"phase_blind"}


def test_a_full_run_promises_what_it_is_known_for() -> None:
    promised = oversubscribed.FULL.ratios(with_accelerate=True)

    assert set(promised) >= {"stock_0.8x_b1", "stock_2.5x_b8", "stock_fits", "bound_1.2x_b4", "accelerate_1.2x_b1"}
    assert set(promised) >= set(oversubscribed.PROMISED)
    assert "bound_0.8x_b1" not in promised
    assert set(promised) - set(oversubscribed.FULL.ratios(with_accelerate=False)) == {"accelerate_1.2x_b1"}


@pytest.fixture
def unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Returns options of a run that measures nothing, and cannot install Accelerate."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"weights")
    monkeypatch.setattr(oversubscribed, "bench_model", lambda folder, shape: model)
    monkeypatch.setattr(oversubscribed, "measured", lambda profile, folder, sample: profile)
    monkeypatch.setattr(accelerate_peer, "interpreter", lambda folder: None)
    return argparse.Namespace(quick=False, no_accelerate=False, peers=tmp_path, json=None)


def all_found(bench: Bench) -> None:
    """Fills in good results for everything but Accelerate."""
    for factor in bench.size.factors:
        for at_once in bench.size.at_once:
            measured = replace(answers(0.25, streamed=240 * (factor > 1), waited=0.2), num_written=2 * at_once)
            bench.found[Point(factor, at_once)] = rounds(measured)
    bench.turns = {
        name: Turns([answers(0.5)], [answers(0.6)]) for name in (*oversubscribed.SIMPLER, "drafting_1.7x_b1")
    }


@pytest.mark.parametrize(
    ("changes", "code"), [({}, 1), ({"no_accelerate": True}, 0), ({"quick": True}, 0)], ids=["full", "without", "quick"]
)
def test_a_full_run_fails_without_a_ratio_that_it_promises_and_names_it(
    unmeasured: argparse.Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, bool],
    code: int,
) -> None:
    vars(unmeasured).update(changes)
    monkeypatch.setattr(Bench, "run", all_found)

    assert oversubscribed._measure(unmeasured, Group(tmp_path, 2)) == code

    told = [line.strip() for line in capsys.readouterr().out.splitlines() if "missing" in line]
    assert told == ["accelerate_1.2x_b1 is missing: it was not measured."] * code


def test_a_side_that_is_killed_fails_the_run_and_what_was_found_before_is_told(
    unmeasured: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(bench: Bench) -> None:
        bench.found[Point(1.2, 1)] = rounds(answers(0.25, streamed=240, waited=0.2))
        raise PeerFailed("our_side was killed: it needed more memory than its limit.")

    monkeypatch.setattr(Bench, "run", killed)

    assert oversubscribed._measure(unmeasured, Group(tmp_path, 2)) == 1

    said = capsys.readouterr()
    assert "our_side was killed" in said.err
    assert "stock_1.2x_b1" in said.out
    assert "phase_blind is missing" in said.out
    assert "stock_1.2x_b1 is missing" not in said.out


def test_answers_that_were_not_written_side_by_side_end_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    side, none = Side({}), replace(answers(0.5), pass_seconds=())
    assert oversubscribed._written(side, {}).pass_seconds  # type: ignore[arg-type]
    monkeypatch.setattr(Side, "ask", lambda self, **asked: none.told())
    with pytest.raises(PeerFailed, match="before the last one had begun"):
        oversubscribed._written(side, {})  # type: ignore[arg-type]


def test_a_context_has_room_for_an_answer_and_its_prompt_and_little_more() -> None:
    assert oversubscribed.room_for({"prompts": [range(32)], "num_tokens": 12}) == 128
    assert oversubscribed.room_for({"prompts": [range(100), range(200)], "num_tokens": 60}) == 384


def test_where_memory_cannot_be_limited_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find() -> None:
        raise CannotConfine("Memory cannot be limited here.")

    monkeypatch.setattr(confined, "find", find)

    assert oversubscribed.main(["--quick", "--peers", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "Memory cannot be limited here.\n"


def test_parts_are_read_in_whole_blocks() -> None:
    assert list(pieces([(4000, 20_000), (40_960, 100)], 8192)) == [(4096, 8192), (12_288, 8192), (20_480, 0)][:2]
    assert list(pieces([(0, 10_000)], 4096)) == [(0, 4096), (4096, 4096)]


def test_a_disk_is_read_at_some_speed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(MIB))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system cannot be read past the page cache")

    assert bandwidth(file, [(100, MIB - 200)], depth=2, chunk_bytes=64 * 1024, min_seconds=0.0) > 0


@pytest.mark.parametrize("shape", [THREE_BILLION, SIX_HUNDRED_MILLION])
def test_peers_of_16_bits_have_as_many_bytes_in_as_many_layers(shape: Shape) -> None:
    wider = sum(_size(dimensions) for _, dimensions in tensors(shape)) * 18 // 32
    other = comparable(shape)

    assert sum(_size(dimensions) for _, dimensions in tensors(other)) * 2 == pytest.approx(wider, rel=0.1)
    assert other.layers == shape.layers
    assert other.width // other.heads == 64
    assert other.heads % other.kv_heads == 0


def test_their_weights_are_finite_and_can_be_read(tmp_path: Path) -> None:
    from safetensors import safe_open

    folder = weights_folder(tmp_path, SMALL)
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.offset_keys()}
    expected = dict(tensors(SMALL))
    end = (folder / "model.safetensors").stat().st_size
    head = np.fromfile(folder / "model.safetensors", np.uint16, offset=end - 2 * SMALL.vocabulary * SMALL.width)
    values = (head.astype(np.uint32) << 16).view(np.float32)

    assert shapes == expected
    assert list(expected)[-1] == "lm_head.weight"
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(SMALL.width**-0.5, rel=0.5)
    assert weights_folder(tmp_path, SMALL) == folder


def test_memory_of_weights_is_what_the_limit_leaves(tmp_path: Path) -> None:
    folder = weights_folder(tmp_path, SMALL)
    room = memory_room(folder, limit_bytes=1000 * MIB, held_bytes=300 * MIB)

    assert 500 * MIB < room < 600 * MIB
    assert memory_room(folder, limit_bytes=100 * MIB, held_bytes=300 * MIB) == 0


def _size(dimensions: list[int]) -> int:
    size = 1
    for dimension in dimensions:
        size *= dimension
    return size
