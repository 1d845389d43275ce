"""What attention takes that is computed token by token, learnt from answers that are written: it differs most of all.

By how many multiplications there are it is 12 times as long as matrices (rows.py), and so it was with three models on
one machine. With heads of 64 on another it was 45 times: 26 tokens of a prompt behind 638 took .58 s, as long as 110
of a longer one. Whoever writes computes a token at a time behind more and more others, so how much longer that takes
with each of them is the slope of a line through such passes: of lines, one for each number of answers, which have the
slope in common. The foot of that of one answer is what a pass takes with no cells to look at. What a token takes beside
many others is told by passes over prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.generation.rows import TILE_TOKENS, Extent, Filling, computed_tokens

# How much of what is known a pass takes the place of: several answers tell together, and yesterday's machine is none.
_FORGETTING = 1 / 512
_LEARNING_RATE = 0.1
# A line is drawn through so many passes at the least, whose lengths differ by so many cells on the average.
_LEAST_PASSES, _LEAST_SPREAD = 32, 128.0
# A pass that took so many times what is usual was held up by something else.
_HELD_UP = 3.0
# Attention takes no less than it does by tiles, and no so many times what was measured elsewhere.
_MOST_TIMES = 16.0


@dataclass(slots=True)
class _Line:
    """A straight line through points, of which earlier ones count less and less."""

    count: float = 0.0
    mean_x: float = 0.0
    mean_y: float = 0.0
    spread: float = 0.0
    slant: float = 0.0

    def add(self, x: float, y: float) -> None:
        kept = 1.0 - _FORGETTING
        self.count = kept * self.count + 1.0
        off = x - self.mean_x
        self.mean_x += off / self.count
        self.slant = kept * self.slant + off * (y - self.mean_y) * (1.0 - 1.0 / self.count)
        self.spread = kept * self.spread + off * (x - self.mean_x)
        self.mean_y += (y - self.mean_y) / self.count


class RowTimes:
    """Learns from passes where all weights are at hand; owned by the generation thread."""

    def __init__(self) -> None:
        self._cell_cost = 0.0
        self._forget()

    def _forget(self) -> None:
        # Seconds of what a token's matrices take in a tile; and of passes with a token each of so many answers, by the
        # cells that these look at together.
        self._token_seconds, self._lines = 0.0, dict[int, _Line]()

    def begin(self, cell_cost: float) -> None:
        """Passes of another context follow: what was learnt holds where `rows.cell_cost` is the same."""
        if cell_cost != self._cell_cost:
            self._cell_cost = cell_cost
            self._forget()

    def note(self, batch: Sequence[Extent], seconds: float) -> None:
        """A pass took so long."""
        num_tokens = sum(extent.num_tokens for extent in batch)
        if num_tokens >= TILE_TOKENS:
            seen = seconds / computed_tokens(batch, self._cell_cost)
            if self._token_seconds:
                seen = min(seen, _HELD_UP * self._token_seconds)
            self._token_seconds += (_LEARNING_RATE if self._token_seconds else 1.0) * (seen - self._token_seconds)
        elif num_tokens == len(batch):
            line = self._lines.setdefault(num_tokens, _Line())
            if not line.count or seconds < _HELD_UP * line.mean_y:
                line.add(sum(extent.end for extent in batch), seconds)

    def learnt(self, filling: Filling) -> Filling:
        """`filling` with what was learnt; as it is where that is not enough yet."""
        lines, token = self._lines.values(), self._token_seconds
        count, spread = sum(line.count for line in lines), sum(line.spread for line in lines)
        is_telling = count >= _LEAST_PASSES and spread >= count * _LEAST_SPREAD**2
        if not (filling.cell_cost and token and is_telling):
            return filling
        slope = max(0.0, sum(line.slant for line in lines) / spread)
        # With more answers it lies higher, if at all.
        first = self._lines[min(self._lines)]
        foot = max(0.0, first.mean_y - slope * first.mean_x)
        least, most = filling.tile_cost, _MOST_TIMES * filling.cell_cost
        return filling.measured(min(max(slope / token, least), most), foot / token)
