"""Compares two placements of a model: what has to be done, by pure functions, and the words for it.

From the cheapest to the most expensive: bounds of kept KV, layers moved in the background, a new context that all
answers move to, and weights that are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.core import ModelShape
from engine.memory.amounts import in_words
from engine.memory.placement import Placement
from engine.memory.workspace import MIN_SEQUENCES, num_states

_BITS = {"f16": 16, "q8_0": 8}


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be done. `words` name each difference, for users; there are none if nothing differs.

    `reloads`: weights are read again, since their device and order are fixed when they are loaded. `remakes_context`:
    answers move to a new context. `rebounds`: kept KV gets other bounds. Layers that only move between memory and the
    ring need none of these.
    """

    reloads: bool = False
    remakes_context: bool = False
    rebounds: bool = False
    words: tuple[str, ...] = ()

    @property
    def moves_answers(self) -> bool:
        """Whether all answers that are being written pause and go on elsewhere."""
        return self.reloads or self.remakes_context

    @property
    def sentence(self) -> str:
        """The differences, as the user reads them; "" if there are none."""
        return f"Now: {', '.join(self.words)}." if self.words else ""


def change_of(current: Placement, wanted: Placement, shape: ModelShape) -> Change:
    """Returns what has to be done to change one placement of a model to another.

    Raises:
        ValueError: They are of models with different numbers of layers.
    """
    if current.num_layers != wanted.num_layers:
        raise ValueError(f"a model has {current.num_layers} layers and its placement {wanted.num_layers}")
    reloads = current.reloads_for(wanted)
    return Change(
        reloads=reloads,
        remakes_context=reloads or _contexts_differ(current, wanted, shape),
        rebounds=(current.kv_ram_bytes, current.kv_disk_bytes) != (wanted.kv_ram_bytes, wanted.kv_disk_bytes),
        words=tuple(_words(current, wanted)),
    )


def _contexts_differ(current: Placement, wanted: Placement, shape: ModelShape) -> bool:
    def made_with(placement: Placement) -> tuple[object, ...]:
        on_gpu = placement.kv_on_gpu and placement.n_gpu_layers > 0
        # A context has as many sequences for few answers as for one, unless each of them takes a state.
        num_sequences = num_states(shape, placement.num_slots) or max(MIN_SEQUENCES, 2 * placement.num_slots)
        where = on_gpu, placement.computes_large_batches_on_device
        return placement.num_cells, num_sequences, placement.kv_type, placement.n_ubatch, *where

    return made_with(current) != made_with(wanted)


def _words(current: Placement, wanted: Placement) -> Iterator[str]:
    for words_of in (_words_of_weights, _words_of_context, _words_of_bounds):
        yield from words_of(current, wanted)


def _words_of_weights(current: Placement, wanted: Placement) -> Iterator[str]:
    yield from _differing(_layers_on_gpu, current, wanted)
    if current.streamed_layers != wanted.streamed_layers:
        if len(current.streamed_layers) == len(wanted.streamed_layers):
            yield "other layers streamed"
        else:
            yield f"{_layers(len(wanted.streamed_layers))} streamed instead of {len(current.streamed_layers)}"
    elif current.pinned_part != wanted.pinned_part:
        yield "another part of a streamed layer in memory"
    elif current.ring_slots != wanted.ring_slots:
        yield f"{_slots(wanted.ring_slots)} for streamed layers instead of {current.ring_slots}"
    # The order does not differ for a model that is wholly on a device.
    if current.is_repacked != wanted.is_repacked and wanted.layers_on_gpu < wanted.num_layers:
        yield f"weights {_where_copied(wanted) if wanted.is_repacked else 'as they lie in the file'}"


def _where_copied(wanted: Placement) -> str:
    """Returns where weights are copied; if a device computes too, they keep the file's order, where it reads them."""
    if wanted.n_gpu_layers:
        return "where the graphics card copies them from fastest"
    return "in the order the processor reads fastest"


def _words_of_context(current: Placement, wanted: Placement) -> Iterator[str]:
    if current.num_slots != wanted.num_slots:
        yield f"{_answers(wanted.num_slots)} at once instead of {current.num_slots}"
    if current.num_cells != wanted.num_cells:
        yield f"{wanted.num_cells:,} cells instead of {current.num_cells:,}"
    if 0 < wanted.context_tokens != current.context_tokens > 0:
        yield f"a context of {wanted.context_tokens:,} tokens instead of {current.context_tokens:,}"
    if current.kv_type != wanted.kv_type:
        yield f"keys and values of {_BITS[wanted.kv_type]} bits instead of {_BITS[current.kv_type]}"
    if wanted.n_gpu_layers and current.kv_on_gpu != wanted.kv_on_gpu:
        yield f"keys and values {'on the GPU with their layers' if wanted.kv_on_gpu else 'in memory'}"
    if wanted.streamed_layers and current.copies_streamed != wanted.copies_streamed:
        where = "on the GPU" if wanted.copies_streamed else "by the processor"
        yield f"prompts computed {where} where layers are in memory"
    if current.n_ubatch != wanted.n_ubatch:
        yield f"steps of {wanted.n_ubatch:,} tokens instead of {current.n_ubatch:,}"


def _words_of_bounds(current: Placement, wanted: Placement) -> Iterator[str]:
    for then, now, what in (
        (current.kv_ram_bytes, wanted.kv_ram_bytes, "memory"),
        (current.kv_disk_bytes, wanted.kv_disk_bytes, "files"),
    ):
        # Bounds change a little with each plan; users would see the same figure twice.
        if in_words(then) != in_words(now):
            yield f"{in_words(now)} of {what} for what was read instead of {in_words(then)}"


def _differing(told: Callable[[Placement], str], current: Placement, wanted: Placement) -> Iterator[str]:
    if (now := told(current)) != (then := told(wanted)):
        yield f"{then} on the GPU instead of {now}"


def _layers_on_gpu(placement: Placement) -> str:
    """Returns how many layers are on the device, in words; the output head is moved there before any of them."""
    count = placement.layers_on_gpu
    if count == 0 < placement.n_gpu_layers:
        return "only the output head"
    if count == placement.num_layers:
        return f"all {count} layers"
    return _layers(count)


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count or 'no'} layers"


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} answers"
