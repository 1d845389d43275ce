"""A placement says where every byte lives: the planner decides it, and all other modules carry it out and show it.

As llama.cpp counts, the output head is the first to go to the device; then come layers, from the last one on, each with
its weights and, unless all cells stay in memory, its cells. The planner (planner.py) makes placements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core import KVType, ModelShape, Span, Tier


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected performance of a placement, from the measured profile; seconds and tokens per second.

    `tokens_per_s` is the sum over all answers, of which `at_once` are written at a time; `latency_s` is the mean over
    the questions that wait and run.
    """

    tokens_per_s: float = 0.0
    prefill_tokens_per_s: float = 0.0
    ttft_s: float = 0.0
    retrieval_s: float = 0.0
    latency_s: float = 0.0
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class PinnedPart:
    """The first `num_stages` stages of a streamed layer, which stay in memory: as many as fit."""

    layer: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every byte is to live, what that takes in each tier, the expected performance, and why, in a sentence.

    `n_gpu_layers` counts as llama.cpp does: the output head is the first of them, then come layers from the last one
    on, so that one more than the number of layers means the whole model. `streamed_layers` are read from the disk in
    each pass, through `ring_slots` slots, except for the `pinned_part` of one of them; the layers between them and
    those on the device are pinned in memory. `is_repacked`: weights lie in the order that the processor reads fastest,
    or, where a device computes other layers, in the order that it copies fastest; where some layers are streamed
    (`is_packed`), they come from a copy on the disk. `index_bytes` is the room for resident partitions, `kv_ram_bytes`
    and `kv_disk_bytes` are the room for kept KV. A prompt and its answer may have `context_tokens` together: where
    these are more than there are cells, a request that needs more cells gets a new context. `spans` are all bytes by
    owner, as the ledger will have them.

    `copies_streamed`: large batches of layers in memory are computed on the device although some layers are streamed.
    `can_leave`: weights in memory lie in buffers of our own and can leave them to make room for another model's.

    Where no layer is streamed, repacked or can leave, the system maps the file and reads the pages that are touched.
    `fits` is false where even the smallest choice takes more than may be used. `reasons` are the other decisions, each
    in a sentence; `num_evaluated` is the number of predictions that were computed.

    `is_starved`: what else is in memory leaves the weights room neither to stay nor to be streamed. `num_concessions`
    concessions, each of which loses something, were made for that; `offer` says what they would give where they help
    but are not allowed (concessions.py).
    """

    n_gpu_layers: int
    num_layers: int
    gpu_bytes: int
    ram_bytes: int
    sentence: str
    disk_bytes: int = 0
    streamed_layers: tuple[int, ...] = ()
    ring_slots: int = 0
    pinned_part: PinnedPart | None = None
    is_repacked: bool = True
    copies_streamed: bool = False
    can_leave: bool = False
    kv_on_gpu: bool = True
    kv_type: KVType = "f16"
    num_slots: int = 1
    num_cells: int = 0
    context_tokens: int = 0
    n_ubatch: int = 0
    index_bytes: int = 0
    kv_ram_bytes: int = 0
    kv_disk_bytes: int = 0
    embedder_on_gpu: bool = False
    prediction: Prediction = field(default_factory=Prediction)
    spans: tuple[Span, ...] = ()
    fits: bool = True
    reasons: tuple[str, ...] = ()
    num_evaluated: int = 0
    is_starved: bool = False
    num_concessions: int = 0
    offer: str = ""

    @property
    def layers_on_gpu(self) -> int:
        """How many layers the device computes, the output head not counted."""
        return layers_of(self.n_gpu_layers, self.num_layers)

    def tier_of_layer(self, layer: int) -> Tier:
        """Returns the tier of a layer's weights: the last layers are on the device."""
        return "gpu" if layer >= self.num_layers - self.layers_on_gpu else "ram"

    @property
    def computes_large_batches_on_device(self) -> bool:
        """Whether weights in memory are copied to the device for them; llama.cpp does so for all layers or for none."""
        return self.n_gpu_layers > 0 and (not self.is_held or self.copies_streamed)

    @property
    def is_mapped(self) -> bool:
        """Whether the system reads pages of the file as they are touched: too large for memory, and without a ring."""
        return not (self.is_repacked or self.is_held)

    @property
    def is_held(self) -> bool:
        """Whether weights in memory lie in buffers of our own, where single layers come and go."""
        return bool(self.streamed_layers) or self.can_leave

    @property
    def is_packed(self) -> bool:
        """Whether weights come and go in the order that the processor reads fastest."""
        return self.is_repacked and self.is_held

    def reloads_for(self, wanted: Placement) -> bool:
        """Returns whether weights must be read again: loading fixes which layers are on a device, and their order.

        That is also true where layers are to be streamed or to leave for the first time: our own buffers are laid under
        a model before it computes anything, and stay there until it is closed. Nor do such layers turn into pages that
        the system may drop.
        """
        is_loaded_so = (self.n_gpu_layers, self.is_repacked) == (wanted.n_gpu_layers, wanted.is_repacked)
        lies_otherwise = (wanted.is_held and not self.is_held) or (wanted.is_mapped and self.is_held)
        return lies_otherwise or not is_loaded_so

    @property
    def tier_of_output(self) -> Tier:
        return "gpu" if self.n_gpu_layers else "ram"


def layers_of(n_gpu_layers: int, num_layers: int) -> int:
    """Returns how many layers `n_gpu_layers` means, not counting the output head."""
    return min(max(0, n_gpu_layers - 1), num_layers)


def context_cells(shape: ModelShape, max_context: int) -> int:
    """Returns n_ctx: what the model was trained for, but no more than the settings allow."""
    return min(shape.trained_context, max_context)
