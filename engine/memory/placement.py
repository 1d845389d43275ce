"""Where every byte lives: what the planner decides, and what everybody else carries out and shows.

The output head is the first to lie on the device, as llama.cpp counts; then come layers, from the last one on, each
with its weights and, unless all cells stay in memory, its cells. The planner (planner.py) makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core import KVType, ModelShape, Span, Tier


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a placement is expected to give, from the measured profile; seconds and tokens per second.

    `tokens_per_s` is of all answers together, of which `at_once` are written; `latency_s` is the mean of the questions
    that wait and run.
    """

    tokens_per_s: float = 0.0
    prefill_tokens_per_s: float = 0.0
    ttft_s: float = 0.0
    retrieval_s: float = 0.0
    latency_s: float = 0.0
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class PinnedPart:
    """So many stages of a streamed layer that stay in memory: as many as had room."""

    layer: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every byte is to live, what that takes in each tier, what it gives, and why, in a sentence.

    `n_gpu_layers` counts as llama.cpp does: the output head is the first of them, then come layers from the last one
    on, so one more than the number of layers is everything.
    `streamed_layers` are read from the disk at each pass, through `ring_slots` slots, but for the `pinned_part` of one
    of them; the layers between them and those on the device are pinned in memory. `is_repacked`: weights lie in the
    order that the processor reads fastest, or beside layers on a device where it copies them from fastest; where some
    are streamed (`is_packed`), that is from a copy on the disk.
    `index_bytes` is the room of resident partitions, `kv_ram_bytes` and `kv_disk_bytes` that of what was read and is
    kept. A prompt and its answer may have `context_tokens` together: where these are more than there are cells, whoever
    needs more gets a new context. `spans` are all bytes by owner, as the ledger will have them.

    `copies_streamed`: large batches of layers in memory are computed on the device, though some of them are streamed.
    `can_leave`: weights in memory lie in memory of ours and can leave it for another model's.

    Where none is streamed, repacked or can leave, the system maps the file and reads what is touched.
    `fits` is false where even the least of it is more than may be used. `reasons` are the further decisions, each in a
    sentence; `num_evaluated` is how many predictions it took.

    `is_starved`: what is beside the weights leaves them room neither to lie in memory nor to be streamed. So many
    concessions were made for that, each of which loses something; `offer` says what such would give, where they help
    and are not allowed (concessions.py).
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
        """How many layers the device computes, without the output head."""
        return layers_of(self.n_gpu_layers, self.num_layers)

    def tier_of_layer(self, layer: int) -> Tier:
        """The last layers are the ones on the device."""
        return "gpu" if layer >= self.num_layers - self.layers_on_gpu else "ram"

    @property
    def computes_large_batches_on_device(self) -> bool:
        """Whether weights in memory are copied to the device for them; llama.cpp does so for all layers or for none."""
        return self.n_gpu_layers > 0 and (not self.is_held or self.copies_streamed)

    @property
    def is_mapped(self) -> bool:
        """Whether the system reads pages of the file as they are touched: too large for memory, and no ring."""
        return not (self.is_repacked or self.is_held)

    @property
    def is_held(self) -> bool:
        """Whether weights in memory lie in memory of ours, where single layers come and go."""
        return bool(self.streamed_layers) or self.can_leave

    @property
    def is_packed(self) -> bool:
        """Whether weights come and go in the processor's order."""
        return self.is_repacked and self.is_held

    def reloads_for(self, wanted: Placement) -> bool:
        """Whether weights have to be read again: what lies on a device, or in which order, is fixed by loading.

        So it is where the first layers are to be streamed, or to leave at times: memory of ours is laid under a model
        before anything was computed with it, and stays there until it is closed. Nor do such layers become pages that
        the system may drop.
        """
        is_loaded_so = (self.n_gpu_layers, self.is_repacked) == (wanted.n_gpu_layers, wanted.is_repacked)
        lies_otherwise = (wanted.is_held and not self.is_held) or (wanted.is_mapped and self.is_held)
        return lies_otherwise or not is_loaded_so

    @property
    def tier_of_output(self) -> Tier:
        return "gpu" if self.n_gpu_layers else "ram"


def layers_of(n_gpu_layers: int, num_layers: int) -> int:
    """How many layers that is on the device, the output head not counted."""
    return min(max(0, n_gpu_layers - 1), num_layers)


def context_cells(shape: ModelShape, max_context: int) -> int:
    """n_ctx: what the model was trained for, and no more than the settings allow."""
    return min(shape.trained_context, max_context)
