"""Predicts the time of passes with streamed layers: whether prompts and answers share one, and how much of a prompt.

A pass takes as long as reading its layers or as computing, whichever is longer. So alongside answers, which compute
little, some tokens of a prompt cost nothing: a 3B model on two cores that streams .8 GB at .9 GB/s writes a token of
four answers in .9 s, and in the same time it can read 16 tokens of another prompt. A prompt that is read in such pieces
is answered later than after one pass of its own, but that pass would hold up all running answers: which of the two gets
more done is calculated from the times of earlier passes (`hidden_tokens`).

If computing takes longer than reading layers, there is no such gain. Attention by tiles computes each token of a tile
for the cells of all sequences in it (rows.py), and 113 tokens of a prompt alongside 15 answers of 400 took 1.1 to
1.9 s, while the prompt alone took .6 and the answers alone .3 (a 1B model on two cores, 280 MB streamed): 24 questions,
16 at a time, were answered in 109 s in separate passes and in 127 s otherwise. So that is calculated as well
(`are_faster_apart`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.generation.rows import AT_ONCE, TILE_TOKENS, Extent, computed_tokens

# The share of a difference that a pass corrects, and the largest factor over the known time that a pass may count for:
# a longer one was held up by something else, such as a disk that had to spin up.
_LEARNING_RATE = 0.2
_HELD_UP = 3.0
# A pass that waited for a smaller share of its time was limited by computing.
_WAITED_SHARE = 0.05


class PassTimes:
    """Learns from passes, and compares ways to share them; owned by the generation thread."""

    def __init__(self) -> None:
        """Starts without any knowledge; `begin` has to be called first."""
        self._cell_cost = self._waited = self._reading = 0.0
        self._forget()

    def begin(self, cell_cost: float, waited: float, reading: float) -> None:
        """Prepares for passes of another context, which may read other layers.

        Args:
            cell_cost: As `rows.cell_cost` returns it; if it is the same, the times of tokens stay known.
            waited: The total so far, as in `note`.
            reading: The total so far, as in `note`.
        """
        if cell_cost != self._cell_cost:
            self._forget()
        self._cell_cost, self._disk_seconds, self._is_disk_guessed = cell_cost, 0.0, True
        self.pass_over(waited, reading)

    def pass_over(self, waited: float, reading: float) -> None:
        """Ignores waiting and reading up to now, because the pass failed."""
        self._waited, self._reading = waited, reading

    def _forget(self) -> None:
        # Seconds of a token's matrices, and of reading the layers for a pass; the factor by which mixed passes take
        # longer, because their sequences have cells in several places; and the extra seconds of passes of few tokens,
        # which are limited by how fast memory provides weights.
        self._token_seconds, self._disk_seconds, self._excess, self._few_seconds = 0.0, 0.0, 1.0, 0.0
        self._is_disk_guessed = True

    def note(self, batch: Sequence[Extent], seconds: float, waited: float, reading: float, *, is_mixed: bool) -> None:
        """Learns from a pass of `seconds`; `waited` and `reading` are totals of waiting for and reading layers."""
        waiting, disk = waited - self._waited, reading - self._reading
        self.pass_over(waited, reading)
        is_few = sum(extent.num_tokens for extent in batch) < TILE_TOKENS
        self._note_disk(disk, seconds if waiting > _WAITED_SHARE * seconds else disk, is_few=is_few, is_mixed=is_mixed)
        if (computing := seconds - waiting) > 0:
            self._note_computing(computing, self._computed(batch), is_few=is_few, is_mixed=is_mixed)

    def _note_disk(self, disk: float, taken: float, *, is_few: bool, is_mixed: bool) -> None:
        """Learns from a pass that waited for the disk: it ends when the last layer has arrived and is computed.

        A pass that was filled with prompt tokens counts at most the known time: it may always wait a little, and
        otherwise the known time would grow with what passes are filled with. A pass over prompts alone is a guess until
        another kind follows, since the first one may also have read layers that stay in memory.
        """
        if is_mixed and not self._is_disk_guessed:
            taken = max(disk, min(taken, self._disk_seconds))
        taken = max(disk, taken)
        if is_few or is_mixed:
            known = 0.0 if self._is_disk_guessed else self._disk_seconds
            self._disk_seconds, self._is_disk_guessed = _towards(known, _not_held_up(known, taken)), False
        elif not self._disk_seconds:
            self._disk_seconds = taken

    def _note_computing(self, computing: float, computed: float, *, is_few: bool, is_mixed: bool) -> None:
        if not (is_few or is_mixed):
            seen = _not_held_up(self._token_seconds, computing / computed)
            self._token_seconds = _towards(self._token_seconds, seen)
        elif self._token_seconds:
            expected = self._token_seconds * computed
            if is_few:
                # Few tokens say nothing about how long many take, except that each takes no longer.
                self._few_seconds = max(0.0, _towards(self._few_seconds, computing - expected))
            else:
                self._excess = max(1.0, _towards(self._excess, computing / expected))
            if computing < expected:
                self._token_seconds = _towards(self._token_seconds, computing / computed)

    def hidden_tokens(self, prompts: Sequence[Extent], answers: Sequence[Extent], num_waiting: int) -> int:
        """Returns how many prompt tokens to compute alongside answers, in passes that are limited by reading layers.

        0 if passes over the prompts alone get more done, or nothing is known. Suppose that such passes take r seconds,
        and that pieces of k prompts are complete after s seconds, each s / k after the previous. By then n answers have
        continued for s seconds, and the answers to the prompts since these were complete; in the other case all n + k
        have for s - r. So pieces are better if s · (k + 1) / 2 < (n + k) · r. The sum of all latencies is less then as
        well.

        Args:
            prompts: What one pass would read of them, the most urgent first.
            answers: The answers that continue meanwhile.
            num_waiting: How many questions are held up by a pass over prompts alone, n: those whose answers are no less
                urgent than the first prompt.
        """
        if not self._token_seconds or not prompts or not num_waiting:
            return 0
        to_read = sum(extent.num_tokens for extent in prompts)
        written = sum(extent.num_tokens for extent in answers)
        count = len(prompts)
        for hidden in _counts(to_read, written):
            if self._seconds_beside(prompts, answers, hidden) <= self._disk_seconds:
                pieces_seconds = math.ceil(to_read / hidden) * self._disk_seconds
                is_better = pieces_seconds * (count + 1) / 2 < (num_waiting + count) * self._seconds(prompts)
                return hidden if is_better else 0
        return 0

    def are_faster_apart(self, prompts: Sequence[Extent], answers: Sequence[Extent], both: Sequence[Extent]) -> bool:
        """Returns whether prompts and answers take less time in two passes than `both`, in their order, in one.

        Before anything is known they are computed apart, which provides measurements.
        """
        if not self._token_seconds:
            return True
        together = max(self._disk_seconds, self._computing(both, self._excess))
        return self._seconds(prompts) + self._seconds(answers) < together

    def _seconds_beside(self, prompts: Sequence[Extent], answers: Sequence[Extent], num_tokens: int) -> float:
        """Returns the seconds for answers and `num_tokens` of prompts, as if these were all of the first prompt."""
        start = prompts[0].end - prompts[0].num_tokens
        return self._computing([*answers, Extent(num_tokens, start + num_tokens)], self._excess)

    def _seconds(self, batch: Sequence[Extent]) -> float:
        return max(self._disk_seconds, self._computing(batch, 1.0))

    def _computing(self, batch: Sequence[Extent], excess: float) -> float:
        """Returns the seconds to compute a batch; one of many tokens takes longer by the factor `excess`."""
        seconds = self._token_seconds * self._computed(batch)
        is_few = sum(extent.num_tokens for extent in batch) < TILE_TOKENS
        return seconds + self._few_seconds if is_few else excess * seconds

    def _computed(self, batch: Sequence[Extent]) -> float:
        return computed_tokens(batch, self._cell_cost)


def _counts(most: int, beside: int) -> list[int]:
    """Returns the counts of tokens to consider, largest first: with those `beside`, whole tiles or groups of four."""
    totals = [*range(AT_ONCE, TILE_TOKENS, AT_ONCE), *range(TILE_TOKENS, most + beside, TILE_TOKENS), most + beside]
    return sorted({total - beside for total in totals if beside < total <= most + beside}, reverse=True)


def _towards(known: float, seen: float) -> float:
    return known + _LEARNING_RATE * (seen - known) if known else seen


def _not_held_up(known: float, seen: float) -> float:
    return min(seen, _HELD_UP * known) if known else seen
