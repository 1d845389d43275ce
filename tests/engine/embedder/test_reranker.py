"""Tests for engine.embedder.reranker, on a tiny cross-encoder with random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.embedder import backends
from engine.embedder.reranker import CrossEncoderReranker
from engine.errors import EmbedderUnavailable
from engine.memory.ledger import Ledger

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "mutex", "guards", "bread", "what", "is"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    # Other weights each time would now and then score two texts alike.
    torch.manual_seed(7)
    folder = tmp_path_factory.mktemp("cross-encoder")
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=64, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special).save_pretrained(folder)
    return folder


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
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        CrossEncoderReranker(str(tmp_path), Ledger()).scores("what", ["a mutex"])


def test_weights_that_are_cut_short_are_told_of(folder: Path, tmp_path: Path):
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    file = cut / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        CrossEncoderReranker(str(cut), Ledger()).scores("what", ["a mutex"])
