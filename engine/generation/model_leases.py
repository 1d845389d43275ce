"""What the loaded model takes, in the ledger: its layers, its cells, its buffers, and answers that are set aside."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core import ModelShape, Tier
from engine.memory.ledger import Lease, Ledger
from engine.memory.placement import Placement

_TIERS: tuple[Tier, ...] = ("gpu", "ram")


class ModelLeases:
    """Of at most one model at a time; used on the generation thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._leases: list[Lease] = []
        self._set_aside: Lease | None = None

    def take_weights(self, shape: ModelShape, placement: Placement) -> None:
        """Enters the weights, which are about to be loaded."""
        for layer, num_bytes in enumerate(shape.layer_bytes):
            self._take("weights", f"layer {layer}", placement.tier_of_layer(layer), num_bytes, loading=True)
        input_bytes = shape.other_bytes - shape.output_bytes
        self._take("weights", "token embeddings", "ram", input_bytes, loading=True)
        self._take("weights", "output head", placement.tier_of_output, shape.output_bytes, loading=True)

    def take_context(self, shape: ModelShape, placement: Placement, num_cells: int, buffers: Mapping[str, int]) -> None:
        """Enters cells and buffers; the weights are there now.

        Args:
            shape: With the bytes of a cell in the format that is used.
            placement: Where the layers are.
            num_cells: Of the context.
            buffers: Bytes of llama.cpp's compute buffers by the device as it names them.
        """
        for lease in self._leases:
            lease.mark("resident")
        for tier in _TIERS:
            cell_bytes = sum(
                cell for layer, cell in enumerate(shape.kv_cell_bytes) if placement.tier_of_layer(layer) == tier
            )
            self._take("kv", f"{num_cells:,} cells", tier, cell_bytes * num_cells)
        for device, num_bytes in buffers.items():
            self._take("workspace", f"compute buffer of {device}", _tier_of_buffer(device), num_bytes)

    def note_set_aside(self, num_bytes: int) -> None:
        """So many bytes of memory hold answers that had to leave their cells for others."""
        if self._set_aside is None:
            if num_bytes:
                self._set_aside = self._ledger.take("kv", "answers set aside", "ram", num_bytes)
        elif not num_bytes:
            self._set_aside.release()
            self._set_aside = None
        elif num_bytes != self._set_aside.num_bytes:
            self._set_aside.resize(num_bytes)

    def release(self) -> None:
        """Gives everything back. A second call does nothing."""
        for lease in self._leases:
            lease.release()
        self._leases.clear()
        self.note_set_aside(0)

    def _take(self, owner: str, what: str, tier: Tier, num_bytes: int, loading: bool = False) -> None:
        if num_bytes:
            self._leases.append(self._ledger.take(owner, what, tier, num_bytes, "loading" if loading else "resident"))


def _tier_of_buffer(device: str) -> Tier:
    return "ram" if device.startswith("CPU") or device.endswith("_Host") else "gpu"
