"""Orders the passages of a prompt along the kept KV of earlier prompts, as far as their scores allow.

Which passages are read depends on their scores alone. Their order matters little for the answer but much for how soon
it begins, because KV can be reused only from the prompt's start (CacheWeaver orders retrieved passages like this). The
exception is a document that is read through: it stays in its own order, whatever is kept of it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from engine.core import Passage

# More lookups of kept KV would take longer than they save.
MAX_LOOKS = 256

Order = tuple[int, ...]
Begun = TypeVar("Begun")


def along_kept(
    scores: Sequence[float],
    num_tokens: Sequence[int],
    start: Begun | None,
    follow: Callable[[Begun, int, int], Begun | None],
    max_loss: float,
    uses: Sequence[int] | None = None,
) -> Order:
    """Orders passages (given best first) so that as many tokens as possible need not be read again, now and later.

    Args:
        scores: How well each passage fits.
        num_tokens: How long each is.
        start: The prompt's beginning before all passages; None if that is not kept.
        follow: Given a kept beginning, a passage and the number it would get, returns the longer beginning, or None if
            that is not kept.
        max_loss: How much worse than the best order the result may be, as measured by `loss`.
        uses: How often each passage has been read for other questions; None means never.

    Returns:
        The places of the passages. After the last kept one the most used come first, as far as `max_loss` allows, so
        that later prompts can share them. Passages with equal use come best first.
    """
    worth = _Worth(scores)
    best: Order = ()
    saved = looks = 0
    waiting: list[tuple[Order, int, Begun]] = [] if start is None else [((), 0, start)]
    while waiting and looks < MAX_LOOKS:
        order, tokens, begun = waiting.pop()
        if tokens > saved:
            best, saved = order, tokens
        # The best ones are pushed last, so that they are looked at first.
        for passage in reversed(_others(order, len(scores))):
            looks += 1
            further = follow(begun, passage, len(order) + 1)
            if further is not None and worth.loss(_completed(longer := (*order, passage), len(scores))) <= max_loss:
                waiting.append((longer, tokens + num_tokens[passage], further))
    return _by_use(best, worth, max_loss, uses) if uses else _completed(best, len(scores))


def _by_use(begun: Order, worth: _Worth, max_loss: float, uses: Sequence[int]) -> Order:
    """Continues with the most used passage at each place with which `max_loss` can still be met."""
    order, count = begun, len(worth.scores)
    while others := _others(order, count):
        most_used = sorted(others, key=lambda passage: -uses[passage])
        allowed = (one for one in most_used if worth.loss(_completed((*order, one), count)) <= max_loss)
        order = (*order, next(allowed, others[0]))
    return order


def follow_text(passages: Sequence[Passage]) -> bool:
    """Returns whether these are passages of one document in the order of its text, to be read in that order.

    Two or three ranked passages may be in this order by chance, but then each scores lower than the one before it.
    """
    is_one = len({passage.document_id for passage in passages}) == 1
    is_ranked = len(passages) > 1 and all(before.score > passage.score for before, passage in pairwise(passages))
    return is_one and not is_ranked and all(before.ordinal < passage.ordinal for before, passage in pairwise(passages))


def spread(costs: Sequence[int], room: int) -> Order:
    """Returns the places of as many passages as there is room for, evenly spread and including the first."""
    number = len(costs)
    while number:
        places = tuple(place * len(costs) // number for place in range(number))
        if sum(costs[place] for place in places) <= room:
            return places
        number -= 1
    # The only one is cut to fit.
    return (0,) if costs else ()


def loss(scores: Sequence[float], order: Order) -> float:
    """Returns the share of the best order's discounted gain (DCG) that another order loses: from 0 to below 1."""
    return _Worth(scores).loss(order)


class _Worth:
    """Compares orders of the same passages; one prompt has hundreds of them."""

    def __init__(self, scores: Sequence[float]) -> None:
        floor = min(0.0, *scores) if scores else 0.0
        self.scores = [score - floor for score in scores]
        self._discounts = [1 / math.log2(place + 2) for place in range(len(scores))]
        self._best = sum(map(operator.mul, sorted(self.scores, reverse=True), self._discounts))

    def loss(self, order: Order) -> float:
        """Returns the same as the function of this name."""
        gain = sum(map(operator.mul, map(self.scores.__getitem__, order), self._discounts))
        return 1 - gain / self._best if self._best > 0 else 0.0


def _others(begun: Order, count: int) -> Order:
    return tuple(passage for passage in range(count) if passage not in begun)


def _completed(begun: Order, count: int) -> Order:
    return begun + _others(begun, count)
