"""What the knowledge tree holds in each tier, and how much was found there: frozen counters, for users and benches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Home = Literal["cells", "ram", "disk"]
HOMES: tuple[Home, ...] = ("cells", "ram", "disk")


@dataclass(frozen=True, slots=True)
class TierFigures:
    """What a tier holds now, and how many tokens of prompts were found there since the start."""

    num_nodes: int
    num_tokens: int
    num_bytes: int
    hit_tokens: int
    hit_ratio: float


@dataclass(frozen=True, slots=True)
class KnowledgeFigures:
    """The tiers, the tokens of prompts and answers that had to be computed, and mapped memory outside of blobs.

    A tier's `hit_ratio` is its share of all tokens that were found or computed; together they are `hit_ratio`.
    """

    cells: TierFigures
    ram: TierFigures
    disk: TierFigures
    computed_tokens: int
    waste_bytes: int

    @property
    def hit_ratio(self) -> float:
        return self.cells.hit_ratio + self.ram.hit_ratio + self.disk.hit_ratio


@dataclass(slots=True)
class HitCounts:
    """Tokens found by tier, and those that had to be computed; owned by the keeper."""

    computed_tokens: int = 0
    by_home: dict[Home, int] = field(default_factory=lambda: dict.fromkeys(HOMES, 0))

    def tier(self, home: Home, num_nodes: int, num_tokens: int, num_bytes: int) -> TierFigures:
        """Returns a tier's figures, with what was found there so far."""
        hits, wanted = self.by_home[home], sum(self.by_home.values()) + self.computed_tokens
        return TierFigures(num_nodes, num_tokens, num_bytes, hits, hits / wanted if wanted else 0.0)
