"""The interface of the step loop to the keeper of KV: the loop asks what is kept of a prompt, and hands over the rest.

`KnowledgeTree`'s keeper implements it (knowledge.py). A test, or a model whose prefixes cannot be shared, runs the loop
with `KeepsNothing`. Everything here is called on the generation thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.generation.cells import CellSequence
from engine.generation.segment import Segment


@dataclass(frozen=True, slots=True)
class Found:
    """The beginning of a prompt whose KV is kept: `num_tokens` tokens over `path`, opaque nodes that are pinned.

    `num_cells` are the cells that restoring takes: what is in cells already is shared and takes none.
    """

    num_tokens: int = 0
    num_cells: int = 0
    path: tuple[Any, ...] = ()


class Keeper(Protocol):
    """Keeps KV of segments, each given the path of segments before it; or of whole sequences, if it `keeps_whole`."""

    keeps_whole: bool

    @property
    def has_room(self) -> bool:
        """Whether what is read now can be kept anywhere."""
        ...

    def peek(self, segments: Sequence[Segment]) -> int:
        """Returns how many tokens `find` would find, without pinning or reading anything."""
        ...

    def find(self, segments: Sequence[Segment]) -> Found:
        """Returns the longest kept path along `segments`, pinned until `let_go`; reading from disk begins."""
        ...

    def is_ready(self, found: Found) -> bool:
        """Returns whether everything has been read from disk (or failed to be, which `restore` will show)."""
        ...

    def read_by_now(self, found: Found) -> Found:
        """Returns the part of it that is ready, pinned in place of all that was found."""
        ...

    def restore(self, found: Found, sequence: CellSequence) -> int:
        """Fills the empty `sequence` with what was found; returns how many tokens it holds now.

        Fewer than found if a file turned out to be damaged or cells ran out.
        """
        ...

    def keep(
        self,
        segments: Sequence[Segment],
        sequence: CellSequence,
        seconds: float,
        computed_tokens: int,
        *,
        can_wait: bool = True,
    ) -> None:
        """Takes over the KV of `segments`, which `sequence` holds from position 0 on; nodes that exist stay.

        `seconds` is how long computing the last `computed_tokens` of them took: the cost of a miss. If only the disk
        has room, this may wait for it, unless a prompt was computed just now, or the caller denies that it `can_wait`.
        """
        ...

    def hold(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        """Keeps in cells what `sequence` has there of `segments`; nothing leaves cells for it, and nothing is written.

        For KV that was kept before, and left the cells together with the request that used it.
        """
        ...

    def let_go(self, found: Found) -> None:
        """Unpins what `find` pinned; a second call does nothing."""
        ...

    def free_cells(self, num_cells: int) -> int:
        """Moves kept KV out of cells (and gives sequence numbers back); returns how many cells became free."""
        ...

    def free_slots(self, num_slots: int) -> int:
        """Gives sequence numbers back, even of KV that shares all its cells with others; returns how many."""
        ...

    def spare_cells(self) -> None:
        """Moves kept KV that no prompt needs now from cells to memory, if that has much more room."""
        ...

    def leave_cells(self, wait_seconds: float = 0.0) -> None:
        """Moves all kept KV out of cells, even pinned KV, and gives every cell back.

        Args:
            wait_seconds: How long it may wait for the disk, if nothing else has room.
        """
        ...


class KeepsNothing:
    """A keeper that keeps nothing: every prompt is read whole."""

    keeps_whole = has_room = False

    def peek(self, segments: Sequence[Segment]) -> int:
        return 0

    def find(self, segments: Sequence[Segment]) -> Found:
        return Found()

    def is_ready(self, found: Found) -> bool:
        return True

    def read_by_now(self, found: Found) -> Found:
        return found

    def restore(self, found: Found, sequence: CellSequence) -> int:
        return 0

    def keep(
        self,
        segments: Sequence[Segment],
        sequence: CellSequence,
        seconds: float,
        computed_tokens: int,
        *,
        can_wait: bool = True,
    ) -> None:
        return

    def hold(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        return

    def let_go(self, found: Found) -> None:
        return

    def free_cells(self, num_cells: int) -> int:
        return 0

    def free_slots(self, num_slots: int) -> int:
        return 0

    def spare_cells(self) -> None:
        return

    def leave_cells(self, wait_seconds: float = 0.0) -> None:
        return
