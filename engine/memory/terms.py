"""The terms of the planner's equations: how many bytes each choice takes in each tier, from header arithmetic alone.

A layer on the device brings its weights and, unless all cells stay in memory, its cells with it. The output head is the
first to go there, then layers from the last one on (llama.cpp counts the head as one of them). The equations are in
planner.py.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from engine.core import KVType, ModelShape
from engine.memory.cost_model import Homes
from engine.memory.demand import Demand
from engine.memory.measured import Split
from engine.memory.placement import Placement, layers_of
from engine.memory.spread import Spread
from engine.memory.workspace import compute_bytes, input_bytes, num_states, output_bytes, written_compute_bytes

# Bytes of 32 numbers: as f16, and as q8_0 with their common scale.
BYTES_OF_32: dict[KVType, int] = {"f16": 64, "q8_0": 34}


class Frame(NamedTuple):
    """The choices that determine how much memory the weights may have; a plan derives many of them from one another."""

    kv_type: KVType
    num_slots: int
    num_cells: int
    n_ubatch: int
    kv_on_gpu: bool
    embedder_on_gpu: bool
    n_gpu_layers: int = 0


@dataclass(frozen=True, slots=True)
class Filling:
    """What main memory is filled with: `index_bytes` of resident partitions, `tree_bytes` of kept KV, and layers.

    `num_streamed` layers pass through `ring_slots` slots, except for `part_stages` of one of them that stay; if
    `copies_streamed`, a device computes large batches of the layers in memory and of these. `is_mapped`:
    there is not enough memory and no ring, and the system reads pages of the file as they are touched; it keeps as many
    of these as fit in `mapped_room_bytes`.
    """

    index_bytes: int
    loads: float
    tree_bytes: int
    num_streamed: int = 0
    ring_slots: int = 0
    part_stages: int = 0
    is_mapped: bool = False
    copies_streamed: bool = False
    mapped_room_bytes: int = 0


EMPTY = Filling(0, 0.0, 0)


class Terms:
    """Byte arithmetic of one demand; sums over layers are computed once."""

    def __init__(
        self, demand: Demand, disk_room_bytes: int = 0, *, num_devices: int = 1, device_shares_ram: bool = False
    ) -> None:
        """Computes the sums over layers.

        Args:
            demand: What is wanted.
            disk_room_bytes: How much of the disk may be ours, including the model's file.
            num_devices: How many devices the layers are distributed over; each computes in a buffer of its own.
            device_shares_ram: What lies on them takes the machine's memory (equation 3 has equation 2's terms as well).
        """
        self.demand, self.shape, self._disk_room_bytes = demand, demand.shape, disk_room_bytes
        self._num_devices, self.device_shares_ram = max(1, num_devices), device_shares_ram
        self._num_layers = self.shape.num_layers
        self._weights = _sums(self.shape.layer_bytes)
        self._cells = {kind: _sums(cell_bytes(self.shape, kind)) for kind in BYTES_OF_32}
        self._most_cell_bytes = {kind: max(cell_bytes(self.shape, kind), default=0) for kind in BYTES_OF_32}
        self._states = _sums(self.shape.state_bytes or (0,) * self._num_layers)
        self._spreads: dict[int, Spread] = {}
        self.fixed_ram_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "ram")
        self.fixed_gpu_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "gpu")
        self.fixed_disk_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "disk")

    # --- how the layers are distributed ---

    def on_device(self, frame: Frame) -> int:
        """Returns how many layers the device computes."""
        return layers_of(frame.n_gpu_layers, self._num_layers)

    def has_head(self, frame: Frame) -> bool:
        """Returns whether the device computes the output head."""
        return frame.n_gpu_layers > 0

    def device_layer_bytes(self, frame: Frame) -> int:
        return self._weights[self.on_device(frame)]

    def ram_layer_bytes(self, frame: Frame) -> int:
        """Returns the bytes of all layers that the processor computes, streamed or not."""
        return self._weights[-1] - self.device_layer_bytes(frame)

    def can_leave(self, frame: Frame, filling: Filling) -> bool:
        """Returns whether weights can leave memory for another model's; layers on a device would need a new load."""
        demand = self.demand
        return demand.wishes.can_leave and demand.is_streamable and not (frame.n_gpu_layers or filling.is_mapped)

    def is_repacked(self, frame: Frame, filling: Filling) -> bool:
        """Returns whether weights lie in the order that the processor reads fastest."""
        if filling.is_mapped or self.can_leave(frame, filling):
            return False
        return not filling.num_streamed or self.can_pack(frame)

    def can_pack(self, frame: Frame) -> bool:
        """Returns whether layers can be streamed in that order: llama.cpp makes it only where it uses no device."""
        if not self.demand.is_packable or frame.n_gpu_layers:
            return False
        return self.fixed_disk_bytes + self.shape.file_bytes + self._copy_bytes <= self._disk_room_bytes

    def packed_bytes(self, frame: Frame, filling: Filling) -> int:
        """Returns the disk bytes of the copy with layers in the order that the processor reads fastest."""
        return self._copy_bytes if filling.num_streamed and self.is_repacked(frame, filling) else 0

    @property
    def _copy_bytes(self) -> int:
        return self._weights[-1] + self.shape.head_bytes

    def has_ring_room(self, frame: Frame, room_bytes: int) -> bool:
        """Returns whether this room for weights holds the smallest ring: a layer that stays, and one slot."""
        if not self.demand.is_streamable:
            return False
        left = room_bytes - self.edge_bytes(frame, is_streaming=True)
        return self.spread(frame).fewest_streamed(left, 1) is not None

    def spread(self, frame: Frame) -> Spread:
        count = self._num_layers - self.on_device(frame)
        if count not in self._spreads:
            self._spreads[count] = Spread.of(self.shape.layer_bytes[:count], self.shape.stage_bytes)
        return self._spreads[count]

    def streamed_bytes(self, frame: Frame, filling: Filling) -> int:
        """Returns how many bytes of the layers a pass reads from the disk."""
        return self.spread(frame).bytes_streamed(filling.num_streamed, filling.part_stages)

    # --- eq 2 ---

    def cell_bytes(self, kv_type: KVType) -> int:
        """Returns bytes of one token's keys and values, over all layers."""
        return self._cells[kv_type][-1]

    def device_cell_bytes(self, frame: Frame) -> int:
        return self._cells[frame.kv_type][self.on_device(frame)] if frame.kv_on_gpu else 0

    def state_bytes(self, frame: Frame) -> int:
        """Returns the states of all sequences, if layers keep a state of each; they lie where their cells would."""
        return self._states[-1] * num_states(self.shape, frame.num_slots)

    def device_state_bytes(self, frame: Frame) -> int:
        on_device = self._states[self.on_device(frame)] if frame.kv_on_gpu else 0
        return on_device * num_states(self.shape, frame.num_slots)

    def device_bytes(self, frame: Frame) -> int:
        """Returns everything of ours on the device."""
        num_bytes = self.fixed_gpu_bytes + (self.demand.embedder_bytes if frame.embedder_on_gpu else 0)
        if not frame.n_gpu_layers:
            return num_bytes
        num_bytes += self.device_layer_bytes(frame) + self.shape.head_bytes + self.device_state_bytes(frame)
        return num_bytes + self.device_cell_bytes(frame) * frame.num_cells + self.workspace_gpu_bytes(frame)

    def workspace_gpu_bytes(self, frame: Frame) -> int:
        is_split = self.on_device(frame) < self._num_layers
        return self._device_compute_bytes(frame, is_split=is_split) if frame.n_gpu_layers else 0

    def _device_compute_bytes(self, frame: Frame, *, is_split: bool) -> int:
        """Returns the compute buffer; if `is_split`, layers in memory are copied there and computed matrix by matrix.

        For dense models they fit into what other passes need; all experts of a layer are one matrix. For its attention,
        the cells of a layer are copied.
        """
        copied_bytes = 0
        if is_split:
            experts_bytes = self.shape.slot_bytes if self.shape.expert_share else 0
            copied_bytes = experts_bytes + self._most_cell_bytes[frame.kv_type] * frame.num_cells
        return self._num_devices * (compute_bytes(self.shape, frame.n_ubatch, frame.num_cells) + copied_bytes)

    def most_on_device(self, frame: Frame, room_bytes: int) -> int:
        """Returns the largest `n_gpu_layers` with which eq 2 holds; `frame`'s own is ignored."""
        left = room_bytes - self.fixed_gpu_bytes - (self.demand.embedder_bytes if frame.embedder_on_gpu else 0)
        left -= self.shape.head_bytes
        whole, split = (self._device_compute_bytes(frame, is_split=is_split) for is_split in (False, True))
        weights, cells = self._weights, self._cells[frame.kv_type]
        num_cells = frame.num_cells if frame.kv_on_gpu else 0
        states = num_states(self.shape, frame.num_slots) if frame.kv_on_gpu else 0
        num_layers = self._num_layers

        def layers_take(count: int) -> int:
            return weights[count] + cells[count] * num_cells + self._states[count] * states

        if layers_take(num_layers) + whole <= left:
            return 1 + num_layers
        if left < split:
            return 0
        return 1 + bisect_right(range(1, num_layers), left - split, key=layers_take)

    # --- eq 3 ---

    def workspace_ram_bytes(self, frame: Frame) -> int:
        rows = output_bytes(self.shape, frame.num_cells)
        if self.on_device(frame) == self._num_layers:
            return rows + input_bytes(self.shape, frame.n_ubatch, frame.num_cells)
        return rows + written_compute_bytes(self.shape, frame.n_ubatch, frame.num_cells, frame.num_slots)

    def ram_cell_bytes(self, frame: Frame) -> int:
        return self.cell_bytes(frame.kv_type) - self.device_cell_bytes(frame)

    def ram_state_bytes(self, frame: Frame) -> int:
        return self.state_bytes(frame) - self.device_state_bytes(frame)

    def framed_ram_bytes(self, frame: Frame) -> int:
        """Returns everything of ours in memory but the weights of the processor, resident partitions and kept KV."""
        embedder = 0 if frame.embedder_on_gpu else self.demand.embedder_bytes
        cells = self.ram_cell_bytes(frame) * frame.num_cells + self.ram_state_bytes(frame)
        on_device = self.device_bytes(frame) if self.device_shares_ram else 0
        return self.fixed_ram_bytes + embedder + cells + self.workspace_ram_bytes(frame) + on_device

    def edge_bytes(self, frame: Frame, is_streaming: bool) -> int:
        """Returns weights in memory outside the layers.

        A token touches one row of token embeddings that are not also the head, and of other tables like them: while
        layers are streamed, these are left to the page cache.
        """
        head = 0 if self.has_head(frame) else self.shape.output_bytes
        embeddings = self.shape.other_bytes - self.shape.output_bytes
        is_read_whole = self.shape.ties_embeddings and not self.has_head(frame)
        if not is_streaming:
            return head + embeddings
        return head + (self.shape.head_bytes - self.shape.output_bytes if is_read_whole else 0)

    def weight_ram_bytes(self, frame: Frame, filling: Filling) -> int:
        """Returns weights in memory including the ring; of mapped weights, what the system can keep there."""
        edges, layers = self.edge_bytes(frame, is_streaming=bool(filling.num_streamed)), self.ram_layer_bytes(frame)
        if filling.is_mapped:
            return max(0, min(filling.mapped_room_bytes, edges + layers))
        if not filling.num_streamed:
            return edges + layers
        spread = self.spread(frame)
        pinned = layers - self.streamed_bytes(frame, filling)
        return edges + pinned + filling.ring_slots * spread.slot_bytes

    def worthwhile_tree_bytes(self, kv_type: KVType) -> int:
        """Returns kept KV that is worth room alongside weights: what one context holds."""
        whole, wish = self.cell_bytes(kv_type) * self.demand.context_tokens, self.demand.wishes.kv_ram_bytes
        return whole if wish is None else min(whole, wish)

    def restored_bytes(self, kv_type: KVType, tree_bytes: int, cached_tokens: int) -> float:
        """Returns how many bytes of a prompt's kept KV come from the disk."""
        if not cached_tokens:
            return 0.0
        missing = 1.0 - min(1.0, tree_bytes / max(1, self.worthwhile_tree_bytes(kv_type)))
        return cached_tokens * self.cell_bytes(kv_type) * missing

    # --- where a pass finds what it needs ---

    def mapped_bytes(self, frame: Frame, room_bytes: int) -> float:
        """Returns what the system reads again in each pass that touches everything.

        It evicts what was used longest ago, which is what a pass needs next: so it reads all of it. Experts are chosen
        almost at random, so as many of them are found in memory as fit.
        """
        num_bytes = self.ram_layer_bytes(frame) + (0 if self.has_head(frame) else self.shape.head_bytes)
        missing = 1.0 - min(1.0, room_bytes / max(1, num_bytes)) if self.shape.expert_share else 1.0
        return num_bytes * missing

    def homes(self, frame: Frame, filling: Filling) -> Homes:
        on_device, shape = self.on_device(frame), self.shape
        layers, has_head = self.ram_layer_bytes(frame), self.has_head(frame)
        cells = self._cells["f16"]
        on_gpu = cells[on_device] if frame.kv_on_gpu else 0
        changes = 1 if has_head and on_device < self._num_layers else 0
        return Homes(
            processor_bytes=layers,
            processor_head_bytes=0 if has_head else shape.head_bytes,
            device_bytes=self._weights[on_device],
            device_head_bytes=shape.head_bytes if has_head else 0,
            streamed_bytes=self.streamed_bytes(frame, filling),
            mapped_bytes=self.mapped_bytes(frame, filling.mapped_room_bytes) if filling.is_mapped else 0,
            ring_slots=filling.ring_slots,
            is_repacked=self.is_repacked(frame, filling),
            copies_streamed=filling.copies_streamed,
            # Keys and values of 8 bits are half the bytes and twice the work: they save room, not time.
            ram_cell_bytes=cells[-1] - on_gpu,
            device_cell_bytes=on_gpu,
            hops=changes + (0 if frame.kv_on_gpu else 2 * on_device),
            expert_share=shape.expert_share,
            expert_use=shape.expert_use,
        )


