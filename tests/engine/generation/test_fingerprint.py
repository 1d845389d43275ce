"""Tests for engine.generation.fingerprint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from gguf import GGUFReader, GGUFWriter

from engine.errors import ModelFileInvalid, ModelNotFound
from engine.generation import fingerprint
from engine.generation.fingerprint import model_fingerprint, root_key
from tests.helpers.tiny_gguf import write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "a.gguf")


def test_a_copy_of_a_model_is_the_same_model(model, tmp_path):
    copy = shutil.copy(model, tmp_path / "b.gguf")
    assert model_fingerprint(Path(copy)) == model_fingerprint(model)


def test_other_weights_of_the_same_shape_are_another_model(model, tmp_path):
    other = write_tiny_model(tmp_path / "a.gguf", seed=1)
    assert other.stat().st_size == model.stat().st_size
    assert model_fingerprint(other) != model_fingerprint(model)


def test_another_header_over_the_same_weights_is_another_model(model, tmp_path):
    other = write_tiny_model(tmp_path / "a.gguf", context=4096)
    assert model_fingerprint(other) != model_fingerprint(model)


def test_a_model_that_is_replaced_in_place_is_noticed(tmp_path):
    path = write_tiny_model(tmp_path / "a.gguf")
    before = model_fingerprint(path)
    write_tiny_model(path, seed=2)
    os.utime(path, ns=(5, 5))
    assert model_fingerprint(path) != before


def test_the_kv_type_and_the_release_of_llama_cpp_are_part_of_the_root(model, monkeypatch):
    key = root_key(model, "f16", 4096)
    assert key == root_key(model, "f16", 8192)
    assert key != root_key(model, "q8_0", 4096)
    monkeypatch.setattr(fingerprint, "version", lambda _: "9.9")
    assert key != root_key(model, "f16", 4096)


def test_a_model_that_turns_keys_otherwise_in_long_contexts_has_two_roots(model, tmp_path):
    path = tmp_path / "long.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_rope_scaling_orig_ctx_len(4096)
    for tensor in GGUFReader(model).tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert root_key(path, "f16", 2048) == root_key(path, "f16", 4096)
    assert root_key(path, "f16", 4096) != root_key(path, "f16", 4097)


def test_what_is_no_model_is_said(tmp_path):
    with pytest.raises(ModelNotFound):
        model_fingerprint(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileInvalid):
        model_fingerprint(tmp_path / "bad.gguf")
