"""Headers of large models without their weights: sparse files of the full size that take a few MB on the disk.

The planner reads nothing else of a file. Tensor types follow llama.cpp's Q4_K_M. On file systems without sparse files
(Windows), the files take their full size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType

from tests.bench.bench_model import THIRTY_TWO_BILLION, THREE_BILLION, Shape, add_shape

_F32, _Q4, _Q6 = GGMLQuantizationType.F32, GGMLQuantizationType.Q4_K, GGMLQuantizationType.Q6_K
_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class Header:
    """A published model; `is_tied`: its token embeddings are also its output head."""

    shape: Shape
    architecture: str = "llama"
    is_tied: bool = False


# Llama 3.2 3B, Llama 3.1 8B, Qwen 2.5 32B and Llama 3.3 70B.
HEADERS = (
    Header(replace(THREE_BILLION, name="3B", vocabulary=128_256), is_tied=True),
    Header(Shape("8B", layers=32, width=4096, feed_forward=14_336, heads=32, kv_heads=8, vocabulary=128_256)),
    Header(replace(THIRTY_TWO_BILLION, name="32B", vocabulary=152_064), "qwen2"),
    Header(Shape("70B", layers=80, width=8192, feed_forward=28_672, heads=64, kv_heads=8, vocabulary=128_256)),
)


def write_header(folder: Path, header: Header) -> Path:
    """Writes the file `NAME.gguf`, whose weights are a hole."""
    shape = header.shape
    file = folder / f"{shape.name}.gguf"
    writer = GGUFWriter(file, header.architecture)
    writer.add_name(shape.name)
    add_shape(writer, shape)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{number}" for number in range(shape.vocabulary)])
    writer.add_token_types([TokenType.NORMAL] * shape.vocabulary)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    num_bytes = 0
    for name, rows, columns, kind in _tensors(header):
        block_weights, block_bytes = GGML_QUANT_SIZES[kind]
        row_bytes = columns // block_weights * block_bytes
        if columns:
            writer.add_tensor_info(name, (rows, row_bytes), np.dtype(np.uint8), rows * row_bytes, raw_dtype=kind)
        else:
            writer.add_tensor_info(name, (rows,), np.dtype(np.float32), 4 * rows)
        num_bytes += -(-(rows * row_bytes if columns else 4 * rows) // _ALIGNMENT) * _ALIGNMENT
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(file, -(-file.stat().st_size // _ALIGNMENT) * _ALIGNMENT + num_bytes)
    return file


def _tensors(header: Header) -> Iterator[tuple[str, int, int, GGMLQuantizationType]]:
    """Yields name, rows, columns and type of every tensor; 0 columns stands for a vector."""
    shape = header.shape
    yield "token_embd.weight", shape.vocabulary, shape.width, _Q6 if header.is_tied else _Q4
    for layer in range(shape.layers):
        fine = _Q6 if _is_kept_fine(layer, shape.layers) else _Q4
        for name, rows, columns, kind in (
            ("attn_norm", shape.width, 0, _F32),
            ("attn_q", shape.width, shape.width, _Q4),
            ("attn_k", shape.kv_width, shape.width, _Q4),
            ("attn_v", shape.kv_width, shape.width, fine),
            ("attn_output", shape.width, shape.width, _Q4),
            ("ffn_norm", shape.width, 0, _F32),
            ("ffn_gate", shape.feed_forward, shape.width, _Q4),
            ("ffn_up", shape.feed_forward, shape.width, _Q4),
            ("ffn_down", shape.width, shape.feed_forward, fine),
        ):
            yield f"blk.{layer}.{name}.weight", rows, columns, kind
    yield "output_norm.weight", shape.width, 0, _F32
    if not header.is_tied:
        yield "output.weight", shape.vocabulary, shape.width, _Q6


def _is_kept_fine(layer: int, layers: int) -> bool:
    """Returns whether a layer has Q6_K tensors: the first and last eighth and every third between, as in Q4_K_M."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
