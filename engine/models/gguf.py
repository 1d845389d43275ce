"""The header of a GGUF file: nothing is loaded, and a bad file is refused with a sentence.

The format: magic, version, counts, then key-value metadata, then the tensor table, then aligned data
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The `gguf` package supplies block sizes; its
reader maps and parses every token of the vocabulary, which takes seconds for a list of models, and fails on a
truncated file with numpy errors.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

from engine.core import ModelShape
from engine.errors import ModelFileInvalid, ModelNotFound, ModelUnreadable
from engine.models.layer_caches import layer_caches, per_layer
from engine.models.layer_stages import largest_stage_bytes
from engine.models.soundness import fault_of, fault_of_vocabulary
from engine.models.source import pieces_of

MAGIC = b"GGUF"
READABLE_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
# Limits far beyond any real model; a header that exceeds them is damaged, and nothing is allocated for it.
MAX_TENSORS, MAX_KEYS, MAX_DIMENSIONS, MAX_BYTES = 1_000_000, 1_000_000, 8, 2**48
# Magic, version and counts.
SMALLEST_BYTES = 24
_VOCABULARY = "tokenizer.ggml.tokens"
# The bytes before the first element: type of the value, type of the elements, number of elements.
_BEFORE_FIRST = 4 + 4 + 8
_SCALARS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
_EMBEDDING_ARCHITECTURES = frozenset(
    {"bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert"}
)
# These encode the input before they write; without that step, llama.cpp ends the process.
_ENCODER_ARCHITECTURES = frozenset({"t5", "t5encoder"})
# Diffusion models, draft models and speech decoders: as ordinary models, llama.cpp would compute nonsense.
_OTHER_WRITERS = frozenset({"dream", "llada", "llada-moe", "rnd1", "eagle3", "dflash", "wavtokenizer-dec"})
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.")
# Outside the layers and not part of the output head: a token reads one row, and it is always in main memory.
READ_BY_ROW = frozenset({"per_layer_token_embd.weight"})


@dataclass(frozen=True, slots=True)
class TensorExtent:
    """Where one tensor's bytes are: `offset` counts from the start of the file.

    `num_rows` is that of a matrix; 0 if it is not needed.
    """

    name: str
    offset: int
    num_bytes: int
    num_rows: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata and the tensor table. Long arrays of the metadata are replaced by their length.

    The first token of the vocabulary begins at offset `vocabulary_at` of the file; 0 if there is none.
    """

    metadata: Mapping[str, Any]
    tensors: tuple[TensorExtent, ...]
    file_bytes: int
    vocabulary_at: int = 0


