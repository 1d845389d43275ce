"""Pauses: a search lets others go first between two steps, and continues later without repeating work."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.partitions.rows import Found, Vectors
from engine.partitions.sweep import SweepPaused

# The documents that queries are limited to, and how many partitions they may read.
Scoped: TypeAlias = tuple[Collection[int] | None, int | None]


@dataclass(slots=True)
class Pauses:
    """The state of one search: when others go first, and finished steps, which the next try skips.

    `vectors` are those of texts, `found` the dense rankings of texts that share a scope, `by_words` the word rankings,
    `reranked` the reranker's scores of rows for a question, None if it could not score them.
    """

    should_pause: Callable[[], bool] = lambda: False
    vectors: dict[tuple[str, ...], Vectors] = field(default_factory=dict)
    found: dict[tuple[Scoped, int, tuple[str, ...]], list[list[Found]]] = field(default_factory=dict)
    by_words: dict[tuple[str, int, frozenset[int] | None], list[Found]] = field(default_factory=dict)
    reranked: dict[tuple[str, tuple[str, ...]], list[float] | None] = field(default_factory=dict)

    def let_by(self) -> None:
        """Pauses after a finished step. Raises SweepPaused if others wait."""
        if self.should_pause():
            raise SweepPaused
