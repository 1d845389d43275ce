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
from engine.models.gguf import TensorExtent, read_header
from tests.helpers.tiny_gguf import write_split_model, write_tiny_model


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


def with_other_bytes(model: Path, tensor: TensorExtent, path: Path) -> Path:
    content = bytearray(model.read_bytes())
    place = slice(tensor.offset, tensor.offset + tensor.num_bytes)
    content[place] = bytes(byte ^ 0x01 for byte in content[place])
    path.write_bytes(content)
    return path


def test_a_model_that_differs_in_one_tensor_only_is_another_whichever_that_is(tmp_path, monkeypatch):
    # Steps that skip whole tensors, as those of a real model do.
    monkeypatch.setattr(fingerprint, "_SAMPLES", 4)
    monkeypatch.setattr(fingerprint, "_SAMPLE_BYTES", 64)
    model = write_tiny_model(tmp_path / "a.gguf", layers=3)
    tensors = read_header(model).tensors
    others = [with_other_bytes(model, tensor, tmp_path / f"{n}.gguf") for n, tensor in enumerate(tensors)]
    fingerprints = {model_fingerprint(path) for path in (model, *others)}
    assert len(fingerprints) == 1 + len(tensors)


def test_what_is_read_of_a_model_grows_with_its_tensors_and_not_with_their_size(tmp_path, monkeypatch):
    num_bytes = []

    class Counted:
        """A digest that counts what it is given in addition to the header."""

        def __init__(self) -> None:
            self.update = lambda content: num_bytes.append(len(content))

    for ff in (96, 960):
        num_bytes.clear()
        model = write_tiny_model(tmp_path / f"{ff}.gguf", ff=ff)
        header = read_header(model)
        with model.open("rb") as stream:
            fingerprint._add_samples(Counted(), stream, header)
        assert len(num_bytes) <= 1 + (64 + 1) + len(header.tensors)
        assert max(num_bytes[1:]) <= 4096


def test_a_part_of_a_split_model_that_differs_makes_another_model(tmp_path):
    (tmp_path / "a").mkdir()
    parts = write_split_model(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    last = tmp_path / "b" / parts[-1].name
    with_other_bytes(last, read_header(last).tensors[-1], last)
    assert model_fingerprint(tmp_path / "b" / parts[0].name) != model_fingerprint(parts[0])


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


def test_what_is_no_model_is_said(model, tmp_path):
    with pytest.raises(ModelNotFound):
        model_fingerprint(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelFileInvalid):
        model_fingerprint(tmp_path / "bad.gguf")
    (tmp_path / "cut.gguf").write_bytes(model.read_bytes()[:-1000])
    with pytest.raises(ModelFileInvalid):
        model_fingerprint(tmp_path / "cut.gguf")
