"""What the step loop has done and holds now, for the page that shows memory and for benches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopCounters:
    """A snapshot; cells are of one token, the rest counts since the loop began.

    `cells_by_request` counts cells that a request holds (those that it shares with others, too); `cells_saved` are
    those that sharing saves just now. `utilisation` is the share of cells that hold a token, `busy_utilisation` its
    mean over the steps after which somebody still waited for cells. `tokens_per_second` is written tokens of all
    answers over the last seconds.
    """

    num_cells: int
    cells_used: int
    cells_saved: int
    cells_by_request: tuple[tuple[str, int], ...]
    num_waiting: int
    num_running: int
    num_preempted: int
    swapped_bytes: int
    busy_utilisation: float
    tokens_per_second: float
    steps: int
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    preempted_by_swap: int
    preempted_by_recompute: int

    @property
    def cells_free(self) -> int:
        return self.num_cells - self.cells_used

    @property
    def utilisation(self) -> float:
        return self.cells_used / self.num_cells


@dataclass(slots=True)
class Tally:
    """The counts behind the snapshot; owned by the step loop."""

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    preempted_by_swap: int = 0
    preempted_by_recompute: int = 0
    busy_steps: int = 0
    busy_share: float = 0.0
    tokens_per_second: float = 0.0

    def note_step(self, num_written: int, seconds: float) -> None:
        """Takes in a step's speed; one of a second counts as much as many short ones together."""
        self.steps += 1
        if seconds > 0:
            weight = min(1.0, seconds / _SPEED_WINDOW_SECONDS)
            self.tokens_per_second += weight * (num_written / seconds - self.tokens_per_second)

    def note_busy(self, utilisation: float) -> None:
        self.busy_steps += 1
        self.busy_share += utilisation

    @property
    def busy_utilisation(self) -> float:
        return self.busy_share / self.busy_steps if self.busy_steps else 0.0


_SPEED_WINDOW_SECONDS = 2.0
