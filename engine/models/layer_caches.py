"""What each layer keeps of a text, according to the header: keys and values of every token, one state, or neither.

llama.cpp decides that by rules of each architecture (windows with narrower heads, layers that use the keys of others,
layers that sum up instead of attending). Most of it shows in the tensors: a layer whose keys are made by a matrix keeps
as many numbers as that has rows, and one that sums up has tensors for it. So the bytes come from there, and from the
metadata only where keys are made together with queries, or from something shorter. Not known here are the states of
MiniMax-01, and the keys by which DeepSeek 3.2 and GLM 5 choose what to attend to (a fifth of what we count).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

F16_BYTES, FLOAT_BYTES = 2, 4
_KEYS, _VALUES = "attn_k.weight", "attn_v.weight"
# Of layers that sum up keys and values (Kimi's delta attention), which have matrices for both and keep neither.
_OF_LINEAR_KEYS = "ssm_conv1d_k.weight"
# How tensors begin that sum up a text: Mamba and gated delta nets, short convolutions, RWKV.
_OF_STATES = ("ssm_", "shortconv.", "time_mix_")
# Its header does not say that the last layers use the keys of others (llama.cpp's models/gemma3n.cpp).
_WITH_KEYS = {"gemma3n": 20}
# As llama.cpp takes it where a header has none.
_TOKENS_SHIFTED = 2

# A value of the metadata by its key without the architecture, or what it is where there is none.
Told = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class LayerCaches:
    """Layer by layer: `cell_bytes` of one token's f16 keys and values, `state_bytes` of a whole text summed up."""

    cell_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]


def layer_caches(architecture: str, told: Told, layers: Sequence[Mapping[str, int]]) -> LayerCaches:
    """Of a model whose `layers` have tensors, by their names without the layer's, with so many rows each.

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
            # Where there is no matrix of values, the keys serve as such.
            cells.append((rows + layer.get(_VALUES, rows)) * F16_BYTES)
        else:
            cells.append(0 if sums_up[number] else by_header[number])
    state = _state_bytes(told, len(layers))
    return LayerCaches(tuple(cells), tuple(state if one else 0 for one in sums_up))


def per_layer(value: Any, num_layers: int) -> list[int]:
    """A number of the metadata for each layer, be there one or one for all."""
    if isinstance(value, list):
        return [int(entry) for entry in value[:num_layers]] + [0] * (num_layers - len(value))
    return [int(value)] * num_layers


def _first_without_keys(architecture: str, told: Told, num_layers: int) -> int:
    """From this layer on there are none: those of others are used, or it is there for guesses that nobody makes."""
    num_guessing = int(told("nextn_predict_layers", 0))
    num_shared = int(told("attention.shared_kv_layers", 0))
    return min(_WITH_KEYS.get(architecture, num_layers), num_layers - num_shared, num_layers - num_guessing)


def _by_header(told: Told, num_layers: int) -> list[int]:
    """Bytes of a token's keys and values where every layer attends; the heads may be others in each."""
    heads = per_layer(told("attention.head_count", 0), num_layers)
    kv_heads = per_layer(told("attention.head_count_kv", 0) or told("attention.head_count", 0), num_layers)
    width = int(told("embedding_length", 0))
    # Of keys and values that are made from something shorter only that is kept, in place of the keys.
    is_shorter = told("attention.key_length_mla", 0) and told("attention.value_length_mla", 0)
    found = []
    for layer in range(num_layers):
        head_width = width // max(1, heads[layer])
        key_length = per_layer(told("attention.key_length", head_width), num_layers)[layer]
        value_length = per_layer(told("attention.value_length", head_width), num_layers)[layer]
        found.append(kv_heads[layer] * (key_length + (0 if is_shorter else value_length)) * F16_BYTES)
    return found


def _state_bytes(told: Told, num_layers: int) -> int:
    """Of one layer that sums up: what llama.cpp keeps of the last tokens, and of all (llama-hparams.cpp)."""
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
