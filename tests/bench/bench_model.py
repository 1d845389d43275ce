"""Models for the generation benches: random weights of a real architecture, so speed and memory are real, text is not.

Suitable for measuring time and memory, not meaning. Only plain pieces of words can be the likeliest token, so an answer
never ends by itself and each token is text that can be streamed at once. A vocabulary can be extended with whole words,
so that real text has about as many tokens as with a real model.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from gguf import GGMLQuantizationType, GGUFWriter, TokenType

SEED = 20_251_121
BOS, EOS = 1, 2
# Q4_0: 32 weights are stored as a half-precision scale and 16 bytes of nibbles.
_BLOCK_WEIGHTS, _BLOCK_BYTES = 32, 18
SPACE = "▁"
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a llama model that determine its speed; heads are `width // heads` wide."""

    name: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int = 131_072
    # If set, further layers repeat the weights of these: generating random weights takes longer than writing them.
    drawn_layers: int | None = None

    @property
    def kv_width(self) -> int:
        return self.width // self.heads * self.kv_heads

    @property
    def kv_bytes_per_token(self) -> int:
        """Returns the bytes of f16 keys and values over all layers."""
        return self.layers * 2 * self.kv_width * 2


# The layers of Llama 3.2 1B. Its vocabulary of 128,256 would only move time from both sides' layers to their heads.
ONE_BILLION = Shape("1b", layers=16, width=2048, feed_forward=8192, heads=32, kv_heads=8, vocabulary=32_000)
# The layers of Llama 3.2 3B: 1.7 GB, of which each layer is a thirtieth.
THREE_BILLION = Shape("3b", layers=28, width=3072, feed_forward=8192, heads=24, kv_heads=8, vocabulary=32_000)
# The layers of Qwen2.5 32B: 17.6 GB.
THIRTY_TWO_BILLION = Shape(
    "32b", layers=64, width=5120, feed_forward=27_648, heads=40, kv_heads=8, vocabulary=32_000, drawn_layers=4
)
# As deep as a large model, so that its layers can be distributed as finely, at a fifth of the size: 0.37 GB.
SIX_HUNDRED_MILLION = Shape("600m", layers=24, width=1536, feed_forward=4096, heads=24, kv_heads=8, vocabulary=16_000)
# About a twelfth of the compute of the 1B shape, with the same proportions of attention.
QUICK = Shape("quick", layers=8, width=768, feed_forward=3072, heads=12, kv_heads=3, vocabulary=32_000)
# Two shapes with few KV heads, as current small models have: 0.22 and 0.12 GB.
LEAN = Shape("lean", layers=24, width=1024, feed_forward=4096, heads=16, kv_heads=2, vocabulary=16_000)
LEANER = Shape("leaner", layers=12, width=1024, feed_forward=4096, heads=16, kv_heads=2, vocabulary=16_000)


def bench_model(folder: Path, shape: Shape, words: Sequence[str] = (), seed: int = SEED) -> Path:
    """Returns the model file of that shape in `folder`; the first call writes it (a few seconds, 0.6 GB for 1B).

    Models of one shape with different seeds have different weights and the same vocabulary.
    """
    known = f"-{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:12]}" if words else ""
    file = folder / f"bench-{shape.name}-{seed}{known}.gguf"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(file)
        unfinished = file.with_suffix(f".{os.getpid()}.part")
        try:
            write_model(unfinished, shape, seed, words)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    return file


def _remove_left_behind(file: Path) -> None:
    """Removes what killed processes had written of this file."""
    for part in file.parent.glob(f"{file.stem}.*.part"):
        number = part.suffixes[-2][1:]
        if not (number.isdecimal() and psutil.pid_exists(int(number))):
            part.unlink(missing_ok=True)


