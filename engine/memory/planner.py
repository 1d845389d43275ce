"""The planner: computes where every byte is to live, as a pure function of four values.

`search.py` finds the choices with the least expected latency for which each tier holds what is planned for it, in
bytes (RAGDoll, arXiv 2504.15302, with every owner of the ledger as a term):

    disk    (1)  file + copy + kept KV + others ≤ M_disk
    device  (2)  w_gpu·W + c_gpu·C(B) + H_gpu + embedder + others ≤ M_gpu
    memory  (3)  w_ram·W + c_ram·C(B) + H_ram + ring + kept KV + index + embedder + others ≤ M_ram

W are the model's weights, C(B) the cells of B answers at once, and H is the compute buffer. w and c are the shares that
lie in a tier; layers are whole, and cells lie with their layer or all in memory. The ring holds the layers that are
streamed, and the copy has them in the order that the processor reads fastest. The embedder is in one of the two tiers.
M is what may be ours (room.py): what is free, within budgets; a tenth of the disk stays free. Where a device shares
main memory, (3) has the terms of (2) as well.

`leftover.py` distributes the room that is left, `listing.py` puts every byte under its owner, and `wording.py` says
what was decided.
"""

from __future__ import annotations

from dataclasses import replace

from engine.memory.cost_model import Courses, Disk
from engine.memory.demand import Backlog, Demand
from engine.memory.frames import answers_in, cell_floors, least_ubatch
from engine.memory.gangs import QueueSharing, gang_sizes
from engine.memory.hardware import Hardware
from engine.memory.leftover import handed_out
from engine.memory.listing import spans_of, sum_of
from engine.memory.measured import table_key
from engine.memory.placement import PinnedPart, Placement, Prediction
from engine.memory.profile import Profile
from engine.memory.room import Room, room_of
from engine.memory.search import Found, loads_of, search
from engine.memory.terms import Filling, Frame, Terms, homes_of
from engine.memory.wording import Wording
from engine.memory.workspace import MIN_SEQUENCES

# KV files may take this share of the free disk space, and no more bytes than this.
DISK_SHARE, MAX_DISK_BYTES = 1 / 10, 16 * 2**30


def plan(hardware: Hardware, profile: Profile, backlog: Backlog, demand: Demand) -> Placement:
    """Computes where every byte is to live.

    Args:
        hardware: What the machine has, and how much of it is free.
        profile: How fast the machine is.
        backlog: What waits and runs.
        demand: The model, the index, and everything that competes with them.
    """
    room = room_of(hardware, demand)
    has_device = bool(hardware.devices)
    terms = Terms(
        demand,
        room.disk_bytes,
        num_devices=len(hardware.devices),
        device_shares_ram=hardware.device_shares_ram,
    )
    found = search(terms, room, profile, backlog, has_device=has_device)
    frame, filling = handed_out(terms, room, found, lambda num_cells: answers_in(num_cells, demand, backlog))
    fewest = min(cell_floors(terms, room, backlog, has_device=has_device))
    return _placement(terms, room, found, frame, filling, fewest, has_device=has_device)


def predicted(placement: Placement, profile: Profile, backlog: Backlog, demand: Demand) -> Prediction:
    """Returns what a placement that was made for another backlog gives now, to be compared with a new one.

    It assumes the number of answers at once, of those for which there are cells, that has the least mean latency.
    """
    sizes = gang_sizes(backlog.num_answers, _most_at_once(placement, backlog, demand))
    found = (_predicted(placement, profile, backlog, demand, size) for size in sizes)
    return min(found, key=lambda prediction: (prediction.latency_s, -prediction.at_once))


