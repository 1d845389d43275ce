"""What moved in memory from one snapshot to the next, for the map and the line below it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.protocol import Span, Tier, TierSnapshot

MoveKind = Literal["came", "went", "changed", "grew", "shrank"]
SpanKey = tuple[str, str, int]
# Smaller changes are invisible, and would make a line flicker with every allocation of the interpreter.
_LEAST_BYTES = 8 * 2**20
_LEAST_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class Move:
    """One span that came, went, became larger or smaller, or is in another state; `key` as in `keyed`."""

    kind: MoveKind
    tier: Tier
    key: SpanKey
    span: Span


def keyed(spans: Sequence[Span]) -> dict[SpanKey, Span]:
    """Returns the spans by owner, purpose and a number that keeps equal ones apart, in their order."""
    found: dict[SpanKey, Span] = {}
    for span in spans:
        number = 0
        while (span.owner, span.what, number) in found:
            number += 1
        found[(span.owner, span.what, number)] = span
    return found


def moves(before: Sequence[TierSnapshot], after: Sequence[TierSnapshot]) -> tuple[Move, ...]:
    """Returns every difference, tier by tier; none for a tier that was not known before."""
    known = {tier.tier: tier for tier in before}
    return tuple(
        move
        for tier in after
        if tier.tier in known and known[tier.tier] is not tier
        for move in _moves_in(tier.tier, keyed(known[tier.tier].spans), keyed(tier.spans))
    )


def _moves_in(tier: Tier, old: dict[SpanKey, Span], new: dict[SpanKey, Span]) -> list[Move]:
    found = [Move("went", tier, key, span) for key, span in old.items() if key not in new]
    for key, span in new.items():
        was = old.get(key)
        if was is span:
            continue
        if was is None:
            found.append(Move("came", tier, key, span))
        elif was.state != span.state:
            found.append(Move("changed", tier, key, span))
        elif (kind := _growth(was.num_bytes, span.num_bytes)) is not None:
            found.append(Move(kind, tier, key, span))
    return found


def _growth(was_bytes: int, num_bytes: int) -> MoveKind | None:
    difference = num_bytes - was_bytes
    if abs(difference) < max(_LEAST_BYTES, was_bytes * _LEAST_SHARE):
        return None
    return "grew" if difference > 0 else "shrank"
