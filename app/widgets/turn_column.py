"""The turns of a conversation that exist as widgets: a section of all of them, which moves with the visible part.

A widget in which a question is being edited is kept when its turn leaves the section, so that the draft is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets import bits

if TYPE_CHECKING:
    from app.models.turns import TurnView
    from app.widgets.turn_widget import TurnWidget

MAX_TURN_WIDGETS = 40


class TurnColumn:
    """Fills a layout, whose stretch stays last.

    `turns` are all of the conversation, `views` the widgets of those from index `first` on.
    """

    def __init__(
        self,
        layout: QVBoxLayout,
        before: QWidget,
        make: Callable[[int], TurnWidget],
        comes: Callable[[TurnWidget], None],
        leaves: Callable[[TurnWidget], None],
    ) -> None:
        """Shows no turns yet.

        Args:
            layout: Where the widgets go.
            before: The Tab stop before the first turn.
            make: Makes the widget of the turn with this index.
            comes: Called with a widget that was made, or that was kept and is shown again.
            leaves: Called with a widget that is about to be removed.
        """
        self._layout, self._before, self._make = layout, before, make
        self._comes, self._leaves = comes, leaves
        self.turns: list[TurnView] = []
        self.views: list[TurnWidget] = []
        self.first = 0
        # Hidden widgets of this conversation in which a question is being edited.
        self._put_by: dict[str, TurnWidget] = {}
        # Drafts of edited questions of other conversations and branches, by their turns.
        self._drafts: dict[str, str] = {}

    @property
    def shows_last(self) -> bool:
        return self.first + len(self.views) >= len(self.turns)

    @property
    def num_missing(self) -> int:
        """Returns the number of turns after those that have widgets."""
        return len(self.turns) - self.first - len(self.views)

    def widget_of(self, turn_id: str) -> TurnWidget | None:
        """Returns the widget that shows a turn; None for turns that have none."""
        return next((view for view in reversed(self.views) if view.turn.turn_id == turn_id), None)

    def replace(self, turns: Sequence[TurnView]) -> int:
        """Takes another list of turns; returns how many at its beginning are the same and keep their widgets."""
        old, self.turns = self.turns, list(turns)
        same = _common_length(old, self.turns)
        self.keep(max(0, same - self.first))
        return same

    def note(self, turn: TurnView) -> None:
        """Takes a turn that has changed."""
        # Backwards, because it is nearly always the last.
        for index in range(len(self.turns) - 1, -1, -1):
            if self.turns[index].turn_id == turn.turn_id:
                self.turns[index] = turn
                return

    def begin_at(self, index: int, number: int) -> None:
        """Shows `number` turns from `index` on instead of all others."""
        self.keep(0)
        self.first = max(0, index)
        self.append(number)

    def append(self, number: int) -> None:
        """Shows up to `number` of the turns that follow."""
        for index in range(self.first + len(self.views), self.first + len(self.views) + min(number, self.num_missing)):
            self.views.append(self._view_of(index))
            # The stretch stays last.
            self._layout.insertWidget(self._layout.count() - 1, self.views[-1])
            # Qt would show it later, and the layout ignores it until then.
            self.views[-1].show()
            self.put_in_tab_order(len(self.views) - 1)

    def prepend(self, number: int) -> None:
        """Shows up to `number` of the turns before; the last ones may be removed for them."""
        for _ in range(min(number, self.first)):
            self.first -= 1
            self.views.insert(0, self._view_of(self.first))
            self._layout.insertWidget(0, self.views[0])
            self.views[0].show()
            self.put_in_tab_order(0)
        self.keep(MAX_TURN_WIDGETS)

    def put_in_tab_order(self, place: int) -> None:
        """Puts a turn into the Tab order of the turns, whenever its widget was made."""
        before = [*bits.tab_stops(self.views[place - 1])][-1] if place else self._before
        bits.chain_tabs((before, *bits.tab_stops(self.views[place])))

    def keep(self, number: int) -> None:
        """Removes all but the first `number` widgets."""
        while len(self.views) > number:
            self._discard(self.views.pop())

    def trim_front(self) -> None:
        """Removes the first widgets if there are too many."""
        while len(self.views) > MAX_TURN_WIDGETS:
            self._discard(self.views.pop(0))
            self.first += 1

    def drafts(self) -> dict[str, str]:
        """Returns drafts of edited questions, by their turns, including chats that are not shown."""
        views = (*self._put_by.values(), *self.views)
        edited = {view.turn.turn_id: view.bubble.draft for view in views if view.bubble.draft != view.turn.question}
        return {**self._drafts, **{turn_id: draft for turn_id, draft in edited.items() if draft is not None}}

    def take_drafts(self, drafts: Mapping[str, str]) -> None:
        """Restores `drafts`, as soon as these turns are shown."""
        self._drafts.update(drafts)

    def forget_others(self) -> None:
        """Deletes kept widgets of another conversation or branch, except their drafts."""
        here = {turn.turn_id for turn in self.turns} if self._put_by else set()
        for turn_id in self._put_by.keys() - here:
            view = self._put_by.pop(turn_id)
            draft = view.bubble.draft
            if draft is not None and draft != view.turn.question:
                self._drafts[turn_id] = draft
            bits.drop(self._layout, (view,))

    def _view_of(self, index: int) -> TurnWidget:
        turn = self.turns[index]
        view = self._put_by.pop(turn.turn_id, None)
        if view is None:
            view = self._make(index)
            if (draft := self._drafts.pop(turn.turn_id, None)) is not None:
                view.bubble.edit(draft)
        else:
            # The turn may have changed in the meantime.
            view.show_turn(turn)
        self._comes(view)
        return view

    def _discard(self, view: TurnWidget) -> None:
        self._leaves(view)
        if view.bubble.draft is not None:
            self._layout.removeWidget(view)
            view.hide()
            self._put_by[view.turn.turn_id] = view
        else:
            bits.drop(self._layout, (view,))


def _common_length(old: Sequence[TurnView], new: Sequence[TurnView]) -> int:
    same = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        same += 1
    return same
