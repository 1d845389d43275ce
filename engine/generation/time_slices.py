"""Decides whose turn it is among several models, and for how long: pure functions over frozen snapshots.

Models that do not fit into memory together take turns, between tokens (Aegaeon, SOSP'25). A turn reads the prompts of
one group of questions, and then writes for so long that the tokens written ahead last until the next turn: readers get
them at the promised pace, although their model is not in memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

# The most prompts that are read in one turn; later ones wait for the next turn, behind the other models.
GROUP_SIZE = 8
# The longest time that a model writes in one turn while others wait (Aegaeon's QMAX).
MOST_WRITING_SECONDS = 4.0
# Models that are in memory together alternate between one step of reading and this much writing.
WRITING_BESIDE_SECONDS = 0.4
# The least share of the time covered by a round's tokens that the round may take (Aegaeon's lower bound of α).
LEAST_SHARE = 0.5
# If tokens are written much faster than readers need them, this alone would spend nearly all time on switching. Earlier
# ends of answers are better, so switching takes no more than this share of a round.
MOST_SWITCHING = 0.2
# Under overload, serving requests in order makes all of them late, each because of those before it. So once a request
# is late, the turn goes to the model of which most tokens can still be in time. Late requests get LATE_SHARE of the
# time after they have waited MOST_PATIENCE times the promised time to the first token.
MOST_PATIENCE = 6.0
LATE_SHARE = 1 / 8
# How many more tokens a running answer is assumed to get, as its length is unknown. With half or twice this number,
# equally many were in time in simulated loads.
TOKENS_AHEAD = 100


@dataclass(frozen=True, slots=True)
class Targets:
    """The promised average latencies: seconds to the first token of an answer, and from one token to the next."""

    ttft_seconds: float = 10.0
    tpot_seconds: float = 0.25

    def due_at(self, asked_at: float, num_written: int) -> float:
        """Returns when the next token of an answer is promised."""
        return asked_at + self.ttft_seconds + num_written * self.tpot_seconds

    def is_late(self, asked_at: float, now: float) -> bool:
        """Returns whether an answer that has not begun is late, so that it waits for those that can still be in time.

        It does not wait any longer once MOST_PATIENCE is exceeded.
        """
        return 0 < now - self.due_at(asked_at, 0) <= MOST_PATIENCE * self.ttft_seconds

    def tokens_in_time(self, due_at: float, begin_at: float, step_seconds: float) -> float:
        """Returns how many of the next tokens of an answer will be in time.

        The first of them is due at `due_at`, and would come at `begin_at`, each other `step_seconds` later: late ones
        catch up if they are written faster than promised; otherwise they fall further behind.
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

    `rank` is that of its most urgent question (scheduler.py), which `is_aged` if waiting has made it more urgent;
    `since` is when its last turn was, or when the first question came that has waited since then. `dues` are the times
    at which its next tokens are promised to users: one for each answer that is being written or would be begun.
    `num_unread` prompts of its group are still to be read. `is_writing`: an answer has been begun. `step_seconds` is
    the time of a step of writing, `reading_seconds` the time to read prompts before it; `switch_seconds` is the time to
    get the model into memory, 0 if it is there.
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
        """Returns when its next token is promised; scripts are promised nothing, so their waiting time counts."""
        return min(self.dues, default=self.since + targets.ttft_seconds)

    def worth(self, targets: Targets, now: float) -> float:
        """Returns how many tokens per second of a turn would be in time, if it began now."""
        before = self.switch_seconds + self.reading_seconds
        told = (targets.tokens_in_time(due, now + before, self.step_seconds) for due in self.dues)
        return sum(told) / (before + TOKENS_AHEAD * self.step_seconds)


def quotas(models: Sequence[Waiting], targets: Targets) -> dict[str, float]:
    """Returns for how many seconds each model writes in its turn, if not all are in memory.

    q_i = c / (n_i (α − Σ 1/n_j)) with n_i = target / step time, c the time of all switches of a round, and
    α = max(c / (min n · QMAX) + Σ 1/n_j, 1/2): the share of the target that a round takes (Aegaeon, equations 2 and 3).
    Raised, up to QMAX, so that switching takes a small share of the round.

    Args:
        models: All models that take turns.
        targets: The promised latencies.
    """
    per_token = {model.path: targets.tpot_seconds / max(1e-6, model.step_seconds) for model in models}
    switching = sum(model.switch_seconds for model in models)
    load = sum(1 / n for n in per_token.values())
    share = max(switching / (min(per_token.values()) * MOST_WRITING_SECONDS) + load, LEAST_SHARE)
    worthwhile = min(MOST_WRITING_SECONDS, switching * (1 / MOST_SWITCHING - 1) / len(models))
    least = max(WRITING_BESIDE_SECONDS, worthwhile)
    return {path: max(least, switching / (n * (share - load) or 1.0)) for path, n in per_token.items()}


