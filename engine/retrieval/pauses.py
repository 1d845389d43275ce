"""Pauses: a search lets others go first between two steps, and continues later without repeating work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.partitions.rows import Found, Vectors
from engine.partitions.sweep import SweepPaused

# The documents that some queries are limited to, and how many partitions they may read.
Scoped: TypeAlias = tuple[Collection[int] | None, int | None]


@dataclass(slots=True)
class Pauses:
    """The state of one search: when others go first, and what was done already, so that the next try skips it.

    `vectors` are those of some texts, `found` the dense rankings of the texts that share a scope, `by_words` the other
    rankings, `reranked` the scores of some rows by the reranker for a question, None where there was none.
    """

    should_pause: Callable[[], bool] = lambda: False
    vectors: dict[tuple[str, ...], Vectors] = field(default_factory=dict)
    found: dict[tuple[Scoped, int, tuple[str, ...]], list[list[Found]]] = field(default_factory=dict)
    by_words: dict[tuple[str, int, frozenset[int] | None], list[Found]] = field(default_factory=dict)
    reranked: dict[tuple[str, tuple[str, ...]], list[float] | None] = field(default_factory=dict)

    def let_by(self) -> None:
        """To be called after a step that need not be repeated. Raises SweepPaused if others wait."""
        if self.should_pause():
            raise SweepPaused
