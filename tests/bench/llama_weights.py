"""A llama model in transformers' format: random 16-bit weights of a given shape in one safetensors file.

The values mean nothing; they are read and multiplied like any others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.bench.bench_model import BOS, EOS, SEED, Shape

_BYTES_PER_WEIGHT = 2
# Q4_0: 32 weights in 18 bytes.
_QUANTISED_BYTES_PER_WEIGHT = 18 / 32
_HEAD_WIDTH = 64
_EXPONENT_BIAS = 127


def comparable(shape: Shape) -> Shape:
    """Returns a narrower shape whose layers have about as many bytes, though a weight takes 16 bits instead of 4.5."""
    share = (_QUANTISED_BYTES_PER_WEIGHT / _BYTES_PER_WEIGHT) ** 0.5
    kv_heads = max(1, round(shape.kv_heads * share * (shape.width // shape.heads) / _HEAD_WIDTH))
    group = max(1, round(shape.width * share / _HEAD_WIDTH / kv_heads))
    return replace(
        shape,
        name=f"{shape.name}-16bit",
        width=kv_heads * group * _HEAD_WIDTH,
        feed_forward=round(shape.feed_forward * share / _HEAD_WIDTH) * _HEAD_WIDTH,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        vocabulary=round(shape.vocabulary * share / _HEAD_WIDTH) * _HEAD_WIDTH,
    )


def weights_folder(folder: Path, shape: Shape) -> Path:
    """Returns the folder of that model, written by the first call."""
    place = folder / f"bench-{shape.name}-{SEED}"
    if not place.exists():
        unfinished = place.with_suffix(f".{os.getpid()}.part")
        write_weights(unfinished, shape)
        unfinished.replace(place)
    return place


def write_weights(folder: Path, shape: Shape, seed: int = SEED) -> None:
    """Creates `folder` with config.json and model.safetensors."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(_config(shape)), encoding="utf-8")
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dimensions in tensors(shape):
        begin, end = end, end + int(np.prod(dimensions)) * _BYTES_PER_WEIGHT
        header[name] = {"dtype": "BF16", "shape": dimensions, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(seed)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, dimensions in tensors(shape):
            file.write(_values(random, dimensions).tobytes())


def tensors(shape: Shape) -> Iterator[tuple[str, list[int]]]:
    """Yields name and dimensions of every tensor, layer by layer."""
    yield "model.embed_tokens.weight", [shape.vocabulary, shape.width]
    for layer in range(shape.layers):
        for name, rows, columns in (
            ("self_attn.q_proj", shape.width, shape.width),
            ("self_attn.k_proj", shape.kv_width, shape.width),
            ("self_attn.v_proj", shape.kv_width, shape.width),
            ("self_attn.o_proj", shape.width, shape.width),
            ("mlp.gate_proj", shape.feed_forward, shape.width),
            ("mlp.up_proj", shape.feed_forward, shape.width),
            ("mlp.down_proj", shape.width, shape.feed_forward),
        ):
            yield f"model.layers.{layer}.{name}.weight", [rows, columns]
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{layer}.{name}.weight", [shape.width]
    yield "model.norm.weight", [shape.width]
    yield "lm_head.weight", [shape.vocabulary, shape.width]


def _values(random: np.random.Generator, dimensions: list[int]) -> np.ndarray:
    """Returns bfloat16 bits: ones for a vector, otherwise values that keep activations near unit variance."""
    if len(dimensions) == 1:
        return np.full(dimensions, _EXPONENT_BIAS << 7, np.uint16)
    bits = np.frombuffer(random.bytes(2 * int(np.prod(dimensions))), np.uint16)
    # Random sign and mantissa with one common exponent: between 1 and 2 times a power of two.
    exponent = round(-np.log2(1.5 * dimensions[1] ** 0.5)) + _EXPONENT_BIAS
    return (bits & np.uint16(0x807F)) | np.uint16(exponent << 7)


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.width // shape.heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