def next_turn(models: Sequence[Waiting], targets: Targets, now: float, *, is_for_late: bool = False) -> Waiting | None:
    """Returns the next model: of the most urgent, the one whose next token is due first, while none is late.

    Once a token is late, it is the one of which most tokens per second can be in time, but models whose readers have
    tokens for as long as an answer may take to begin come last; among equals, the one that has waited longest. A turn
    that `is_for_late` goes to the latest.
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
    """Returns whether one of the most urgent models has waited longer than MOST_PATIENCE allows."""
    rank = min((model.rank for model in models), default=0)
    latest = min((model.due_at(targets) for model in models if model.rank == rank), default=now)
    return now - latest > MOST_PATIENCE * targets.ttft_seconds


@dataclass(frozen=True, slots=True)
class Used:
    """What a turn has used: seconds of reading and of writing, in `num_steps`. `is_free`: switching costs nothing.

    It may write for `quota_seconds`, and read for `reading_seconds`. `rank` is that of a model that got the turn
    because of long waiting, and keeps its urgency until the end of the turn; None for all others.
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
        """Whether it has written for its quota."""
        return self.wrote_seconds >= self.quota_seconds

    def with_step(self, seconds: float, *, is_reading: bool) -> Used:
        """Returns the totals after one more step of `seconds`."""
        read_seconds, wrote_seconds = (seconds, 0.0) if is_reading else (0.0, seconds)
        return replace(
            self,
            read_seconds=self.read_seconds + read_seconds,
            wrote_seconds=self.wrote_seconds + wrote_seconds,
            num_steps=self.num_steps + 1,
        )


def begun(chosen: Waiting, models: Sequence[Waiting], targets: Targets, *, is_free: bool) -> Used:
    """Returns the quotas of a new turn.

    Args:
        chosen: The model whose turn it is.
        models: All models that take turns, including it.
        targets: The promised latencies.
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
    """Returns whether the turn of the model that computes is over.

    Args:
        current: That model, None if it has nothing to compute.
        others: Models that wait for their turn.
        used: What the turn has used.
        targets: The promised latencies.
        now: The present time on the clock of `since` and `dues`.
        owes_late: Whether the next turn is for the latest of the others.
    """
    if not others:
        return False
    if current is None:
        return True
    # A model that became urgent by waiting keeps that rank until the end of its turn, against less urgent ones.
    rank = current.rank if used.rank is None else min(current.rank, used.rank)
    is_overtaken = min(model.rank for model in others) < rank
    if is_overtaken:
        return True
    equals = [model for model in others if model.rank <= current.rank]
    has_begun = used.num_steps > 0
    if not equals or not has_begun:
        # Less urgent models wait until it has nothing to compute; waiting makes each of them urgent eventually.
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
    """Turns for models that have waited too long: the time of the last one, and of all others since."""

    last_seconds: float = MOST_WRITING_SECONDS
    seconds_since: float = 0.0

    def is_due(self, used: Used) -> bool:
        """Returns whether the others have had their share of the time, so that another such turn may follow."""
        return (self.seconds_since + used.seconds) * LATE_SHARE >= self.last_seconds * (1 - LATE_SHARE)

    def after(self, used: Used, *, was_for_late: bool) -> LateTurns:
        """Returns the totals after one more turn."""
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
    """Returns the turn that begins now; None if the model that computes continues.

    Args:
        current: That model, None if it has nothing to compute.
        others: Models that wait for their turn.
        used: What the turn has used.
        late: Earlier turns for models that had waited too long.
        targets: The promised latencies.
        now: The present time on the clock of `since` and `dues`.
    """
    owes_late = late.is_due(used) and waits_too_long(others, targets, now)
    if not is_over(current, others, used, targets, now, owes_late=owes_late):
        return None
    chosen = next_turn(others, targets, now, is_for_late=owes_late)
    return NextTurn(chosen, owes_late) if chosen is not None else None