def write_model(file: Path, shape: Shape, seed: int = SEED, words: Sequence[str] = ()) -> None:
    """Writes the same bytes for the same shape, seed and words; words beyond the vocabulary's size are dropped."""
    writer = GGUFWriter(file, "llama")
    writer.add_name(f"random-{shape.name}")
    add_shape(writer, shape)
    _write_vocabulary(writer, shape.vocabulary, words)
    for name, rows, columns in _tensors(shape):
        if columns == 0:
            writer.add_tensor_info(name, (rows,), np.dtype(np.float32), 4 * rows)
        else:
            packed = columns // _BLOCK_WEIGHTS * _BLOCK_BYTES
            kind = GGMLQuantizationType.Q4_0
            writer.add_tensor_info(name, (rows, packed), np.dtype(np.uint8), rows * packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(seed)
    drawn: dict[str, np.ndarray] = {}
    for name, rows, columns in _tensors(shape):
        twin = _twin(name, shape.drawn_layers or shape.layers)
        content = drawn.get(twin)
        if content is None:
            content = np.ones(rows, np.float32) if columns == 0 else _weights(random, name, rows, columns)
        if shape.drawn_layers:
            drawn[twin] = content
        writer.write_tensor_data(content)
    writer.close()


def add_shape(writer: GGUFWriter, shape: Shape) -> None:
    """Writes the header fields that describe the architecture, and the chat template."""
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(500_000.0)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_chat_template(_CHATML)


def plain_tokens(vocabulary: int) -> range:
    """Returns the token ids of plain pieces of words, of which documents and questions are made."""
    return range(len(_special()), vocabulary)


def _weights(random: np.random.Generator, name: str, rows: int, columns: int) -> np.ndarray:
    """Returns random Q4_0 blocks whose scale keeps activations near unit variance."""
    blocks = rows * columns // _BLOCK_WEIGHTS
    packed = np.empty((blocks, _BLOCK_BYTES), np.uint8)
    packed[:, :2] = np.full(blocks, 1.5 / 8 / columns**0.5, np.float16).view(np.uint8).reshape(-1, 2)
    packed[:, 2:] = np.frombuffer(random.bytes(blocks * 16), np.uint8).reshape(-1, 16)
    packed = packed.reshape(rows, -1)
    if name == "output.weight":
        # A scale of 0 makes the logits of special tokens 0, which is never the maximum over thousands.
        packed[: len(_special())] = 0
    return packed


def _twin(name: str, drawn_layers: int) -> str:
    """Returns the tensor whose weights are used: itself, or in a repeated layer the one it repeats."""
    if not name.startswith("blk."):
        return name
    _, layer, rest = name.split(".", 2)
    return f"blk.{int(layer) % drawn_layers}.{rest}"


def _tensors(shape: Shape) -> Iterator[tuple[str, int, int]]:
    """Yields name, rows and columns of every tensor; 0 columns stands for a vector of ones."""
    yield "token_embd.weight", shape.vocabulary, shape.width
    for layer in range(shape.layers):
        for name, rows, columns in (
            ("attn_norm", shape.width, 0),
            ("attn_q", shape.width, shape.width),
            ("attn_k", shape.kv_width, shape.width),
            ("attn_v", shape.kv_width, shape.width),
            ("attn_output", shape.width, shape.width),
            ("ffn_norm", shape.width, 0),
            ("ffn_gate", shape.feed_forward, shape.width),
            ("ffn_up", shape.feed_forward, shape.width),
            ("ffn_down", shape.width, shape.feed_forward),
        ):
            yield f"blk.{layer}.{name}.weight", rows, columns
    yield "output_norm.weight", shape.width, 0
    yield "output.weight", shape.vocabulary, shape.width


def _write_vocabulary(writer: GGUFWriter, size: int, words: Iterable[str]) -> None:
    special = _special()
    pieces = list(itertools.islice(_pieces(words), size - len(special)))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text in [*(text for text, _ in special), *pieces]])
    writer.add_token_scores([0.0] * len(special) + [-float(rank) for rank in range(len(pieces))])
    writer.add_token_types([*(kind for _, kind in special), *[TokenType.NORMAL] * len(pieces)])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def _special() -> list[tuple[str, TokenType]]:
    return [
        ("<unk>", TokenType.UNKNOWN),
        ("<s>", TokenType.CONTROL),
        ("</s>", TokenType.CONTROL),
        *((f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)),
        ("<|im_start|>", TokenType.CONTROL),
        ("<|im_end|>", TokenType.CONTROL),
    ]


def _pieces(words: Iterable[str]) -> Iterator[str]:
    """Yields distinct pieces: ASCII, words and their prefixes, syllables with and without SentencePiece's space."""
    yield SPACE
    yield from (chr(code) for code in range(33, 127))
    begun = dict.fromkeys(SPACE + word[:end] for word in words for end in range(1, len(word) + 1))
    yield from begun
    for num_letters in (2, 3, 4, 5):
        for letters in itertools.product(*([_CONSONANTS, _VOWELS] * 3)[:num_letters]):
            syllable = "".join(letters)
            if SPACE + syllable not in begun:
                yield SPACE + syllable
            yield syllable