def read_shape(path: Path) -> ModelShape:
    """Reads the shape of the model in `path`, including all files of a split one.

    Raises:
        ModelNotFound: There is no such file, or one of several is not beside it.
        ModelFileInvalid: It is not a model that can write answers, or it is truncated.
        ModelUnreadable: The system refuses to read it.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        # A path with a NUL raises ValueError.
        raise ModelNotFound(f"There is no model file at {path}.", "Choose another file.") from error
    return _read_shape(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _read_shape(path: Path, mtime_ns: int, size_bytes: int) -> ModelShape:
    """Cached while the file is unchanged, because checking a vocabulary of 150,000 tokens takes a while."""
    parts = parts_of(path)
    headers = [read_header(part) for part in parts]
    metadata = headers[0].metadata
    _require_writer(path, metadata)
    tensors = [tensor for header in headers for tensor in header.tensors]
    try:
        fault = fault_of(metadata) or fault_of_vocabulary(metadata, _tokens(parts[0], headers[0]))
        if fault:
            raise _unusable(path.name, fault)
        return _shape(path, metadata, tensors, sum(header.file_bytes for header in headers))
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise _unusable(path.name, "its header is damaged") from error


def parts_of(path: Path) -> list[Path]:
    """Returns the files of a model: one, or all of a split one (`…-00001-of-00003.gguf`), which must all exist.

    The first has the metadata, and is the one that llama.cpp opens, whichever the user chose.
    """
    parts = [path.with_name(name) for name in pieces_of(path.name)]
    if len(parts) == 1:
        return parts
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelNotFound(
            f"{path.name} is one part of a model in {len(parts)} files, and {missing[0]} is not beside it.",
            "Download all parts into one folder.",
        )
    return parts


def read_header(path: Path) -> Header:
    """Reads the header of one file, and checks it against the file's length.

    Raises:
        ModelNotFound: There is no such file.
        ModelFileInvalid: It is not GGUF, of an unsupported version, damaged or truncated.
        ModelUnreadable: The system refuses to read it.
    """
    with _mapped(path) as view:
        return _parse(_Cursor(view, path.name), len(view))


def _tokens(path: Path, header: Header) -> list[bytes]:
    """Reads the tokens of the vocabulary, in order."""
    if not header.vocabulary_at:
        return []
    with _mapped(path) as view:
        return _Cursor(view, path.name, header.vocabulary_at).strings(header.metadata[_VOCABULARY])


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    try:
        with path.open("rb") as stream:
            file_bytes = stream.seek(0, 2)
            if file_bytes < SMALLEST_BYTES:
                raise ModelFileInvalid(
                    f"{path.name} is not a GGUF model: it holds only {file_bytes} bytes.", "Choose another file."
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
                yield view
    except FileNotFoundError as error:
        raise ModelNotFound(f"There is no model file at {path}.", "Choose another file.") from error
    except OSError as error:
        way_out = "Choose the GGUF file of a model, or check its disk."
        raise ModelUnreadable(f"{path.name} cannot be read: {error.strerror or error}.", way_out) from error


def _unusable(name: str, why: str) -> ModelFileInvalid:
    return ModelFileInvalid(f"{name} cannot be used: {why}.", "Download it again, or choose another GGUF file.")


class _Cursor:
    """Reads little-endian values in order and refuses to run past the end."""

    def __init__(self, view: mmap.mmap, name: str, at: int = 0) -> None:
        self._view, self._name, self._at = view, name, at

    @property
    def at(self) -> int:
        return self._at

    def take(self, num_bytes: int) -> bytes:
        if num_bytes < 0 or self._at + num_bytes > len(self._view):
            raise self.invalid("its header is cut short")
        self._at += num_bytes
        return self._view[self._at - num_bytes : self._at]

    def skip(self, num_bytes: int) -> None:
        if num_bytes < 0 or self._at + num_bytes > len(self._view):
            raise self.invalid("its header is cut short")
        self._at += num_bytes

    def skip_strings(self, count: int) -> None:
        """Skips `count` strings; optimised, because a vocabulary has hundreds of thousands."""
        view, at, end, length_at = self._view, self._at, len(self._view), struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > end:
                raise self.invalid("its header is cut short")
            at += 8 + length_at(view, at)[0]
        self.skip(at - self._at)

    def strings(self, count: int) -> list[bytes]:
        """Reads the next `count` strings as bytes; they were skipped before, so none is truncated."""
        view, at, length_at, found = self._view, self._at, struct.Struct("<Q").unpack_from, list[bytes]()
        for _ in range(count):
            end = at + 8 + length_at(view, at)[0]
            found.append(view[at + 8 : end])
            at = end
        self._at = at
        return found

    def holds_strings(self, at: int) -> bool:
        """Returns whether the value that begins at `at` is a list of strings."""
        return self._view[at : at + 8] == struct.pack("<II", GGUFValueType.ARRAY, GGUFValueType.STRING)

    def scalar(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", "replace")

    def invalid(self, why: str) -> ModelFileInvalid:
        return _unusable(self._name, why)


def _parse(cursor: _Cursor, file_bytes: int) -> Header:
    if cursor.take(4) != MAGIC:
        raise cursor.invalid("it is not a GGUF model")
    version = cursor.scalar("I")
    if version not in READABLE_VERSIONS:
        raise cursor.invalid(f"it is GGUF version {version}, and only versions 2 and 3 can be read")
    num_tensors, num_keys = cursor.scalar("Q"), cursor.scalar("Q")
    if num_tensors > MAX_TENSORS or num_keys > MAX_KEYS:
        raise cursor.invalid("its header is damaged")
    metadata: dict[str, Any] = {}
    vocabulary_at = 0
    for _ in range(num_keys):
        key, at = cursor.string(), cursor.at
        metadata[key] = _value(cursor, cursor.scalar("I"))
        if key == _VOCABULARY:
            if not cursor.holds_strings(at):
                raise cursor.invalid("the tokens of its vocabulary are no texts")
            vocabulary_at = at + _BEFORE_FIRST
    table = [_tensor_info(cursor) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise cursor.invalid("its header is damaged")
    data_start = -(-cursor.at // alignment) * alignment
    tensors = tuple(replace(tensor, offset=data_start + tensor.offset) for tensor in table)
    needed = max((tensor.offset + tensor.num_bytes for tensor in tensors), default=data_start)
    if needed > MAX_BYTES:
        raise cursor.invalid("its tensor table is damaged")
    if needed > file_bytes:
        raise cursor.invalid(f"it is cut short: {file_bytes:,} of {needed:,} bytes are there")
    return Header(metadata, tensors, file_bytes, vocabulary_at)


def _value(cursor: _Cursor, kind_number: int) -> Any:
    try:
        kind = GGUFValueType(kind_number)
    except ValueError as error:
        raise cursor.invalid("its header is damaged") from error
    if kind is GGUFValueType.STRING:
        return cursor.string()
    if kind is GGUFValueType.ARRAY:
        return _array(cursor)
    return cursor.scalar(_SCALARS[kind])


def _array(cursor: _Cursor) -> Any:
    """Reads a short number array (heads per layer) as a list, a vocabulary or other long one as its length."""
    kind_number, length = cursor.scalar("I"), cursor.scalar("Q")
    if kind_number == GGUFValueType.STRING:
        cursor.skip_strings(length)
        return length
    if kind_number == GGUFValueType.ARRAY or kind_number not in _SCALARS:
        raise cursor.invalid("its header is damaged")
    code = _SCALARS[GGUFValueType(kind_number)]
    if length > 4096:
        cursor.skip(length * struct.calcsize(code))
        return length
    return list(struct.unpack(f"<{length}{code}", cursor.take(length * struct.calcsize(code))))


def _tensor_info(cursor: _Cursor) -> TensorExtent:
    """Reads an entry of the tensor table; its offset counts from the end of the header."""
    name = cursor.string()
    num_dimensions = cursor.scalar("I")
    if num_dimensions > MAX_DIMENSIONS:
        raise cursor.invalid("its tensor table is damaged")
    sizes = [cursor.scalar("Q") for _ in range(num_dimensions)]
    kind_number, offset = cursor.scalar("I"), cursor.scalar("Q")
    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind_number)]
    except (ValueError, KeyError) as error:
        raise cursor.invalid(f"tensor {name} has a number format ({kind_number}) that is not known here") from error
    return TensorExtent(name, offset, prod(sizes) // block * block_bytes, sizes[1] if len(sizes) > 1 else 0)


def _require_writer(path: Path, metadata: Mapping[str, Any]) -> None:
    """Refuses GGUF files that are not language models: projectors, adapters, embedders."""
    architecture = str(metadata.get("general.architecture", ""))
    kind = str(metadata.get("general.type", "model"))
    other = "Choose the GGUF file of an instruct or chat model."
    if not architecture:
        raise ModelFileInvalid(f"{path.name} does not say which architecture it is.", other)
    if architecture == "clip" or kind == "mmproj":
        raise ModelFileInvalid(f"{path.name} is a vision projector that goes with a model, not a model.", other)
    if kind == "adapter":
        raise ModelFileInvalid(f"{path.name} is an adapter (LoRA) that goes with a model, not a model.", other)
    if architecture in _EMBEDDING_ARCHITECTURES or f"{architecture}.pooling_type" in metadata:
        raise ModelFileInvalid(f"{path.name} is an embedding model and cannot write answers.", other)
    if architecture in _ENCODER_ARCHITECTURES:
        raise ModelFileInvalid(f"{path.name} translates one text into another, and cannot hold a conversation.", other)
    if architecture in _OTHER_WRITERS:
        raise ModelFileInvalid(f"{path.name} ({architecture}) does not write word by word, as answers are here.", other)


def _shape(path: Path, metadata: Mapping[str, Any], tensors: list[TensorExtent], file_bytes: int) -> ModelShape:
    architecture = str(metadata["general.architecture"])

    def number(key: str, default: int = 0) -> Any:
        return metadata.get(f"{architecture}.{key}", default)

    num_layers = int(number("block_count"))
    if not tensors:
        raise ModelFileInvalid(f"{path.name} holds no layers that can be run.", "Choose another GGUF file.")
    layer_bytes, other_bytes, output_bytes = _bytes_by_place(tensors, num_layers)
    caches = layer_caches(architecture, number, _rows_by_layer(tensors, num_layers))
    return ModelShape(
        name=str(metadata.get("general.name") or path.stem),
        architecture=architecture,
        trained_context=int(number("context_length")) or 2048,
        layer_bytes=layer_bytes,
        other_bytes=other_bytes,
        output_bytes=output_bytes,
        kv_cell_bytes=caches.cell_bytes,
        vocabulary_size=int(metadata.get(_VOCABULARY) or number("vocab_size")),
        file_bytes=file_bytes,
        expert_share=_expert_bytes(tensors) / max(1, sum(layer_bytes)),
        expert_use=min(
            1.0, max(per_layer(number("expert_used_count", 1), num_layers)) / max(1, int(number("expert_count", 1)))
        ),
        width=int(number("embedding_length")),
        stage_bytes=largest_stage_bytes(_sizes_by_layer(tensors, num_layers)),
        state_bytes=caches.state_bytes,
        row_bytes=sum(tensor.num_bytes for tensor in tensors if tensor.name in READ_BY_ROW),
    )


def _rows_by_layer(tensors: list[TensorExtent], num_layers: int) -> list[dict[str, int]]:
    """Returns the number of rows of each layer's tensors, by their names without the layer's prefix."""
    rows: list[dict[str, int]] = [{} for _ in range(num_layers)]
    for tensor in tensors:
        if (match := _BLOCK_NAME.match(tensor.name)) and (layer := int(match[1])) < num_layers:
            rows[layer][tensor.name[match.end() :]] = tensor.num_rows
    return rows


def _sizes_by_layer(tensors: list[TensorExtent], num_layers: int) -> list[dict[str, int]]:
    sizes: list[dict[str, int]] = [{} for _ in range(num_layers)]
    for tensor in tensors:
        if (layer := layer_of(tensor.name)) is not None and layer < num_layers:
            sizes[layer][tensor.name] = tensor.num_bytes
    return sizes


def _expert_bytes(tensors: list[TensorExtent]) -> int:
    """Returns the size of the tensors with all experts of a layer, of which a token uses only some."""
    return sum(tensor.num_bytes for tensor in tensors if "_exps." in tensor.name)


def layer_of(tensor_name: str) -> int | None:
    """Returns the layer of a tensor; None for those outside the layers."""
    match = _BLOCK_NAME.match(tensor_name)
    return int(match[1]) if match else None


def _bytes_by_place(tensors: list[TensorExtent], num_layers: int) -> tuple[tuple[int, ...], int, int]:
    """Returns the bytes of each layer, those outside the layers, and those of the output head among them."""
    layers, other, output = [0] * num_layers, 0, 0
    for tensor in tensors:
        layer = layer_of(tensor.name)
        if layer is not None and layer < num_layers:
            layers[layer] += tensor.num_bytes
        else:
            other += tensor.num_bytes
            output += tensor.num_bytes if tensor.name.startswith("output") else 0
    return tuple(layers), other, output
