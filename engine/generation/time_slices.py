"""Whose turn it is of several models, and for how long: pure functions over frozen snapshots.

Models that do not fit into memory together take turns, between tokens (Aegaeon, SOSP'25). A turn reads the prompts of
one group of questions, and then writes for so long that the tokens written ahead last until the next turn: readers get
them at the promised pace, although their model is away meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

# Prompts that are read in one turn, at most; later ones wait for the next turn, behind the other models.
GROUP_SIZE = 8
# The longest that a model writes in one turn while others wait (Aegaeon's QMAX).
MOST_WRITING_SECONDS = 4.0
# For models that are in memory together: one step of reading, and this much writing between two of them.
WRITING_BESIDE_SECONDS = 0.4
# The share of the time covered by a round's tokens that may pass, at least (Aegaeon's lower bound of α).
LEAST_SHARE = 0.5
# Where tokens are written much faster than they are read, that alone would spend nearly all time on switching. Answers
# should rather end sooner, so switching takes no more than this share of a round.
MOST_SWITCHING = 0.2
# Under overload, serving requests in turn makes all of them late: each is late because of those before. So once a
# request is late, a turn goes to where most tokens can still come in time. Late requests get this share of the time for
# themselves, when they have waited this many times the promised time to the first token.
MOST_PATIENCE = 6.0
LATE_SHARE = 1 / 8
# The tokens that a running answer is assumed to have left, as its length is unknown. With half or twice as many, as
# many came in time in simulated loads.
TOKENS_AHEAD = 100


@dataclass(frozen=True, slots=True)
class Targets:
    """What readers are promised on average: seconds to the first token of an answer, and from one to the next."""

    ttft_seconds: float = 10.0
    tpot_seconds: float = 0.25

    def due_at(self, asked_at: float, num_written: int) -> float:
        """When the next token of an answer is promised."""
        return asked_at + self.ttft_seconds + num_written * self.tpot_seconds

    def is_late(self, asked_at: float, now: float) -> bool:
        """Whether an answer that has not begun should wait, for so long, for those that can still begin in time."""
        return 0 < now - self.due_at(asked_at, 0) <= MOST_PATIENCE * self.ttft_seconds

    def tokens_in_time(self, due_at: float, begin_at: float, step_seconds: float) -> float:
        """How many of the next tokens of an answer come in time.

        The first of them is due at `due_at`, and would come at `begin_at`, each other `step_seconds` later: late ones
        catch up where they are written faster than promised, and else fall behind.
        """
        slack, gain = due_at - begin_at, self.tpot_seconds - step_seconds
        if gain > 0:
            return min(TOKENS_AHEAD, max(0.0, TOKENS_AHEAD + min(0.0, slack) / gain))
        if slack < 0:
            return 0.0
        return min(TOKENS_AHEAD, 1 + slack / -gain) if gain else TOKENS_AHEAD


@dataclass(frozen=True, slots=True)
class Waiting:
    """A model with something to compute.

    `rank` is that of its most urgent question (scheduler.py), which `is_aged` where waiting has made it so; `since` is
    when its last turn was, or when the first question came that has waited since then. `dues` are the times at which
    its next tokens are promised to users: one for each answer that is being written or would be begun. `num_unread`
    prompts of its group are still to be read. `is_writing`: an answer has been begun. `step_seconds` is what a step
    that writes takes, `reading_seconds` what is to be read before; `switch_seconds` what it takes to get the model into
    memory, 0 where it is.
    """

    path: str
    rank: int
    since: float
    dues: tuple[float, ...] = ()
    num_unread: int = 0
    is_writing: bool = False
    step_seconds: float = 0.1
    reading_seconds: float = 0.0
    switch_seconds: float = 0.0
    is_aged: bool = False

    def due_at(self, targets: Targets) -> float:
        """When its next token is promised; scripts are promised nothing, and count by how long they have waited."""
        return min(self.dues, default=self.since + targets.ttft_seconds)

    def worth(self, targets: Targets, now: float) -> float:
        """How many tokens per second of a turn would come in time, if it began now."""
        before = self.switch_seconds + self.reading_seconds
        told = (targets.tokens_in_time(due, now + before, self.step_seconds) for due in self.dues)
        return sum(told) / (before + TOKENS_AHEAD * self.step_seconds)


def quotas(models: Sequence[Waiting], targets: Targets) -> dict[str, float]:
    """For how many seconds each model writes in its turn, where not all are in memory.

    q_i = c / (n_i (α − Σ 1/n_j)) with n_i = target / step time, c what all switches of a round take, and
    α = max(c / (min n · QMAX) + Σ 1/n_j, 1/2): the share of the target that a round takes (Aegaeon, equations 2 and 3).
    Raised, up to QMAX, so that switching takes a small share of the round.

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


