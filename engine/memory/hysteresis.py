"""Hysteresis: another placement is worth moving to only if it is clearly better, for long enough, and not too often.

Moving costs a pause, in which no answer gets a token. How long a load will last is unknown, so staying is given up when
it has cost as much as the pause: whatever comes then, the cost is at most twice the optimum (the ski-rental rule;
Karlin et al., Competitive snoopy caching, 1988). While no question is asked nothing pauses, and less of a gain is
enough: so what a burst of questions had moved comes back, and then what was lost for lack of room (concessions.py) is
regained, even where that is slower. A placement that no longer fits is left at once. How often is too often applies to
a constant load: a change for a load of another size says nothing about the next change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core import ModelShape
from engine.memory.placement import Placement
from engine.memory.profile import Profile

# Shares of the expected latency; smaller gains than a large one leave the last allowed change to a larger one.
LEAST_GAIN, LARGE_GAIN = 0.03, 0.10
HELD_SECONDS = 3.0
# The same where more cells are wanted and a question waits, which shows nothing until it has some.
WAITED_FOR_SECONDS = 1.0
# The same while no question has been asked for this long.
IDLE_GAIN, IDLE_HELD_SECONDS = 0.002, 10.0
# Room for what was lost must have been there for this long: else a model would be read again and again.
REGAINED_SECONDS = 60.0
# The most time that a look adds to the cost of staying: what happened before that is unknown.
MOST_UNSEEN_SECONDS = 5.0
# At most this many changes within this many seconds, counting loads that differ by less than this factor.
MOST_CHANGES, WITHIN_SECONDS, OTHER_LOAD = 2, 60.0, 2.0


@dataclass(frozen=True, slots=True)
class Change:
    """When a placement was left (seconds of a clock), and how many questions waited or ran then."""

    at: float
    num_questions: int

    def counts(self, now: float, num_questions: int) -> bool:
        """Returns whether it was recent, for a load of similar size."""
        smaller, larger = sorted((max(1, num_questions), max(1, self.num_questions)))
        return now - self.at < WITHIN_SECONDS and larger < OTHER_LOAD * smaller


@dataclass(frozen=True, slots=True)
class Patience:
    """What one look leaves to the next; times in seconds of a clock.

    Another placement has been better without a break since `better_since`; staying has cost `lost_s` since then, up to
    `looked_at`. `changes` are the last ones.
    """

    better_since: float | None = None
    looked_at: float = 0.0
    lost_s: float = 0.0
    changes: tuple[Change, ...] = ()

    def after(self, now: float, num_questions: int) -> Patience:
        """Returns the patience after a change at `now`, for `num_questions`."""
        recent = (change for change in self.changes if now - change.at < WITHIN_SECONDS)
        return Patience(changes=(*recent, Change(now, num_questions)))

    def without_gain(self) -> Patience:
        """Returns the patience if nothing is sufficiently better."""
        return Patience(changes=self.changes)

    def with_gain(self, gain: float, now: float) -> Patience:
        """Returns the patience after something has been better by this share since the last look, or is from now on."""
        if self.better_since is None:
            return replace(self, better_since=now, looked_at=now)
        seen_s = min(now - self.looked_at, MOST_UNSEEN_SECONDS)
        return replace(self, looked_at=now, lost_s=self.lost_s + gain * seen_s)

    def may_change(self, now: float, num_questions: int, *, is_large: bool) -> bool:
        """Returns whether the last minute had fewer than the allowed changes for such a load."""
        most = MOST_CHANGES if is_large else MOST_CHANGES - 1
        return sum(change.counts(now, num_questions) for change in self.changes) < most


def judged(
    patience: Patience,
    current: Placement,
    wanted: Placement,
    now: float,
    pause_s: float = 0.0,
    *,
    must: bool = False,
    num_questions: int = 1,
    is_waited_for: bool = False,
) -> tuple[Patience, bool]:
    """Decides whether to change now; returns the patience from then on, and the decision.

    Args:
        patience: From the look before.
        current: The placement in force, with its prediction for the present backlog (`planner.predicted`).
        wanted: What the planner would have, for the same backlog.
        now: Seconds of a clock that never goes back.
        pause_s: How long answers pause for the change.
        must: The placement in force no longer fits.
        num_questions: Questions that wait or run; with none, nothing would pause.
        is_waited_for: Some of these have not begun, although others run.
    """
    if must:
        return patience.after(now, num_questions), True
    is_idle = not num_questions
    gain, regained = gain_of(current, wanted), regains(current, wanted)
    is_for_nothing = wanted.num_concessions > current.num_concessions and not current.is_starved
    is_better = gain >= (IDLE_GAIN if is_idle else LEAST_GAIN) or (regained and is_idle and not wanted.is_starved)
    if is_for_nothing or not is_better:
        return patience.without_gain(), False
    patience = patience.with_gain(max(0.0, gain), now)
    since = now if patience.better_since is None else patience.better_since
    is_earned = is_idle or patience.lost_s >= pause_s
    lacks_cells = is_waited_for and wanted.num_cells > current.num_cells
    held_s = WAITED_FOR_SECONDS if lacks_cells else HELD_SECONDS
    if is_idle or regained:
        held_s = REGAINED_SECONDS if regained else IDLE_HELD_SECONDS
    is_held = now - since >= held_s
    if is_earned and is_held and patience.may_change(now, num_questions, is_large=is_idle or gain >= LARGE_GAIN):
        return patience.after(now, num_questions), True
    return patience, False


def gain_of(current: Placement, wanted: Placement) -> float:
    """Returns the share of the expected latency that `wanted` saves."""
    latency = current.prediction.latency_s
    return 1.0 - wanted.prediction.latency_s / latency if latency > 0 else 0.0


def regains(current: Placement, wanted: Placement) -> bool:
    """Returns whether `wanted` regains what was lost for lack of room: precision, or context."""
    has_more = current.kv_type != wanted.kv_type == "f16" or wanted.num_cells > current.num_cells
    return wanted.num_concessions < current.num_concessions and has_more


def pause_seconds(current: Placement, wanted: Placement, profile: Profile, shape: ModelShape) -> float:
    """Returns how long answers pause for the change: a reload, a new context, or nothing where only layers move."""
    if current.reloads_for(wanted):
        return profile.context_change_s + shape.weight_bytes / profile.load_bytes_per_s
    return profile.context_change_s if _context_of(current) != _context_of(wanted) else 0.0


def _context_of(placement: Placement) -> tuple[object, ...]:
    """Returns what only a new context changes."""
    copies = placement.computes_large_batches_on_device
    return placement.num_cells, placement.kv_type, placement.kv_on_gpu, placement.n_ubatch, copies


class Hysteresis:
    """Remembers what one look leaves to the next; on the thread that looks."""

    def __init__(
        self,
        renewed: Callable[[Placement], Placement] = lambda placement: placement,
        pause_seconds: Callable[[Placement, Placement], float] = lambda current, wanted: 0.0,
    ) -> None:
        """Prepares.

        Args:
            renewed: A placement with its prediction by what is known of the machine now.
            pause_seconds: What the change from one to another costs.
        """
        self._renewed, self._pause_seconds = renewed, pause_seconds
        self._patience = Patience()

    def should_change(
        self,
        current: Placement,
        wanted: Placement,
        now: float,
        *,
        must: bool = False,
        num_questions: int = 1,
        is_waited_for: bool = False,
    ) -> bool:
        """Returns whether to leave `current` for `wanted` at `now` (seconds), with this load; see `judged`.

        Where they are the same, staying has cost nothing so far.
        """
        if current == wanted and not must:
            self._patience = self._patience.without_gain()
            return False
        pause_s, here, there = self._pause_seconds(current, wanted), self._renewed(current), self._renewed(wanted)
        self._patience, is_time = judged(
            self._patience,
            here,
            there,
            now,
            pause_s,
            must=must,
            num_questions=num_questions,
            is_waited_for=is_waited_for,
        )
        return is_time
