"""Why something was decided, in words for the Memory page: what had changed, and what was done about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.core import Tier
from engine.memory.amounts import in_words
from engine.memory.demand import Backlog, Budgets
from engine.memory.placement import Placement
from engine.protocol import PressureLevel

_PLACES: dict[Tier, str] = {"gpu": "on the graphics card", "ram": "in memory", "disk": "on the disk"}
# A budget that changed by less than this share is not the reason for a decision.
_NOTABLE = 0.04


def given_up(tier: Tier, level: PressureLevel) -> str:
    """Returns the sentence before that of the rung: why something was given up."""
    if tier != "ram":
        return f"There is too little room left {_PLACES[tier]}."
    return "The system is very short of memory." if level == "full" else "The system is short of memory."


def over_budget(tier: Tier) -> str:
    """Returns the sentence before that of the rung: more is held than the budget allows."""
    return f"More is held {_PLACES[tier]} than its budget allows."


def taken_back(tier: Tier) -> str:
    """Returns the sentence before that of taking the rung back."""
    return f"There is room {_PLACES[tier]} again."


def models_take_turns(name: str, seconds: float) -> str:
    """Says that the models that are asked do not fit into memory together."""
    return (
        f"The models that are asked do not fit into memory together, so they take turns: {name} came back "
        f"in {seconds:.1f} s."
    )


def budget_chosen(tier: Tier, num_bytes: int | None) -> str:
    """Says that the user changed how much of a tier may be held."""
    if num_bytes is None:
        return f"Ragdoll may hold what the machine has to spare {_PLACES[tier]}."
    return f"Ragdoll may hold {in_words(num_bytes)} {_PLACES[tier]}."


def losses_chosen(may_lose: bool) -> str:
    """Says that the user allowed losses for lack of memory, or forbade them."""
    if may_lose:
        return "A model that has no room may lose a little: keys and values in 8 bits, or a smaller context."
    return "No model may lose anything for want of room."


def cause(before: tuple[Budgets, Backlog] | None, now: tuple[Budgets, Backlog]) -> str:
    """Returns what has changed since the current placement was decided; "" where only more is known."""
    if before is None:
        return ""
    for tier, had, has in _differing(before[0], now[0]):
        verb = "less" if has < had else "more"
        return f"There is {verb} for Ragdoll {_PLACES[tier]}: {in_words(has)} instead of {in_words(had)}."
    return _of_backlog(before[1].waiting + before[1].running, now[1].waiting + now[1].running)


def index_moved(before: int, now: int, partition_bytes: int = 0) -> str:
    """Says that more or less of the index stays in memory, and how many partitions leave it."""
    num_released = round((before - now) / partition_bytes) if partition_bytes else 0
    if num_released > 0:
        parts = "1 part" if num_released == 1 else f"{num_released:,} parts"
        return f"The index releases {parts}: up to {in_words(now)} in memory instead of {in_words(before)}."
    verb = "more" if now > before else "less"
    return f"The index keeps {verb} in memory: up to {in_words(now)} instead of {in_words(before)}."


def in_short(why: str, changed: Sequence[str], moved: str = "") -> str:
    """Returns the first of the `changed` sentences and how the index `moved`; "" if nothing else has changed."""
    index = f"{moved.partition(':')[0]}." if moved else ""
    return " ".join(filter(None, (why, f"Now: {changed[0]}.", index))) if changed else ""


def refused(wanted: Placement) -> str:
    """Says that there was no room to grow into."""
    what = f"Wanted was: {wanted.sentence}" if wanted.fits else wanted.sentence
    return f"The room for a better placement did not become free, so all stays as it is. {what}"


def _of_backlog(had: int, has: int) -> str:
    if has > had:
        return f"{has} questions wait or are being answered." if has > 1 else "A question is being answered."
    if has < had:
        return "Fewer questions wait." if has else "No question waits any more."
    return ""


def _differing(before: Budgets, now: Budgets) -> Iterator[tuple[Tier, int, int]]:
    pairs: tuple[tuple[Tier, int | None, int | None], ...] = (
        ("gpu", before.gpu_bytes, now.gpu_bytes),
        ("ram", before.ram_bytes, now.ram_bytes),
        ("disk", before.disk_bytes, now.disk_bytes),
    )
    for tier, had, has in pairs:
        if had is not None and has is not None and abs(has - had) > had * _NOTABLE:
            yield tier, had, has
