"""Chooses which layers are streamed: evenly spread, so that computing the others hides their loading; never the first.

Layers become streamed in one fixed order, by the reversed bits of their numbers: any prefix of it is spread evenly, and
a placement with one more streamed layer differs in just that layer. So changing the pinned share moves only what must
move. The first layer stays: a decode of several passes needs it again at once. Of the layer that would be the next to
stay, as many stages stay as have room: otherwise half a layer of room would be unused on average.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

# Slots are aligned to huge pages.
SLOT_ALIGNMENT_BYTES = 2 * 2**20


@dataclass(frozen=True, slots=True)
class Spread:
    """Layers in the order in which they become streamed, and the bytes of the first k of them.

    A slot holds one stage of a layer, of at most `stage_bytes`, and takes `slot_bytes`.
    """

    order: tuple[int, ...]
    streamed_bytes: tuple[int, ...]
    stage_bytes: int
    slot_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, layer_bytes: Sequence[int], stage_bytes: int = 0) -> Spread:
        """Makes it from the sizes of the layers that the processor computes; `stage_bytes` 0: a stage is a layer."""
        order, stage_bytes = _order(len(layer_bytes)), stage_bytes or max(layer_bytes, default=0)
        return cls(
            order=order,
            streamed_bytes=tuple(accumulate((layer_bytes[layer] for layer in order), initial=0)),
            stage_bytes=stage_bytes,
            slot_bytes=-(-stage_bytes // SLOT_ALIGNMENT_BYTES) * SLOT_ALIGNMENT_BYTES,
            total_bytes=sum(layer_bytes),
        )

    def fewest_streamed(self, room_bytes: int, ring_slots: int) -> int | None:
        """Returns how many layers must be streamed for the others and the ring to fit; None if no number fits."""
        over = self.total_bytes + ring_slots * self.slot_bytes - room_bytes
        # A ring that holds all that is streamed would stream nothing.
        count = bisect_left(self.streamed_bytes, max(over, ring_slots * self.stage_bytes + 1))
        return count if count < len(self.streamed_bytes) else None

    def stages_beside(self, count: int, room_bytes: int, ring_slots: int) -> int:
        """Returns how many stages of the last of `count` streamed layers fit into memory with the others and ring."""
        streamed_bytes = self.streamed_bytes[count]
        last_bytes = streamed_bytes - self.streamed_bytes[count - 1]
        left = room_bytes - (self.total_bytes - streamed_bytes + ring_slots * self.slot_bytes)
        # A layer that stays as a whole is not streamed; and what is streamed is more than the ring holds.
        most = min(last_bytes - 1, streamed_bytes - ring_slots * self.stage_bytes - 1)
        return max(0, min(left, most) // self.stage_bytes)

    def bytes_streamed(self, count: int, part_stages: int) -> int:
        """Returns what a pass reads of `count` streamed layers, if `part_stages` of the last one stay in memory."""
        return self.streamed_bytes[count] - part_stages * self.stage_bytes

    def layers(self, count: int) -> tuple[int, ...]:
        """Returns the layers that are streamed when `count` are, in the order of a pass."""
        return tuple(sorted(self.order[:count]))


@cache
def _order(num_layers: int) -> tuple[int, ...]:
    bits = max(1, num_layers - 1).bit_length()
    return tuple(sorted(range(1, num_layers), key=lambda layer: _reversed(layer, bits)))


def _reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)
