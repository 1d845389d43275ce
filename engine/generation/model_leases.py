"""Enters the loaded model's bytes in the ledger: its layers, cells and buffers, and answers that are set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from engine.closing import close_all
from engine.core import ModelShape, SpanState, Tier
from engine.memory.ledger import Lease, Ledger
from engine.memory.listing import STATES, cells_name
from engine.memory.placement import Placement
from engine.memory.workspace import num_states

SET_ASIDE = "answers set aside"
NO_ROOM = "read from the model's file when needed"
_TIERS: tuple[Tier, ...] = ("gpu", "ram")
# Norms stay in the mapped file, whatever is copied; they are a thousandth of the weights.
_ALL = 0.99


class LeaseGroup:
    """Leases that are taken and released together."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._leases: list[Lease] = []
        # The sizes of copied weights that have left memory.
        self._left: list[int] = []

    def take(
        self,
        owner: str,
        what: str,
        tier: Tier,
        num_bytes: int,
        loading: bool = False,
        is_mapped: bool = False,
        is_counted: bool = True,
    ) -> None:
        """Enters `num_bytes`, unless that is 0."""
        if num_bytes:
            state: SpanState = "loading" if loading else "resident"
            self._leases.append(
                self._ledger.take(owner, what, tier, num_bytes, state, is_mapped=is_mapped, is_counted=is_counted)
            )

    def measure(self, owner: str, what: str, num_bytes: int, measure: Callable[[], int]) -> None:
        """Enters `num_bytes` of main memory; `measure` returns how many of them are in use at the time."""
        self._leases.append(self._ledger.measure(owner, what, "ram", lambda: max(0, min(num_bytes, measure()))))

    def settle(self) -> None:
        """Marks all leases as resident."""
        for lease in self._leases:
            lease.mark("resident")

    def show_copied(self, *, is_there: bool) -> None:
        """Shows memory that is not backed by a file as released, or as held again."""
        copied = [lease for lease in self._leases if lease.span.tier == "ram" and not lease.span.is_mapped]
        if is_there:
            for lease, num_bytes in zip(copied, self._left, strict=False):
                lease.resize(num_bytes)
            self._left = []
        elif not self._left:
            self._left = [lease.num_bytes for lease in copied]
            for lease in copied:
                lease.resize(0)

    def release(self) -> None:
        """Releases all leases. A second call does nothing."""
        for lease in self._leases:
            lease.release()
        self._leases.clear()
        self._left = []


