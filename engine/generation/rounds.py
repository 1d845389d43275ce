"""Whose turn it is of several models, and for how long: pure functions over frozen snapshots.

Models that do not fit into memory together take turns, between tokens (Aegaeon, SOSP'25; generation.md, section 4). A
turn reads the prompts of one group of questions, and then writes for so long that the tokens written ahead last until
the next turn: readers get them at the pace they are promised, although their model is away meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

# Prompts that are read in one turn, at most; who comes later waits for the next one, behind the other models.
GROUP_SIZE = 8
# The longest that a model writes in one turn while others wait (Aegaeon's QMAX).
MOST_WRITING_SECONDS = 4.0
# Of models that are in memory together: one step of reading, and as much writing between two of them.
WRITING_BESIDE_SECONDS = 0.4
# Of the time that the tokens of a round are worth, so much may pass (Aegaeon's lower bound of α).
LEAST_SHARE = 0.5
# Where tokens are written much faster than they are read, that alone would spend nearly all time on switching. Answers
# had better end sooner, so switching takes no more than this share of a round.
MOST_SWITCHING = 0.2
# Who is later than an answer may take to begin is not helped by being next, and whoever comes next would be late as
# well: with more to do than can be done, serving people in turn has nobody in time. So the late ones wait for those who
# can still have what they are promised; up to so many times what a beginning may take, and then come first.
MOST_PATIENCE = 6.0


class Promise(NamedTuple):
    """When a token is promised, and whether that is lost already; the smallest of several is to be kept first."""

    is_lost: bool
    due_at: float


@dataclass(frozen=True, slots=True)
class Targets:
    """What readers are promised on the average: seconds to the first token of an answer, and from one to the next."""

    ttft_seconds: float = 10.0
    tpot_seconds: float = 0.25

    def due_at(self, asked_at: float, num_written: int) -> float:
        """When the next token of an answer is promised."""
        return asked_at + self.ttft_seconds + num_written * self.tpot_seconds

    def promise(self, asked_at: float, num_written: int, now: float) -> Promise:
        """That of the next token of an answer, as things are."""
        due_at = self.due_at(asked_at, num_written)
        return Promise(self.ttft_seconds < now - due_at <= MOST_PATIENCE * self.ttft_seconds, due_at)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A model with something to compute.

    `rank` is that of its most urgent question (scheduler.py), which `is_aged` where waiting has made it so; `since`
    is when it was last its turn, or when the first question came that waits since then. Its next token is promised
    for `due_at`, and `is_lost` where all that it has promised is lost. `num_unread` prompts of its group are still
    to be read. `is_writing`: an answer has been begun. `step_seconds` is what a step that writes takes;
    `switch_seconds` what it takes to have the model in memory, 0 where it is.
    """

    path: str
    rank: int
    since: float
    due_at: float = 0.0
    is_lost: bool = False
    num_unread: int = 0
    is_writing: bool = False
    step_seconds: float = 0.1
    switch_seconds: float = 0.0
    is_aged: bool = False


def quotas(models: Sequence[Waiting], targets: Targets) -> dict[str, float]:
    """For how many seconds each model writes in its turn, where not all are in memory.

    q_i = c / (n_i (α − Σ 1/n_j)) with n_i = target / step time, c what all switches of a round take, and
    α = max(c / (min n · QMAX) + Σ 1/n_j, 1/2): the share of the target that a round takes (Aegaeon, equations 2 and 3).
    At least so long, and QMAX at most, that switching takes a small share of the round.

    Args:
        models: All that take turns.
        targets: What readers are promised.
    """
    per_token = {model.path: targets.tpot_seconds / max(1e-6, model.step_seconds) for model in models}
    switching = sum(model.switch_seconds for model in models)
    load = sum(1 / n for n in per_token.values())
    share = max(switching / (min(per_token.values()) * MOST_WRITING_SECONDS) + load, LEAST_SHARE)
    worthwhile = min(MOST_WRITING_SECONDS, switching * (1 / MOST_SWITCHING - 1) / len(models))
    least = max(WRITING_BESIDE_SECONDS, worthwhile)
    return {path: max(least, switching / (n * (share - load) or 1.0)) for path, n in per_token.items()}


def next_turn(models: Sequence[Waiting], now: float) -> Waiting | None:
    """Who is next: of the most urgent, whose next token is due first; of several that are late, who waited longest.

    Those of whom nobody can have any more what was promised come last.
    """
    return min(models, key=lambda model: _order(model, now), default=None)


def _order(model: Waiting, now: float) -> tuple[int, bool, float, float, str]:
    return model.rank, model.is_lost, max(now, model.due_at), model.since, model.path


@dataclass(frozen=True, slots=True)
class Used:
    """What a turn has come to: seconds of reading and of writing, in so many steps. `is_free`: switching costs nothing.

    It may write for `quota_seconds`, and read for `reading_seconds`. `rank` is that of whoever has its turn because it
    waited for so long, and as urgent to the end of it; None of all others.
    """

    quota_seconds: float = 0.0
    reading_seconds: float = 0.0
    read_seconds: float = 0.0
    wrote_seconds: float = 0.0
    num_steps: int = 0
    is_free: bool = True
    rank: int | None = None

    def with_step(self, seconds: float, *, is_reading: bool) -> Used:
        """After one more step, which took so long."""
        read_seconds, wrote_seconds = (seconds, 0.0) if is_reading else (0.0, seconds)
        return replace(
            self,
            read_seconds=self.read_seconds + read_seconds,
            wrote_seconds=self.wrote_seconds + wrote_seconds,
            num_steps=self.num_steps + 1,
        )


def begun(chosen: Waiting, models: Sequence[Waiting], targets: Targets, *, is_free: bool) -> Used:
    """A turn that begins.

    Args:
        chosen: Whose turn it is.
        models: All that take turns, and it.
        targets: What readers are promised.
        is_free: Whether all of them are in memory.
    """
    quota_seconds = WRITING_BESIDE_SECONDS if is_free else quotas(models, targets)[chosen.path]
    return Used(quota_seconds, targets.ttft_seconds, is_free=is_free, rank=chosen.rank if chosen.is_aged else None)


def is_over(current: Waiting | None, others: Sequence[Waiting], used: Used, now: float) -> bool:
    """Whether the turn of the model that computes is over.

    Args:
        current: It, None where it has nothing to compute.
        others: Those that wait for their turn.
        used: What it has had.
        now: Seconds of the clock of `since` and `due_at`.
    """
    if not others:
        return False
    if current is None:
        return True
    # Who is as urgent for having waited is overtaken by nobody who was less so; beside its equals it is one of them.
    rank = current.rank if used.rank is None else min(current.rank, used.rank)
    if min(model.rank for model in others) < rank:
        return True
    equals = [model for model in others if model.rank <= current.rank]
    if not equals or not used.num_steps:
        # Less urgent ones wait until it has nothing to do; waiting makes anybody urgent in the end.
        return False
    if current.num_unread:
        holds_answers_up = used.is_free and any(model.is_writing for model in equals)
        return used.read_seconds >= (0.0 if holds_answers_up else used.reading_seconds)
    # Who is due first goes on.
    return used.wrote_seconds >= used.quota_seconds and next_turn([current, *equals], now) is not current
