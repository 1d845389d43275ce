"""What each layer keeps of a text, according to the header: keys and values of every token, one state, or neither.

llama.cpp decides this by rules for each architecture (sliding-window layers with narrower heads, layers that share the
keys of others, recurrent layers). Most of it can be seen in the tensors: a layer with a key matrix stores as many
numbers as the matrix has rows, and a recurrent layer has tensors of its own. So the bytes are computed from tensors,
and from the metadata only where keys are computed together with queries, or from a compressed form. Not covered are the
states of MiniMax-01, and the indexer keys of DeepSeek 3.2 and GLM 5 (a fifth of what is counted).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

F16_BYTES, FLOAT_BYTES = 2, 4
_KEYS, _VALUES = "attn_k.weight", "attn_v.weight"
# A tensor of layers with Kimi's delta attention, which have matrices for keys and values but store neither.
_OF_LINEAR_KEYS = "ssm_conv1d_k.weight"
# Prefixes of the tensors of recurrent layers: Mamba and gated delta nets, short convolutions, RWKV.
_OF_STATES = ("ssm_", "shortconv.", "time_mix_")
# The number of layers with keys if the header does not say that the others share them (llama.cpp's models/gemma3n.cpp).
_WITH_KEYS = {"gemma3n": 20}
# llama.cpp's default.
_TOKENS_SHIFTED = 2

# Returns a value of the metadata by its key without the architecture, or a default.
Told = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class LayerCaches:
    """For each layer: `cell_bytes` of one token's f16 keys and values, `state_bytes` of the recurrent state."""

    cell_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]


def layer_caches(architecture: str, told: Told, layers: Sequence[Mapping[str, int]]) -> LayerCaches:
    """Returns the caches of a model; `layers` has the rows of each layer's tensors, by names without the prefix.

    Raises:
        TypeError, ValueError: The metadata is damaged.
    """
    sums_up = [any(name.startswith(_OF_STATES) for name in layer) for layer in layers]
    by_header = _by_header(told, len(layers))
    first_without = _first_without_keys(architecture, told, len(layers))
    cells = []
    for number, layer in enumerate(layers):
        if number >= first_without or (sums_up[number] and (not by_header[number] or _OF_LINEAR_KEYS in layer)):
            cells.append(0)
        elif rows := layer.get(_KEYS):
            # Without a value matrix, the keys are used as values.
            cells.append((rows + layer.get(_VALUES, rows)) * F16_BYTES)
        else:
            cells.append(0 if sums_up[number] else by_header[number])
    state = _state_bytes(told, len(layers))
    return LayerCaches(tuple(cells), tuple(state if one else 0 for one in sums_up))


def per_layer(value: Any, num_layers: int) -> list[int]:
    """Returns a number of the metadata for each layer, from a list or from one number for all."""
    if isinstance(value, list):
        return [int(entry) for entry in value[:num_layers]] + [0] * (num_layers - len(value))
    return [int(value)] * num_layers


def _first_without_keys(architecture: str, told: Told, num_layers: int) -> int:
    """Returns the first layer without keys: later ones share those of others, or are for multi-token prediction."""
    num_guessing = int(told("nextn_predict_layers", 0))
    num_shared = int(told("attention.shared_kv_layers", 0))
    return min(_WITH_KEYS.get(architecture, num_layers), num_layers - num_shared, num_layers - num_guessing)


def _by_header(told: Told, num_layers: int) -> list[int]:
    """Returns the bytes of a token's keys and values by the metadata; the number of heads may differ between layers."""
    heads = per_layer(told("attention.head_count", 0), num_layers)
    kv_heads = per_layer(told("attention.head_count_kv", 0) or told("attention.head_count", 0), num_layers)
    width = int(told("embedding_length", 0))
    # With latent attention (MLA), only the compressed form is stored, in place of the keys.
    is_shorter = told("attention.key_length_mla", 0) and told("attention.value_length_mla", 0)
    found = []
    for layer in range(num_layers):
        head_width = width // max(1, heads[layer])
        key_length = per_layer(told("attention.key_length", head_width), num_layers)[layer]
        value_length = per_layer(told("attention.value_length", head_width), num_layers)[layer]
        found.append(kv_heads[layer] * (key_length + (0 if is_shorter else value_length)) * F16_BYTES)
    return found


def _state_bytes(told: Told, num_layers: int) -> int:
    """Returns the size of a recurrent layer's state: of the last tokens, and of the whole text (llama-hparams.cpp)."""
    width, heads = (
        int(told("embedding_length", 0)),
        max(per_layer(told("attention.head_count", 0), num_layers), default=0),
    )
    if head := int(told("wkv.head_size", 0)):
        return width * (int(told("token_shift_count", _TOKENS_SHIFTED)) + head) * FLOAT_BYTES
    if length := int(told("shortconv.l_cache", 0)):
        return width * (length - 1) * FLOAT_BYTES
    kernel = int(told("ssm.conv_kernel", 0))
    if head := int(told("kda.head_dim", 0)):
        return heads * head * (3 * (kernel - 1 if kernel else 3) + head) * FLOAT_BYTES
    inner, state = int(told("ssm.inner_size", 0)), int(told("ssm.state_size", 0))
    latest = max(0, kernel - 1) * (inner + 2 * int(told("ssm.group_count", 0)) * state)
    return (latest + state * inner) * FLOAT_BYTES
