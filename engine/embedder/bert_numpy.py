"""Plain BERTs in numpy, for questions and a few documents, without the 250 MB and two seconds that torch takes.

On one core it is as fast as torch in float32 for questions and sentences, and a tenth slower for whole chunks. Its
weights are pages of their file, so the only memory that it allocates is that of its tokenizer.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.embedder.bert import WEIGHTS, Lengths, Shape, Tokens, load_tokenizer, tokens_of
from engine.embedder.setup import Setup
from engine.memory.process import bytes_in_files

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Numbers = NDArray[np.float32]

# Smaller batches are not slower, because weights stay in the cache, and few sentences are enough for all workers.
_BATCH_TOKENS = 256
# As many numbers as stay in a core's cache during a dozen operations.
_BLOCK_NUMBERS = 16_384
# The most batches at once, each on one core; all share weights and tokenizer.
_MOST_AT_ONCE = 16
# The length of the header, at the start of a safetensors file.
_HEAD_LENGTH_BYTES = 8
# The attention score of padding, so low that its weight becomes 0.
_NEVER = np.float32(-1e30)


@dataclass(frozen=True, slots=True)
class _Linear:
    weight: Numbers
    bias: Numbers

    def __call__(self, states: Numbers) -> Numbers:
        mapped: Numbers = states @ self.weight.T
        mapped += self.bias
        return mapped


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Numbers
    bias: Numbers
    epsilon: float

    def __call__(self, states: Numbers) -> Numbers:
        """Normalises in place."""
        states -= states.mean(axis=1, keepdims=True)
        variances = np.einsum("nd,nd->n", states, states) / states.shape[1]
        states *= (1 / np.sqrt(variances + np.float32(self.epsilon)))[:, None]
        states *= self.weight
        states += self.bias
        return states


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention, then two linear maps, each with a residual connection and a norm after it."""

    query: _Linear
    key: _Linear
    value: _Linear
    merged: _Linear
    merged_norm: _Norm
    inner: _Linear
    outer: _Linear
    outer_norm: _Norm


