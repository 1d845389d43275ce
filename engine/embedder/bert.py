"""Plain BERTs, of which we know everything that determines their vectors: the default embedder needs no libraries.

transformers and sentence-transformers take 150 MB of memory that is never released and 50 MB of file pages, torch as
much again: as much as one to six layers of a language model. A BERT whose files contain nothing unusual needs neither
(`bert_numpy`, `bert_torch`); all other models are left to those libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
_TYPES = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
_POOLING_MODES: Mapping[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# Fields that do not affect the vectors, or repeat what is read elsewhere.
_POOLING_SILENT = frozenset({"word_embedding_dimension", "embedding_dimension", "include_prompt"})
_SENTENCES_SILENT = frozenset({"__version__", "model_type", "similarity_fn_name"})

Pooling = Literal["mean", "cls"]
Tokens = NDArray[np.int64]
Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """The configuration of a model, as far as it affects its vectors. Lengths in tokens."""

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
    """Reads the shape of the model in `folder`; None if it is not a BERT, or its files have fields that we do not know.

    It is read as sentence-transformers reads it. An unknown field may change vectors, so the result is None then.
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
    """Returns whether texts are tokenized unchanged, and only as tokenizer.json says."""
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
    """Returns whether a text becomes a special token, its tokens, and a special token, as `_cut` assumes."""
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


def load_tokenizer(folder: Path) -> Tokenizer:
    """Loads the tokenizer of the model in `folder`; it is never modified, so all threads may share it.

    Raises:
        Exception: The library may raise anything for a broken file.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def tokens_of(tokenizer: Tokenizer, texts: Sequence[str], max_tokens: int) -> tuple[Tokens, Lengths]:
    """Returns tokens (n, t), padded with values that are never used, and the number of tokens of each text."""
    cut = [_cut(encoding.ids, max_tokens) for encoding in tokenizer.encode_batch_fast(list(texts))]
    lengths = np.array([len(one) for one in cut], np.int64)
    tokens = np.zeros((len(cut), int(lengths.max(initial=0))), np.int64)
    for row, one in zip(tokens, cut, strict=True):
        row[: len(one)] = one
    return tokens, lengths


def _cut(tokens: list[int], max_tokens: int) -> list[int]:
    """Truncates a text, but keeps the special token at its end."""
    return tokens if len(tokens) <= max_tokens else [*tokens[: max_tokens - 1], tokens[-1]]
