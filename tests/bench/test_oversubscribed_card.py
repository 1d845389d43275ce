"""Tests for tests.bench.oversubscribed_card and its sides: figures from what they reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf import GGUFReader

from engine.memory.devices import probe_devices
from tests.bench.ballast import taken
from tests.bench.bench_model import Shape, write_model
from tests.bench.card_server_side import NOT_TOLD, measured
from tests.bench.llama_server import ServerOptions, Streamed
from tests.bench.measured_answers import MeasuredAnswers
from tests.bench.oversubscribed_card import NO_CARD, SMALL, Bench, Point, Rounds, main, tell


def written(tokens_per_second: float, read_seconds: float) -> MeasuredAnswers:
    return MeasuredAnswers(((1, 2),), read_seconds, (1.0,), int(tokens_per_second), NOT_TOLD)


def test_a_server_is_measured_from_the_last_first_token_to_the_first_end():
    early = Streamed((1.0, 2.0, 3.0, 4.0), 0, started=10.0, tokens=(1, 2, 3, 4))
    late = Streamed((2.5, 3.0, 3.5, 4.5), 0, started=10.0, tokens=(5, 6, 7, 8))
    found = measured([early, late], begun=10.0)
    assert found.tokens == ((1, 2, 3, 4), (5, 6, 7, 8))
    assert found.read_seconds == 2.5
    # Two tokens of each answer in the 1.5 s after 12.5.
    assert found.num_written == 4
    assert found.tokens_per_second == pytest.approx(4 / 1.5)


def test_ratios_are_those_of_the_middle_round():
    ours = [written(20, 1.0), written(30, 1.0), written(10, 2.0)]
    theirs = [written(10, 2.0), written(10, 1.0), written(10, 1.0)]
    rounds = Rounds(ours, theirs)
    assert (rounds.writing, rounds.reading, rounds.same_text) == (2.0, 1.0, 1.0)


def test_a_prompt_that_is_read_by_itself_is_told_without_an_answer(tmp_path: Path):
    bench = Bench(SMALL, Path("m.gguf"), Path("server"), Path("profile.json"))
    # The answer ended with the token that shows the prompt was read.
    read = [MeasuredAnswers(((1,),), seconds, (), 0, NOT_TOLD) for seconds in (1.0, 3.0)]
    bench.rounds = {"8gb_read": Rounds([read[0]], [read[1]]), "8gb_b1": Rounds([written(20, 1.0)], [written(10, 1.0)])}
    tell(bench, tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert {name: found["ratios"][name] for name in ("stock_8gb_read", "stock_8gb_b1")} == {
        "stock_8gb_read": 3.0,
        "stock_8gb_b1": 2.0,
    }


@pytest.mark.skipif(bool(probe_devices()), reason="there is a card")
def test_without_a_card_nothing_is_written_or_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--quick", "--peers", str(tmp_path)]) == NO_CARD
    assert "no graphics card" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_points_are_told_apart_by_card_and_memory():
    assert [Point(8).name, Point(8, 6).name] == ["8gb", "8gb_6gb_ram"]


def test_a_server_that_fits_layers_itself_is_told_so():
    options = ServerOptions(512, 2, fits_itself=True)
    assert " --fit on " in " ".join(options.arguments(Path("server"), {}, 1)) + " "
    assert " --fit off " in " ".join(ServerOptions(512, 2).arguments(Path("server"), {}, 1)) + " "


def test_further_layers_have_the_weights_of_those_that_were_drawn(tmp_path: Path):
    shape = Shape("tiny", layers=4, width=64, feed_forward=64, heads=2, kv_heads=1, vocabulary=512, drawn_layers=2)
    write_model(tmp_path / "m.gguf", shape)
    tensors = {tensor.name: bytes(tensor.data) for tensor in GGUFReader(tmp_path / "m.gguf").tensors}
    assert tensors["blk.0.ffn_up.weight"] == tensors["blk.2.ffn_up.weight"] != tensors["blk.1.ffn_up.weight"]
    assert tensors["blk.1.attn_q.weight"] == tensors["blk.3.attn_q.weight"]


@pytest.mark.skipif(bool(probe_devices()), reason="there is a card")
def test_without_a_card_nothing_can_be_taken():
    with pytest.raises(SystemExit, match="no graphics card"):
        list(taken(10**9))
