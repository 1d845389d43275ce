"""The branch of a chat that is shown: each turn in its present state, and its place among all turns of the chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from PySide6.QtCore import QCoreApplication

from app.chats import Turn
from app.chats.records import INTERRUPTED
from app.models.turn_records import outcome_of, view_of
from app.models.turn_tree import TurnTree
from app.models.turns import TurnView


class ShownBranch:
    """The shown branch of one chat.

    Attributes:
        tree: All turns of the chat.
    """

    def __init__(self, turns: Iterable[Turn], latest: Callable[[str], TurnView | None]) -> None:
        """Shows none of `turns` yet; `latest` knows a turn that is being answered, or that could not be saved."""
        self._latest = latest
        self._views: dict[str, TurnView] = {}
        self.tree = TurnTree(tuple(map(self._as_ended, turns)))

    @property
    def views(self) -> list[TurnView]:
        """Returns the shown turns, oldest first."""
        return list(self._views.values())

    @property
    def last_id(self) -> str | None:
        """Returns the last turn; None if nothing has been asked."""
        return next(reversed(self._views), None)

    def view(self, turn_id: str) -> TurnView | None:
        """Returns a turn that is shown."""
        return self._views.get(turn_id)

    def ended(self) -> list[Turn]:
        """Returns what is shown, in the form in which it is stored."""
        return [_ended(turn, view) for view in self._views.values() if (turn := self.tree.find(view.turn_id))]

    def show(self, leaf_id: str | None) -> frozenset[str]:
        """Shows the branch that ends with a turn, or the newest one; returns which turns are no longer shown."""
        places, before = self.tree.places(), self._views
        self._views = {
            turn.turn_id: self._shown(turn, places[turn.turn_id], before) for turn in self.tree.branch(leaf_id)
        }
        return frozenset(before.keys() - self._views.keys())

    def add(self, turn: Turn) -> frozenset[str]:
        """Adds a new turn and shows it; returns the same as `show`."""
        self.tree = self.tree.with_added(turn)
        return self.show(turn.turn_id)

    def remove(self, turn_id: str, leaf_id: str | None) -> None:
        """Removes a turn and shows the branch to `leaf_id`; None if nothing is left to show."""
        self.tree = self.tree.without(turn_id)
        self.show(leaf_id)

    def take(self, turns: Iterable[Turn]) -> None:
        """Takes the stored turns again, as after one was restored; `show` shows them."""
        stored = tuple(map(self._as_ended, turns))
        ids = {turn.turn_id for turn in stored}
        # Other answers that could not be saved yet stay.
        self.tree = TurnTree((*stored, *(turn for turn in self.tree.turns if turn.turn_id not in ids)))

    def add_beside(self, turn: Turn, views: Iterable[TurnView]) -> str | None:
        """Adds other answers to a turn's question; returns the shown turn in its place, which now counts them."""
        self.tree = self.tree.with_added(*(_ended(replace(turn, turn_id=view.turn_id), view) for view in views))
        shown = self.in_place_of(turn)
        if shown is None:
            return None
        self._views[shown.turn_id] = _numbered(shown, self.tree.places()[shown.turn_id])
        return shown.turn_id

    def in_place_of(self, turn: Turn) -> TurnView | None:
        """Returns which of a turn and its variants is shown."""
        for view in self._views.values():
            shown = self.tree.find(view.turn_id)
            if shown is not None and shown.parent_id == turn.parent_id:
                return view
        return None

    def change(self, view: TurnView) -> bool:
        """Takes the newer value, also for the tree once it has ended. Returns whether the turn is shown."""
        turn = self.tree.find(view.turn_id)
        if turn is not None and view.has_ended:
            self.tree = self.tree.with_changed(_ended(turn, view))
        return self.refresh(view)

    def refresh(self, view: TurnView) -> bool:
        """Takes the newer value of a turn that has not ended. Returns whether the turn is shown."""
        shown = self._views.get(view.turn_id)
        if shown is not None:
            self._views[view.turn_id] = _numbered(view, (shown.branch_index, shown.num_branches))
        return shown is not None

    def _as_ended(self, turn: Turn) -> Turn:
        """Returns a turn, with an answer that has ended but could not be saved yet, as on a full disk."""
        live = self._latest(turn.turn_id)
        if live is None and turn.outcome.state in ("asked", "writing"):
            # No answer will come, and that is not on the disk yet.
            sentence = QCoreApplication.translate("chats", INTERRUPTED)
            return replace(turn, outcome=replace(turn.outcome, state="failed", error_sentence=sentence))
        return turn if live is None or not live.has_ended else replace(turn, outcome=outcome_of(live))

    def _shown(self, turn: Turn, place: tuple[int, int], before: dict[str, TurnView]) -> TurnView:
        """Returns a turn as it is now; the shown value of an ended one contains more than is stored."""
        known = self._latest(turn.turn_id) or before.get(turn.turn_id)
        return view_of(turn, *place) if known is None else _numbered(known, place)


def _numbered(view: TurnView, place: tuple[int, int]) -> TurnView:
    """Returns a turn with its index among its variants and their number; the same object if it has them already.

    A caller that caches something made of a turn then sees that nothing has changed.
    """
    if (view.branch_index, view.num_branches) == place:
        return view
    return replace(view, branch_index=place[0], num_branches=place[1])


def _ended(turn: Turn, view: TurnView) -> Turn:
    return replace(turn, outcome=outcome_of(view))