class ModelLeases:
    """The leases of at most one model at a time; used on the generation thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._weights = LeaseGroup(ledger)
        self._contexts: list[LeaseGroup] = []
        self._set_aside: dict[Tier, Lease] = {}

    def take_weights(self, shape: ModelShape, placement: Placement) -> None:
        """Enters weights that are about to be loaded, in place of the previous ones."""
        self._weights.release()
        copied_bytes = shape.weight_bytes if placement.is_repacked and not placement.is_held else 0
        self._weights = self._entered(shape, placement, copied_bytes, loading=True)

    def note_copied(self, shape: ModelShape, placement: Placement, copied_bytes: int) -> None:
        """Enters the loaded weights again, now that `copied_bytes` of those in memory are known to be copies.

        They count as being loaded until the context is entered too: memory taken until then belongs to this model.
        """
        before, self._weights = self._weights, self._entered(shape, placement, copied_bytes, loading=True)
        before.release()

    def note_streamed(self, shape: ModelShape, placement: Placement) -> None:
        """Enters the weights that the stream does not: it enters the layers in memory, and the head if it is there."""
        before, weights = self._weights, LeaseGroup(self._ledger)
        for layer, num_bytes in enumerate(shape.layer_bytes):
            if placement.tier_of_layer(layer) == "gpu":
                weights.take("weights", f"layer {layer}", "gpu", num_bytes, loading=True)
        is_head_in_ram, is_tied = placement.tier_of_output == "ram", shape.head_bytes > shape.output_bytes
        if not is_head_in_ram:
            weights.take("weights", "output head", "gpu", shape.head_bytes, loading=True)
        if not (is_head_in_ram and is_tied):
            embeddings_bytes = shape.other_bytes - shape.output_bytes
            # With streamed layers they are left to the page cache, because no plan has room for them.
            weights.take(
                "weights", "token embeddings", "ram", embeddings_bytes, loading=True, is_mapped=True, is_counted=False
            )
        self._weights = weights
        before.release()

    def _entered(self, shape: ModelShape, placement: Placement, copied_bytes: int, *, loading: bool) -> LeaseGroup:
        """Enters weights. Embeddings are read from the mapped file; an equal share of each layer is copied.

        If the system manages the memory of a model, each part counts as far as the whole has room.
        """
        weights = LeaseGroup(self._ledger)
        # If the embeddings are also the output head, they are copied to a device.
        head_tier = placement.tier_of_output
        head_bytes = shape.head_bytes if head_tier == "gpu" else shape.output_bytes
        parts = [
            (f"layer {layer}", placement.tier_of_layer(layer), num_bytes)
            for layer, num_bytes in enumerate(shape.layer_bytes)
        ]
        parts.append(("output head", head_tier, head_bytes))
        in_memory = sum(num_bytes for _, tier, num_bytes in parts if tier == "ram")
        share = copied_bytes / in_memory if in_memory else 0.0
        share = 1.0 if share > _ALL else share
        in_place = shape.other_bytes - shape.output_bytes
        # With layers on a device, everything that stays in memory is copied, including the embeddings.
        is_all_copied = placement.n_gpu_layers > 0 and copied_bytes > in_memory + _ALL * in_place
        fits, is_counted = _share_that_fits(placement, in_memory + in_place), not placement.is_mapped
        left_out = 0
        for what, tier, num_bytes in parts:
            if tier == "ram" and not share:
                num_there = round(num_bytes * fits)
                weights.take("weights", what, tier, num_there, loading, is_mapped=True, is_counted=is_counted)
                left_out += num_bytes - num_there
            else:
                num_copied = num_bytes if tier == "gpu" else round(num_bytes * share)
                weights.take("weights", what, tier, num_copied, loading)
                in_place += num_bytes - num_copied
        words = "token embeddings" if share in (0.0, 1.0) else "token embeddings, and weights in the file's order"
        num_there = round(in_place * fits)
        weights.take("weights", words, "ram", num_there, loading, is_mapped=not is_all_copied, is_counted=is_counted)
        left_out += in_place - num_there
        weights.take("weights", NO_ROOM, "disk", left_out, loading, is_mapped=True, is_counted=False)
        return weights

    @contextmanager
    def making_context(self, shape: ModelShape, placement: Placement, num_cells: int) -> Iterator[None]:
        """Enters the cells of a context while the block makes it, which takes half a second."""
        coming = LeaseGroup(self._ledger)
        _take_kept(coming, shape, placement, num_cells, loading=True)
        try:
            yield
        finally:
            coming.release()

    def take_context(
        self,
        shape: ModelShape,
        placement: Placement,
        num_cells: int,
        buffers: Mapping[str, int],
        touched_bytes: Callable[[int], int] = lambda in_memory_bytes: in_memory_bytes,
    ) -> LeaseGroup:
        """Enters cells and buffers of a context, in addition to those of a previous one that may still exist.

        Args:
            shape: With the bytes of a cell in the format that is used.
            placement: Where the layers are, and whether their keys and values are with them.
            num_cells: The number of cells of the context.
            buffers: Bytes of llama.cpp's compute buffers, by llama.cpp's names for their devices.
            touched_bytes: Returns how much of the main memory of cells and buffers was ever written to. Cells are
                cleared when they are made; buffers are as large as the largest batch could need.

        Returns:
            The leases to release when the context is closed.
        """
        context = LeaseGroup(self._ledger)
        self._contexts.append(context)
        _take_kept(context, shape, placement, num_cells)
        in_memory = {device: bytes_ for device, bytes_ in buffers.items() if _tier_of_buffer(device) == "ram"}
        cells_bytes, buffers_bytes = kept_bytes(shape, placement, "ram", num_cells), sum(in_memory.values())

        def touched(num_bytes: int) -> int:
            """Returns a buffer's share of the bytes that were written to in all buffers."""
            written = touched_bytes(cells_bytes + buffers_bytes) - cells_bytes
            return written * num_bytes // max(1, buffers_bytes)

        for device, num_bytes in buffers.items():
            what = f"compute buffer of {device}"
            if device in in_memory:
                context.measure("workspace", what, num_bytes, partial(touched, num_bytes))
            else:
                context.take("workspace", what, "gpu", num_bytes)
        self._weights.settle()
        return context

    def show_copied(self, *, is_there: bool) -> None:
        """Shows weights that are not backed by the file as released, or as held again."""
        self._weights.show_copied(is_there=is_there)

    def release_weights(self) -> None:
        """Releases the leases of the weights."""
        self._weights.release()

    def note_set_aside(self, ram_bytes: int, disk_bytes: int = 0) -> None:
        """Enters the bytes of answers that had to leave their cells for others."""
        wanted: dict[Tier, int] = {"ram": ram_bytes, "disk": disk_bytes}
        for tier, num_bytes in wanted.items():
            lease = self._set_aside.get(tier)
            if lease is None:
                if num_bytes:
                    self._set_aside[tier] = self._ledger.take("kv", SET_ASIDE, tier, num_bytes)
            elif not num_bytes:
                self._set_aside.pop(tier).release()
            elif num_bytes != lease.num_bytes:
                lease.resize(num_bytes)

    def release(self) -> None:
        """Releases all leases. A second call does nothing."""
        close_all(self._weights.release, *(context.release for context in self._contexts))
        self._contexts.clear()
        self.note_set_aside(0)