class NumpyBert:
    """Texts → unit vectors. Usable from any thread, several at once: it never changes."""

    def __init__(self, shape: Shape, tokenizer: Tokenizer, weights: Mapping[str, Numbers]) -> None:
        """`weights` by their names in the file. Raises ValueError if they do not match `shape`."""
        self.max_tokens, self._shape, self._tokenizer = shape.max_tokens, shape, tokenizer
        taken = _Weights(weights)
        size, inner = shape.dimensions, shape.inner_dimensions

        def norm(name: str) -> _Norm:
            return _Norm(taken.of(f"{name}.weight", size), taken.of(f"{name}.bias", size), shape.epsilon)

        def linear(name: str, num_in: int, num_out: int) -> _Linear:
            return _Linear(taken.of(f"{name}.weight", num_out, num_in), taken.of(f"{name}.bias", num_out))

        def layer(name: str) -> _Layer:
            return _Layer(
                query=linear(f"{name}.attention.self.query", size, size),
                key=linear(f"{name}.attention.self.key", size, size),
                value=linear(f"{name}.attention.self.value", size, size),
                merged=linear(f"{name}.attention.output.dense", size, size),
                merged_norm=norm(f"{name}.attention.output.LayerNorm"),
                inner=linear(f"{name}.intermediate.dense", size, inner),
                outer=linear(f"{name}.output.dense", inner, size),
                outer_norm=norm(f"{name}.output.LayerNorm"),
            )

        self._words = taken.of("embeddings.word_embeddings.weight", shape.num_words, size)
        self._positions = taken.of("embeddings.position_embeddings.weight", shape.num_positions, size)
        self._types = taken.of("embeddings.token_type_embeddings.weight", shape.num_types, size)
        self._norm = norm("embeddings.LayerNorm")
        self._layers = [layer(f"encoder.layer.{number}") for number in range(shape.num_layers)]
        # Without the word embeddings (half of the default model), of which a text reads only some rows.
        counted = [one for one in taken.all if one is not self._words]
        self.num_bytes = sum(one.nbytes for one in counted)
        self.mapped_bytes = bytes_in_files((one.ctypes.data, one.nbytes) for one in counted)

    def setup(self, num_cores: int, batch_size: int) -> Setup:
        """Returns how it is run: a batch on each core. `batch_size` in texts, 0 fills batches by tokens."""
        shape, tokens = self._shape, max(_BATCH_TOKENS, batch_size * self.max_tokens)
        # Four arrays of states, two of the inner linear map, and two of attention scores.
        per_token = 4 * shape.dimensions + 2 * shape.inner_dimensions + 2 * shape.num_heads * self.max_tokens
        return Setup(
            "numpy",
            num_workers=min(num_cores, _MOST_AT_ONCE),
            batch_tokens=_BATCH_TOKENS,
            batch_size=batch_size,
            batch_bytes=tokens * per_token * np.dtype(np.float32).itemsize,
        )

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Returns the length of each text in tokens."""
        return [len(encoding) for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def encode(self, texts: list[str], *, is_question: bool) -> Numbers:
        """Returns unit vectors (n, d) of one batch. `is_question` has no effect: a plain model has no prompts."""
        tokens, lengths = tokens_of(self._tokenizer, texts, self.max_tokens)
        states = self._states(tokens, lengths)
        if self._shape.pooling == "cls":
            vectors = states[:, 0]
        else:
            # Padding is not part of the mean.
            states *= (np.arange(tokens.shape[1]) < lengths[:, None])[:, :, None]
            vectors = states.sum(axis=1)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Numbers = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit

    def _states(self, tokens: Tokens, lengths: Lengths) -> Numbers:
        """Computes the last hidden states: (n, t) tokens → (n, t, d)."""
        num_texts, num_tokens = tokens.shape
        placed = self._words[tokens]
        placed += self._types[0] + self._positions[:num_tokens]
        states = self._norm(placed.reshape(num_texts * num_tokens, -1))
        is_filling = np.arange(num_tokens) >= lengths[:, None]
        never = np.where(is_filling, _NEVER, np.float32(0))[:, None, None, :] if is_filling.any() else None
        for layer in self._layers:
            states = self._through(layer, states, num_texts, never)
        return states.reshape(num_texts, num_tokens, -1)

    def _through(self, layer: _Layer, states: Numbers, num_texts: int, never: Numbers | None) -> Numbers:
        """Applies a layer, in place."""
        query, key, value = (self._by_head(part(states), num_texts) for part in (layer.query, layer.key, layer.value))
        query *= np.float32(query.shape[3] ** -0.5)
        fits = query @ key.transpose(0, 1, 3, 2)
        if never is not None:
            fits += never
        fits -= fits.max(axis=3, keepdims=True)
        np.exp(fits, out=fits)
        fits /= fits.sum(axis=3, keepdims=True)
        seen: Numbers = np.matmul(fits, value).transpose(0, 2, 1, 3).reshape(states.shape)
        states += layer.merged(seen)
        layer.merged_norm(states)
        states += layer.outer(gelu(layer.inner(states)))
        return layer.outer_norm(states)

    def _by_head(self, states: Numbers, num_texts: int) -> Numbers:
        by_token = states.reshape(num_texts, -1, self._shape.num_heads, states.shape[1] // self._shape.num_heads)
        return by_token.transpose(0, 2, 1, 3)


def gelu(numbers: Numbers) -> Numbers:
    """Computes x·Φ(x) in place, to 2e-7. numpy has no error function, so this is Abramowitz and Stegun's 7.1.26.

    With e = erfc(|x|/√2), it is max(x, 0) − |x|·e/2. It works in blocks that fit into the cache.
    """
    flat = numbers.reshape(-1)
    for start in range(0, flat.size, _BLOCK_NUMBERS):
        block = flat[start : start + _BLOCK_NUMBERS]
        scaled = np.abs(block)
        scaled *= np.float32(0.5**0.5)
        inverse = scaled * np.float32(0.3275911)
        inverse += 1
        np.reciprocal(inverse, out=inverse)
        rest = inverse * np.float32(1.061405429)
        for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            rest += np.float32(factor)
            rest *= inverse
        np.multiply(scaled, scaled, out=scaled)
        np.negative(scaled, out=scaled)
        np.exp(scaled, out=scaled)
        rest *= scaled
        np.abs(block, out=scaled)
        rest *= scaled
        rest *= np.float32(0.5)
        np.maximum(block, 0, out=block)
        block -= rest
    return numbers


class _Weights:
    """The weights of a file, and those that were used."""

    def __init__(self, weights: Mapping[str, Numbers]) -> None:
        self._weights = weights
        self.all: list[Numbers] = []

    def of(self, name: str, *shape: int) -> Numbers:
        """Returns the weights of that name. Raises ValueError if they are missing, or of another shape."""
        found = self._weights.get(name)
        if found is None:
            raise ValueError(f"the weights lack {name}, or have it in other numbers than float32")
        if found.shape != shape:
            raise ValueError(f"{name} is {found.shape} and should be {shape}")
        self.all.append(found)
        return found


def load(folder: Path, shape: Shape) -> NumpyBert:
    """Loads the model in float32; its weights stay pages of their file.

    Raises:
        OSError: A file cannot be read.
        ValueError: The weights do not match the configuration, or their file is broken.
        Exception: The tokenizer's file is broken.
    """
    return NumpyBert(shape, load_tokenizer(folder), _mapped(folder / WEIGHTS))


def _mapped(file: Path) -> dict[str, Numbers]:
    """Maps the float32 tensors of a safetensors file.

    Format: 8 bytes with the length of a JSON header, the header, then the tensors at the offsets in it.

    Raises:
        OSError, ValueError: It cannot be read, or is damaged.
    """
    if file.stat().st_size < _HEAD_LENGTH_BYTES:
        raise ValueError("the weights are cut short")
    with file.open("rb") as opened:
        pages = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    begin = _HEAD_LENGTH_BYTES + int.from_bytes(pages[:_HEAD_LENGTH_BYTES], "little")
    if begin > len(pages):
        raise ValueError("the weights are cut short")
    try:
        head: dict[str, Any] = json.loads(pages[_HEAD_LENGTH_BYTES:begin])
        wanted = {name: said for name, said in head.items() if name != "__metadata__" and said["dtype"] == "F32"}
        extents = [
            (name, [int(size) for size in said["shape"]], int(said["data_offsets"][0]), int(said["data_offsets"][1]))
            for name, said in wanted.items()
        ]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("the weights have no head that can be read") from error
    return {name: _tensor(pages, begin, start, end, shape) for name, shape, start, end in extents}


def _tensor(pages: mmap.mmap, begin: int, start: int, end: int, shape: list[int]) -> Numbers:
    """Returns the tensor from `start` to `end` after `begin`; it is read-only."""
    count = math.prod(shape)
    if not 0 <= start <= end <= len(pages) - begin or end - start != 4 * count:
        raise ValueError("the weights are cut short")
    numbers: Numbers = np.frombuffer(pages, np.dtype("<f4"), count, begin + start)
    return numbers.reshape(shape)
