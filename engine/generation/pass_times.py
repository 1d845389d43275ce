"""What passes take where layers are streamed: whether prompts and answers share one, and how much of a prompt.

A pass takes as long as its layers are read, or as it computes, whichever is longer. So beside answers, which compute
little, some tokens of a prompt cost nothing: a 3B model on two cores that streams .8 GB at .9 GB/s writes a token of
four answers in .9 s, and in the same time it reads 16 tokens of somebody's prompt. A prompt that is read in such pieces
begins to be answered later than in one pass of its own, which holds up everybody who is being answered: which of both
gets more done is reckoned from what passes have taken (`hidden_tokens`).

Where computing hides reading there is nothing left to hide. Attention by tiles computes each token of a tile for the
cells of all sequences in it (rows.py), and 113 tokens of a prompt beside 15 answers of 400 took 1.1 to 1.9 s where the
prompt alone took .6 and the answers alone .3 (a 1B model on two cores, 280 MB streamed): 24 questions, 16 at a time,
were answered in 109 s by turns and in 127 s otherwise. So that is reckoned as well (`are_faster_apart`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.generation.rows import AT_ONCE, TILE_TOKENS, Extent, computed_tokens

# How much of what differs a pass corrects, and for how many times what is known it can be taken: what took longer was
# held up by something else, as by a disk that has to wake.
_LEARNING_RATE = 0.2
_HELD_UP = 3.0
# A pass that waited for less of its time took as long as it computed.
_WAITED_SHARE = 0.05


class PassTimes:
    """Learns from passes, and compares ways to share them; owned by the generation thread."""

    def __init__(self) -> None:
        """Knows nothing yet, not even of what `begin` tells."""
        self._cell_cost = self._waited = self._reading = 0.0
        self._forget()

    def begin(self, cell_cost: float, waited: float, reading: float) -> None:
        """Passes of another context follow, which may read other layers.

        Args:
            cell_cost: That of `rows.cell_cost`: tokens take as long as before where it is the same.
            waited: As `note` has it, until now.
            reading: As well.
        """
        if cell_cost != self._cell_cost:
            self._forget()
        self._cell_cost, self._disk_seconds, self._is_disk_guessed = cell_cost, 0.0, True
        self.pass_over(waited, reading)

    def pass_over(self, waited: float, reading: float) -> None:
        """What was waited for, and read, until now says nothing: the pass failed."""
        self._waited, self._reading = waited, reading

    def _forget(self) -> None:
        # Seconds of what a token's matrices take, and of what a pass reads; how much longer than that mixed ones take,
        # whose sequences have cells in more places than one; and by how many seconds those of few tokens, which are
        # computed as fast as memory gives weights.
        self._token_seconds, self._disk_seconds, self._excess, self._few_seconds = 0.0, 0.0, 1.0, 0.0
        self._is_disk_guessed = True

    def note(self, batch: Sequence[Extent], seconds: float, waited: float, reading: float, *, is_mixed: bool) -> None:
        """A pass took `seconds`; until now passes `waited` for layers, and layers were read, so long together."""
        waiting, disk = waited - self._waited, reading - self._reading
        self.pass_over(waited, reading)
        is_few = sum(extent.num_tokens for extent in batch) < TILE_TOKENS
        self._note_disk(disk, seconds if waiting > _WAITED_SHARE * seconds else disk, is_few=is_few, is_mixed=is_mixed)
        if (computing := seconds - waiting) > 0:
            self._note_computing(computing, self._computed(batch), is_few=is_few, is_mixed=is_mixed)

    def _note_disk(self, disk: float, taken: float, *, is_few: bool, is_mixed: bool) -> None:
        """Whoever waits for the disk is through when the last layer is there, and was computed.

        Not so much of a pass that was filled until it would wait no longer: it may always wait here and there, and what
        it takes would grow with what it is filled with. And where prompts alone are read, nothing hides: the first pass
        is all that is known for a while, and may have read what is to stay in memory as well.
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
                # They say nothing of how long many take, but that it is no longer.
                self._few_seconds = max(0.0, _towards(self._few_seconds, computing - expected))
            else:
                self._excess = max(1.0, _towards(self._excess, computing / expected))
            if computing < expected:
                self._token_seconds = _towards(self._token_seconds, computing / computed)

    def hidden_tokens(self, prompts: Sequence[Extent], answers: Sequence[Extent], num_waiting: int) -> int:
        """How many tokens of prompts to compute beside answers in passes that read layers for longer anyway.

        0 where more gets done by passes over the prompts alone, or nothing is known. Say that such a pass, or several,
        take r seconds, and pieces of k prompts are through after s seconds, of each a k-th earlier than of the next. By
        then n answers have gone on for s seconds, and those of prompts as they were through; in the other case all
        n + k have for s - r. So pieces are better where s · (k + 1) / 2 < (n + k) · r. That is also where the sum of
        what all of them take is less.

        Args:
            prompts: What one pass would read of them, the most urgent first.
            answers: Those that go on meanwhile.
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
        """Whether prompts and answers take less time in two passes than `both`, in their order, in one.

        Before anything is known they are computed apart, which tells.
        """
        if not self._token_seconds:
            return True
        together = max(self._disk_seconds, self._computing(both, self._excess))
        return self._seconds(prompts) + self._seconds(answers) < together

    def _seconds_beside(self, prompts: Sequence[Extent], answers: Sequence[Extent], num_tokens: int) -> float:
        """What computing answers and so many tokens of prompts takes, as if all of these were of the first."""
        start = prompts[0].end - prompts[0].num_tokens
        return self._computing([*answers, Extent(num_tokens, start + num_tokens)], self._excess)

    def _seconds(self, batch: Sequence[Extent]) -> float:
        return max(self._disk_seconds, self._computing(batch, 1.0))

    def _computing(self, batch: Sequence[Extent], excess: float) -> float:
        """What computing takes, where that of many is longer by this excess."""
        seconds = self._token_seconds * self._computed(batch)
        is_few = sum(extent.num_tokens for extent in batch) < TILE_TOKENS
        return seconds + self._few_seconds if is_few else excess * seconds

    def _computed(self, batch: Sequence[Extent]) -> float:
        return computed_tokens(batch, self._cell_cost)


def _counts(most: int, beside: int) -> list[int]:
    """Counts of tokens that are worth a look, the most first: with those `beside`, whole tiles or whole fours."""
    totals = [*range(AT_ONCE, TILE_TOKENS, AT_ONCE), *range(TILE_TOKENS, most + beside, TILE_TOKENS), most + beside]
    return sorted({total - beside for total in totals if beside < total <= most + beside}, reverse=True)


def _towards(known: float, seen: float) -> float:
    return known + _LEARNING_RATE * (seen - known) if known else seen


def _not_held_up(known: float, seen: float) -> float:
    return min(seen, _HELD_UP * known) if known else seen
