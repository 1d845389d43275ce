"""What passes take where layers are streamed: whether prompts and answers share one, or take turns.

A pass takes as long as its layers are read, or as it computes, whichever is longer: while reading is, an answer's next
token beside a prompt costs nothing. But attention by tiles computes each token of a tile for the cells of all sequences
in it (rows.py), and 113 tokens of a prompt beside 15 answers of 400 took 1.1 to 1.9 s where the prompt alone took .6
and the answers alone .3 (a 1B model on two cores, 280 MB streamed from a disk of .9 GB/s): 24 questions, 16 at a time,
were answered in 109 s by turns and in 127 s otherwise. So both ways are reckoned from what passes have taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.rows import TILE_TOKENS, Extent, computed_tokens

# How much of what differs a pass corrects.
_LEARNING_RATE = 0.2


class PassTimes:
    """Learns from passes, and compares two with one; owned by the generation thread."""

    def __init__(self, cell_cost: float, waited: float = 0.0, reading: float = 0.0) -> None:
        """Knows nothing yet; `cell_cost` is that of `rows.cell_cost`, the others are those of `note` until now."""
        self._cell_cost = cell_cost
        # Seconds of what a token's matrices take, and of what a pass reads; how much longer than that mixed ones take,
        # whose sequences have cells in more places than one.
        self._token_seconds, self._disk_seconds, self._excess = 0.0, 0.0, 1.0
        self._waited, self._reading = waited, reading

    def note(self, batch: Sequence[Extent], seconds: float, waited: float, reading: float, *, is_mixed: bool) -> None:
        """A pass took `seconds`; until now passes `waited` for layers, and layers were read, so long together."""
        computing = seconds - (waited - self._waited)
        disk, self._waited, self._reading = reading - self._reading, waited, reading
        self._disk_seconds = _towards(self._disk_seconds, disk)
        # Fewer are computed at the speed of memory, and say nothing of many.
        if sum(extent.num_tokens for extent in batch) < TILE_TOKENS or computing <= 0:
            return
        if not is_mixed:
            self._token_seconds = _towards(self._token_seconds, computing / self._computed(batch))
        elif self._token_seconds:
            expected = self._token_seconds * self._computed(batch)
            self._excess = max(1.0, _towards(self._excess, computing / expected))

    def are_faster_apart(self, prompts: Sequence[Extent], answers: Sequence[Extent], both: Sequence[Extent]) -> bool:
        """Whether prompts and answers take less time in two passes than `both`, in their order, in one.

        Before anything is known they are computed apart, which tells.
        """
        if not self._token_seconds:
            return True
        together = max(self._disk_seconds, self._excess * self._token_seconds * self._computed(both))
        return self._seconds(prompts) + self._seconds(answers) < together

    def _seconds(self, batch: Sequence[Extent]) -> float:
        return max(self._disk_seconds, self._token_seconds * self._computed(batch))

    def _computed(self, batch: Sequence[Extent]) -> float:
        return computed_tokens(batch, self._cell_cost)


def _towards(known: float, seen: float) -> float:
    return known + _LEARNING_RATE * (seen - known) if known else seen