def _share_that_fits(placement: Placement, num_bytes: int) -> float:
    """Returns the share of demand-paged weights that the placement had room for."""
    room_bytes = sum(span.num_bytes for span in placement.spans if (span.owner, span.tier) == ("weights", "ram"))
    if not (placement.is_mapped and placement.spans and num_bytes):
        return 1.0
    return min(1.0, room_bytes / num_bytes)


def kept_bytes(shape: ModelShape, placement: Placement, tier: Tier, num_cells: int) -> int:
    """Returns the bytes of cells and states that a context of `num_cells` has in a tier."""
    return _cell_bytes(shape, placement, tier) * num_cells + _state_bytes(shape, placement, tier)


def _cell_bytes(shape: ModelShape, placement: Placement, tier: Tier) -> int:
    return _of_tier(shape.kv_cell_bytes, placement, tier)


def _state_bytes(shape: ModelShape, placement: Placement, tier: Tier) -> int:
    """Returns the bytes of the recurrent states of all sequences in a tier."""
    return _of_tier(shape.state_bytes, placement, tier) * num_states(shape, placement.num_slots)


def _of_tier(of_layers: Sequence[int], placement: Placement, tier: Tier) -> int:
    with_layer = placement.kv_on_gpu
    return sum(
        num_bytes
        for layer, num_bytes in enumerate(of_layers)
        if (placement.tier_of_layer(layer) if with_layer else "ram") == tier
    )


def _take_kept(
    leases: LeaseGroup, shape: ModelShape, placement: Placement, num_cells: int, loading: bool = False
) -> None:
    """Enters the cells of a context, and its recurrent states."""
    for tier in _TIERS:
        leases.take("kv", cells_name(num_cells), tier, _cell_bytes(shape, placement, tier) * num_cells, loading)
        leases.take("kv", STATES, tier, _state_bytes(shape, placement, tier), loading)


def _tier_of_buffer(device: str) -> Tier:
    # A name may contain the purpose of the buffer in addition to its device.
    return "ram" if device.startswith(("CPU", "AMX")) or device.split()[0].endswith("_Host") else "gpu"
