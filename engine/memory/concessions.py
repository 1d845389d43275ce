"""Concessions: less precise or fewer keys and values, where these leave a model no room, in memory or for streaming.

A context may take what even the smallest ring needs. The system then maps the file, and reads nearly all of it again
for each token, or kills the engine. Keys and values in 8 bits, or a smaller context, free that room. Both lose
something, so they are the user's to allow: where they are allowed, the smallest loss that helps is taken and announced;
where they are not, the placement says what they would give (lossy steps last, announced, and only with permission).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.memory.demand import Demand, losing_nothing
from engine.memory.ladder import LadderState, Rung, constrained, next_loss
from engine.memory.placement import Placement

# Places everything, for a demand that allows no losses.
Lossless = Callable[[Demand], Placement]
# A model that cannot be streamed must become this much faster by lying in memory: of a mixture of experts the system
# keeps what is used, and what is missing may cost little.
LEAST_SPEEDUP = 2.0


def conceding(lossless: Lossless, demand: Demand) -> Placement:
    """Returns the placement of a plan that loses nothing, or of one that loses as little as gives the model room.

    Args:
        lossless: Makes a plan. It is called once if there is room, and otherwise once more for each concession tried.
        demand: What is wanted, and whether losses are allowed.
    """
    demand, may_lose = losing_nothing(demand), demand.wishes.may_lose
    placement = lossless(demand)
    if not placement.is_starved or not (ways := tuple(_ways(demand, placement))):
        return placement
    least, has_helped = _least_that_helps(lossless, demand, placement, ways)
    if not may_lose:
        offer = f"With {_words(demand, least.given_up)} it would run better: {least.placement.sentence}"
        return replace(placement, offer=offer) if has_helped else placement
    # Where nothing makes room, what is lost is still taken for the layers: with more memory, more of it comes back.
    return _told(demand, least) if has_helped or demand.is_streamable else placement


@dataclass(frozen=True, slots=True)
class _Way:
    """Concessions, and the placement that they give."""

    given_up: tuple[Rung, ...]
    placement: Placement


def _least_that_helps(
    lossless: Lossless, demand: Demand, placement: Placement, ways: Sequence[tuple[Rung, ...]]
) -> tuple[_Way, bool]:
    """Returns the fewest concessions that help, or else all of them; and whether they do."""

    def placed(given_up: tuple[Rung, ...]) -> _Way:
        return _Way(given_up, lossless(constrained(demand, given_up)))

    # Mostly, even all of them do not help, or the first one does: the ones in between are then not tried.
    most = placed(ways[-1])
    if not _helps(demand, placement, most.placement):
        return most, False
    found = (placed(given_up) for given_up in ways[:-1])
    return next((way for way in found if _helps(demand, placement, way.placement)), most), True


def _helps(demand: Demand, starved: Placement, less: Placement) -> bool:
    if less.is_starved:
        return False
    speedup = starved.prediction.latency_s / less.prediction.latency_s if less.prediction.latency_s > 0 else 0.0
    return demand.is_streamable or not starved.fits or speedup >= LEAST_SPEEDUP


def _told(demand: Demand, way: _Way) -> Placement:
    sentence = f"{way.placement.sentence} For want of memory, that is with {_words(demand, way.given_up)}."
    return replace(way.placement, sentence=sentence, num_concessions=len(way.given_up))


def _ways(demand: Demand, placement: Placement) -> Iterator[tuple[Rung, ...]]:
    """Yields one concession after the other, each together with those before it."""
    state = LadderState(replace(demand, wishes=replace(demand.wishes, may_lose=True)), placement)
    while (rung := next_loss("ram", state)) is not None:
        state = replace(state, given_up=(*state.given_up, rung))
        yield state.given_up


def _words(demand: Demand, given_up: tuple[Rung, ...]) -> str:
    """Returns what is lost: "keys and values in 8 bits, and a context of 4,096 tokens instead of 8,192"."""
    less, words = constrained(demand, given_up), []
    if any(rung.kind == "kv_8bit" for rung in given_up):
        words.append("keys and values in 8 bits")
    if less.context_tokens < demand.context_tokens:
        words.append(f"a context of {less.context_tokens:,} tokens instead of {demand.context_tokens:,}")
    return ", and ".join(words)
