"""In which order the passages are read: along what is kept of earlier prompts, as far as their scores allow it.

Which passages are read is decided by their scores alone; in which order, matters little to the answer and much to how
soon it begins, because KV can be used again only from the prompt's start (CacheWeaver orders retrieved passages so).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# More looks into what is kept would take longer than they save.
MAX_LOOKS = 256

Order = tuple[int, ...]


def along_kept(
    scores: Sequence[float], num_tokens: Sequence[int], is_kept: Callable[[Order], bool], max_loss: float
) -> Order:
    """Orders passages (given best first) so that as many tokens as possible need not be read again.

    Args:
        scores: How well each passage fits.
        num_tokens: How long each is.
        is_kept: Whether the prompt's beginning with these passages, in this order, is kept.
        max_loss: How much worse than the best order another may be, as `loss` counts.

    Returns:
        The places of the passages; those after the last kept one come best first, and all of them if none is kept.
    """
    best: Order = ()
    saved = looks = 0
    waiting: list[tuple[Order, int]] = [((), 0)]
    while waiting and looks < MAX_LOOKS:
        begun, tokens = waiting.pop()
        if tokens > saved:
            best, saved = begun, tokens
        # The best ones are looked at first, that is pushed last.
        for passage in reversed(_others(begun, len(scores))):
            longer = (*begun, passage)
            looks += 1
            if loss(scores, _completed(longer, len(scores))) <= max_loss and is_kept(longer):
                waiting.append((longer, tokens + num_tokens[passage]))
    return _completed(best, len(scores))


def loss(scores: Sequence[float], order: Order) -> float:
    """The share of the best order's discounted gain (DCG) that another order loses: 0 for none, below 1."""
    floor = min(0.0, *scores) if scores else 0.0
    best = _gain(sorted((score - floor for score in scores), reverse=True))
    return 1 - _gain([scores[passage] - floor for passage in order]) / best if best > 0 else 0.0


def _gain(scores: Sequence[float]) -> float:
    return sum(score / math.log2(place + 2) for place, score in enumerate(scores))


def _others(begun: Order, count: int) -> Order:
    return tuple(passage for passage in range(count) if passage not in begun)


def _completed(begun: Order, count: int) -> Order:
    return begun + _others(begun, count)