def cell_bytes(shape: ModelShape, kv_type: KVType) -> tuple[int, ...]:
    """Returns what one token's keys and values take in each layer, in this format; `shape` has them as f16."""
    return tuple(num_bytes * BYTES_OF_32[kv_type] // BYTES_OF_32["f16"] for num_bytes in shape.kv_cell_bytes)


def homes_of(shape: ModelShape, placement: Placement) -> Homes:
    """Returns where a pass finds what it needs, for a model that is loaded as it was placed."""
    terms = Terms(Demand(shape, placement.num_cells, placement.num_slots))
    frame = Frame(
        placement.kv_type,
        placement.num_slots,
        placement.num_cells,
        placement.n_ubatch,
        placement.kv_on_gpu,
        placement.embedder_on_gpu,
        placement.n_gpu_layers,
    )
    room = sum(span.num_bytes for span in placement.spans if span.owner == "weights" and span.tier == "ram")
    filling = replace(EMPTY, is_mapped=placement.is_mapped, mapped_room_bytes=room)
    streamed = sum(shape.layer_bytes[layer] for layer in placement.streamed_layers)
    part = placement.pinned_part.num_stages * shape.stage_bytes if placement.pinned_part is not None else 0
    return terms.homes(frame, filling)._replace(
        streamed_bytes=streamed - part,
        ring_slots=placement.ring_slots,
        is_repacked=placement.is_repacked,
        copies_streamed=placement.copies_streamed,
    )


def split_of(placement: Placement) -> Split:
    """Returns the split of layers under which a model in this placement is measured."""
    return Split(placement.n_gpu_layers, placement.is_repacked, placement.copies_streamed)


def _sums(of_layers: tuple[int, ...]) -> tuple[int, ...]:
    """Returns as entry k the sum over the last k layers, which are the ones that a device takes first."""
    return tuple(accumulate(reversed(of_layers), initial=0))
