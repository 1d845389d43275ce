"""How stages change places: a few with each pass, so that no pass takes much longer than those before or after it.

A stage that gets a home is read into it instead of into its slot, which costs its pass no reading; only the memory has
to be allocated. One that leaves its home is read at each pass from then on. Where memory is to shrink, it shrinks at
once.
"""

from __future__ import annotations

from collections.abc import Collection

# At most this share of the stages that a pass reads gets a home with it.
SHARE_AT_ONCE = 1 / 4


def next_homes(homes: Collection[int], wanted: Collection[int], num_stages: int) -> frozenset[int]:
    """The stages that have a home in the next pass, on the way from `homes` to `wanted`.

    There are never more of them than before or at the end, and none leaves before it must. The last stages move first:
    what was read ahead, for the first ones, stays of use.
    """
    leaving = sorted(set(homes) - set(wanted), reverse=True)
    coming = sorted(set(wanted) - set(homes), reverse=True)
    come = coming[: max(1, int((num_stages - len(homes)) * SHARE_AT_ONCE))]
    leave = leaving[: max(0, len(homes) + len(come) - len(wanted))]
    return frozenset(homes) - set(leave) | set(come)
