"""Tests for engine.embedder.reranker_spec: what files say of a model before anything is loaded."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.embedder.reranker_spec import lack_of, lack_of_parts, resolve
from engine.errors import EmbedderUnavailable
from tests.helpers.tiny_embedder import write_tiny_embedder
from tests.helpers.tiny_reranker import write_tiny_reranker

BERT = {"architectures": ["BertForSequenceClassification"]}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_reranker(tmp_path_factory.mktemp("made") / "tiny")


def test_a_cross_encoder_is_known_by_its_files_and_takes_32_bits_a_weight(tiny: Path, tmp_path: Path):
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny / "model.safetensors")
    spec = resolve(str(tiny))
    assert (spec.name, spec.folder) == ("tiny", tiny)
    assert spec.num_bytes == 4 * sum(tensor.numel() for tensor in weights.values())
    half = tmp_path / "half"
    shutil.copytree(tiny, half)
    save_file({name: tensor.to(torch.float16) for name, tensor in weights.items()}, half / "model.safetensors")
    assert resolve(str(half)).num_bytes == spec.num_bytes


def test_weights_of_which_nothing_can_be_told_take_what_their_file_does(tiny: Path, tmp_path: Path):
    shutil.copytree(tiny, tmp_path / "torn")
    (tmp_path / "torn" / "model.safetensors").write_bytes(b"\xff" * 100)
    assert resolve(str(tmp_path / "torn")).num_bytes == 100


@pytest.mark.parametrize(
    "head",
    [
        "[1, 2]",
        '"weights"',
        '{"a": [1, 2]}',
        '{"a": 7}',
        '{"a": {}}',
        '{"a": {"shape": "none"}}',
        '{"a": {"shape": [2, "three"]}}',
        '{"a": {"shape": [-4]}}',
        '{"a": {"shape": [1%s]}}' % ("0" * 400),
        "[" * 100_000,
    ],
)
def test_weights_of_which_the_head_is_damaged_take_what_their_file_does(tiny: Path, tmp_path: Path, head: str):
    torn = shutil.copytree(tiny, tmp_path / "torn") / "model.safetensors"
    torn.write_bytes(struct.pack("<Q", len(head)) + head.encode())
    assert resolve(str(tmp_path / "torn")).num_bytes == len(head) + 8


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**BERT, "auto_map": {"AutoModel": "modeling.Own"}}, "no program that was fetched is run"),
        ({"architectures": ["BertModel"]}, "how well two texts fit"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "how well two texts fit"),
        ({}, "how well two texts fit"),
        ({"architectures": "BertForSequenceClassification"}, "how well two texts fit"),
        ({**BERT, "id2label": {"0": "contradiction", "1": "entailment", "2": "neutral"}}, "into 3 kinds"),
        ({**BERT, "num_labels": 5}, "into 5 kinds"),
    ],
)
def test_models_of_other_kinds_are_told(config: dict[str, Any], why: str):
    assert why in lack_of(config)


@pytest.mark.parametrize("config", [BERT, {**BERT, "id2label": {"0": "LABEL_0"}}, {**BERT, "num_labels": 1}])
def test_those_that_tell_one_figure_or_whether_texts_fit_are_taken(config: dict[str, Any]):
    assert lack_of(config) == ""


def test_one_of_several_parts_is_told():
    transformer = {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
    assert lack_of_parts([transformer]) == ""
    assert "several parts" in lack_of_parts([transformer, {**transformer, "path": "1_Dense"}])
    assert "another kind" in lack_of_parts([{**transformer, "type": "somebody.else"}])
    assert "another kind" in lack_of_parts({"a": 1})


def test_what_is_none_is_told_with_a_way_out(tmp_path: Path, tiny: Path):
    embedder = write_tiny_embedder(tmp_path / "embedder")
    with pytest.raises(EmbedderUnavailable, match="'embedder' holds no reranker that Ragdoll can use: it is not made"):
        resolve(str(embedder))
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbedderUnavailable, match=r"it has no config\.json"):
        resolve(str(tmp_path / "empty"))
    shutil.copytree(tiny, tmp_path / "light")
    (tmp_path / "light" / "model.safetensors").unlink()
    with pytest.raises(EmbedderUnavailable, match="it has no weights"):
        resolve(str(tmp_path / "light"))
    (tmp_path / "light" / "config.json").write_text(json.dumps([1]), encoding="utf-8")
    with pytest.raises(EmbedderUnavailable, match="says nothing"):
        resolve(str(tmp_path / "light"))
    (tmp_path / "light" / "config.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(EmbedderUnavailable, match="nested too deeply"):
        resolve(str(tmp_path / "light"))
    with pytest.raises(EmbedderUnavailable, match="The reranker 'owner/none' is not on this computer") as error:
        resolve("owner/none")
    assert "“Reranker”" in error.value.way_out
