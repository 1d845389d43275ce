"""How answers of random models are sampled, so that no side gains by what real answers do not do."""

from __future__ import annotations

from engine.core import SamplingParams


def sampled(num_tokens: int, seed: int = 0) -> SamplingParams:
    """Not greedy: a random model that is greedy repeats itself, and drafts would be right by that alone.

    Of the likeliest tokens none ends an answer.
    """
    return SamplingParams(max_tokens=num_tokens, temperature=1.0, top_k=40, repeat_penalty=1.0, seed=seed)
