"""The frames of a search: the choices outside of what main memory is filled with."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import product

from engine.core import KVType
from engine.memory.demand import Backlog, Demand
from engine.memory.gangs import gang_sizes
from engine.memory.profile import Profile
from engine.memory.room import Room
from engine.memory.terms import Frame, Terms

# Tokens of a prompt between two chances to stop.
UBATCHES = (128, 512, 2048)
# How many fractions of all layers are tried on a device that is no faster.
SHARES_OF_SLOW = 8
# Small passes keep a device less busy than a processor.
FASTER_RATE = 3.0
# By what share of the usual length one answer may be longer.
LONGER_SHARE, CELLS_ALIGNMENT = 1 / 4, 256
# At least these shares of recent questions find cells; longer ones wait for more.
SERVED_SHARES = (3 / 4, 7 / 8, 1.0)


def frames(terms: Terms, room: Room, profile: Profile, backlog: Backlog, *, has_device: bool) -> Iterator[Frame]:
    """Yields all frames, each with the numbers of layers on the device that are worth trying."""
    demand = terms.demand
    for frame in _without_layers(terms, room, backlog, has_device=has_device):
        if not has_device:
            yield frame
        elif not frame.embedder_on_gpu or terms.device_bytes(frame) <= room.gpu_bytes:
            for count in _layer_counts(terms, room, profile, frame):
                # Without a layer there, it makes no difference where the cells of layers on the device are.
                if count or frame.kv_on_gpu or demand.wishes.kv_on_gpu is False:
                    yield frame._replace(n_gpu_layers=count)


def cells_for(num_answers: int, demand: Demand, backlog: Backlog) -> int:
    """Returns cells for `num_answers` of the usual length, including their prompts.

    One may be complete while the others are half written on average. And where one is longer, another is shorter: the
    margin for that grows with the root of their number. Should all be long at once, the last ones wait.
    """
    each, whole = _usual(backlog)
    wanted = int(num_answers * each + (whole - each) + LONGER_SHARE * whole * math.sqrt(num_answers))
    return max(1, min(num_answers * demand.context_tokens, wanted))


def answers_in(num_cells: int, demand: Demand, backlog: Backlog) -> int:
    """Returns how many answers of the usual length fit into `num_cells`, of those that may be written at once."""
    counts = range(1, min(num_cells, demand.parallel_answers) + 1)
    return bisect_right(counts, num_cells, key=lambda count: cells_for(count, demand, backlog))


def _usual(backlog: Backlog) -> tuple[float, float]:
    """Returns the cells of an answer that is half written, and of a whole one."""
    prompt_tokens, answer_tokens = max(1, backlog.prompt_tokens), max(1, backlog.answer_tokens)
    return prompt_tokens + answer_tokens / 2, prompt_tokens + answer_tokens


def _least_cells(demand: Demand, backlog: Backlog, *, has_device: bool) -> int:
    """Returns the fewest cells of any plan.

    Cells for one of the usual length: a longer one gets more when it comes, which takes a new context. Where questions
    overlap there are cells for two, since the second would wait some seconds for its own. With a device, more cells may
    mean fewer layers there, for which the model is reloaded: so there is always a whole context.
    """
    if has_device:
        return demand.context_tokens
    usual = cells_for(2 if backlog.overlaps else 1, demand, backlog)
    return min(demand.context_tokens, aligned(max(usual, demand.least_cells)))


def cell_floors(terms: Terms, room: Room, backlog: Backlog, *, has_device: bool) -> tuple[int, ...]:
    """Returns the fewest cells worth considering: for all recent questions, or for most if they are far shorter.

    A question that needs more pauses for them, which costs little. But where no layer could be streamed with cells for
    the longest, the model would be reloaded for it.
    """
    demand = terms.demand
    least = _least_cells(demand, backlog, has_device=has_device)
    lengths = backlog.lengths
    if not lengths:
        return (least,)
    served = [lengths[math.ceil(share * len(lengths)) - 1] for share in SERVED_SHARES]
    floors = tuple(dict.fromkeys(min(demand.context_tokens, max(least, aligned(length))) for length in served))
    longest = Frame(_kv_types(demand)[0], 1, floors[-1], least_ubatch(demand), kv_on_gpu=True, embedder_on_gpu=False)
    left_bytes = room.ram_bytes - terms.framed_ram_bytes(longest) - min(demand.partition_bytes, demand.index_bytes)
    return floors if terms.has_ring_room(longest, left_bytes) else floors[-1:]


def aligned(num_cells: int) -> int:
    """Rounds up to a number of cells that contexts are made with."""
    return -(-num_cells // CELLS_ALIGNMENT) * CELLS_ALIGNMENT


def least_ubatch(demand: Demand) -> int:
    """Returns the fewest tokens of a prompt that a pass may read."""
    return demand.wishes.n_ubatch or UBATCHES[0]


def _without_layers(terms: Terms, room: Room, backlog: Backlog, *, has_device: bool) -> Iterator[Frame]:
    demand = terms.demand
    floors = cell_floors(terms, room, backlog, has_device=has_device)
    choices = product(
        _kv_types(demand),
        _slots_and_cells(demand, backlog, floors),
        _ubatches(demand, backlog),
        _embedder_choices(demand, has_device=has_device),
        _kv_choices(demand, has_device=has_device),
    )
    for kv_type, (num_slots, cells), n_ubatch, embedder_on_gpu, kv_on_gpu in choices:
        yield Frame(kv_type, num_slots, cells, n_ubatch, kv_on_gpu, embedder_on_gpu)


def _layer_counts(terms: Terms, room: Room, profile: Profile, frame: Frame) -> tuple[int, ...]:
    """Returns as many layers as fit; if the device is no faster than the processor, fractions of all, up to that.

    Where a layer on the device takes main memory, the most that fit may leave none for the others: then fewer, too.
    """
    most, wish = terms.most_on_device(frame, room.gpu_bytes), terms.demand.wishes.n_gpu_layers
    most = most if wish is None else min(most, wish)
    if _is_faster(profile, terms):
        return (most,) if wish is not None or not terms.device_shares_ram else tuple(sorted({0, most // 2, most}))
    everything = terms.shape.num_layers + 1
    # The same for every budget: with more room, more of these are possible, and none disappears.
    shares = {everything * part // SHARES_OF_SLOW for part in range(SHARES_OF_SLOW + 1)}
    return tuple(sorted(count for count in shares if count <= most))


def _is_faster(profile: Profile, terms: Terms) -> bool:
    """Returns whether a layer is computed faster on the device, wherever the rest is."""
    layer = min(terms.shape.layer_bytes, default=0)
    return (
        layer / profile.device_bytes_per_s + 3 * profile.hop_s < layer / profile.ram_bytes_per_s
        and profile.device_rate > FASTER_RATE * profile.processor_rate
    )


def _kv_choices(demand: Demand, *, has_device: bool) -> tuple[bool, ...]:
    wish = demand.wishes.kv_on_gpu
    if wish is not None:
        return (wish,)
    return (True, False) if has_device else (True,)


def _embedder_choices(demand: Demand, *, has_device: bool) -> tuple[bool, ...]:
    if has_device and demand.embedder_bytes and demand.wishes.embedder_on_gpu is not False:
        return False, True
    return (False,)


def _kv_types(demand: Demand) -> tuple[KVType, ...]:
    wish = demand.wishes.kv_type or "f16"
    if demand.wishes.may_lose and demand.can_quantise_kv and wish != "q8_0":
        return wish, "q8_0"
    return (wish,)


def _slots(demand: Demand, backlog: Backlog) -> tuple[int, ...]:
    """Returns the gang sizes of the wanted answers, up to the number that the user allows at once."""
    return gang_sizes(backlog.num_answers, demand.parallel_answers)


def _slots_and_cells(demand: Demand, backlog: Backlog, floors: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Returns sizes with at least as many cells as one of the floors, and the usual answers that fit into each."""
    slots = _slots(demand, backlog)
    wanted = [aligned(cells_for(count, demand, backlog)) for count in slots]
    sizes = dict.fromkeys(max(least, cells) for cells in wanted for least in floors)
    return tuple((max(1, min(max(slots), answers_in(size, demand, backlog))), size) for size in sizes)


def _ubatches(demand: Demand, backlog: Backlog) -> tuple[int, ...]:
    if demand.wishes.n_ubatch is not None:
        return (demand.wishes.n_ubatch,)
    return tuple(size for size in UBATCHES if size == UBATCHES[0] or size < 2 * backlog.prompt_tokens)
