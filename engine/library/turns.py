"""Turns: a move to another embedding model goes on whenever nothing else waits, and takes no removed document along.

The table that is being filled holds text of documents. It may stay closed for long, for example because its model is on
a drive that is away; documents that are removed from the library are deleted from it all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Literal

from engine.catalog import Catalog
from engine.errors import EmbedderUnavailable
from engine.events import IndexProgressed
from engine.library.moving import AtHand, Mover
from engine.library.pace import Clock
from engine.library.seams import Moving, Stores

# Takes the progress of a move; returns whether it may continue because nothing else waits.
MayGoOn = Callable[[IndexProgressed], bool]
# Something else waits; nothing is left to do, or nothing can be done; the library has moved to the next table.
Turn = Literal["interrupted", "over", "moved"]


class MoveTurns:
    """The move of one library. Used on the index thread."""

    def __init__(self, catalog: Catalog, moving: Moving, open_stores: Callable[[], Stores], clock: Clock) -> None:
        self._catalog, self._moving, self._open_stores, self._clock = catalog, moving, open_stores, clock
        self._at_hand = AtHand()
        # Why the move stopped last; reported once, however often it is tried again.
        self._fault = ""
        # A kill may have come before a removal was passed on to the next table.
        self._may_have_removed = True

    def take(
        self, cancelled: threading.Event, may_go_on: MayGoOn, failed: Callable[[EmbedderUnavailable], None]
    ) -> Turn:
        """Continues the move until it is complete or may not continue. After "moved" the caller must call `switch`.

        Args:
            cancelled: Ends the move when set.
            may_go_on: Called after each step.
            failed: Called once if the other model does not load; then the library keeps its model.

        Raises:
            EmbedderUnavailable: There is no such model.
            RagdollError: As `Mover.run`.
        """
        following = self._moving.next()
        if following is None:
            return "over"
        table = self._open_stores().table
        mover = Mover(self._catalog, table, following.embedder, following.table, self._clock, self._at_hand)
        try:
            with closing(mover.run(cancelled)) as steps:
                if not all(may_go_on(progress) for progress in steps):
                    return "interrupted"
        except EmbedderUnavailable as error:
            # The model is there, but does not load: the state of the embedder says why.
            self._moving.failed(error)
            if str(error) != self._fault:
                failed(error)
            self._fault = str(error)
            return "over"
        self._fault = ""
        return "moved" if self._catalog.complete_move() else "over"

    def switch(self) -> None:
        """Opens the stores to which the library has moved. Raises LibraryError; the next job tries again."""
        self._moving.switch()

    def note_removed(self) -> None:
        """Notes that documents were removed."""
        self._may_have_removed = True

    def drop_removed(self) -> None:
        """Deletes documents that are no longer in the library from the table being filled, if there may be any.

        Raises:
            LibraryError: Rows are left; it is tried again after the next job.
        """
        if self._may_have_removed:
            self._moving.drop_removed()
            self._may_have_removed = False
