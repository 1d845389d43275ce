"""Learns the cost of attention that is computed token by token from running answers: no other cost varies as much.

Per multiplication it is 12 times that of matrices (rows.py), as measured with three models on one machine. With heads
of 64 on another machine it was 45 times: 26 tokens of a prompt after 638 took .58 s, as long as 110 of a longer one.
Answers compute one token at a time after more and more others, so the time for each cell is the slope of a line through
such passes: of several parallel lines, one for each number of answers. The intercept for one answer is the time of a
pass without cells to attend to. Passes over prompts show the time of a token among many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.generation.rows import TILE_TOKENS, Extent, Filling, computed_tokens

# The share of the estimate that a pass replaces, so that several answers count together, and old measurements fade.
_FORGETTING = 1 / 512
_LEARNING_RATE = 0.1
# A line is fitted to at least this many passes, whose lengths have at least this standard deviation.
_LEAST_PASSES, _LEAST_SPREAD = 32, 128.0
# A pass that took this many times the usual was held up by something else.
_HELD_UP = 3.0
# Attention takes no less than by tiles, and no more than this many times what was measured on another machine.
_MOST_TIMES = 16.0


@dataclass(slots=True)
class _Line:
    """A linear regression in which earlier points count less and less."""

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
    """Learns from passes with all weights in memory; owned by the generation thread."""

    def __init__(self) -> None:
        self._cell_cost = 0.0
        self._forget()

    def _forget(self) -> None:
        # Seconds of a token's matrices in a tile; and for n answers, a line of the times of passes with a token of
        # each, by the number of cells that these attend to.
        self._token_seconds, self._lines = 0.0, dict[int, _Line]()

    def begin(self, cell_cost: float) -> None:
        """Prepares for passes of another context; what was learnt stays valid if `rows.cell_cost` is the same."""
        if cell_cost != self._cell_cost:
            self._cell_cost = cell_cost
            self._forget()

    def note(self, batch: Sequence[Extent], seconds: float) -> None:
        """Learns that a pass took `seconds`."""
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
        """Returns `filling` with the learnt costs; unchanged if there are not enough measurements yet."""
        lines, token = self._lines.values(), self._token_seconds
        count, spread = sum(line.count for line in lines), sum(line.spread for line in lines)
        is_telling = count >= _LEAST_PASSES and spread >= count * _LEAST_SPREAD**2
        if not (filling.cell_cost and token and is_telling):
            return filling
        slope = max(0.0, sum(line.slant for line in lines) / spread)
        # The line of the fewest answers has the lowest intercept.
        first = self._lines[min(self._lines)]
        foot = max(0.0, first.mean_y - slope * first.mean_x)
        least, most = filling.tile_cost, _MOST_TIMES * filling.cell_cost
        return filling.measured(min(max(slope / token, least), most), foot / token)
