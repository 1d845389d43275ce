"""Headers that must be refused although they can be read, because llama.cpp would end the process.

Each of them triggers an assertion or an uncaught exception in the release of llama.cpp that we pin. They were found by
changing headers byte by byte, and by reading its sources. llama.cpp itself refuses all other invalid files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# llama.cpp's limits (LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS).
MAX_LAYERS, MAX_EXPERTS = 512, 1024
# Far beyond the window of any model; llama.cpp allocates memory by it.
MAX_WINDOW = 2**24
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_EPSILONS = ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon")
# Architectures that apply rotary positions to whole heads, and assert that the header agrees.
_TURN_WHOLE_HEADS = frozenset((
    "apertus", "arcee", "arctic", "baichuan", "chameleon", "codeshell", "cogvlm", "cohere2moe", "dbrx", "deepseek",
    "dots1", "dream", "ernie4_5", "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon", "granite",
    "granite_swa", "graniteswitch", "grok", "grovemoe", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais2",
    "llada", "llada-moe", "llama", "llama4", "maincoder", "mellum", "mistral3", "olmo", "olmo2", "olmoe", "orion",
    "paddleocr", "pangu-embedded", "plamo", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl",
    "qwen3vlmoe", "rnd1", "seed_oss", "smallthinker", "smollm3", "starcoder2", "talkie", "xverse",
))  # fmt: skip

_Number = Callable[..., Any]


def fault_of(metadata: Mapping[str, Any]) -> str:
    """Returns what is wrong with the metadata of a header, as the end of a sentence; "" if nothing is."""
    architecture = str(metadata.get("general.architecture", ""))

    def number(key: str, default: Any = 0) -> Any:
        return metadata.get(f"{architecture}.{key}", default)

    return next(_faults(architecture, number), "")


def fault_of_vocabulary(metadata: Mapping[str, Any], tokens: Sequence[bytes]) -> str:
    """Returns what is wrong with the vocabulary, as the end of a sentence; "" if nothing is."""
    named = [token for token in tokens if token]
    known = frozenset(named)
    if len(known) < len(named):
        return "a token of its vocabulary is there twice"
    if metadata.get("tokenizer.ggml.model") == "llama" and not all(map(known.__contains__, _single_bytes(known))):
        return "its vocabulary lacks tokens of single bytes"
    return ""


def _single_bytes(known: frozenset[bytes]) -> Iterator[bytes]:
    """Yields the 256 single-byte tokens that a SentencePiece vocabulary needs for text without other tokens."""
    for byte in range(256):
        plain = bytes((byte,))
        yield plain if plain in known else b"<0x%02X>" % byte


def _faults(architecture: str, number: _Number) -> Iterator[str]:
    if not 1 <= number("block_count") <= MAX_LAYERS:
        yield "it holds no layers that can be run"
    if number("nextn_predict_layers") > number("block_count"):
        yield "it has more layers that look ahead than layers"
    if any(not _is_small(number(f"attention.{name}", 0.0)) for name in _EPSILONS):
        yield "what it norms by is no number that can be"
    if number("rope.scaling.type", "none") not in _ROPE_SCALINGS:
        yield f"it scales positions in a way ({number('rope.scaling.type')}) that is not known here"
    if architecture in _TURN_WHOLE_HEADS and not _turns_whole_heads(number):
        yield "it turns parts of its heads, which models of its kind never do"
    if isinstance(window := number("attention.sliding_window"), int) and window > MAX_WINDOW:
        yield "it sees further than any model does"
    if not _can_choose_experts(number):
        yield "the numbers of its experts contradict each other"


def _is_small(epsilon: Any) -> bool:
    return isinstance(epsilon, float) and math.isfinite(epsilon) and epsilon >= 0


def _turns_whole_heads(number: _Number) -> bool:
    heads = number("attention.head_count")
    if not isinstance(heads, int) or heads < 1:
        # Per layer, or none: llama.cpp refuses what does not fit.
        return True
    width = number("attention.key_length", number("embedding_length") // heads)
    return bool(number("rope.dimension_count", width) == width == number("attention.value_length", width))


def _can_choose_experts(number: _Number) -> bool:
    experts, used = number("expert_count"), number("expert_used_count")
    groups, groups_used = number("expert_group_count"), number("expert_group_used_count")
    most = max(used, default=0) if isinstance(used, list) else used
    if experts == 0:
        return bool(most == 0 and groups == 0)
    if not (experts <= MAX_EXPERTS and 0 < most <= experts and groups < experts):
        return False
    return bool(groups <= 1 or (experts % groups == 0 and 0 < groups_used < groups))
