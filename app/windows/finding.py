"""Finding in the open chat: the search text, its matches on the branch that is shown, and the current match."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer

from app import theme
from app.widgets.turn_texts import TurnTexts

if TYPE_CHECKING:
    from app.models.turns import TurnView
    from app.widgets.conversation_view import ConversationView
    from app.widgets.find_bar import FindBar

# While an answer grows, its matches are updated now and then.
_CHANGED_MS = 300
# Searched per step; between steps, the window handles input.
_STEP_S = 0.02
_PAUSE_MS = 5

Match = tuple[str, int]  # turn id, the number of the match in that turn


class Finding(QObject):
    """Connects a FindBar to a ConversationView whose turns `turns` returns; it searches only while it is open."""

    def __init__(self, bar: FindBar, view: ConversationView, turns: Callable[[], Sequence[TurnView]]) -> None:
        super().__init__(bar)
        self._bar, self._view, self._turns = bar, view, turns
        self._sought = ""
        # The number of matches in each turn that has any, in the order of the turns.
        self._counts: dict[str, int] = {}
        self._at: Match | None = None
        # The searched texts of each turn, valid as long as it is the same object.
        self._texts: dict[str, TurnTexts] = {}
        self._looking: Iterator[None] = iter(())
        self._due = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._due.timeout.connect(self._look_on)
        self._changed = QTimer(self, singleShot=True, interval=_CHANGED_MS)
        self._changed.timeout.connect(self._look_again)
        bar.sought.connect(self._on_sought)
        bar.stepped.connect(self.step)
        theme.appearance().changed.connect(self._mark)

    @property
    def is_open(self) -> bool:
        return not self._bar.isHidden()

    def open(self) -> None:
        """Shows the bar with the last search text selected."""
        was_open = self.is_open
        self._bar.show()
        self._bar.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._bar.field.selectAll()
        if not was_open:
            self._on_sought(self._bar.text)

    def close(self) -> None:
        self._due.stop()
        self._looking = iter(())
        self._changed.stop()
        self._bar.hide()
        self._sought, self._counts, self._at = "", {}, None
        self._texts.clear()
        self._view.mark("")

    def seek(self, words: str) -> None:
        """Goes to the first match of the words of a search of chats, or of one word if they occur separately."""
        self._look(self._seeking(words))

    def step(self, step: int) -> None:
        if self._counts:
            here = self._number_of(self._at)
            self._go_to(((-1 if here is None else here) + step) % self._num_matches)

    def on_changed(self) -> None:
        """Updates the matches soon, after turns were added, removed or have grown."""
        if (self.is_open or self._is_looking) and not self._changed.isActive():
            self._changed.start()

    # --- inside ---

    def _on_sought(self, sought: str) -> None:
        self._sought, self._counts, self._at = sought, {}, None
        self._look(self._going_to_nearest())
        if self._is_looking:
            self._view.mark(sought)
            self._bar.show_looking()

    def _look_again(self) -> None:
        if self._is_looking:
            self._changed.start()
        else:
            self._look(self._looking_again())

    # --- looking, one turn per step ---

    def _look(self, looking: Iterator[None]) -> None:
        self._due.stop()
        self._looking = looking
        self._look_on()

    def _look_on(self) -> None:
        until = time.monotonic() + _STEP_S
        for _ in self._looking:
            if time.monotonic() >= until:
                self._due.start()
                return

    @property
    def _is_looking(self) -> bool:
        return self._due.isActive()

    def _seeking(self, words: str) -> Iterator[None]:
        for sought in (words, *sorted(words.split(), key=len, reverse=True)):
            if counts := (yield from self._found(sought)):
                self._bar.show()
                self._bar.put(sought)
                self._sought, self._counts = sought, counts
                self._go_to(0)
                return
        self.close()

    def _going_to_nearest(self) -> Iterator[None]:
        self._counts = yield from self._found(self._sought)
        if self._counts:
            self._go_to(self._nearest())
        else:
            self._mark()
            self._bar.announce()

    def _looking_again(self) -> Iterator[None]:
        self._counts = yield from self._found(self._sought)
        if self._number_of(self._at) is None:
            self._at = None
        self._mark()

    def _found(self, sought: str) -> Generator[None, None, dict[str, int]]:
        counts = {}
        for turn in self._turns() if sought.strip() else ():
            if count := self._texts_of(turn).count(sought):
                counts[turn.turn_id] = count
            yield
        return counts

    def _texts_of(self, turn: TurnView) -> TurnTexts:
        known = self._texts.get(turn.turn_id)
        if known is None or known.turn is not turn:
            known = self._texts[turn.turn_id] = TurnTexts(turn)
        return known

    # --- its matches ---

    @property
    def _num_matches(self) -> int:
        return sum(self._counts.values())

    def _number_of(self, match: Match | None) -> int | None:
        """Returns the number of a match among all; None if it no longer exists."""
        num_before = 0
        for turn_id, count in self._counts.items():
            if match is not None and turn_id == match[0]:
                return num_before + match[1] if match[1] < count else None
            num_before += count
        return None

    def _match(self, number: int) -> Match:
        for turn_id, count in self._counts.items():
            if number < count:
                return turn_id, number
            number -= count
        raise IndexError(number)

    def _nearest(self) -> int:
        """Returns the first match that is not above the visible part, or the last one if all are above."""
        above = self._turns()[: self._view.first_in_sight()]
        return min(sum(self._counts.get(turn.turn_id, 0) for turn in above), self._num_matches - 1)

    def _go_to(self, number: int) -> None:
        self._at = self._match(number)
        self._view.show_match(self._sought, self._at)
        self._tell()
        self._bar.announce()

    def _mark(self) -> None:
        if self.is_open:
            self._view.mark(self._sought, self._at)
            self._tell()

    def _tell(self) -> None:
        number = self._number_of(self._at)
        self._bar.show_place(0 if number is None else number + 1, self._num_matches)
