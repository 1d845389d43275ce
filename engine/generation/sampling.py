"""Checks the values of sampling parameters, so that no question fails at its first token."""

from __future__ import annotations

import math

from engine.core import SamplingParams
from engine.errors import BadRequest
from engine.generation.grammar import grammar_of

MAX_ANSWERS = 64
MAX_BEAMS = 16
_ANY = math.inf
_RANGES: dict[str, tuple[float, float]] = {
    "max_tokens": (1, 2**31 - 1),
    "max_thought_tokens": (0, 2**31 - 1),
    "temperature": (-_ANY, 100),
    "top_k": (0, 2**31 - 1),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "typical_p": (0, 1),
    "repeat_penalty": (0.01, 100),
    "repeat_window": (0, 2**20),
    "presence_penalty": (-100, 100),
    "frequency_penalty": (-100, 100),
    "dry_multiplier": (0, 100),
    "dry_base": (1, 100),
    "dry_allowed_length": (1, 2**20),
    "dry_window": (0, 2**20),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "mirostat_tau": (0, 100),
    "mirostat_eta": (0, 1),
    "seed": (0, 2**63),
    "num_answers": (1, MAX_ANSWERS),
    "beam_width": (1, MAX_BEAMS),
    "length_penalty": (-10, 10),
}


def _shown(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def check_sampling(params: SamplingParams) -> None:
    """Refuses values that cannot be used for sampling.

    Raises:
        BadRequest: A value is out of range, or values exclude each other; the sentence says which are possible.
    """
    for name, (low, high) in _RANGES.items():
        value = getattr(params, name)
        # Written so that NaN is refused too.
        if value is not None and not low <= value <= high:
            words = f"at most {_shown(high)}" if low == -_ANY else f"from {_shown(low)} to {_shown(high)}"
            raise BadRequest(f"{name} is {value}, and may be {words}.")
    if any(math.isnan(bias) or bias == _ANY for _, bias in params.logit_bias):
        raise BadRequest("The bias of a token is a number, or minus infinity for never.")
    if params.beam_width > 1 and params.num_answers > 1:
        raise BadRequest("A beam search has one answer.", "Ask for several answers, or for several beams.")
    if params.beam_width > 1 and (params.grammar or params.json_schema):
        raise BadRequest("A beam search follows no grammar.", "Ask with one beam.")
    grammar_of(params)
