"""What the step loop has done and holds now, for the Memory page and for benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

from engine.generation.cells import Cells
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus

_SPEED_WINDOW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PromptPasses:
    """Passes that read mostly one prompt: their number, their tokens, the tokens before those, and the seconds."""

    count: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0

    def with_pass(self, cached_tokens: int, num_tokens: int, seconds: float) -> PromptPasses:
        """Returns the totals after one more pass."""
        return PromptPasses(
            self.count + 1, self.tokens + num_tokens, self.cached_tokens + cached_tokens, self.seconds + seconds
        )


@dataclass(frozen=True, slots=True)
class LoopCounters:
    """A snapshot; a cell holds one token, the rest counts since the loop began.

    `cells_by_request` counts cells that a request holds, including those shared with the keeper or another request;
    `cells_saved` are those that its answers or beams save by sharing now. `utilisation` is the share of cells that hold
    a token, `busy_utilisation` its mean over the steps in which a request waited for nothing but cells.
    `tokens_per_second` is the rate of all answers together in the last seconds of computing.
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
    prompt_passes: PromptPasses

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
    prompt_passes: PromptPasses = PromptPasses()
    _counted_tokens: int = 0

    def note_step(self, seconds: float) -> None:
        """Notes a step's seconds; a slow step counts as much as many fast ones together."""
        self.steps += 1
        num_written = self.generated_tokens - self._counted_tokens
        self._counted_tokens = self.generated_tokens
        if seconds > 0:
            weight = min(1.0, seconds / _SPEED_WINDOW_SECONDS)
            self.tokens_per_second += weight * (num_written / seconds - self.tokens_per_second)

    def note_busy(self, utilisation: float) -> None:
        self.busy_steps += 1
        self.busy_share += utilisation


def count(groups: Groups, cells: Cells, swapped_bytes: int, tally: Tally) -> LoopCounters:
    """Takes the snapshot."""
    by_request = tuple((group.request_id, _num_cells(group, cells)) for group in groups.running)
    apart = sum(sequence.num_computed for group in groups.running for sequence in group.sequences)
    num_preempted = sum(group.status is SequenceStatus.PREEMPTED for group in groups.waiting)
    return LoopCounters(
        num_cells=cells.num_cells,
        cells_used=cells.num_used,
        cells_saved=apart - sum(num_cells for _, num_cells in by_request),
        cells_by_request=by_request,
        num_waiting=len(groups.waiting) - num_preempted,
        num_running=len(groups.running),
        num_preempted=num_preempted,
        swapped_bytes=swapped_bytes,
        busy_utilisation=tally.busy_share / tally.busy_steps if tally.busy_steps else 0.0,
        tokens_per_second=tally.tokens_per_second if groups.running else 0.0,
        steps=tally.steps,
        prompt_tokens=tally.prompt_tokens,
        cached_tokens=tally.cached_tokens,
        generated_tokens=tally.generated_tokens,
        drafted_tokens=tally.drafted_tokens,
        accepted_tokens=tally.accepted_tokens,
        preempted_by_swap=tally.preempted_by_swap,
        preempted_by_recompute=tally.preempted_by_recompute,
        prompt_passes=tally.prompt_passes,
    )


def _num_cells(group: SequenceGroup, cells: Cells) -> int:
    if group.beams is not None:
        return cells.num_distinct(sequence.held for sequence in group.sequences if sequence.held is not None)
    computed = [sequence.num_computed for sequence in group.sequences if sequence.held is not None]
    # Answers share the prompt, and nothing after it.
    return sum(computed) - (len(computed) - 1) * group.prompt_length if computed else 0
