"""What the next step computes, which requests are admitted and which have to leave: pure functions over snapshots.

Requests are served first come, first served within a priority; a request that has waited long behind other kinds
counts as more urgent, so that nothing starves. Among equals, requests are preferred of whose prompt more is kept in
relation to what has to be computed (RAGCache, https://arxiv.org/abs/2404.12457, section 5.2), but none is passed over
more than a few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from engine.core import Priority
from engine.generation.rows import TILE_TOKENS

RANKS: dict[Priority, int] = {priority: rank for rank, priority in enumerate(get_args(Priority))}
# A batch request counts as interactive when nothing was computed for any batch request for this long, and one for idle
# times after twice as long.
AGEING_SECONDS = 60.0
# Running answers pause at most about this long for a chunk of another prompt.
STALL_SECONDS = 0.4
# Where no answer is written, nothing can be stopped for about this long; fewer tokens than these are read no faster.
STOP_SECONDS = 1.5
MIN_ALONE_TOKENS = 128
# Prompts that are to be read in the next steps have cells; all others wait, so that new requests can overtake them.
READ_AHEAD_STEPS = 2
# Below this, a chunk reads the weights for too few tokens to be worth it.
MIN_CHUNK_TOKENS = 32
# Where prompts and answers take turns, watched answers are written for this share of the time that prompts were read
# for: a few tokens in one go instead of one. Answers that end give their cells back, and attention has fewer to look
# at.
ANSWERS_SHARE = 1 / 4
# The same for prompts that are less urgent than the answers: a script's, or the every-file page's.
ANSWERS_SHARE_BEFORE_SCRIPTS = 4.0
# Watched answers pause at most about this long for such a prompt, within a batch that has both.
SCRIPT_STALL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Demand:
    """Tokens that a running sequence could have computed in this step; a decode has one, and perhaps a draft.

    `is_watched`: a user may be watching it being written.
    """

    num_tokens: int
    rank: int
    arrival: int
    num_drafted: int = 0
    is_watched: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that has no cells: new, or preempted. Tokens are of its prompt and what it has written."""

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
    """The rank of a priority, 0 the most urgent; waiting behind more urgent requests raises it in the end."""
    return max(0, RANKS[priority] - int(waited_seconds / AGEING_SECONDS))


def chunk_tokens(
    n_ubatch: int, num_watched: int, seconds_per_token: float, stall_seconds: float = STALL_SECONDS
) -> int:
    """The most prompt tokens of a step: what llama.cpp computes in one go, so that a cancel waits for no more.

    While `num_watched` answers are being written it is as much as fits into `stall_seconds`, which a reader may wait;
    else into the pause that a cancel, or a more urgent request, may wait. Whole tiles where possible: one tile at
    least, unless it alone takes longer than that second pause.
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
    """Which demands are in the next batch, of those that `pack` granted something: not all if they would share tiles.

    Each token of a tile is computed against the cells of all others in it, so that a chunk with a few answers' tokens
    takes up to twice what both take one after the other (a 1B model on two cores: 64 tokens and five, after a thousand
    each, 1.6 s; apart .6 s and .12 s). Fewer tokens than a tile are computed one by one, or padded where that is faster
    for all of them (rows.py), and share the weights; unless two passes are faster.

    Args:
        demands: What could be computed.
        granted: What `pack` would put into one batch.
        answers_first: Whether answers go before prompts.
        is_faster_apart: Whether they are computed apart even where they are fewer than a tile.
    """
    is_reading = [demand.num_tokens > 1 for demand in demands]
    sides = {reads for reads, num_tokens in zip(is_reading, granted, strict=True) if num_tokens}
    if len(sides) < 2 or (sum(granted) < TILE_TOKENS and not is_faster_apart):
        return [num_tokens > 0 for num_tokens in granted]
    return [num_tokens > 0 and reads != answers_first for reads, num_tokens in zip(is_reading, granted, strict=True)]


def are_scripts_read(demands: Sequence[Demand]) -> bool:
    """Whether all prompts that are read are less urgent than a watched answer."""
    watched = (demand.rank for demand in demands if demand.num_tokens == 1 and demand.is_watched)
    prompts = (demand.rank for demand in demands if demand.num_tokens > 1)
    most_urgent = min(watched, default=None)
    return most_urgent is not None and most_urgent < min(prompts, default=most_urgent)


def answers_share(demands: Sequence[Demand]) -> float:
    """The share of the time of reading prompts that answers are written for; 0 where answers come second.

    They do where none is watched: for all others their end counts, and a step takes hardly longer together with the
    answers to the prompts that are being read. So prompts come first, and answers are written in steps of many. That
    saves a backlog 15 to 35 % of its mean latency, by tests/bench/simulate.py.
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
    """How many tokens of each demand the next batch computes.

    First a token for every running answer, then their drafts, then prompts: the most urgent first, at most `chunk`
    tokens of them; of that, short ones that pass a long one take half at most, or a tile. Prompts read ahead for idle
    times wait while anything more urgent runs. A row of logits is kept for each demand and each drafted token, of which
    there are `max_rows` (None: for every token). `in_tiles`: fewer tokens than a tile take as long as a tile, so of the
    last prompt no fewer are left for another batch.
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
    """A grant that leaves a whole tile of a prompt or nothing, and is not less than a tile itself."""
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
    """Whether a prompt takes more than the tile that lets it pass others."""
    return demand.num_tokens > TILE_TOKENS


def reading_order(demand: Demand) -> tuple[int, bool, int]:
    """By urgency, then by arrival; but a prompt with a tile or less left does not wait for a long one.

    It is done with the pass that includes it, which delays the others by only that much: a question of 39 tokens came
    14 s later where it was read after one of 572 (issue 6). So its first token comes first.
    """
    return demand.rank, _is_long(demand), demand.arrival


def next_admission(candidates: Sequence[Candidate], window: int) -> Candidate | None:
    """The request that gets cells next; none after it gets any before that.

    Within a rank, preempted ones come first. Among new ones, it is the one whose kept part is largest in relation to
    the rest; a request that has been passed over `window` times comes first.
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
    """Candidates that came before `chosen` and were as urgent."""
    return [c.request_id for c in candidates if c.rank == chosen.rank and c.arrival < chosen.arrival]


def _kept_share(candidate: Candidate) -> tuple[float, int]:
    return candidate.cached_tokens / max(1, candidate.compute_tokens), -candidate.arrival


def victim(residents: Sequence[Resident]) -> Resident | None:
    """The resident that gives up all its cells: the latest arrival of the least urgent."""
    return max(residents, key=lambda resident: (resident.rank, resident.arrival), default=None)


def is_read_soon(num_to_read: int, num_unread: int, step_tokens: int) -> bool:
    """Whether a request whose turn it is would be read in the next steps, after `num_unread` tokens of others."""
    return num_to_read <= TILE_TOKENS or num_unread < READ_AHEAD_STEPS * step_tokens


def watermark(num_cells: int, num_writing: int) -> int:
    """Cells that admission leaves free, so that running answers do not run out right after it."""
    return max(num_cells // 100, 2 * num_writing)
