"""What streaming holds, in the ledger: each layer where it lies, the slots that layers pass through, and what stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.core import SpanState, Tier
from engine.memory.ledger import Lease, Ledger

_OWNER = "weights"


class LayerLeases:
    """Used on the thread that decodes. What is streamed of a layer is registered where it is read from."""

    def __init__(
        self, ledger: Ledger, layer_bytes: Sequence[int], fixed_bytes: int, *, is_from_copy: bool = False
    ) -> None:
        """Registers what stays in memory.

        Args:
            ledger: Gets the leases.
            layer_bytes: Of each layer; 0 for those on a device, which are not ours.
            fixed_bytes: The tensors of no layer that are read by each pass, and the edges of layers.
            is_from_copy: Whether layers are read from our own file. The model's file counts against no budget of the
                disk: it is there anyway, and not ours to delete.
        """
        self._is_from_copy = is_from_copy
        self._ledger, self._layer_bytes = ledger, layer_bytes
        self._layers: dict[tuple[int, Tier], Lease] = {}
        self._slots: dict[int, Lease] = {}
        self._fixed = ledger.take(_OWNER, "output head and edges of layers", "ram", fixed_bytes)

    def show(self, layer: int, home_bytes: int, state: SpanState) -> None:
        """Shows how many bytes of a layer have a home in memory, and in which state they are.

        The rest of the layer is read at each pass.
        """
        self._show(layer, "disk", self._layer_bytes[layer] - home_bytes, "streaming")
        self._show(layer, "ram", home_bytes, state)

    def show_slots(self, num_bytes: Mapping[int, int]) -> None:
        """Shows the present slots, and the most that each holds."""
        for number in set(self._slots) - set(num_bytes):
            self._slots.pop(number).release()
        for number, held in sorted(num_bytes.items()):
            if number in self._slots:
                self._slots[number].resize(held)
            else:
                self._slots[number] = self._ledger.take(_OWNER, f"slot {number}", "ram", held, "streaming")

    def show_fixed(self, num_bytes: int) -> None:
        """Shows what is in memory now besides layers."""
        self._fixed.resize(num_bytes)

    def release(self) -> None:
        """Gives everything back. A second call does nothing."""
        for lease in (*self._layers.values(), *self._slots.values(), self._fixed):
            lease.release()
        self._layers.clear()
        self._slots.clear()

    def _show(self, layer: int, tier: Tier, num_bytes: int, state: SpanState) -> None:
        lease = self._layers.get((layer, tier))
        if lease is not None and not num_bytes:
            self._layers.pop((layer, tier)).release()
        elif lease is not None:
            lease.resize(num_bytes)
            lease.mark(state)
        elif num_bytes:
            is_counted = tier != "disk" or self._is_from_copy
            taken = self._ledger.take(_OWNER, f"layer {layer}", tier, num_bytes, state, is_counted=is_counted)
            self._layers[layer, tier] = taken
