"""How an answer filled the context of its model, by kinds of text: figures to show, on which nothing else depends."""

from __future__ import annotations

from collections import Counter

from engine.core import ContextUse
from engine.generation.continuation import Reading
from engine.generation.prompt import Prompt, answer_reserve


def context_use(
    prompt: Prompt, reading: Reading, num_tokens: int, num_written: int, size: int, max_tokens: int
) -> ContextUse:
    """Returns the figures of an answer that is complete.

    Args:
        prompt: What the answer began with.
        reading: What the model had read before the last piece of the answer.
        num_tokens: All that was read and written.
        num_written: What was written of it, without what a continued answer began with.
        size: The most tokens that the model reads at a time.
        max_tokens: The most tokens that an answer may have, with its thoughts.
    """
    by_kind = Counter[str]()
    for segment in reading.segments:
        by_kind[segment.kind] += len(segment.tokens)
    instructions, passages = by_kind["instructions"], by_kind["passage"]
    answer = num_written + (len(prompt.begun.tokens) if prompt.begun is not None else 0)
    return ContextUse(
        size=size,
        instructions=instructions,
        passages=passages,
        conversation=max(0, num_tokens - instructions - passages - answer),
        answer=answer,
        reserve=answer_reserve(max_tokens, size),
        turns_left_out=prompt.turns_left_out,
    )
