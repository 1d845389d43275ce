"""Computes a step's batch in one call of llama.cpp; if that fails, finds out which request is at fault.

No other request fails with it: a batch that cannot be computed is tried again one request at a time, and one whose
weights could not be read, or that found no room, once more as it is. If a drive has failed a second time, everything on
it has to be opened again.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import DecodeFailed, NoCells, NoRoomToCompute, WeightsChanged, WeightsNotRead
from engine.generation.admission import Admission
from engine.generation.batching import Work
from engine.generation.cells import Cells
from engine.generation.context import Context
from engine.generation.ending import Ending
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Keeper
from engine.generation.residence import Residence
from engine.generation.swap_room import SwapRoom


class Computing:
    """Computes batches over one context; part of a step loop.

    `shortage`: the last batch found no room, and no request has failed because of that yet.
    """

    def __init__(
        self,
        context: Context,
        cells: Cells,
        keeper: Keeper,
        groups: Groups,
        residence: Residence,
        admission: Admission,
        ending: Ending,
        swap_budget_bytes: int,
        swap_room: Callable[[], SwapRoom],
    ) -> None:
        """Takes the loop's parts: `residence` gives groups cells, `admission` takes them, `ending` ends groups."""
        self._context, self._cells, self._keeper = context, cells, keeper
        self._groups, self._residence, self._admission, self._ending = groups, residence, admission, ending
        self._swap_budget_bytes, self._swap_room = swap_budget_bytes, swap_room
        # The groups of the last batch, if its weights could not be read: the next batch is their second try.
        self._tried = frozenset[SequenceGroup]()
        self.shortage: NoRoomToCompute | None = None

    def run(self, batch: list[Work]) -> list[int]:
        """Returns the first row of each work; none if the batch failed, and every sequence is where it was.

        Raises:
            WeightsChanged: No batch will succeed with the files that weights are read from.
        """
        try:
            rows = self._context.decode([work.stretch() for work in batch])
        except NoCells:
            self._give_way(batch)
        except WeightsNotRead as error:
            self._compute_again(batch, error)
        except NoRoomToCompute as error:
            self._want_room(batch, error)
        except DecodeFailed as error:
            self._roll_back(batch, error)
        else:
            self._take_cells(batch)
            return rows
        return []

    def _take_cells(self, batch: list[Work]) -> None:
        self._tried, self.shortage = frozenset(), None
        for work in batch:
            if work.sequence.held is not None:
                self._cells.grow(work.sequence.held, work.num_tokens + work.num_drafted)
        self._groups.suspects[:1] = []

    def _give_way(self, batch: list[Work]) -> None:
        """Preempts the last arrival until others have ended, because llama.cpp has fewer cells than we counted."""
        if self._admission.drop_closing():
            return
        if len(self._groups.running) > 1:
            self._admission.preempt(max((work.group for work in batch), key=lambda group: group.arrival))
            self._admission.hold_back()
        else:
            self._ending.cut(batch[0].group)

    def _compute_again(self, batch: list[Work], error: WeightsNotRead) -> None:
        """Gives each group of the batch one more try, since the disk is at fault; it fails with the second.

        Only groups in both batches fail: the others have not had their second try yet.
        """
        groups, in_batch = self._forget_batch(batch), frozenset(work.group for work in batch)
        failed, self._tried = in_batch & self._tried, in_batch - self._tried
        if failed:
            if error.drive_failed:
                raise WeightsChanged(error.sentence, error.way_out) from error
            self._admission.drop_closing()
            for group in (group for group in groups if group in failed):
                self._ending.fail(group, error)
        if self._context.is_spoilt:
            self._wipe_cells()

    def _want_room(self, batch: list[Work], error: NoRoomToCompute) -> None:
        """Blames no request the first time; if it happens again, the next steps find out which is at fault."""
        if self.shortage is None:
            self._forget_batch(batch)
            self.shortage = error
        else:
            self._roll_back(batch, error)

    def _wipe_cells(self) -> None:
        """Empties cells that may spoil what is computed next to them; no request ends, and nothing is lost."""
        self._admission.drop_closing()
        self._keeper.leave_cells()
        room = self._swap_room()
        self._admission.set_aside(min(self._swap_budget_bytes, room.ram_bytes), room.disk_folder)
        self._context.clear()

    def _roll_back(self, batch: list[Work], error: DecodeFailed) -> None:
        """Schedules the groups of a failed batch to be computed one at a time: then one of them fails."""
        groups = self._forget_batch(batch)
        if self._admission.drop_closing() and len(groups) <= 1:
            return
        if len(groups) == 1:
            self._ending.fail(groups[0], error)
            # The shortage has ended a request; the next one starts with two tries of its own.
            self.shortage = None
        else:
            self._groups.suspects[:] = groups

    def _forget_batch(self, batch: list[Work]) -> list[SequenceGroup]:
        """Discards the KV that finished ubatches left; returns the groups of the batch that have not ended."""
        for work in batch:
            self._residence.roll_back(work.sequence)
        return list(dict.fromkeys(work.group for work in batch if work.group.status is SequenceStatus.RUNNING))
