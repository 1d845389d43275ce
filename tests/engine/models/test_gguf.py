"""Tests for engine.models.gguf."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from engine.errors import ModelFileInvalid, ModelNotFound, ModelUnreadable
from engine.models.gguf import parts_of, read_header, read_shape
from tests.helpers.shared_data import shared_file
from tests.helpers.tiny_gguf import write_split_model, write_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("gguf") / "tiny.gguf", layers=3, kv_heads=2)


def test_the_shape_agrees_with_the_gguf_packages_own_reader(model: Path):
    shape = read_shape(model)
    reader = GGUFReader(model)
    sizes = {tensor.name: int(tensor.n_bytes) for tensor in reader.tensors}
    assert shape.weight_bytes == sum(sizes.values())
    assert shape.layer_bytes[1] == sum(size for name, size in sizes.items() if name.startswith("blk.1."))
    assert shape.output_bytes == sizes["output.weight"] + sizes["output_norm.weight"]
    assert shape.vocabulary_size == len(reader.fields["tokenizer.ggml.tokens"].data)


def test_tensor_extents_are_where_the_bytes_lie(model: Path):
    ours = {tensor.name: tensor.offset for tensor in read_header(model).tensors}
    assert ours == {tensor.name: int(tensor.data_offset) for tensor in GGUFReader(model).tensors}


def test_kv_bytes_follow_the_heads_of_the_header(model: Path):
    # 2 KV heads of 16 values, keys and values, 2 bytes each, in 3 layers.
    assert read_shape(model).kv_bytes(10) == 10 * 3 * (2 * 2 * 16 * 2)


def test_a_real_models_header_is_read():
    shape = read_shape(shared_file("models/stories260K-f32.gguf"))
    assert (shape.name, shape.num_layers, shape.trained_context) == ("stories260K", 5, 512)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.6, 0.99])
def test_a_file_cut_short_anywhere_is_refused_with_a_sentence(model: Path, tmp_path: Path, share: float):
    data = model.read_bytes()
    broken = tmp_path / "cut.gguf"
    broken.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelFileInvalid, match=r"cut\.gguf (cannot be used|is not a GGUF model)"):
        read_shape(broken)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"%PDF-1.7" + b"x" * 100, "not a GGUF model"),
        (b"", "holds only 0 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 1, 1, 1) + b"\0" * 64, "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1) + b"\0" * 64, "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62) + b"\0" * 64, "cut short"),
    ],
)
def test_what_is_no_model_is_named_as_such(tmp_path: Path, content: bytes, why: str):
    file = tmp_path / "file.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelFileInvalid, match=why):
        read_shape(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    with pytest.raises(ModelNotFound, match="no model file"):
        read_shape(tmp_path / "none.gguf")
    with pytest.raises(ModelUnreadable, match="cannot be read"):
        read_shape(tmp_path)
    with pytest.raises(ModelNotFound, match="no model file"):
        read_shape(Path("with a \0"))


@pytest.mark.parametrize(
    ("architecture", "kind", "why"),
    [
        ("clip", "mmproj", "vision projector"),
        ("llama", "adapter", "adapter"),
        ("bert", "model", "embedding model"),
        ("t5", "model", "cannot hold a conversation"),
        ("dream", "model", "word by word"),
    ],
)
def test_a_gguf_that_writes_no_answers_is_refused(tmp_path: Path, architecture: str, kind: str, why: str):
    file = tmp_path / "other.gguf"
    writer = GGUFWriter(file, architecture)
    writer.add_type(kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileInvalid, match=why):
        read_shape(file)


def test_all_parts_of_a_split_model_must_be_there(tmp_path: Path):
    first = tmp_path / "big-00001-of-00002.gguf"
    first.write_bytes(b"GGUF")
    with pytest.raises(ModelNotFound, match=r"big-00002-of-00002\.gguf is not beside it"):
        parts_of(first)
    second = tmp_path / "big-00002-of-00002.gguf"
    second.write_bytes(b"GGUF")
    assert parts_of(first) == [first, second]


def test_a_name_that_only_looks_like_a_part_is_one_file(tmp_path: Path):
    for name in ("m-00001-of-00000.gguf", "m-00003-of-00002.gguf"):
        assert parts_of(tmp_path / name) == [tmp_path / name]


def test_a_split_model_is_the_same_by_whichever_part_it_is_chosen(tmp_path: Path):
    first, second = write_split_model(tmp_path)
    assert read_shape(second) == read_shape(first)
    assert read_shape(first).vocabulary_size > 256


@pytest.mark.parametrize("numbers", [[0, 3], [0] * 5000, [2**30] * 5000])
def test_a_vocabulary_of_numbers_is_refused(tmp_path: Path, numbers: list[int]):
    file = tmp_path / "numbers.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_block_count(1)
    writer.add_array("tokenizer.ggml.tokens", numbers)
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileInvalid, match="no texts"):
        read_shape(file)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("llama.block_count", 2**31, "no layers"),
        ("llama.embedding_length", "wide", "damaged"),
        ("general.alignment", "eight", "damaged"),
        ("general.alignment", 0, "damaged"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, key: str, value: int | str, why: str):
    file = tmp_path / "liar.gguf"
    writer = GGUFWriter(file, "llama")
    if key != "llama.block_count":
        writer.add_block_count(1)
    if isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_uint32(key, value)
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileInvalid, match=why):
        read_shape(file)
