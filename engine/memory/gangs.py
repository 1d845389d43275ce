"""Gangs: how many questions of a backlog are under way at a time, so that the mean wait of all is shortest.

For n that wait, k gangs of n/k have the mean latency L_k = (k + 1)/2 · T(n/k), where T(B) are the seconds of a gang of
B (eq. 6 of RAGDoll, arXiv 2504.15302, which counts nothing that arrives meanwhile). Where others take the place of all
that end, n stay, and each waits for all of them: k · T(n/k), by Little's law. One gang is best where
T(n) ≤ (k + 1)/2 · T(n/k) for every k: with T = a·B^c iff 2·k^c ≤ k + 1 (eq. 7), and with T = α + β·B k gangs are best
iff k(k − 1)·α ≤ β·n ≤ k(k + 1)·α (eq. 8). T comes from the measured table, never from such a fit.

Answers come and go between two steps, so the number at once need not divide what waits: with n under way of N, k is
N/n, as simulated runs confirm (see `QueueSharing`, which decides for each question whether it begins). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A smaller difference is insignificant.
_TRIFLE = 1e-9
# The share of ended questions that others are assumed to follow when one is admitted, whatever was seen. In simulated
# runs at .8 to 1.6 of the capacity, with steps of 47 ms to 1 s, the mean of all is shortest so: it is up to 13 % longer
# where all are assumed to be followed, as with a steady load they are. (A plan goes by what was seen.)
_REFILLED_SHARE = 0.5


def mean_latency(num_gangs: float, gang_seconds: float, refill: float = 0.0) -> float:
    """Returns the mean seconds of a question where `num_gangs` gangs' worth are answered, a gang at a time.

    The share `refill` of questions that end is replaced by others.
    """
    return _mean((num_gangs + 1) / 2, num_gangs, refill) * gang_seconds


def _mean(drained: float, refilled: float, refill: float) -> float:
    """Interpolates between a backlog that is drained in the end, and one that stays as it is."""
    return (1.0 - refill) * drained + refill * refilled


def gang_sizes(num_waiting: int, most: int) -> tuple[int, ...]:
    """Returns the gang sizes worth considering, the smallest first: powers of two, the middles between two, and all.

    Args:
        num_waiting: Questions that wait or are being answered.
        most: The largest gang.
    """
    largest = max(1, min(num_waiting, most))
    # A size between two of these gains next to nothing; with more questions, none of these disappears.
    powers = [1 << bit for bit in range(largest.bit_length())]
    middles = [3 * power // 2 for power in powers[1:]]
    return tuple(sorted({size for size in (*powers, *middles, largest) if size <= largest}))


@dataclass(frozen=True, slots=True)
class QueueSharing:
    """What is known of a backlog and of steps that several answers share.

    Args:
        num_questions: Questions that wait or are being answered.
        answer_tokens: Of an answer, on average.
        step_seconds: t(B) of a step with 1, 2, 3, … answers; no more are under way than are listed.
        hidden_seconds: h(B), the part of such a step that computes nothing while layers are read: prompts are read
            meanwhile. Empty where nothing is hidden.
    """

    num_questions: int
    answer_tokens: float
    step_seconds: Sequence[float]
    hidden_seconds: Sequence[float] = ()

    def best(self, read_seconds: float, num_known: int = 0) -> int:
        """Returns how many to have under way, if the next prompt takes `read_seconds`; among equals, the most.

        `num_known` questions are there in any case: what was counted may be a moment old.

        With n under way, one of them ends every p + a·t(n)/n seconds for a prompt p and a tokens; by the end of the
        first, the n − 1 others are half done on average. So N questions wait (N + n)/2 · (p + a·t(n)/n) where none
        follows, and N · (p + a·t(n)/n) where as many stay; the mean of both counts. So few share steps where few wait,
        or where the next prompt is long, and many where reading takes no time. Of p, a·h(n - 1)/n is read alongside the
        others in no time.
        """
        num_questions = max(self.num_questions, num_known)
        most = max(1, min(num_questions, len(self.step_seconds)))
        best, least = 1, float("inf")
        for size in range(1, most + 1):
            num_steps = self.answer_tokens / size
            hidden = num_steps * self.hidden_seconds[size - 2] if self.hidden_seconds and size > 1 else 0.0
            each = max(0.0, read_seconds - hidden) + num_steps * self.step_seconds[size - 1]
            waited = _mean((num_questions + size) / 2, num_questions, _REFILLED_SHARE) * each
            if waited <= least + _TRIFLE:
                best, least = size, waited
        return best
