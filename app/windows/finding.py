"""Finding in the open chat: what is looked for, its matches on the branch that is shown, and which one one is at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

from app import theme
from app.models.matches import count_of
from app.widgets.turn_texts import bare_texts, may_hold

if TYPE_CHECKING:
    from app.models.turns import TurnView
    from app.widgets.conversation_view import ConversationView
    from app.widgets.find_bar import FindBar

# While an answer grows, its matches are looked for now and then.
_CHANGED_MS = 300

Match = tuple[str, int]  # turn id, the number of the match in that turn


class Finding(QObject):
    """Connects a FindBar to a ConversationView whose turns `turns` tells; nothing is looked for while it is closed."""

    def __init__(self, bar: FindBar, view: ConversationView, turns: Callable[[], Sequence[TurnView]]) -> None:
        super().__init__(bar)
        self._bar, self._view, self._turns = bar, view, turns
        self._sought = ""
        self._matches: list[Match] = []
        self._at: Match | None = None
        # What was parsed of each turn, as long as it is the same turn.
        self._texts: dict[str, tuple[TurnView, list[str]]] = {}
        self._changed = QTimer(self, singleShot=True, interval=_CHANGED_MS)
        self._changed.timeout.connect(self._look_again)
        bar.sought.connect(self._on_sought)
        bar.stepped.connect(self.step)
        theme.appearance().changed.connect(self._mark)

    @property
    def is_open(self) -> bool:
        return not self._bar.isHidden()

    def open(self) -> None:
        """Shows the bar with what was looked for last, ready to be written over."""
        was_open = self.is_open
        self._bar.show()
        self._bar.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._bar.field.selectAll()
        if not was_open:
            self._on_sought(self._bar.text)

    def close(self) -> None:
        self._changed.stop()
        self._bar.hide()
        self._sought, self._matches, self._at = "", [], None
        self._texts.clear()
        self._view.mark("")

    def seek(self, words: str) -> None:
        """Goes to the first match of words that a search of chats was for; together they may be nowhere."""
        for sought in (words, *sorted(words.split(), key=len, reverse=True)):
            if matches := self._found(sought):
                self._bar.show()
                self._bar.put(sought)
                self._sought, self._matches = sought, matches
                self._go_to(0)
                return
        self.close()

    def step(self, step: int) -> None:
        if self._matches:
            here = self._matches.index(self._at) if self._at in self._matches else -1
            self._go_to((here + step) % len(self._matches))

    def on_changed(self) -> None:
        """Turns came, went, or grew."""
        if self.is_open and not self._changed.isActive():
            self._changed.start()

    # --- inside ---

    def _on_sought(self, sought: str) -> None:
        self._sought, self._matches = sought, self._found(sought)
        if self._matches:
            self._go_to(self._nearest())
        else:
            self._at = None
            self._mark()
            self._bar.announce()

    def _look_again(self) -> None:
        self._matches = self._found(self._sought)
        if self._at not in self._matches:
            self._at = None
        self._mark()

    def _nearest(self) -> int:
        """The first match that is not above what is in sight; of matches that all are, the last one."""
        first = self._view.first_in_sight()
        seen = {turn.turn_id for turn in self._turns()[first:]}
        below = (n for n, (turn_id, _) in enumerate(self._matches) if turn_id in seen)
        return next(below, len(self._matches) - 1)

    def _go_to(self, number: int) -> None:
        self._at = self._matches[number]
        self._view.show_match(self._sought, self._at)
        self._tell()
        self._bar.announce()

    def _mark(self) -> None:
        if self.is_open:
            self._view.mark(self._sought, self._at)
            self._tell()

    def _tell(self) -> None:
        place = self._matches.index(self._at) + 1 if self._at is not None else 0
        self._bar.show_place(place, len(self._matches))

    def _found(self, sought: str) -> list[Match]:
        if not sought.strip():
            return []
        turns = [turn for turn in self._turns() if may_hold(turn, sought)]
        counts = [(turn, sum(count_of(text, sought) for text in self._texts_of(turn))) for turn in turns]
        return [(turn.turn_id, number) for turn, count in counts for number in range(count)]

    def _texts_of(self, turn: TurnView) -> list[str]:
        known = self._texts.get(turn.turn_id)
        if known is None or known[0] is not turn:
            known = (turn, bare_texts(turn))
            self._texts[turn.turn_id] = known
        return known[1]
