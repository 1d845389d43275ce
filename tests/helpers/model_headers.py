"""Headers of large models without their weights: files of the full size that take a few MB of the disk.

The planner reads nothing else of a file. Tensors have the types that llama.cpp's Q4_K_M gives them; where a file system
knows no holes (Windows), the files take their full size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType

_F32, _Q4, _Q6 = GGMLQuantizationType.F32, GGMLQuantizationType.Q4_K, GGMLQuantizationType.Q6_K
_TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class Header:
    """What a published model's header tells; `is_tied`: its token embeddings are its head, too."""

    name: str
    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    is_tied: bool = False
    context: int = 131_072

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads


# Llama 3.2 3B, Llama 3.1 8B, Qwen 2.5 32B and Llama 3.3 70B.
HEADERS = (
    Header("3B", "llama", 28, 3072, 8192, 24, 8, 128_256, is_tied=True),
    Header("8B", "llama", 32, 4096, 14_336, 32, 8, 128_256),
    Header("32B", "qwen2", 64, 5120, 27_648, 40, 8, 152_064),
    Header("70B", "llama", 80, 8192, 28_672, 64, 8, 128_256),
)


def write_header(folder: Path, header: Header) -> Path:
    """The file `NAME.gguf`, whose weights are a hole."""
    file = folder / f"{header.name}.gguf"
    writer = GGUFWriter(file, header.architecture)
    writer.add_name(header.name)
    writer.add_block_count(header.layers)
    writer.add_context_length(header.context)
    writer.add_embedding_length(header.width)
    writer.add_feed_forward_length(header.feed_forward)
    writer.add_head_count(header.heads)
    writer.add_head_count_kv(header.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(header.vocabulary)
    writer.add_chat_template(_TEMPLATE)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{number}" for number in range(header.vocabulary)])
    writer.add_token_types([TokenType.NORMAL] * header.vocabulary)
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
    """Name, rows, columns and type of every tensor; 0 columns is a vector."""
    yield "token_embd.weight", header.vocabulary, header.width, _Q6 if header.is_tied else _Q4
    for layer in range(header.layers):
        fine = _Q6 if _is_kept_fine(layer, header.layers) else _Q4
        for name, rows, columns, kind in (
            ("attn_norm", header.width, 0, _F32),
            ("attn_q", header.width, header.width, _Q4),
            ("attn_k", header.kv_width, header.width, _Q4),
            ("attn_v", header.kv_width, header.width, fine),
            ("attn_output", header.width, header.width, _Q4),
            ("ffn_norm", header.width, 0, _F32),
            ("ffn_gate", header.feed_forward, header.width, _Q4),
            ("ffn_up", header.feed_forward, header.width, _Q4),
            ("ffn_down", header.width, header.feed_forward, fine),
        ):
            yield f"blk.{layer}.{name}.weight", rows, columns, kind
    yield "output_norm.weight", header.width, 0, _F32
    if not header.is_tied:
        yield "output.weight", header.vocabulary, header.width, _Q6


def _is_kept_fine(layer: int, layers: int) -> bool:
    """The first and last eighth, and each third between them, as llama.cpp has it for Q4_K_M."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
