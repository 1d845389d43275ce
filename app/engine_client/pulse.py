"""Decides when silence means that the engine hangs, from times only, so that tests need not wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the window waits for each kind of sign, in seconds.

    `phase_silence_s` holds while the engine starts or has declared a long phase: cold imports of torch took 8 to 42 s
    on a busy machine. `back_off_s` are the waits before restarts in a row; the last one repeats.
    """

    ping_s: float = 5.0
    silence_s: float = 30.0
    phase_silence_s: float = 180.0
    back_off_s: tuple[float, ...] = (0.3, 1.0, 3.0)
    deaths_within_s: float = 60.0
    max_deaths: int = 3
    max_deaths_in_a_row: int = 6
    max_garbage_lines: int = 5
    polite_stop_s: float = 3.0
    terminate_s: float = 2.0


class Pulse:
    """Watches one engine process. All times are seconds of one steady clock."""

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._last_pong = self._last_check = self._excused_at = now

    @property
    def last_beat(self) -> float:
        """Returns when the engine gave its last sign of life."""
        return self._last_pong

    def beat(self, now: float) -> None:
        """Notes that the engine answered, or began or ended a phase."""
        self._last_pong = now

    def is_hanging(self, now: float, is_in_phase: bool) -> bool:
        """Returns whether the engine hangs; call it once per ping. After a late check (sleep), silence is excused."""
        since_check, self._last_check = now - self._last_check, now
        if since_check > 2 * self._patience.ping_s:
            self._excused_at = now
        allowed = self._patience.phase_silence_s if is_in_phase else self._patience.silence_s
        return now - max(self._last_pong, self._excused_at) > allowed
