"""Decides what the next step computes, and which requests are admitted or preempted: pure functions over snapshots.

Within a priority, requests are served first come, first served; a request that has waited long behind other priorities
counts as more urgent, so that nothing starves. Among equals, requests with a larger kept part of the prompt relative to
the part to compute are preferred (RAGCache, https://arxiv.org/abs/2404.12457, section 5.2), but none is passed over
more than a few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from engine.core import Priority
from engine.generation.rows import TILE_TOKENS

RANKS: dict[Priority, int] = {priority: rank for rank, priority in enumerate(get_args(Priority))}
# A batch request counts as interactive if nothing was computed for any batch request for this long, and an idle one
# after twice as long.
AGEING_SECONDS = 60.0
# Running answers pause at most about this long for a chunk of another prompt.
STALL_SECONDS = 0.4
# While no answer is written, nothing can be stopped for about this long; smaller chunks than these are not faster.
STOP_SECONDS = 1.5
MIN_ALONE_TOKENS = 128
# Only prompts that will be read in this many steps get cells; all others wait, so that new requests can overtake them.
READ_AHEAD_STEPS = 2
# A smaller chunk reads all weights for too few tokens to be worthwhile.
MIN_CHUNK_TOKENS = 32
# If prompts and answers take turns, watched answers are written for this share of the time that prompts were read for:
# a few tokens at a time instead of one. Answers that end give their cells back, and attention has fewer to pass over.
ANSWERS_SHARE = 1 / 4
# The same for prompts that are less urgent than the answers: those of a script, or of the every-file page.
ANSWERS_SHARE_BEFORE_SCRIPTS = 4.0
# Watched answers pause at most about this long for such a prompt, within a batch that has both.
SCRIPT_STALL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Demand:
    """The tokens of a running sequence that could be computed in this step; one for a decode, and perhaps a draft.

    `is_watched`: a user may be watching the answer being written.
    """

    num_tokens: int
    rank: int
    arrival: int
    num_drafted: int = 0
    is_watched: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A new or preempted request without cells. Tokens are those of its prompt and of what it has written."""

    request_id: str
    arrival: int
    rank: int
    is_preempted: bool = False
    cached_tokens: int = 0
    compute_tokens: int = 1
    times_passed: int = 0


@dataclass(frozen=True, slots=True)
class Resident:
    """A request that holds cells."""

    request_id: str
    arrival: int
    rank: int


def rank(priority: Priority, waited_seconds: float) -> int:
    """Returns the rank of a priority, 0 being the most urgent; long waiting behind others makes it more urgent."""
    return max(0, RANKS[priority] - int(waited_seconds / AGEING_SECONDS))


def chunk_tokens(
    n_ubatch: int, num_watched: int, seconds_per_token: float, stall_seconds: float = STALL_SECONDS
) -> int:
    """Returns the most prompt tokens of a step, which llama.cpp computes in one call: a cancel waits for no more.

    While `num_watched` answers are being written, as much as fits into `stall_seconds`, the longest pause for a reader;
    else as much as fits into the longest wait of a cancel or a more urgent request (STOP_SECONDS). Whole tiles if
    possible: at least one tile, unless it alone takes longer than STOP_SECONDS.
    """
    if seconds_per_token <= 0:
        return n_ubatch
    patient = int(STOP_SECONDS / seconds_per_token)
    if not num_watched:
        return min(n_ubatch, max(MIN_ALONE_TOKENS, _whole_tiles(patient)))
    least = TILE_TOKENS if patient >= TILE_TOKENS else MIN_CHUNK_TOKENS
    return min(n_ubatch, max(least, _whole_tiles(int(stall_seconds / seconds_per_token))))


def _whole_tiles(num_tokens: int) -> int:
    return num_tokens - num_tokens % TILE_TOKENS


def whose_turn(
    demands: Sequence[Demand], granted: Sequence[int], *, answers_first: bool, is_faster_apart: bool = False
) -> list[bool]:
    """Returns which of the demands that `pack` granted something are in the next batch: not all if they share tiles.

    Each token of a tile is computed for the cells of all sequences in it, so that a chunk with a few answers' tokens
    takes up to twice the time of both one after the other (a 1B model on two cores: 64 tokens and five, after a
    thousand each, 1.6 s; apart .6 s and .12 s). Fewer tokens than a tile are computed one by one, or padded if that is
    faster for all of them (rows.py), and share the reading of weights; unless two passes are faster.

    Args:
        demands: What could be computed.
        granted: What `pack` would put into one batch.
        answers_first: Whether answers go before prompts.
        is_faster_apart: Whether they are computed apart even if they are fewer than a tile.
    """
    is_reading = [demand.num_tokens > 1 for demand in demands]
    sides = {reads for reads, num_tokens in zip(is_reading, granted, strict=True) if num_tokens}
    if len(sides) < 2 or (sum(granted) < TILE_TOKENS and not is_faster_apart):
        return [num_tokens > 0 for num_tokens in granted]
    return [num_tokens > 0 and reads != answers_first for reads, num_tokens in zip(is_reading, granted, strict=True)]


def are_scripts_read(demands: Sequence[Demand]) -> bool:
    """Returns whether all prompts being read are less urgent than a watched answer."""
    watched = (demand.rank for demand in demands if demand.num_tokens == 1 and demand.is_watched)
    prompts = (demand.rank for demand in demands if demand.num_tokens > 1)
    most_urgent = min(watched, default=None)
    return most_urgent is not None and most_urgent < min(prompts, default=most_urgent)