def _most_at_once(placement: Placement, backlog: Backlog, demand: Demand) -> int:
    """Returns at least the answers being written: they have found room, however long they were expected to be."""
    with_cells = answers_in(placement.num_cells, demand, backlog)
    return max(placement.num_slots, backlog.running, min(with_cells, demand.parallel_answers, MIN_SEQUENCES // 2))


def _predicted(placement: Placement, profile: Profile, backlog: Backlog, demand: Demand, num_slots: int) -> Prediction:
    homes = homes_of(demand.shape, placement)
    corrections = profile.corrections(table_key(demand.shape))
    course = Courses(profile, backlog, corrections).of(homes, num_slots, placement.n_ubatch, placement.num_cells)
    restored = Terms(demand).restored_bytes(placement.kv_type, placement.kv_ram_bytes, backlog.cached_tokens)
    retrieval = profile.retrieval_seconds(loads_of(demand, placement.index_bytes), backlog.num_answers)
    return course.prediction(Disk.of(profile, homes, restored), retrieval)


def renewed(placement: Placement, profile: Profile, backlog: Backlog, demand: Demand) -> Prediction:
    """Returns what is expected of a placement by what is known now, with the answers at once it was made for."""
    if placement.is_mapped:
        # Only the plan knew how much of the file the system keeps in memory.
        return placement.prediction
    made_for = replace(backlog, waiting=0, running=placement.prediction.at_once)
    return _predicted(placement, profile, made_for, demand, placement.prediction.at_once)


def sharing_of(placement: Placement, profile: Profile, backlog: Backlog, demand: Demand) -> QueueSharing:
    """Returns what the questions of a backlog gain by sharing steps, for a model in this placement (gangs.py)."""
    homes, corrections = homes_of(demand.shape, placement), profile.corrections(table_key(demand.shape))
    disk = Disk.of(profile, homes)
    most = max(1, min(backlog.num_answers, demand.parallel_answers))
    courses = Courses(profile, backlog, corrections)
    each = [courses.of(homes, size, placement.n_ubatch) for size in range(1, most + 1)]
    seconds = tuple(course.step_seconds(disk) for course in each)
    hidden = tuple(course.hidden_seconds(disk) for course in each)
    return QueueSharing(backlog.num_answers, backlog.answer_tokens, seconds, hidden if any(hidden) else ())


def _placement(
    terms: Terms, room: Room, found: Found, frame: Frame, filling: Filling, fewest_cells: int, *, has_device: bool
) -> Placement:
    beside = terms.framed_ram_bytes(frame) + filling.index_bytes + filling.tree_bytes
    in_memory = terms.weight_ram_bytes(frame, filling)
    kv_disk_bytes = _kv_disk_bytes(terms, room, terms.packed_bytes(frame, filling))
    spans = spans_of(terms, frame, filling, in_memory, kv_disk_bytes)
    whole = terms.weight_ram_bytes(frame, replace(filling, num_streamed=0, part_stages=0, is_mapped=False))
    words = Wording(terms, frame, filling, found, beside + whole, room.ram_bytes, has_device)
    spread = terms.spread(frame)
    streamed = spread.layers(filling.num_streamed)
    part = PinnedPart(spread.order[filling.num_streamed - 1], filling.part_stages) if filling.part_stages else None
    return Placement(
        n_gpu_layers=frame.n_gpu_layers,
        num_layers=terms.shape.num_layers,
        gpu_bytes=sum_of(spans, "gpu"),
        ram_bytes=sum_of(spans, "ram"),
        sentence=words.sentence(),
        disk_bytes=sum_of(spans, "disk"),
        streamed_layers=streamed,
        ring_slots=filling.ring_slots,
        pinned_part=part,
        is_repacked=terms.is_repacked(frame, filling),
        copies_streamed=filling.copies_streamed,
        can_leave=terms.can_leave(frame, filling),
        kv_on_gpu=frame.kv_on_gpu,
        kv_type=frame.kv_type,
        num_slots=frame.num_slots,
        num_cells=frame.num_cells,
        context_tokens=terms.demand.context_tokens,
        n_ubatch=frame.n_ubatch,
        index_bytes=filling.index_bytes,
        kv_ram_bytes=filling.tree_bytes,
        kv_disk_bytes=kv_disk_bytes,
        embedder_on_gpu=frame.embedder_on_gpu,
        prediction=found.prediction,
        spans=spans,
        fits=found.fits,
        reasons=words.reasons(),
        num_evaluated=found.evaluated,
        is_starved=not found.fits or (filling.is_mapped and not _could_stream(terms, frame, filling, fewest_cells)),
    )


def _could_stream(terms: Terms, frame: Frame, filling: Filling, fewest_cells: int) -> bool:
    """Returns whether a ring would fit if all else took as little as possible without a loss."""
    demand = terms.demand
    smallest = frame._replace(n_ubatch=least_ubatch(demand), num_slots=1, num_cells=fewest_cells)
    least_index = min(demand.partition_bytes, filling.index_bytes)
    freed = terms.framed_ram_bytes(frame) - terms.framed_ram_bytes(smallest) + filling.index_bytes - least_index
    return terms.has_ring_room(smallest, filling.mapped_room_bytes + freed + filling.tree_bytes)


def _kv_disk_bytes(terms: Terms, room: Room, packed_bytes: int) -> int:
    """Returns the room for KV files, within what equation 1 leaves."""
    left = max(0, room.disk_bytes - terms.fixed_disk_bytes - terms.shape.file_bytes - packed_bytes)
    wish = terms.demand.wishes.kv_disk_bytes
    return min(left, int(min(left * DISK_SHARE, MAX_DISK_BYTES)) if wish is None else wish)
