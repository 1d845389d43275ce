"""Decides when a batch is padded, because a processor computes a full block of rows faster than a part of one.

Two of llama.cpp's kernels for processors work on blocks of rows: matrices in the processor's order by four tokens
(batch_padding.py), and attention of 64 tokens and more by tiles, at three times the speed of token by token: 48 tokens
after 1,500 took 1.06 s, but 64 took .93. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

AT_ONCE = 4
TILE_TOKENS = 64
# How many times longer a multiplication of attention takes than one of matrices; measured with three models on one
# machine. By tiles it is a third.
_AS_MANY_IN_OWN_ORDER, _AS_MANY_IN_FILE_ORDER = 12.0, 5.0
_SHARE_BY_TILES = 1 / 3
# The gain has to exceed the error of the estimate.
_LEAST_GAIN = 0.05


@dataclass(frozen=True, slots=True)
class Extent:
    """Tokens of one sequence in a batch, and the length of the sequence including them."""

    num_tokens: int
    end: int


@dataclass(frozen=True, slots=True)
class Filling:
    """The costs that decide when a batch is padded.

    Args:
        in_fours: Matrices are multiplied by four tokens at once.
        cell_cost: A token's attention to one cell, token by token, relative to its matrices, as `cell_cost` estimates
            it; 0 if attention is not computed by tiles.
        row_cost: The same, measured on this machine; 0 if it was not.
        pass_cost: The least time of a pass, which has to read all weights, relative to a token's matrices.
    """

    in_fours: bool = False
    cell_cost: float = 0.0
    row_cost: float = 0.0
    pass_cost: float = 0.0

    @property
    def tile_cost(self) -> float:
        """The cost of a token's attention to one cell in a tile."""
        return _SHARE_BY_TILES * self.cell_cost

    def measured(self, row_cost: float, pass_cost: float) -> Filling:
        return replace(self, row_cost=row_cost, pass_cost=pass_cost)

    def num_to_tile(self, batch: Sequence[Extent], n_ubatch: int) -> int:
        """Returns how many tokens to add to a batch to make it a tile; `n_ubatch` are computed at a time."""
        num_tokens = sum(extent.num_tokens for extent in batch)
        is_filled_up = self.cell_cost and num_tokens < TILE_TOKENS <= n_ubatch and self._is_faster_by_tile(batch)
        return TILE_TOKENS - num_tokens if is_filled_up else 0

    def _is_faster_by_tile(self, batch: Sequence[Extent]) -> bool:
        """Compares in units of a token's matrices; a tile's tokens are computed for the cells of all its sequences."""
        return self._by_tile(batch) < (1 - _LEAST_GAIN) * self._by_rows(batch)

    def are_faster_apart(self, prompts: Sequence[Extent], answers: Sequence[Extent], n_ubatch: int) -> bool:
        """Returns whether two passes take less time than one that has fewer tokens than a tile.

        A prompt alone may be padded to a tile; with answers, that would attend to the cells of all of them.
        """
        together = [*prompts, *answers]
        if not (self.cell_cost and prompts and answers) or sum(extent.num_tokens for extent in together) >= TILE_TOKENS:
            return False
        apart = self._of_few(prompts, n_ubatch) + self._of_few(answers, n_ubatch)
        return apart < (1 - _LEAST_GAIN) * self._of_few(together, n_ubatch)

    def _of_few(self, batch: Sequence[Extent], n_ubatch: int) -> float:
        by_rows = self._by_rows(batch)
        return min(by_rows, self._by_tile(batch)) if n_ubatch >= TILE_TOKENS else by_rows

    def _by_rows(self, batch: Sequence[Extent]) -> float:
        num_tokens = sum(extent.num_tokens for extent in batch)
        return max(self.pass_cost, num_tokens) + _attention_by_rows(batch, self.row_cost or self.cell_cost)

    def _by_tile(self, batch: Sequence[Extent]) -> float:
        return max(self.pass_cost, TILE_TOKENS) + _attention_of_tile(
            sum(extent.end for extent in batch), self.cell_cost
        )


def computed_tokens(batch: Sequence[Extent], cell_cost: float) -> float:
    """Returns the time of computing a batch, in units of a token's matrices."""
    num_tokens = sum(extent.num_tokens for extent in batch)
    if num_tokens < TILE_TOKENS:
        return num_tokens + _attention_by_rows(batch, cell_cost)
    first, num_cells = 0, [0] * -(-num_tokens // TILE_TOKENS)
    for extent in batch:
        last = first + extent.num_tokens
        for tile in range(first // TILE_TOKENS, -(-last // TILE_TOKENS)):
            num_cells[tile] += extent.end
        first = last
    return num_tokens + sum(_attention_of_tile(count, cell_cost) for count in num_cells)


def _attention_by_rows(batch: Sequence[Extent], cell_cost: float) -> float:
    """Returns the cost of attention of each token to the cells of its own sequence."""
    return cell_cost * sum(extent.num_tokens * (extent.end - extent.num_tokens / 2) for extent in batch)


def _attention_of_tile(num_cells: int, cell_cost: float) -> float:
    """Returns the cost of attention of a tile's tokens, each to the cells of all sequences in the tile."""
    return TILE_TOKENS * _SHARE_BY_TILES * cell_cost * num_cells


def cell_cost(num_parameters: int, num_layers: int, width: int, *, in_own_order: bool) -> float:
    """Estimates `Filling.cell_cost` of a model from its multiplications, which take longer in attention.

    A token's matrices take one for each parameter; its attention to a cell takes two for each layer and channel.
    """
    longer = _AS_MANY_IN_OWN_ORDER if in_own_order else _AS_MANY_IN_FILE_ORDER
    return longer * 2 * num_layers * width / num_parameters
