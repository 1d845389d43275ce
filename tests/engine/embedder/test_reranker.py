"""Tests for engine.embedder.reranker, on a tiny cross-encoder with random weights."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pytest

from engine.config import MIB
from engine.embedder import backends
from engine.embedder import reranker as reranker_module
from engine.embedder.reranker import CrossEncoderReranker, check, wanted_bytes
from engine.embedder.reranker_spec import RerankerSpec, resolve
from engine.errors import EmbedderUnavailable
from engine.memory.ledger import Ledger
from tests.helpers.tiny_reranker import write_tiny_reranker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_reranker(tmp_path_factory.mktemp("cross-encoder"))


def test_pairs_are_scored_and_the_bytes_are_in_the_ledger(folder: Path):
    ledger = Ledger()
    reranker = CrossEncoderReranker(str(folder), ledger)
    assert ledger.spans() == ()
    scores = reranker.scores("what is a mutex", ["a mutex guards", "bread", "a mutex guards"])
    assert len(scores) == 3
    assert scores[0] == pytest.approx(scores[2], abs=1e-5)
    assert scores[0] != pytest.approx(scores[1], abs=1e-7)
    assert ledger.held_bytes("ram", "reranker") > 0
    reranker.close()
    reranker.close()
    assert ledger.spans() == ()


def test_a_search_that_ends_after_it_was_switched_off_loads_it_no_more(folder: Path):
    ledger = Ledger()
    reranker = CrossEncoderReranker(str(folder), ledger)
    reranker.scores("what is a mutex", ["a mutex guards"])
    reranker.close()
    assert reranker.scores("what is a mutex", ["a mutex guards", "bread"]) == [0.0, 0.0]
    assert ledger.spans() == ()


def test_it_has_all_cores_also_where_the_embedder_left_the_thread_a_single_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    told: list[int] = []
    monkeypatch.setattr(backends, "default_threads", lambda: 3)
    monkeypatch.setattr(backends, "set_threads", told.append)
    CrossEncoderReranker(str(folder), Ledger()).scores("what is a mutex", ["a mutex guards"])
    assert told == [3]


def test_nothing_to_score_loads_nothing():
    assert CrossEncoderReranker("nobody/has-this", Ledger()).scores("what", []) == []


def test_a_model_that_is_not_here_is_named_with_a_way_out(tmp_path: Path):
    with pytest.raises(EmbedderUnavailable, match="nobody/has-this"):
        CrossEncoderReranker("nobody/has-this", Ledger()).scores("what", ["a mutex"])
    with pytest.raises(EmbedderUnavailable, match="holds no reranker"):
        CrossEncoderReranker(str(tmp_path), Ledger()).scores("what", ["a mutex"])


def test_weights_that_are_cut_short_are_told_of(folder: Path, tmp_path: Path):
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    file = cut / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        CrossEncoderReranker(str(cut), Ledger()).scores("what", ["a mutex"])


def test_what_it_gave_back_it_loads_again(folder: Path):
    ledger = Ledger()
    reranker = CrossEncoderReranker(str(folder), ledger)
    before = reranker.scores("what is a mutex", ["a mutex guards", "bread"])
    reranker.unload()
    assert (reranker.is_loaded, ledger.spans()) == (False, ())
    assert reranker.scores("what is a mutex", ["a mutex guards", "bread"]) == pytest.approx(before)
    reranker.close()


def test_more_is_wanted_for_it_where_its_libraries_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch):
    import sentence_transformers

    assert sentence_transformers
    there = wanted_bytes(resolve(str(folder)))
    monkeypatch.delitem(sys.modules, "sentence_transformers")
    assert wanted_bytes(resolve(str(folder))) == there + 256 * MIB


def test_one_whose_figures_are_none_does_not_pass(folder: Path, tmp_path: Path):
    import torch
    from safetensors.torch import load_file, save_file

    check(resolve(str(folder)))
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = load_file(broken / "model.safetensors")
    weights["classifier.bias"] = torch.full_like(weights["classifier.bias"], float("nan"))
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(EmbedderUnavailable, match="no number"):
        check(resolve(str(broken)))


def test_closing_it_waits_for_no_load_and_what_was_loaded_then_is_given_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    begun, may_end, load = threading.Event(), threading.Event(), reranker_module._load

    def slow(spec: RerankerSpec) -> object:
        model = load(spec)
        begun.set()
        assert may_end.wait(60)
        return model

    monkeypatch.setattr(reranker_module, "_load", slow)
    ledger, scores = Ledger(), list[list[float]]()
    reranker = CrossEncoderReranker(str(folder), ledger)
    searching = threading.Thread(target=lambda: scores.append(reranker.scores("what is a mutex", ["a mutex"])))
    closing = threading.Thread(target=reranker.close)
    searching.start()
    assert begun.wait(60)
    closing.start()
    closing.join(10)
    waited = closing.is_alive()
    may_end.set()
    searching.join(60)
    closing.join(60)
    assert not waited
    assert (reranker.is_loaded, ledger.spans(), scores) == (False, (), [[0.0]])
