"""Hands out what no layer could use: a whole context, more of the index, cells for further answers, and kept KV."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from engine.memory.frames import CELLS_ALIGNMENT
from engine.memory.room import Room
from engine.memory.search import Found, loads_of
from engine.memory.terms import Filling, Frame, Terms

# The shares of memory, and of the device alongside layers, that cells which might merely be used may take.
CELLS_SHARE, DEVICE_CELLS_SHARE = 1 / 8, 1 / 2
TREE_SHARE = 1 / 8


# How many answers find room in this many cells.
AnswersIn = Callable[[int], int]


def handed_out(terms: Terms, room: Room, found: Found, answers_in: AnswersIn) -> tuple[Frame, Filling]:
    """Returns the frame and filling that were found, with the remaining room used; neither gets slower."""
    frame, filling = found.frame, found.filling
    if not found.fits or filling.is_mapped:
        return frame, filling
    frame = _with_context(terms, room, frame, filling)
    filling = _with_index(terms, filling, ram_left(terms, room, frame, filling))
    frame = _with_cells(terms, room, frame, filling, answers_in if found.serves_all else None)
    return frame, _with_tree(terms, room, filling, ram_left(terms, room, frame, filling))


def ram_left(terms: Terms, room: Room, frame: Frame, filling: Filling) -> int:
    """Returns bytes of memory that we do not use."""
    left = room.ram_bytes - terms.framed_ram_bytes(frame) - filling.index_bytes - filling.tree_bytes
    return left - terms.weight_ram_bytes(frame, filling)


def _with_context(terms: Terms, room: Room, frame: Frame, filling: Filling) -> Frame:
    """Returns cells for the longest prompt, which then need no pause when it comes."""
    whole = frame._replace(num_cells=max(frame.num_cells, terms.demand.context_tokens))
    return whole if ram_left(terms, room, whole, filling) >= 0 else frame


def _with_index(terms: Terms, filling: Filling, left_bytes: int) -> Filling:
    demand = terms.demand
    if demand.mode == "on_disk":
        return filling
    wish = demand.index_bytes if demand.wishes.index_bytes is None else demand.wishes.index_bytes
    more = min(wish, demand.index_bytes, filling.index_bytes + left_bytes)
    index_bytes = max(filling.index_bytes, more)
    return replace(filling, index_bytes=index_bytes, loads=loads_of(demand, index_bytes))


def _with_cells(terms: Terms, room: Room, frame: Frame, filling: Filling, answers_in: AnswersIn | None) -> Frame:
    demand = terms.demand
    most = demand.parallel_answers * demand.context_tokens
    sizes = range(frame.num_cells, most + 1, CELLS_ALIGNMENT)

    def of_size(num_cells: int) -> Frame:
        # Where fewer slots than answers were found to be better, they stay.
        slots = answers_in(num_cells) if answers_in is not None else 0
        num_slots = max(frame.num_slots, min(demand.parallel_answers, slots))
        return frame._replace(num_cells=num_cells, num_slots=num_slots)

    # A size is too large (1) or not (0), and so is every larger one.
    count = bisect_right(sizes, 0, key=lambda size: _is_too_much(terms, room, of_size(size), filling))
    return of_size(sizes[count - 1]) if count else frame


def _is_too_much(terms: Terms, room: Room, frame: Frame, filling: Filling) -> bool:
    device = terms.device_cell_bytes(frame) * frame.num_cells
    free = room.gpu_bytes - terms.device_bytes(frame) + device
    ram = terms.ram_cell_bytes(frame) * frame.num_cells
    return (
        device > free * DEVICE_CELLS_SHARE
        or ram > room.ram_bytes * CELLS_SHARE
        or ram_left(terms, room, frame, filling) < 0
    )


def _with_tree(terms: Terms, room: Room, filling: Filling, left_bytes: int) -> Filling:
    wish = terms.demand.wishes.kv_ram_bytes
    most = int(room.ram_bytes * TREE_SHARE) if wish is None else wish
    return replace(filling, tree_bytes=max(filling.tree_bytes, min(most, filling.tree_bytes + left_bytes)))
