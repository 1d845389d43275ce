"""Plain BERTs in torch: the fastest for thousands of chunks, also on a graphics card and in bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from engine.embedder.bert import WEIGHTS, Shape, load_tokenizer, tokens_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load(folder: Path, shape: Shape) -> Bert:
    """Loads the model in float32; its weights stay pages of their file.

    Raises:
        OSError: A file cannot be read.
        ValueError: The weights do not match the configuration, or a file is broken.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = {_renamed(name): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
        bert = Bert(shape, load_tokenizer(folder))
        # `assign` uses the tensors directly, without copies.
        left = bert.load_state_dict(weights, strict=False, assign=True)
    except (SafetensorError, RuntimeError) as error:  # torch raises the latter for wrong shapes
        raise ValueError(str(error)) from error
    if left.missing_keys:
        raise ValueError(f"the weights lack {left.missing_keys[0]}")
    if any(tensor.dtype != torch.float32 for tensor in bert.parameters()):
        raise ValueError("the weights are not in float32")
    return bert.eval().requires_grad_(False)


_NAMES = (
    ("attention.self.", ""),
    ("attention.output.dense.", "merged."),
    ("attention.output.LayerNorm.", "merged_norm."),
    ("intermediate.dense.", "inner."),
    ("output.dense.", "outer."),
    ("output.LayerNorm.", "outer_norm."),
    ("embeddings.LayerNorm.", "norm."),
    ("embeddings.word_embeddings.weight", "words"),
    ("embeddings.position_embeddings.weight", "positions"),
    ("embeddings.token_type_embeddings.weight", "types"),
    ("encoder.layer.", "layers."),
)


def _renamed(name: str) -> str:
    """Converts the name of a tensor in the file to its name in `Bert`."""
    for theirs, ours in _NAMES:
        name = name.replace(theirs, ours)
    return name


# A device without memory: its tensors are replaced by those of the file.
_NOWHERE = "meta"


def _linear(num_in: int, num_out: int) -> nn.Linear:
    return nn.Linear(num_in, num_out, device=_NOWHERE)


def _norm(shape: Shape) -> nn.LayerNorm:
    return nn.LayerNorm(shape.dimensions, shape.epsilon, device=_NOWHERE)


def _table(num_rows: int, shape: Shape) -> nn.Parameter:
    """Makes a table. Not `nn.Embedding`: its random initialisation on this device would import 75 MB of libraries."""
    return nn.Parameter(torch.empty(num_rows, shape.dimensions, device=_NOWHERE), requires_grad=False)


class _Layer(nn.Module):
    """Attention, then two linear maps, each with a residual connection and a norm after it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        size, inner = shape.dimensions, shape.inner_dimensions
        self.num_heads = shape.num_heads
        self.query, self.key, self.value = _linear(size, size), _linear(size, size), _linear(size, size)
        self.merged, self.merged_norm = _linear(size, size), _norm(shape)
        self.inner, self.outer, self.outer_norm = _linear(size, inner), _linear(inner, size), _norm(shape)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (self._by_head(part(states)) for part in (self.query, self.key, self.value))
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = self.merged_norm(states + self.merged(seen.transpose(1, 2).flatten(2)))
        outer: Tensor = self.outer_norm(states + self.outer(functional.gelu(self.inner(states))))
        return outer

    def _by_head(self, states: Tensor) -> Tensor:
        num_texts, num_tokens, size = states.shape
        return states.view(num_texts, num_tokens, self.num_heads, size // self.num_heads).transpose(1, 2)


class Bert(nn.Module):
    """Computes a vector for each text. Usable from any thread: its tokenizer is never modified."""

    def __init__(self, shape: Shape, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.shape, self.tokenizer = shape, tokenizer
        self.words, self.positions = _table(shape.num_words, shape), _table(shape.num_positions, shape)
        self.types, self.norm = _table(shape.num_types, shape), _norm(shape)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.num_layers))

    @property
    def max_seq_length(self) -> int:
        return self.shape.max_tokens

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns vectors (n, d), not yet of unit length."""
        place = self.words.device
        made, counted = tokens_of(self.tokenizer, texts, self.max_seq_length)
        tokens, lengths = torch.from_numpy(made).to(place), torch.from_numpy(counted).to(place)
        with torch.inference_mode():
            vectors = self(tokens, torch.arange(tokens.shape[1], device=place) < lengths[:, None])
            found: NDArray[np.float32] = vectors.float().cpu().numpy()
        return found

    def forward(self, tokens: Tensor, is_text: Tensor) -> Tensor:
        """Computes (n, d) vectors from (n, t) tokens and a mask that is False for padding."""
        placed = functional.embedding(tokens, self.words) + self.types[0] + self.positions[: tokens.shape[1]]
        states: Tensor = self.norm(placed)
        mask = None if bool(is_text.all()) else is_text[:, None, None, :]
        for layer in self.layers:
            states = layer(states, mask)
        if self.shape.pooling == "cls":
            return states[:, 0]
        counted = is_text.unsqueeze(2).to(states.dtype)
        return (states * counted).sum(1) / counted.sum(1)