def answers_share(demands: Sequence[Demand]) -> float:
    """Returns how long answers are written, as a share of the time of reading prompts; 0 if prompts come first.

    Prompts come first if no answer is watched: for unwatched answers only their end counts, and steps hardly take
    longer with the answers to the prompts that are being read. So answers are written in large steps after all prompts,
    which reduces the mean latency of a backlog by 15 to 35 % (tests/bench/simulate.py).
    """
    if not any(demand.is_watched for demand in demands if demand.num_tokens == 1):
        return 0.0
    return ANSWERS_SHARE_BEFORE_SCRIPTS if are_scripts_read(demands) else ANSWERS_SHARE


def pack(
    demands: Sequence[Demand],
    max_tokens: int,
    chunk: int,
    num_free_cells: int,
    max_rows: int | None = None,
    *,
    in_tiles: bool = False,
) -> list[int]:
    """Returns how many tokens of each demand the next batch computes.

    First a token for every running answer, then their drafts, then at most `chunk` tokens of prompts, the most urgent
    first; short prompts that pass a long one get at most half of these, or a tile. Idle prompts wait while anything
    more urgent runs. Each demand and each drafted token needs a row of logits, of which there are `max_rows` (None:
    enough for every token). `in_tiles`: fewer tokens than a tile take as long as a tile, so no fewer are left of the
    last prompt for another batch.
    """
    granted = [0] * len(demands)
    left = min(max_tokens, num_free_cells)
    for index, demand in enumerate(demands):
        if demand.num_tokens == 1 and left:
            granted[index] = 1
            left -= 1
    rows = left if max_rows is None else max(0, max_rows - len(demands))
    for index, demand in enumerate(demands):
        if demand.num_drafted and granted[index]:
            drafted = min(demand.num_drafted, left, rows)
            granted[index] += drafted
            left -= drafted
            rows -= drafted
    left = min(left, chunk)
    prompts = _prompts(demands)
    first_long = {
        demands[index].rank: demands[index].arrival for index in reversed(prompts) if _is_long(demands[index])
    }
    for_passing = max(TILE_TOKENS, left // 2)
    for index in prompts:
        demand = demands[index]
        passes = not _is_long(demand) and demand.arrival > first_long.get(demand.rank, demand.arrival)
        granted[index] = min(demand.num_tokens, left, for_passing if passes else left)
        for_passing -= granted[index] * passes
        if in_tiles and index == prompts[-1]:
            granted[index] = _leaving_a_tile(demands[index].num_tokens, granted[index])
        left -= granted[index]
    return granted


def _leaving_a_tile(num_tokens: int, num_granted: int) -> int:
    """Returns a grant that leaves a whole tile of a prompt or nothing, if it can stay at least a tile itself."""
    num_left = num_tokens - num_granted
    least = num_granted - (TILE_TOKENS - num_left)
    return least if 0 < num_left < TILE_TOKENS <= least else num_granted


def _prompts(demands: Sequence[Demand]) -> list[int]:
    most_urgent = min((demand.rank for demand in demands), default=0)
    idle = RANKS["idle"]
    reading = [
        index
        for index, demand in enumerate(demands)
        if demand.num_tokens > 1 and (demand.rank < idle or most_urgent >= idle)
    ]
    return sorted(reading, key=lambda index: reading_order(demands[index]))


def _is_long(demand: Demand) -> bool:
    """Returns whether a prompt has more than a tile left, so that it cannot pass others."""
    return demand.num_tokens > TILE_TOKENS


def reading_order(demand: Demand) -> tuple[int, bool, int]:
    """Sorts by urgency, then by arrival; but a prompt with at most a tile left does not wait for a long one.

    It is complete after one pass, which delays the others only a little: a question of 39 tokens was answered 14 s
    later if it was read after one of 572 (issue 6). So its first token comes first.
    """
    return demand.rank, _is_long(demand), demand.arrival


def next_admission(candidates: Sequence[Candidate], window: int) -> Candidate | None:
    """Returns the request that gets cells next; no other may get cells before it.

    Within a rank, preempted ones come first, then a request that has been passed over `window` times, then the one
    whose kept part is largest relative to the rest.
    """
    if not candidates:
        return None
    best = min(candidate.rank for candidate in candidates)
    equals = sorted((c for c in candidates if c.rank == best), key=lambda candidate: candidate.arrival)
    preempted = [candidate for candidate in equals if candidate.is_preempted]
    if preempted:
        return preempted[0]
    passed_enough = [candidate for candidate in equals if candidate.times_passed >= window]
    return passed_enough[0] if passed_enough else max(equals[: window + 1], key=_kept_share)


def passed_over(candidates: Sequence[Candidate], chosen: Candidate) -> list[str]:
    """Returns the candidates that came before `chosen` and are as urgent."""
    return [c.request_id for c in candidates if c.rank == chosen.rank and c.arrival < chosen.arrival]


def _kept_share(candidate: Candidate) -> tuple[float, int]:
    return candidate.cached_tokens / max(1, candidate.compute_tokens), -candidate.arrival


def victim(residents: Sequence[Resident]) -> Resident | None:
    """Returns the resident that has to give up all its cells: the latest arrival among the least urgent."""
    return max(residents, key=lambda resident: (resident.rank, resident.arrival), default=None)


def is_read_soon(num_to_read: int, num_unread: int, step_tokens: int) -> bool:
    """Returns whether a request, if admitted now, is read in the next steps, after `num_unread` tokens of others."""
    return num_to_read <= TILE_TOKENS or num_unread < READ_AHEAD_STEPS * step_tokens


def watermark(num_cells: int, num_writing: int) -> int:
    """Returns the cells that admission leaves free, so that running answers do not run out right after it."""
    return max(num_cells // 100, 2 * num_writing)
