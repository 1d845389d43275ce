"""BERT in torch alone: the default embedding model without the 200 MB of libraries that are made for every other one.

transformers and sentence-transformers take 150 MB of memory that no pressure gives back and 50 MB of pages beside
torch, as much as a layer or three of a language model. Of a BERT whose files say nothing unusual they run what stands
below; whatever else is left to them (`read`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
_TYPES = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
_POOLING_MODES: Mapping[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# What says nothing of the vectors, or says again what is read elsewhere.
_POOLING_SILENT = frozenset({"word_embedding_dimension", "embedding_dimension", "include_prompt"})
_SENTENCES_SILENT = frozenset({"__version__", "model_type", "similarity_fn_name"})

Pooling = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the files of a model say, as far as its vectors hang on it. Lengths in tokens."""

    num_words: int
    num_positions: int
    num_types: int
    dimensions: int
    num_layers: int
    num_heads: int
    inner_dimensions: int
    epsilon: float
    max_tokens: int
    pooling: Pooling


def read(folder: Path) -> Shape | None:
    """The shape of the model in `folder`; None where it is no BERT, or one of which the files say more than we know.

    It is read as sentence-transformers reads it: a field that is new to us may change vectors, so it decides for None.
    """
    try:
        if not (folder / WEIGHTS).is_file() or not _is_plain(folder):
            return None
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        types = tuple(str(module["type"]).rpartition(".")[2] for module in modules)
        if types not in _TYPES or modules[0]["path"]:
            return None
        pooling = _pooling(_json(folder / modules[1]["path"] / "config.json"))
        limits = _json(folder / "sentence_bert_config.json")
        if pooling is None or set(limits) != {"max_seq_length", "do_lower_case"} or limits["do_lower_case"]:
            return None
        return _shape(_json(folder / "config.json"), int(limits["max_seq_length"]), pooling)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _is_plain(folder: Path) -> bool:
    """Whether texts go to the tokenizer as they are, and that is what tokenizer.json alone says."""
    sentences = _json(folder / "config_sentence_transformers.json")
    unusual = {name: said for name, said in sentences.items() if name not in _SENTENCES_SILENT}
    if any(unusual.pop("prompts", {}).values()) or any(said is not None for said in unusual.values()):
        return False
    named = _json(folder / "tokenizer_config.json")
    tokenizer = _json(folder / TOKENIZER)
    normalizer = tokenizer["normalizer"]
    return (
        (tokenizer["model"]["type"], normalizer["type"]) == ("WordPiece", "BertNormalizer")
        and _has_one_mark_behind(tokenizer["post_processor"])
        and named.get("tokenizer_class", "") in ("BertTokenizer", "BertTokenizerFast")
        and named.get("do_lower_case") == normalizer["lowercase"]
        and named.get("strip_accents") == normalizer["strip_accents"]
        and named.get("tokenize_chinese_chars", True) == normalizer["handle_chinese_chars"]
        and not (folder / "added_tokens.json").exists()
    )


def _has_one_mark_behind(post_processor: Mapping[str, Any]) -> bool:
    """Whether a text becomes one mark, its tokens, and another mark, as `_cut` takes it."""
    if post_processor["type"] == "BertProcessing":
        return True
    kinds = [next(iter(part)) for part in post_processor["single"]]
    return post_processor["type"] == "TemplateProcessing" and kinds == ["SpecialToken", "Sequence", "SpecialToken"]


def _pooling(config: Mapping[str, Any]) -> Pooling | None:
    chosen = [name for name, said in config.items() if said and name not in _POOLING_SILENT]
    return _POOLING_MODES.get(chosen[0]) if len(chosen) == 1 else None


def _shape(config: Mapping[str, Any], max_tokens: int, pooling: Pooling) -> Shape | None:
    is_usual = (
        config["model_type"] == "bert"
        and config["architectures"] == ["BertModel"]
        and config["hidden_act"] == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
    )
    if not is_usual or not 0 < max_tokens <= config["max_position_embeddings"]:
        return None
    return Shape(
        num_words=config["vocab_size"],
        num_positions=config["max_position_embeddings"],
        num_types=config["type_vocab_size"],
        dimensions=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        inner_dimensions=config["intermediate_size"],
        epsilon=config["layer_norm_eps"],
        max_tokens=max_tokens,
        pooling=pooling,
    )


def _json(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def load(folder: Path, shape: Shape) -> Bert:
    """The model in float32; its weights stay pages of their file.

    Raises:
        OSError: A file cannot be read.
        ValueError: The weights are not those that the configuration tells of, or a file is broken.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        weights = {_renamed(name): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
        bert = Bert(shape, tokenizer)
        # As they are: nothing is drawn at random first, and nothing copied.
        left = bert.load_state_dict(weights, strict=False, assign=True)
    except (SafetensorError, RuntimeError) as error:  # torch has the latter for weights of another shape
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
    """A tensor of the file by the name that it has in `Bert`."""
    for theirs, ours in _NAMES:
        name = name.replace(theirs, ours)
    return name


# Without memory: what is made there is replaced by what the file holds.
_NOWHERE = "meta"


def _linear(num_in: int, num_out: int) -> nn.Linear:
    return nn.Linear(num_in, num_out, device=_NOWHERE)


def _norm(shape: Shape) -> nn.LayerNorm:
    return nn.LayerNorm(shape.dimensions, shape.epsilon, device=_NOWHERE)


def _table(num_rows: int, shape: Shape) -> nn.Parameter:
    """Not `nn.Embedding`: that draws its numbers at random, which nowhere takes 75 MB of libraries."""
    return nn.Parameter(torch.empty(num_rows, shape.dimensions, device=_NOWHERE), requires_grad=False)


class _Layer(nn.Module):
    """Attention, then two linear maps; each is added to what came in, and normed afterwards."""

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
    """Texts → vectors of one length each. Usable from any thread: nobody changes its tokenizer."""

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
        """Vectors (n, d), not yet of unit length."""
        cut = [_cut(encoding.ids, self.max_seq_length) for encoding in self.tokenizer.encode_batch_fast(list(texts))]
        longest = max(len(tokens) for tokens in cut)
        place = self.words.device
        # What fills a row is never looked at, so any token does.
        tokens = torch.tensor([[*one, *[0] * (longest - len(one))] for one in cut], device=place)
        lengths = torch.tensor([len(one) for one in cut], device=place)
        with torch.inference_mode():
            vectors = self(tokens, torch.arange(longest, device=place) < lengths[:, None])
            found: NDArray[np.float32] = vectors.float().cpu().numpy()
        return found

    def forward(self, tokens: Tensor, is_text: Tensor) -> Tensor:
        """(n, t) tokens and whether each is one of the text → (n, d)."""
        placed = functional.embedding(tokens, self.words) + self.types[0] + self.positions[: tokens.shape[1]]
        states: Tensor = self.norm(placed)
        mask = None if bool(is_text.all()) else is_text[:, None, None, :]
        for layer in self.layers:
            states = layer(states, mask)
        if self.shape.pooling == "cls":
            return states[:, 0]
        counted = is_text.unsqueeze(2).to(states.dtype)
        return (states * counted).sum(1) / counted.sum(1)


def _cut(tokens: list[int], max_tokens: int) -> list[int]:
    """The text is cut off, not the mark behind it."""
    return tokens if len(tokens) <= max_tokens else [*tokens[: max_tokens - 1], tokens[-1]]
