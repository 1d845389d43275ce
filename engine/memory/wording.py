"""A placement in words: one sentence for the model picker, and one for each decision that users may wonder about."""

from __future__ import annotations

from dataclasses import dataclass

from engine.memory.placement import Prediction, layers_of
from engine.memory.search import Found
from engine.memory.terms import Filling, Frame, Terms

GIB = 2**30

COPIED = "Prompts are computed on the GPU throughout: layers that are in memory are copied there in their turn."


@dataclass(frozen=True, slots=True)
class Wording:
    """Describes what was decided; it takes `needed_bytes` of memory in all, and `room_bytes` may be ours."""

    terms: Terms
    frame: Frame
    filling: Filling
    found: Found
    needed_bytes: int
    room_bytes: int
    has_device: bool

    def sentence(self) -> str:
        """Returns where the layers are, and how fast: "20 of 32 layers on the GPU, 12 streamed: about 4 tokens/s."."""
        if not self.found.fits:
            return f"There is too little memory for this model: {self._needs()}."
        if self.filling.is_mapped:
            return f"{self._where()}; {self._needs()}{self._too_little()}: {self._slow()}."
        return f"{self._where()}: {self._rate()}."

    def reasons(self) -> tuple[str, ...]:
        """Returns the other decisions, each in a sentence."""
        told = (
            self._of_kv(),
            self._of_cells(),
            self._of_ring(),
            COPIED if self.filling.copies_streamed else "",
            self._of_index(),
            self._of_embedder(),
            self._of_type(),
            self._of_wish(),
        )
        return tuple(sentence for sentence in told if sentence)

    def _where(self) -> str:
        layers, on_device = self.terms.shape.num_layers, self.terms.on_device(self.frame)
        streamed = self.filling.num_streamed
        pinned = layers - on_device - streamed
        none = "" if self.has_device else " (no GPU found)"
        if on_device == layers:
            return f"All {layers} layers on the GPU"
        if not on_device and not streamed:
            return f"All {layers} layers in memory{none}"
        parts = [f"{on_device} of {layers} layers on the GPU"] if on_device else []
        if pinned:
            parts.append(f"{pinned} in memory" if parts else f"{pinned} of {layers} layers in memory")
        if streamed:
            parts.append(f"{streamed} streamed")
        return ", ".join(parts) + none

    def _rate(self) -> str:
        rate, at_once = self.found.prediction.tokens_per_s, self.found.answers_at_once
        return _about(rate) + (f" in {at_once} answers" if at_once > 1 else "")

    def _slow(self) -> str:
        return f"slow, {self._rate()}"

    def _too_little(self) -> str:
        """Returns the remark for a model that a ring would be used for if there were room for the smallest."""
        has_room = self.terms.has_ring_room(self.frame, self.filling.mapped_room_bytes)
        streamable = self.terms.demand.is_streamable
        return ", too little even to stream it layer by layer" if streamable and not has_room else ""

    def _needs(self) -> str:
        return f"it needs {_gigabytes(self.needed_bytes)} of memory, and {_gigabytes(self.room_bytes)} may be used"

    # --- reasons ---

    def _of_kv(self) -> str:
        if self.frame.n_gpu_layers and not self.frame.kv_on_gpu:
            return "Keys and values stay in memory, so that more layers fit on the GPU."
        return ""

    def _of_cells(self) -> str:
        num_cells, tokens = self.frame.num_cells, self.terms.demand.context_tokens
        if num_cells >= tokens:
            return ""
        return (
            f"There are cells for {num_cells:,} tokens, as many as are needed now; a longer text gets more when it "
            f"comes, up to {tokens:,}."
        )

    def _of_ring(self) -> str:
        if not self.filling.num_streamed:
            return ""
        num_bytes = self.terms.streamed_bytes(self.frame, self.filling)
        ring = (
            f"{_gigabytes(num_bytes)} of the weights are read from the disk for each token, through "
            f"{_slots(self.filling.ring_slots)} in memory; prompts are read {self.frame.n_ubatch} tokens at a time."
        )
        packed_bytes = self.terms.packed_bytes(self.frame, self.filling)
        copy = f" A copy of {_gigabytes(packed_bytes)} on the disk has them in the order the processor reads fastest."
        return ring + (copy if packed_bytes else "")

    def _of_index(self) -> str:
        demand = self.terms.demand
        if demand.mode == "on_disk" or self.filling.index_bytes >= demand.index_bytes:
            return ""
        inside = round(demand.num_partitions - self.filling.loads)
        return f"{inside} of {demand.num_partitions} parts of the index stay in memory; a search reads the others."

    def _of_embedder(self) -> str:
        return "The embedding model runs on the GPU." if self.frame.embedder_on_gpu else ""

    def _of_type(self) -> str:
        if self.frame.kv_type == (self.terms.demand.wishes.kv_type or "f16"):
            return ""
        return "Keys and values are kept in 8 bits, which loses a little, so that more fits."

    def _of_wish(self) -> str:
        wish = self.terms.demand.wishes.n_gpu_layers
        if wish is None or not self.has_device or min(wish, self.terms.shape.num_layers + 1) <= self.frame.n_gpu_layers:
            return ""
        wanted = layers_of(wish, self.terms.shape.num_layers)
        return f"{wanted} layers were wanted on the GPU, and {self.terms.on_device(self.frame)} fit."


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / GIB:.1f} GiB"


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def reworded(sentence: str, before: Prediction, now: Prediction) -> str:
    """Returns the sentence about a placement with the rate that is expected of it now."""
    return sentence.replace(_about(before.tokens_per_s), _about(now.tokens_per_s))


def _about(rate: float) -> str:
    return f"about {_figure(rate)} tokens/s"


def _figure(rate: float) -> str:
    """Returns the rate with as many digits as a prediction can have."""
    return f"{rate:.0f}" if rate >= 3 else f"{rate:.1f}" if rate >= 0.1 else f"{rate:.2f}"
