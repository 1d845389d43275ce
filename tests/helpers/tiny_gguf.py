"""A GGUF model of a few hundred kilobytes with random weights: real in form, noise in meaning, the same for a seed."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BOS, EOS = 1, 2
_PIECES = tuple(
    dict.fromkeys(["\u2581", *string.printable[:95], *("\u2581" + letter for letter in string.ascii_letters)])
)
# Before them come three special tokens, one for each byte, and two of the chat template.
_FIRST_PIECE = 3 + 256 + 2
_SPECIAL = (0, BOS, EOS, _FIRST_PIECE - 2, _FIRST_PIECE - 1)


def write_tiny_model(
    path: Path,
    *,
    architecture: str = "llama",
    layers: int = 2,
    dim: int = 64,
    ff: int = 96,
    heads: int = 4,
    kv_heads: int = 2,
    context: int = 2048,
    chat_template: str | None = CHATML,
    seed: int = 0,
    tensors_in_part: int = 0,
    never_ends: bool = False,
    attention: float = 1.0,
    marks: Sequence[str] = (),
) -> Path:
    """Writes a model that llama.cpp loads; any text can be tokenised (bytes as fallback).

    With `tensors_in_part` it is split into parts of so many tensors, named beside `path`. One that `never_ends` writes
    until it is stopped or full; others choose their end by chance, at times after a single token. `attention` is how
    much what was read before says beside a token itself, as a share of what it says in others. `marks` are tokens more,
    of the kind that files call defined by the user.
    """
    writer = GGUFWriter(path, architecture, split_max_tensors=tensors_in_part)
    writer.add_name(f"tiny-{architecture}")
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(dim)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(dim // heads)
    vocabulary = _write_vocabulary(writer, marks)
    writer.add_vocab_size(vocabulary)
    if chat_template:
        writer.add_chat_template(chat_template)
    for name, tensor in _tensors(architecture, layers, dim, ff, heads, kv_heads, vocabulary, seed):
        if never_ends and name == "output.weight":
            # A logit of 0 is far from the forty best.
            tensor[list(_SPECIAL)] = 0
        if name.endswith("attn_output.weight"):
            tensor *= np.float32(attention)
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_split_model(folder: Path) -> list[Path]:
    """Writes a tiny model in two files."""
    write_tiny_model(folder / "split.gguf", tensors_in_part=16)
    return sorted(folder.glob("split-*.gguf"))


def write_tiny_mamba(
    path: Path, *, layers: int = 2, dim: int = 64, state: int = 8, seed: int = 0, chat_template: str | None = None
) -> Path:
    """Writes a recurrent model: what it has read is one state, of which no part can be shared or taken back."""
    inner, rank, kernel = 2 * dim, 4, 4
    writer = GGUFWriter(path, "mamba")
    writer.add_name("tiny-mamba")
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(dim)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    vocabulary = _write_vocabulary(writer)
    writer.add_vocab_size(vocabulary)
    if chat_template:
        writer.add_chat_template(chat_template)
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    tensors = [("token_embd", matrix(vocabulary, dim)), ("output_norm", np.ones(dim, np.float32))]
    for layer in range(layers):
        tensors += [
            (f"blk.{layer}.attn_norm", np.ones(dim, np.float32)),
            (f"blk.{layer}.ssm_in", matrix(2 * inner, dim)),
            (f"blk.{layer}.ssm_conv1d", matrix(inner, kernel)),
            (f"blk.{layer}.ssm_x", matrix(rank + 2 * state, inner)),
            (f"blk.{layer}.ssm_dt", matrix(inner, rank)),
            (f"blk.{layer}.ssm_d", np.ones(inner, np.float32)),
            (f"blk.{layer}.ssm_out", matrix(dim, inner)),
        ]
        # These three have no suffix or another one, and the state decays.
        writer.add_tensor(f"blk.{layer}.ssm_a", -np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1)))
        writer.add_tensor(f"blk.{layer}.ssm_conv1d.bias", np.zeros(inner, np.float32))
        writer.add_tensor(f"blk.{layer}.ssm_dt.bias", np.zeros(inner, np.float32))
    for name, tensor in tensors:
        writer.add_tensor(name if name.endswith("ssm_d") else f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_gemma2(
    path: Path,
    *,
    layers: int = 2,
    dim: int = 64,
    window: int = 32,
    seed: int = 0,
    attention: float = 1.0,
    architecture: str = "gemma2",
) -> Path:
    """Writes a model of which every other layer sees only the last `window` tokens; `attention` as of the others.

    Of "gemma3" all but each sixth do.
    """
    heads, kv_heads, ff = 4, 2, 96
    writer = GGUFWriter(path, architecture)
    writer.add_name(f"tiny-{architecture}")
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(dim)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(dim // heads)
    writer.add_value_length(dim // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_sliding_window(window)
    vocabulary = _write_vocabulary(writer)
    writer.add_vocab_size(vocabulary)
    for name, tensor in _tensors(architecture, layers, dim, ff, heads, kv_heads, vocabulary, seed):
        # The embeddings are the output as well.
        if name != "output.weight":
            writer.add_tensor(name, tensor)
    for layer in range(layers):
        writer.add_tensor(f"blk.{layer}.post_attention_norm.weight", np.full(dim, attention, np.float32))
        if architecture == "gemma3":
            for name in ("attn_q_norm", "attn_k_norm"):
                writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(dim // heads, np.float32))
        writer.add_tensor(f"blk.{layer}.post_ffw_norm.weight", np.ones(dim, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_lfm2(path: Path, *, dim: int = 64, seed: int = 0) -> Path:
    """Writes a hybrid: its first layer sums up the last tokens in a state, its second has keys and values."""
    heads, kv_heads, ff, kernel = 4, 2, 96, 3
    writer = GGUFWriter(path, "lfm2")
    writer.add_name("tiny-lfm2")
    writer.add_block_count(2)
    writer.add_context_length(2048)
    writer.add_embedding_length(dim)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv([0, kv_heads])
    writer.add_shortconv_l_cache(kernel)
    writer.add_layer_norm_rms_eps(1e-5)
    vocabulary = _write_vocabulary(writer)
    writer.add_vocab_size(vocabulary)
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    for name, tensor in _tensors("lfm2", 2, dim, ff, heads, kv_heads, vocabulary, seed):
        if (name != "output_norm.weight" and not name.startswith("blk.0.attn_")) or name == "blk.0.attn_norm.weight":
            writer.add_tensor(name, tensor)
    writer.add_tensor("token_embd_norm.weight", np.ones(dim, np.float32))
    writer.add_tensor("blk.0.shortconv.conv.weight", matrix(dim, kernel))
    writer.add_tensor("blk.0.shortconv.in_proj.weight", matrix(3 * dim, dim))
    writer.add_tensor("blk.0.shortconv.out_proj.weight", matrix(dim, dim))
    for name in ("attn_q_norm", "attn_k_norm"):
        writer.add_tensor(f"blk.1.{name}.weight", np.ones(dim // heads, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def token_of(text: str) -> int:
    """The token of a letter or mark, or of a space and a letter."""
    return _FIRST_PIECE + _PIECES.index(text.replace(" ", "\u2581"))


def _write_vocabulary(writer: GGUFWriter, marks: Sequence[str] = ()) -> int:
    entries = [("<unk>", TokenType.UNKNOWN), ("<s>", TokenType.CONTROL), ("</s>", TokenType.CONTROL)]
    entries += [(f"<0x{byte:02X}>", TokenType.BYTE) for byte in range(256)]
    entries += [("<|im_start|>", TokenType.CONTROL), ("<|im_end|>", TokenType.CONTROL)]
    entries += [(piece, TokenType.NORMAL) for piece in _PIECES]
    entries += [(mark, TokenType.USER_DEFINED) for mark in marks]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text, _ in entries])
    writer.add_token_scores(
        [-float(rank) if kind == TokenType.NORMAL else 0.0 for rank, (_, kind) in enumerate(entries)]
    )
    writer.add_token_types([kind for _, kind in entries])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    return len(entries)


def _tensors(
    architecture: str, layers: int, dim: int, ff: int, heads: int, kv_heads: int, vocabulary: int, seed: int
) -> list[tuple[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    kv_dim = dim // heads * kv_heads

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    tensors = [("token_embd.weight", matrix(vocabulary, dim))]
    for layer in range(layers):
        shapes = {
            "attn_q": (dim, dim),
            "attn_k": (kv_dim, dim),
            "attn_v": (kv_dim, dim),
            "attn_output": (dim, dim),
            "ffn_gate": (ff, dim),
            "ffn_up": (ff, dim),
            "ffn_down": (dim, ff),
        }
        tensors += [(f"blk.{layer}.{name}.weight", matrix(*shape)) for name, shape in shapes.items()]
        tensors += [(f"blk.{layer}.{name}.weight", np.ones(dim, np.float32)) for name in ("attn_norm", "ffn_norm")]
        if architecture == "qwen2":
            widths = {"attn_q": dim, "attn_k": kv_dim, "attn_v": kv_dim}
            tensors += [(f"blk.{layer}.{name}.bias", np.zeros(width, np.float32)) for name, width in widths.items()]
    return [*tensors, ("output_norm.weight", np.ones(dim, np.float32)), ("output.weight", matrix(vocabulary, dim))]
