"""The position on the ladders: what has been given up in each tier, and how fast one goes down and up again.

It goes down as fast as memory runs short, and up slowly: only after a calm time, one rung at a time, and after a longer
time where taking something back soon had to be undone. So nothing swings between two rungs. What was taken back is on
trial until everything lies accordingly: the machine may not have the room that it seemed to have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from engine.core import Tier
from engine.memory.ladder import ACTS, LOSSY, LadderState, Rung, awaits_loss, next_rung, rung_to_climb
from engine.protocol import PressureLevel

TIERS: tuple[Tier, ...] = ("gpu", "ram", "disk")
# What was given up needs a moment to take effect; when all tasks wait for memory, there is no time for that.
SECONDS_DOWN = {"some": 2.0, "full": 0.5}
# Twice a minute at most, and less often after each relapse.
CALM_SECONDS, MAX_CALM_SECONDS = 30.0, 600.0
RELAPSE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Move:
    """A move by one rung, down or up."""

    kind: Literal["given_up", "taken_back"]
    rung: Rung


@dataclass(frozen=True, slots=True)
class Pace:
    """When a tier moved last (seconds of any clock), since when it has been calm, and how long that must last."""

    fell_at: float = float("-inf")
    climbed_at: float = float("-inf")
    calm_since: float | None = None
    patience_s: float = CALM_SECONDS

    def seen(self, level: PressureLevel, now: float) -> Pace:
        """Returns the pace after a look at how short memory is."""
        if level != "none":
            return replace(self, calm_since=None)
        return self if self.calm_since is not None else replace(self, calm_since=now)

    def may_fall(self, level: PressureLevel, now: float) -> bool:
        return level != "none" and now - self.fell_at >= SECONDS_DOWN[level]

    def may_climb(self, now: float) -> bool:
        if self.calm_since is None:
            return False
        return now - max(self.calm_since, self.fell_at, self.climbed_at) >= self.patience_s

    def fallen(self, now: float, *, has_failed: bool = False) -> Pace:
        """Returns the pace after something was given up; `has_failed`: again, because taking it back failed."""
        is_relapse = has_failed or now - self.climbed_at < RELAPSE_SECONDS
        patience_s = min(MAX_CALM_SECONDS, self.patience_s * 2) if is_relapse else self._rewarded(now)
        return replace(self, fell_at=now, calm_since=None, patience_s=patience_s, climbed_at=float("-inf"))

    def climbed(self, now: float) -> Pace:
        return replace(self, climbed_at=now, patience_s=self._rewarded(now))

    def _rewarded(self, now: float) -> float:
        """Returns the patience, reduced if the last step up has held: a wait in which nothing fell proves nothing."""
        has_held = RELAPSE_SECONDS <= now - self.climbed_at < float("inf")
        return max(CALM_SECONDS, self.patience_s / 2) if has_held else self.patience_s


class Standing:
    """What is currently given up, in all tiers. Owned by one thread; other threads may read `given_up`."""

    def __init__(self) -> None:
        self.given_up: tuple[Rung, ...] = ()
        self._paces: dict[Tier, Pace] = {tier: Pace() for tier in TIERS}
        # Taken back, the oldest first, but not yet known to be available.
        self._on_trial: tuple[Rung, ...] = ()

    def move(
        self,
        tier: Tier,
        level: PressureLevel,
        state: Callable[[], LadderState],
        now: float,
        *,
        may_fall: bool = True,
    ) -> Move | None:
        """Goes one rung down or up in a tier, if it is time for that; returns the move, or None.

        Args:
            tier: Which ladder.
            level: How short memory is there.
            state: Returns the state of the ladder; called only when there is a step to take.
            now: Seconds of any clock.
            may_fall: False while the last rung given up is being refused: the next one would be refused with it.
        """
        pace = self._paces[tier] = self._paces[tier].seen(level, now)
        if may_fall and pace.may_fall(level, now) and (rung := _next_down(tier, state())) is not None:
            self._paces[tier] = pace.fallen(now)
            return self._down(rung)
        if self.holds(tier) and pace.may_climb(now) and (rung := rung_to_climb(tier, state())) is not None:
            self._paces[tier] = pace.climbed(now)
            return self._up(rung)
        return None

    def give_up(self, rung: Rung, now: float, *, has_failed: bool = False) -> Move:
        """Notes a rung given up at once as an allocation failed; `has_failed`: it failed as the rung was taken back."""
        self._paces[rung.tier] = self._paces[rung.tier].seen("full", now).fallen(now, has_failed=has_failed)
        return self._down(rung)

    def pass_trial(self) -> None:
        """Notes that everything lies as it was planned with what was taken back."""
        self._on_trial = ()

    def fail_trial(self, now: float) -> tuple[Rung, ...]:
        """Gives up again what was taken back but was not available, and retries it later than before. Returns it."""
        failed, self._on_trial = self._on_trial, ()
        for rung in reversed(failed):
            self.give_up(rung, now, has_failed=True)
        return failed

    def holds(self, tier: Tier) -> bool:
        """Returns whether something of this tier is given up."""
        return any(rung.tier == tier for rung in self.given_up)

    def forget(self, tiers: Collection[Tier] = TIERS) -> None:
        """Forgets what was given up in the tiers: for another model, or another budget of a tier."""
        self.given_up = tuple(rung for rung in self.given_up if rung.tier not in tiers)
        self._on_trial = tuple(rung for rung in self._on_trial if rung.tier not in tiers)

    def forget_losses(self) -> None:
        """Forgets losses, once they are forbidden: precision and context that were given up are restored."""
        self.given_up = tuple(rung for rung in self.given_up if rung.kind not in LOSSY)
        self._on_trial = tuple(rung for rung in self._on_trial if rung.kind not in LOSSY)

    def _down(self, rung: Rung) -> Move:
        self.given_up = (*self.given_up, rung)
        self._on_trial = tuple(tried for tried in self._on_trial if tried != rung)
        return Move("given_up", rung)

    def _up(self, rung: Rung) -> Move:
        last = len(self.given_up) - 1 - self.given_up[::-1].index(rung)
        self.given_up = (*self.given_up[:last], *self.given_up[last + 1 :])
        if rung.kind not in ACTS:
            self._on_trial = (*self._on_trial, rung)
        return Move("taken_back", rung)


def _next_down(tier: Tier, state: LadderState) -> Rung | None:
    """Returns the next rung of a tier; nothing more is lost before the losses chosen so far have taken effect."""
    rung = next_rung(tier, state)
    if rung is not None and rung.is_lossy and awaits_loss(state.given_up, state.placement):
        return None
    return rung
