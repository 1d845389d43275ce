"""Decides whether a preempted request is saved and loaded, or computed again: whichever is expected to be faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from engine.generation.prefill_profile import PrefillProfile

PreemptionKind = Literal["swap", "recompute"]
_LEARNING_RATE = 0.3


@dataclass(frozen=True, slots=True)
class Part:
    """Positions that a preempted request has computed: `num_tokens` from `start` on, in `num_bytes`."""

    start: int
    num_tokens: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class SwapRates:
    """How fast keys and values are saved and loaded, in bytes per second; at first a guess for slow memory."""

    save: float = 2e9
    load: float = 2e9

    def with_save(self, num_bytes: int, seconds: float) -> SwapRates:
        return replace(self, save=_learned(self.save, num_bytes, seconds))

    def with_load(self, num_bytes: int, seconds: float) -> SwapRates:
        return replace(self, load=_learned(self.load, num_bytes, seconds))

    def seconds(self, num_bytes: int) -> float:
        """Returns the seconds of saving and loading."""
        return num_bytes / self.save + num_bytes / self.load


# Of a slow disk, including the wait for its writes.
DISK_RATES = SwapRates(save=2e8, load=5e8)


def choose(parts: Sequence[Part], room_bytes: int, rates: SwapRates, profile: PrefillProfile) -> PreemptionKind:
    """Chooses to swap, unless the parts exceed `room_bytes` of RAM or computing them again is faster."""
    num_bytes = sum(part.num_bytes for part in parts)
    if num_bytes > room_bytes:
        return "recompute"
    again = sum(profile.seconds(part.start, part.num_tokens) for part in parts)
    return "swap" if rates.seconds(num_bytes) <= again else "recompute"


def _learned(known: float, num_bytes: int, seconds: float) -> float:
    if num_bytes <= 0 or seconds <= 0:
        return known
    return known + _LEARNING_RATE * (num_bytes / seconds - known)
