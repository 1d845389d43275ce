"""Standing on the ladders: what has been given up in each tier, and how fast one goes down and up again.

Down as fast as memory runs short, up slowly: only after a calm time, one rung at a time, and after a longer one where
taking something back had to be undone soon. So nothing swings between two rungs. What was taken back is on trial until
everything lies accordingly: a machine may turn out not to have the room that there seemed to be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from engine.core import Tier
from engine.memory.ladder import ACTS, LOSSY, LadderState, Rung, awaits_loss, next_rung, rung_to_climb
from engine.protocol import PressureLevel

TIERS: tuple[Tier, ...] = ("gpu", "ram", "disk")
# What was given up needs a moment to show; when nothing goes on without memory, there is no time for that.
SECONDS_DOWN = {"some": 2.0, "full": 0.5}
# Twice a minute at most, and less often after each relapse.
CALM_SECONDS, MAX_CALM_SECONDS = 30.0, 600.0
RELAPSE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Move:
    """One rung down or up."""

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
        """Having seen how short memory is."""
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
        """Having given something up; `has_failed`: again, since it could not be had, however long trying took."""
        is_relapse = has_failed or now - self.climbed_at < RELAPSE_SECONDS
        patience_s = min(MAX_CALM_SECONDS, self.patience_s * 2) if is_relapse else self._rewarded(now)
        return replace(self, fell_at=now, calm_since=None, patience_s=patience_s, climbed_at=float("-inf"))

    def climbed(self, now: float) -> Pace:
        return replace(self, climbed_at=now, patience_s=self._rewarded(now))

    def _rewarded(self, now: float) -> float:
        """The patience, less of it where the last step up has held: that nothing fell while waiting proves nothing."""
        has_held = RELAPSE_SECONDS <= now - self.climbed_at < float("inf")
        return max(CALM_SECONDS, self.patience_s / 2) if has_held else self.patience_s


class Standing:
    """What is done without just now, in all tiers. Owned by one thread; `given_up` may be read by others."""

    def __init__(self) -> None:
        self.given_up: tuple[Rung, ...] = ()
        self._paces: dict[Tier, Pace] = {tier: Pace() for tier in TIERS}
        # Taken back, the oldest first, and not known to be there yet.
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
        """The one rung to go down or up in a tier now, which is noted as done; None for none.

        Args:
            tier: Which ladder.
            level: How short memory is there.
            state: Where one stands; asked only when there is a step to take.
            now: Seconds of any clock.
            may_fall: Not while what was given up last is refused: the next rung would be refused with it.
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
        """Notes one that had to be given up at once, as an allocation failed; `has_failed`: when it was taken back."""
        self._paces[rung.tier] = self._paces[rung.tier].seen("full", now).fallen(now, has_failed=has_failed)
        return self._down(rung)

    def pass_trial(self) -> None:
        """Everything lies as it was planned with what was taken back."""
        self._on_trial = ()

    def fail_trial(self, now: float) -> tuple[Rung, ...]:
        """What was taken back could not be had: it is given up again, and tried later than before. Returns it."""
        failed, self._on_trial = self._on_trial, ()
        for rung in reversed(failed):
            self.give_up(rung, now, has_failed=True)
        return failed

    def holds(self, tier: Tier) -> bool:
        """Whether something of this tier is done without."""
        return any(rung.tier == tier for rung in self.given_up)

    def forget(self, tiers: Collection[Tier] = TIERS) -> None:
        """Another model, or another budget of a tier, begins with everything."""
        self.given_up = tuple(rung for rung in self.given_up if rung.tier not in tiers)
        self._on_trial = tuple(rung for rung in self._on_trial if rung.tier not in tiers)

    def forget_losses(self) -> None:
        """Nothing may be lost any more: what was given up of precision or context is not done without."""
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
    """The next rung of a tier; nothing more is lost before what was to be lost already is."""
    rung = next_rung(tier, state)
    if rung is not None and rung.is_lossy and awaits_loss(state.given_up, state.placement):
        return None
    return rung
