"""A conversation as a column of turns; only forty of them exist as widgets, and it follows the newest text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractSlider, QScrollArea, QVBoxLayout, QWidget

from app.widgets.turn_column import MAX_TURN_WIDGETS, TurnColumn

if TYPE_CHECKING:
    from app.models.standings import Standing
    from app.models.turns import TurnView
    from app.widgets.turn_widget import TurnWidget
    from engine.protocol import Passage

# Few at a time, and few at first, until the view is full: each takes some 40 ms of the main thread.
_STEP = 3
_NUM_AT_FIRST = 3
_COLUMN_PX = 760
_NEAR_EDGE_PX = 120
_AT_END_PX = 24
_NEAR_MATCH_PX = 32
_NUM_LOOKS = 3


@dataclass(frozen=True, slots=True)
class _Held:
    """The turn whose foot stays where it was pressed: its number in the conversation, and the place in the view."""

    number: int
    top_px: int


class ConversationView(QScrollArea):
    """Give it all turns with `show_turns`, single ones with `update_turn`; signals begin with the turn's id.

    `has_files` says whether there is anything to search, `collection` where that is done; None: everywhere.
    """

    source_wanted = Signal(str, int)  # turn id, index of the passage
    selected = Signal(str)
    retry_wanted = Signal(str)
    go_on_wanted = Signal(str)
    more_wanted = Signal(str, int)  # turn id, how many
    edited = Signal(str, str)
    branch_wanted = Signal(str, int)  # turn id, −1 or +1
    everything_wanted = Signal(str)
    new_chat_wanted = Signal(str)
    delete_wanted = Signal(str)
    keyboard_left = Signal()  # the widget with the focus is about to be removed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setObjectName("conversation")
        self.setAccessibleName(self.tr("Conversation"))
        # A click leaves the focus in the question.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._standing_of: Callable[[Passage], Standing] | None = None
        self._has_model = True
        self.has_files: Callable[[], bool] = lambda: True
        self.collection: Callable[[], str | None] = lambda: None
        self._follows = True
        self._is_moving = self._is_switching = False
        self._held: _Held | None = None
        self._content = QWidget()
        self._content.setObjectName("column")
        self._column = QVBoxLayout(self._content)
        self._column.setSpacing(28)
        self._column.addStretch(1)
        self._turns = TurnColumn(self._column, self, self._new_view, self._mark, self._on_leaving)
        self.setWidget(self._content)
        self._content.installEventFilter(self)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._on_range_changed)
        self._shift = QTimer(self, singleShot=True, interval=0)
        self._shift.timeout.connect(self._shift_window)
        self._sought = ""
        self._at: tuple[str, int] | None = None
        self._num_looks = 0
        self._looks = QTimer(self, singleShot=True, interval=0)
        self._looks.timeout.connect(self._on_look_due)

    @property
    def is_following(self) -> bool:
        """Returns whether new text keeps the end in sight; scrolling up ends it, scrolling to the end resumes it."""
        return self._follows

    def turn_views(self) -> tuple[TurnWidget, ...]:
        return tuple(self._turns.views)

    def widget_of(self, turn_id: str) -> TurnWidget | None:
        """Returns the widget that shows a turn; None for turns out of sight that have none."""
        return self._turns.widget_of(turn_id)

    def show_turns(self, turns: Sequence[TurnView]) -> None:
        """Shows a conversation from its end; views of unchanged turns stay.

        A user who has just switched a branch in the middle stays there.
        """
        stays = self._is_switching and self._held is not None and self._held.number + 1 < len(turns)
        if stays:
            self._follows = False
        same = self._turns.replace(turns)
        if stays:
            self._turns.append(_STEP)
        elif same < self._turns.first or not self._turns.views or self._turns.num_missing > _STEP:
            self._begin_at_end()
        else:
            self._turns.append(self._turns.num_missing)
        self._turns.trim_front()
        self._turns.forget_others()
        if stays:
            self._lay_out()
            self._stay()
        else:
            self.scroll_to_end()
        self._shift.start()  # eight short turns do not fill a tall window

    def add_turns(self, turns: Sequence[TurnView]) -> None:
        """Shows a conversation with turns at its end that the user did not add; a user who has scrolled up stays."""
        if self._follows or not self._turns.views:
            self.show_turns(turns)
            return
        self._turns.replace(turns)
        # More than a few come when the user scrolls down to them.
        if self._turns.num_missing <= _STEP:
            self._turns.append(self._turns.num_missing)
        self._turns.forget_others()
        self._shift.start()

    def show_standings(self, standing_of: Callable[[Passage], Standing]) -> None:
        """Sets the source of the state of passages' documents; called again when a state has changed."""
        self._standing_of = standing_of
        for view in self._turns.views:
            view.show_standings()

    def show_model(self, has_model: bool) -> None:
        """Sets whether a model answers here, so that answers that broke off can be continued."""
        self._has_model = has_model
        for view in self._turns.views:
            view.show_outcome()

    def update_turn(self, turn: TurnView) -> None:
        """Shows a turn that has changed."""
        self._turns.note(turn)
        view = self.widget_of(turn.turn_id)
        if view is not None:
            view.show_turn(turn)
            # New passages and text bring links and buttons.
            self._turns.put_in_tab_order(self._turns.views.index(view))

    def append_text(self, turn: TurnView, piece: str) -> None:
        """Shows a turn whose text has grown by `piece` and that is otherwise unchanged."""
        self._turns.note(turn)
        view = self.widget_of(turn.turn_id)
        if view is not None:
            view.append_text(turn, piece)

    def append_thoughts(self, turn: TurnView, piece: str) -> None:
        """Shows a turn whose thoughts have grown by `piece`."""
        self._turns.note(turn)
        view = self.widget_of(turn.turn_id)
        if view is not None:
            view.append_thoughts(turn, piece)

    def edit_again(self, turn_id: str, text: str) -> None:
        """Opens the editor of a question, with the edited text that could not be asked."""
        view = self.widget_of(turn_id)
        if view is not None:
            view.bubble.edit(text).setFocus()

    def mark(self, sought: str, at: tuple[str, int] | None = None) -> None:
        """Marks the matches in all turns, including later ones; "" marks nothing.

        `at` is the current match: the id of its turn, and its number in there.
        """
        self._sought, self._at = sought, at
        for view in self._turns.views:
            self._mark(view)

    def show_match(self, sought: str, at: tuple[str, int]) -> None:
        """Marks matches, and scrolls to the current one, even if its turn has no widget yet."""
        self._follows, self._held = False, None
        if self.widget_of(at[0]) is None:
            self._bring(at[0])
        self.mark(sought, at)
        self._look_at_match()
        self._look_again()

    def bring_into_sight(self, turn_id: str) -> None:
        """Scrolls to a turn, even if it has no widget yet."""
        turns = self._turns.turns
        if turns and turns[-1].turn_id == turn_id:
            self._go_to_end()
            return
        self._follows, self._held = False, None
        if self.widget_of(turn_id) is None:
            self._bring(turn_id)
        self._lay_out()
        if (view := self.widget_of(turn_id)) is not None:
            self._move_to(view.y())

    def first_in_sight(self) -> int:
        """Returns the index of the first visible turn, or the number of turns if none is visible."""
        top = self.verticalScrollBar().value()
        seen = (n for n, view in enumerate(self._turns.views) if view.y() + view.height() > top)
        return self._turns.first + next(seen, len(self._turns.views))

    def scroll_to_end(self) -> None:
        self._follows, self._held = True, None
        self._to_end()

    def scroll_by(self, event: QKeyEvent) -> bool:
        """Scrolls for a key, wherever it was pressed; returns False for keys that do not scroll."""
        if event.matches(QKeySequence.StandardKey.MoveToPreviousPage):
            self.verticalScrollBar().triggerAction(QAbstractSlider.SliderAction.SliderPageStepSub)
        elif event.matches(QKeySequence.StandardKey.MoveToNextPage):
            self.verticalScrollBar().triggerAction(QAbstractSlider.SliderAction.SliderPageStepAdd)
        elif event.matches(QKeySequence.StandardKey.MoveToStartOfDocument):
            self._go_to_beginning()
        elif event.matches(QKeySequence.StandardKey.MoveToEndOfDocument):
            self._go_to_end()
        else:
            return False
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.scroll_by(event):
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._stay()
        if event.type() == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            self._on_blank_pressed(event)
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # Centred above the question field, whether there is a scroll bar or not.
        side = max(24, (self.width() - _COLUMN_PX) // 2)
        left, bar = self.viewport().x(), self.width() - self.viewport().width()
        self._column.setContentsMargins(side - left, 24, max(12, side - bar + left), 24)
        self._stay()

    def _on_blank_pressed(self, event: QMouseEvent) -> None:
        # A widget that handles presses itself does not pass them on.
        if event.button() == Qt.MouseButton.LeftButton:
            for view in self._turns.views:
                view.clear_selection()

    def _mark(self, view: TurnWidget) -> None:
        at = self._at
        view.mark(self._sought, at[1] if at is not None and at[0] == view.turn.turn_id else None)

    def _bring(self, turn_id: str) -> None:
        """Replaces the shown turns by a turn far away and its neighbours."""
        index = next((n for n, turn in enumerate(self._turns.turns) if turn.turn_id == turn_id), None)
        if index is not None:
            self._turns.begin_at(index - 1, index + _STEP - max(0, index - 1))
            self._lay_out()
            self._shift.start()

    def _look_at_match(self) -> None:
        view = self.widget_of(self._at[0]) if self._at is not None else None
        found = view.place_found() if view is not None else None
        if found is None:
            return
        widget, place = found
        bar, height = self.verticalScrollBar(), self.viewport().height()
        top = widget.mapTo(self._content, place.topLeft()).y()
        if not _NEAR_MATCH_PX <= top - bar.value() <= height - place.height() - _NEAR_MATCH_PX:
            bar.setValue(top - height // 3)

    def _look_again(self) -> None:
        # The heights of new blocks settle in several rounds.
        self._num_looks = _NUM_LOOKS
        self._looks.start()

    def _on_look_due(self) -> None:
        self._num_looks -= 1
        if self._held is not None:
            self._hold(self._held)
        else:
            self._look_at_match()
        if self._num_looks > 0:
            self._looks.start()
        else:
            self._held = None

    def _begin_at_end(self) -> None:
        self._turns.begin_at(len(self._turns.turns) - _NUM_AT_FIRST, _NUM_AT_FIRST)

    def _new_view(self, index: int) -> TurnWidget:
        # Imported here, because the first paint shows no turn.
        from app.widgets.turn_widget import TurnContext, TurnWidget

        context = TurnContext(
            self._standing_of,
            follows_sources=lambda: any(turn.passages for turn in self._turns.turns[:index]),
            has_model=lambda: self._has_model,
            has_files=lambda: self.has_files(),
            collection=lambda: self.collection(),
        )
        view = TurnWidget(self._turns.turns[index], context)
        turn_id = view.turn.turn_id
        view.source_wanted.connect(lambda passage: self.source_wanted.emit(turn_id, passage))
        view.selected.connect(lambda: self.selected.emit(turn_id))
        view.retry_wanted.connect(lambda: self.retry_wanted.emit(turn_id))
        view.go_on_wanted.connect(lambda: self._go_on(view))
        view.more_wanted.connect(lambda number: self.more_wanted.emit(turn_id, number))
        view.edited.connect(lambda text: self.edited.emit(turn_id, text))
        view.everything_wanted.connect(lambda: self.everything_wanted.emit(turn_id))
        view.new_chat_wanted.connect(lambda: self.new_chat_wanted.emit(turn_id))
        view.delete_wanted.connect(lambda: self._delete(view))
        view.branch_wanted.connect(lambda step: self._switch_branch(view, step))
        return view

    def _go_on(self, view: TurnWidget) -> None:
        # The button hides, and Qt would give the focus to whatever comes next.
        if self._has_keyboard(view):
            self.keyboard_left.emit()
        self.go_on_wanted.emit(view.turn.turn_id)

    def _delete(self, view: TurnWidget) -> None:
        self._in_place(view, lambda: self.delete_wanted.emit(view.turn.turn_id))

    def _switch_branch(self, view: TurnWidget, step: int) -> None:
        had_keyboard, number = self._has_keyboard(view), self._turns.first + self._turns.views.index(view)
        self._in_place(view, lambda: self.branch_wanted.emit(view.turn.turn_id, step))
        turns = self._turns.turns
        after = self.widget_of(turns[number].turn_id) if number < len(turns) else None
        if had_keyboard and after is not None:
            after.focus_branches(step)

    def _in_place(self, view: TurnWidget, change: Callable[[], object]) -> None:
        """Makes a change that puts another turn in the place of this one, which stays where it is in the view."""
        number = self._turns.first + self._turns.views.index(view)
        self._held = _Held(number, self._top_of_switch(view) - self.verticalScrollBar().value())
        self._is_switching = True
        change()
        self._is_switching = False
        if self._held is not None:
            self._look_again()

    def _has_keyboard(self, view: TurnWidget) -> bool:
        """Returns whether the focus is in a view, or will be once the window is active."""
        focused = self.window().focusWidget()
        return focused is not None and view.isAncestorOf(focused)

    def _on_leaving(self, view: TurnWidget) -> None:
        # Qt would give the focus to the next widget of the window, the first button of the rail.
        if self._has_keyboard(view):
            self.keyboard_left.emit()

    def drafts(self) -> dict[str, str]:
        """Returns drafts of edited questions, by their turns, including chats that are not shown."""
        return self._turns.drafts()

    def take_drafts(self, drafts: Mapping[str, str]) -> None:
        """Restores `drafts`, as soon as these turns are shown."""
        self._turns.take_drafts(drafts)

    def _on_scrolled(self, value: int) -> None:
        bar = self.verticalScrollBar()
        if not self._is_moving:
            self._follows = value >= bar.maximum() - _AT_END_PX and self._turns.shows_last
            self._let_go()
        if value < _NEAR_EDGE_PX or value > bar.maximum() - _NEAR_EDGE_PX:
            self._shift.start()

    def _on_range_changed(self) -> None:
        # The content reports its new height before the scroll bar knows it.
        self._stay()

    def _shift_window(self) -> None:
        """Creates older turns near the top and newer ones near the bottom, and removes those at the other end."""
        bar, turns = self.verticalScrollBar(), self._turns
        if turns.first > 0 and bar.value() < _NEAR_EDGE_PX:
            anchor = turns.views[0]
            offset = bar.value() - anchor.y()
            turns.prepend(_STEP)
            self._keep_in_place(anchor, offset)
            if bar.maximum() < _NEAR_EDGE_PX:
                self._shift.start()
        elif not turns.shows_last and bar.value() > bar.maximum() - _NEAR_EDGE_PX:
            anchor, offset = turns.views[-1], bar.value() - turns.views[-1].y()
            turns.append(_STEP)
            turns.trim_front()
            self._keep_in_place(anchor, offset)
            # If nothing can be scrolled, no other event would create more turns.
            if bar.maximum() < _NEAR_EDGE_PX and len(turns.views) < MAX_TURN_WIDGETS:
                self._shift.start()

    def _keep_in_place(self, anchor: TurnWidget, offset: int) -> None:
        self._lay_out()
        if self._follows or self._held is not None:
            self._stay()
        else:
            self._move_to(anchor.y() + offset)

    def _stay(self) -> None:
        """Keeps the end or the held turn in sight after heights have changed."""
        if self._follows:
            self._to_end()
        elif self._held is not None:
            self._hold(self._held)

    def _hold(self, held: _Held) -> None:
        place = held.number - self._turns.first
        if 0 <= place < len(self._turns.views):
            self._move_to(self._top_of_switch(self._turns.views[place]) - held.top_px)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held = None
            self._looks.stop()

    def _top_of_switch(self, view: TurnWidget) -> int:
        return view.branch_switch.mapTo(self._content, QPoint()).y()

    def _lay_out(self) -> None:
        self._column.activate()
        self._content.adjustSize()

    def _go_to_beginning(self) -> None:
        self._keep_keyboard()
        self._follows, self._held = False, None
        if self._turns.first > 0:
            self._bring(self._turns.turns[0].turn_id)
        self.verticalScrollBar().setValue(0)

    def _go_to_end(self) -> None:
        self._keep_keyboard()
        if not self._turns.shows_last:
            self._begin_at_end()
        self.scroll_to_end()
        self._shift.start()

    def _keep_keyboard(self) -> None:
        """Moves the focus from a widget inside to the view itself, so that the widget may be removed."""
        focused = self.window().focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            self.setFocus()

    def _to_end(self) -> None:
        self._move_to(self.verticalScrollBar().maximum())

    def _move_to(self, value: int) -> None:
        self._is_moving = True
        self.verticalScrollBar().setValue(value)
        self._is_moving = False
