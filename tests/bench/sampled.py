"""Sampling parameters for answers of random models that give no side an unrealistic advantage."""

from __future__ import annotations

from engine.core import SamplingParams


def sampled(num_tokens: int, seed: int = 0) -> SamplingParams:
    """Returns non-greedy parameters: greedy decoding of a random model repeats itself, so drafts would always be right.

    None of the 40 likeliest tokens ends an answer.
    """
    return SamplingParams(max_tokens=num_tokens, temperature=1.0, top_k=40, repeat_penalty=1.0, seed=seed)
