"""A step's batch is computed in one call of llama.cpp; where that fails, who of those in it is at fault, and what then.

Nobody else fails with whoever does: a batch that cannot be computed is computed again one request at a time, and one
whose weights could not be read, or that found no room, once more as it is. Where a drive has failed a second time, all
of it has to be opened anew.
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
    """Part of a step loop, over one context.

    `shortage`: the last batch found no room, and nobody has failed by that yet.
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
        """Those in `groups` have their cells by `residence`, leave them by `admission` and end by `ending`."""
        self._context, self._cells, self._keeper = context, cells, keeper
        self._groups, self._residence, self._admission, self._ending = groups, residence, admission, ending
        self._swap_budget_bytes, self._swap_room = swap_budget_bytes, swap_room
        # Those in the last batch, where its weights could not be read: with the next it is their second try.
        self._tried = frozenset[SequenceGroup]()
        self.shortage: NoRoomToCompute | None = None

    def run(self, batch: list[Work]) -> list[int]:
        """The first row of each work; none where it failed, and every sequence is where it was.

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
        """llama.cpp has fewer cells than we counted: the request that came last waits until others have ended."""
        if self._admission.drop_closing():
            return
        if len(self._groups.running) > 1:
            self._admission.preempt(max((work.group for work in batch), key=lambda group: group.arrival))
            self._admission.hold_back()
        else:
            self._ending.cut(batch[0].group)

    def _compute_again(self, batch: list[Work], error: WeightsNotRead) -> None:
        """The disk is at fault, nobody in the batch: whoever is in it has one more try, and has failed with the second.

        Who is in both: of another batch than the first one, nobody has had the try that it is promised.
        """
        groups, everybody = self._forget_batch(batch), frozenset(work.group for work in batch)
        failed, self._tried = everybody & self._tried, everybody - self._tried
        if failed:
            if error.drive_failed:
                raise WeightsChanged(error.sentence, error.way_out) from error
            self._admission.drop_closing()
            for group in (group for group in groups if group in failed):
                self._ending.fail(group, error)
        if self._context.is_spoilt:
            self._wipe_cells()

    def _want_room(self, batch: list[Work], error: NoRoomToCompute) -> None:
        """The first time nobody is at fault; where it stays so, the next steps look for who is."""
        if self.shortage is None:
            self._forget_batch(batch)
            self.shortage = error
        else:
            self._roll_back(batch, error)

    def _wipe_cells(self) -> None:
        """Empties cells that may spoil what is computed beside them; nobody ends by that, and nothing is forgotten."""
        self._keeper.leave_cells()
        room = self._swap_room()
        self._admission.set_aside(min(self._swap_budget_bytes, room.ram_bytes), room.disk_folder)
        self._context.clear()

    def _roll_back(self, batch: list[Work], error: DecodeFailed) -> None:
        """Has those of a batch that failed computed alone: one of them fails then."""
        groups = self._forget_batch(batch)
        if self._admission.drop_closing() and len(groups) <= 1:
            return
        if len(groups) == 1:
            self._ending.fail(groups[0], error)
            # Somebody has failed by it, and whoever comes next finds out anew.
            self.shortage = None
        else:
            self._groups.suspects[:] = groups

    def _forget_batch(self, batch: list[Work]) -> list[SequenceGroup]:
        """Forgets what finished ubatches left; returns who in the batch has not ended."""
        for work in batch:
            self._residence.roll_back(work.sequence)
        return list(dict.fromkeys(work.group for work in batch if work.group.status is SequenceStatus.RUNNING))