def next_turn(models: Sequence[Waiting], targets: Targets, now: float, *, is_for_late: bool = False) -> Waiting | None:
    """The next model: of the most urgent, the one whose next token is due first, while all can keep their promises.

    Once a token is late, the one of which most tokens per second can come in time, before those whose readers have
    tokens for as long as an answer may take to begin; among equals, the one that has waited longest. A turn that
    `is_for_late` goes to the latest.
    """
    rank = min((model.rank for model in models), default=0)
    urgent = [model for model in models if model.rank == rank]
    if is_for_late or not any(due < now for model in urgent for due in model.dues):
        return min(urgent, key=lambda model: (model.due_at(targets), model.since, model.path), default=None)
    soon = now + targets.ttft_seconds
    return min(
        urgent,
        key=lambda model: (model.due_at(targets) > soon, -model.worth(targets, now), model.since, model.path),
    )


def waits_too_long(models: Sequence[Waiting], targets: Targets, now: float) -> bool:
    """Whether one of the most urgent models has waited longer than the bound on patience."""
    rank = min((model.rank for model in models), default=0)
    latest = min((model.due_at(targets) for model in models if model.rank == rank), default=now)
    return now - latest > MOST_PATIENCE * targets.ttft_seconds


@dataclass(frozen=True, slots=True)
class Used:
    """What a turn has used: seconds of reading and of writing, in `num_steps`. `is_free`: switching costs nothing.

    It may write for `quota_seconds`, and read for `reading_seconds`. `rank` is that of a model that got the turn
    because it waited so long, and stays as urgent to the end of it; None for all others.
    """

    quota_seconds: float = 0.0
    reading_seconds: float = 0.0
    read_seconds: float = 0.0
    wrote_seconds: float = 0.0
    num_steps: int = 0
    is_free: bool = True
    rank: int | None = None

    @property
    def seconds(self) -> float:
        return self.read_seconds + self.wrote_seconds

    @property
    def is_used_up(self) -> bool:
        """Whether it has written for as long as it may."""
        return self.wrote_seconds >= self.quota_seconds

    def with_step(self, seconds: float, *, is_reading: bool) -> Used:
        """The totals after one more step of `seconds`."""
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
        chosen: The model whose turn it is.
        models: All that take turns, including it.
        targets: What readers are promised.
        is_free: Whether all of them are in memory.
    """
    quota_seconds = WRITING_BESIDE_SECONDS if is_free else quotas(models, targets)[chosen.path]
    return Used(quota_seconds, targets.ttft_seconds, is_free=is_free, rank=chosen.rank if chosen.is_aged else None)


def is_over(
    current: Waiting | None,
    others: Sequence[Waiting],
    used: Used,
    targets: Targets,
    now: float,
    *,
    owes_late: bool = False,
) -> bool:
    """Whether the turn of the model that computes is over.

    Args:
        current: That model, None where it has nothing to compute.
        others: Models that wait for their turn.
        used: What the turn has used.
        targets: What readers are promised.
        now: Seconds of the clock of `since` and `dues`.
        owes_late: Whether the next turn is for the latest of the others.
    """
    if not others:
        return False
    if current is None:
        return True
    # A model that waiting has made urgent keeps that rank to the end of its turn, against others that are less urgent.
    rank = current.rank if used.rank is None else min(current.rank, used.rank)
    is_overtaken = min(model.rank for model in others) < rank
    if is_overtaken:
        return True
    equals = [model for model in others if model.rank <= current.rank]
    has_begun = used.num_steps > 0
    if not equals or not has_begun:
        # Less urgent models wait until it has nothing to do; waiting makes each of them urgent in the end.
        return False
    if current.num_unread:
        holds_answers_up = used.is_free and any(model.is_writing for model in equals)
        return used.read_seconds >= (0.0 if holds_answers_up else used.reading_seconds)
    if not used.is_used_up:
        return False
    would_be_next = not owes_late and next_turn([current, *equals], targets, now) is current
    return not would_be_next


@dataclass(frozen=True, slots=True)
class LateTurns:
    """Turns for models that have waited too long: how long the last one took, and all others since."""

    last_seconds: float = MOST_WRITING_SECONDS
    seconds_since: float = 0.0

    def is_due(self, used: Used) -> bool:
        """Whether another one after this turn would leave the others their share of the time."""
        return (self.seconds_since + used.seconds) * LATE_SHARE >= self.last_seconds * (1 - LATE_SHARE)

    def after(self, used: Used, *, was_for_late: bool) -> LateTurns:
        """The totals after one more turn."""
        if was_for_late:
            return LateTurns(max(MOST_WRITING_SECONDS, used.seconds))
        return replace(self, seconds_since=self.seconds_since + used.seconds)


class NextTurn(NamedTuple):
    """The model whose turn begins, and whether that is because it has waited too long."""

    chosen: Waiting
    is_for_late: bool


def turn_after(
    current: Waiting | None, others: Sequence[Waiting], used: Used, late: LateTurns, targets: Targets, now: float
) -> NextTurn | None:
    """The turn that begins now; None where the model that computes goes on.

    Args:
        current: That model, None where it has nothing to compute.
        others: Models that wait for their turn.
        used: What the turn has used.
        late: What models that had waited too long have had before.
        targets: What readers are promised.
        now: Seconds of the clock of `since` and `dues`.
    """
    owes_late = late.is_due(used) and waits_too_long(others, targets, now)
    if not is_over(current, others, used, targets, now, owes_late=owes_late):
        return None
    chosen = next_turn(others, targets, now, is_for_late=owes_late)
    return NextTurn(chosen, owes_late) if chosen is not None else None
