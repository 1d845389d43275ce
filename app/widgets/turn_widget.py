"""A turn of a conversation: the question, its state, the quotes, the answer, and the buttons below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QGuiApplication
from PySide6.QtWidgets import QToolButton, QToolTip, QVBoxLayout, QWidget

from app import theme
from app.sentences import joined
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.answer_text import AnswerText
from app.widgets.context_words import left_out_sentence
from app.widgets.copied_mark import CopiedMark
from app.widgets.copy_menu import CopyMenu
from app.widgets.elided import ElidedLabel
from app.widgets.figures import place_text
from app.widgets.markdown_view import MarkdownView
from app.widgets.marked_label import MarkedLabel
from app.widgets.outcome_line import OutcomeLine
from app.widgets.question_bubble import QuestionBubble
from app.widgets.quotes_card import QuotesCard
from app.widgets.source_card import snippet
from app.widgets.spinner import Spinner
from app.widgets.standing_chip import standing_words
from app.widgets.thoughts_card import ThoughtsCard
from app.widgets.turn_menu import TurnMenu
from app.widgets.turn_sentences import (
    alike_sentence,
    awaited_sentence,
    confined_sentence,
    cut_sentence,
    refreshed_sentence,
    scope_sentence,
    searched_sentence,
    short,
    timing_sentence,
    unfounded_sentence,
    writer_sentence,
)
from app.widgets.turn_texts import is_of_quotes

if TYPE_CHECKING:
    from app.models.standings import Standing
    from app.models.turns import TurnView
    from engine.protocol import Passage

_TOOLTIP_MS = 20_000
_NUM_MORE = 3


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What a turn needs to know about its chat and the library whenever it shows something that depends on it.

    Attributes:
        standing_of: The present state of a passage's document; None if it is not known yet.
        follows_sources: Whether an earlier turn of the chat has sources.
        has_model: Whether a model answers, so that an answer can be continued.
        has_files: Whether there is anything to search.
        collection: Where a question without filters is searched; None: everywhere.
    """

    standing_of: Callable[[Passage], Standing] | None = None
    follows_sources: Callable[[], bool] = lambda: False
    has_model: Callable[[], bool] = lambda: True
    has_files: Callable[[], bool] = lambda: True
    collection: Callable[[], str | None] = lambda: None


class TurnWidget(QWidget):
    """Shows a `TurnView`, again whenever it has changed; unchanged parts are not touched."""

    source_wanted = Signal(int)  # index of a passage
    selected = Signal()  # its sources should be shown
    retry_wanted = Signal()  # the same question again, as a branch
    go_on_wanted = Signal()  # continue the answer where it broke off
    more_wanted = Signal(int)  # so many further answers to it, as branches
    edited = Signal(str)  # another question in its place, as a branch
    branch_wanted = Signal(int)  # −1 the branch before, +1 the branch after
    everything_wanted = Signal()  # the same question again without any filter, as a branch
    new_chat_wanted = Signal()  # a copy of the chat up to here, to continue in
    delete_wanted = Signal()  # remove the question and its answer
    grew = Signal()

    def __init__(self, turn: TurnView, context: TurnContext | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._turn, self._context = turn, context or TurnContext()
        self._was_running, self._is_new = not turn.has_ended, True
        self._marked: tuple[str, int | None, TurnView, theme.Theme] = ("", None, turn, theme.current())
        self._found: tuple[MarkedLabel | AnswerText, int] | None = None
        self.bubble = QuestionBubble(turn.question)
        self._spinner, self._state = Spinner(), ElidedLabel("", "muted", Qt.TextElideMode.ElideRight)
        self._state_line = QWidget()
        self._state_line.setLayout(bits.row(self._spinner, self._state, spacing=8))
        self.quotes, self.markdown, self.outcome = QuotesCard(), MarkdownView(), OutcomeLine()
        self.thoughts = ThoughtsCard()
        self.nothing = bits.label("", wraps=True, selectable=True)
        self._note = bits.label("", "small", wraps=True)
        self._foot, self._confined_line = self._make_foot(), self._make_confined_line()
        self._arrange()
        self._connect()
        self.show_turn(turn)

    @property
    def turn(self) -> TurnView:
        return self._turn

    def show_turn(self, turn: TurnView) -> None:
        self._turn = turn
        is_running = not turn.has_ended
        self._state_line.setVisible(is_running)
        self._state.setText(self._state_sentence(turn))
        self.quotes.show_quotes(turn.quotes)
        self.show_standings()
        seconds = turn.timings.thinking_s if turn.timings is not None else None
        self.thoughts.show_thoughts(turn.thoughts, len(turn.passages), seconds)
        self._show_answer(turn, is_running)
        self.show_outcome()
        self._show_foot(turn, is_running)
        self.bubble.set_editable(not is_running)
        if self._was_running and not is_running:
            self._announce(turn)
        self._was_running, self._is_new = is_running, False

    def append_text(self, turn: TurnView, piece: str) -> None:
        """Shows a turn whose text has grown by `piece`."""
        self._turn = turn
        self._state.setText(self._state_sentence(turn))
        self.markdown.append(piece)
        self.markdown.show()

    def append_thoughts(self, turn: TurnView, piece: str) -> None:
        """Shows a turn whose thoughts have grown by `piece`."""
        self._turn = turn
        self._state.setText(self._state_sentence(turn))
        self.thoughts.append(piece)

    def clear_selection(self) -> None:
        """Clears the selection in the answer and in the thoughts."""
        self.markdown.selection.clear()
        self.thoughts.clear_selection()

    def mark(self, sought: str, current: int | None = None) -> None:
        """Marks the matches in question and answer; `current` is the number of the current one."""
        wanted = (sought, current, self._turn, theme.current())
        if wanted == self._marked:
            return
        self._marked = wanted
        self._found, number = None, 0
        for text in self._marked_texts():
            count = text.seek(sought)
            own = current - number if current is not None and number <= current < number + count else None
            text.mark(own)
            if own is not None:
                self._found = (text, own)
            number += count

    def place_found(self) -> tuple[QWidget, QRect] | None:
        """Returns the widget and place of the current match, after unfolding the quotes if it is in one."""
        if self._found is None or self._found[0] not in self._marked_texts():
            return None
        text, number = self._found
        if self.quotes.isAncestorOf(text):
            self.quotes.set_open(True)
        return text, text.place_of(number)

    @property
    def branch_switch(self) -> QWidget:
        """Returns the widget that switches between the branches of this turn."""
        return self._branches

    def focus_branches(self, step: int) -> None:
        """Moves the focus to the button of the next branch in that direction, or of the last one."""
        wanted, other = (self.later, self.earlier) if step > 0 else (self.earlier, self.later)
        (wanted if wanted.isEnabled() else other).setFocus()

    def show_outcome(self) -> None:
        """Shows how the answer ended, and whether it can be continued; again when a model comes or goes."""
        turn = self._turn
        can_go_on = turn.is_unfinished and self._context.has_model()
        if turn.state == "failed":
            self.outcome.show_failure(turn.error_sentence, can_go_on=can_go_on)
        elif turn.state == "cancelled":
            self.outcome.show_stopped(turn.error_sentence, can_go_on=can_go_on)
        elif sentence := cut_sentence(turn, can_go_on=can_go_on):
            self.outcome.show_cut(sentence, can_go_on=can_go_on)
        else:
            self.outcome.hide()

    def show_files(self) -> None:
        """Offers to search without the limit, or to search at all; again when the searchable files have changed."""
        turn, collection = self._turn, self._context.collection()
        if collection is None:
            instead = self.tr("Search everything instead") if turn.searches else self.tr("Search your files instead")
        else:
            within = self.tr("Search all of %1 instead") if turn.searches else self.tr("Search %1 instead")
            instead = within.replace("%1", short(collection))
        self.everything.setText(bits.literal(instead))
        self.everything.setAccessibleName(instead)
        self.everything.setVisible(turn.searches or self._context.has_files())

    def show_standings(self) -> None:
        """Marks the quotes whose documents are out of reach or removed; again when that has changed."""
        if self._context.standing_of is not None:
            self.quotes.show_standings([self._context.standing_of(passage) for passage in self._turn.passages])

    @property
    def state_sentence(self) -> str:
        """Returns the text of the state line; "" once the answer has ended."""
        return self._state.text() if self._was_running else ""

    def _marked_texts(self) -> list[MarkedLabel | AnswerText]:
        if is_of_quotes(self._turn):
            return [self.bubble.text, *(line.text for line in self.quotes.quote_lines())]
        return [self.bubble.text, *self.markdown.texts()]

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        for part in (self.bubble, self._state_line, self.quotes, self.thoughts, self.markdown, self.nothing):
            layout.addWidget(part)
        layout.addWidget(self._note)
        layout.addWidget(self.outcome)
        layout.addLayout(bits.column(self._foot, self._confined_line, spacing=2))

    def _connect(self) -> None:
        self.bubble.edited.connect(self.edited)
        self.quotes.opened.connect(self.source_wanted)
        for text in (self.markdown, self.thoughts):
            text.citation_clicked.connect(lambda number: self.source_wanted.emit(number - 1))
            text.citation_hovered.connect(self._on_citation_hovered)
            text.grew.connect(self.grew)
        self.outcome.retry_wanted.connect(self.retry_wanted)
        self.outcome.go_on_wanted.connect(self.go_on_wanted)

    def _make_foot(self) -> QWidget:
        """Makes the line below an answer: copy, regenerate, other branches, and what was searched."""
        self.copy = bits.tool("copy", self.tr("Copy the answer"), self._on_copy, side=16)
        self._copied = CopiedMark(self.copy)
        self.copy_ways = self._copy_ways()
        self.regenerate = bits.tool("regenerate", self.tr("Regenerate (Ctrl+R)"), self.retry_wanted.emit, side=16)
        self.more = bits.tool("more-answers", self.tr("Three more answers"), self._on_more, side=16)
        self._branches = self._branch_switch()
        # This button may shrink. Otherwise a narrow window would get a column as wide as the whole line, and the
        # words of the answer would be cut off.
        self.scope = bits.button("", "quiet", clicked=self.selected.emit, gives_way=True)
        self.ways = self._ways()
        tools = (self.copy, self.copy_ways, self.regenerate, self.more, self.ways, self._branches)
        foot = QWidget()
        foot.setLayout(bits.row(*tools, 8, self.scope, None, spacing=2))
        return foot

    def _make_confined_line(self) -> QWidget:
        """Makes the line with what the search was limited to, and a button that asks again without the limit."""
        self.confined = bits.label("", "small", wraps=True)
        self.confined.setContentsMargins(4, 0, 0, 0)
        self.everything = bits.button(
            self.tr("Search everything instead"), "link", clicked=self.everything_wanted.emit, gives_way=True
        )  # fmt: skip
        column = bits.column(self.confined, spacing=0)
        column.addLayout(bits.row(self.everything, None))
        column.setContentsMargins(2, 0, 0, 0)
        line = QWidget()
        line.setLayout(column)
        return line

    def _copy_ways(self) -> QToolButton:
        menu = CopyMenu(lambda: self._turn, self)
        menu.copied.connect(self._copied.show)
        made = bits.tool("chevron-down", self.tr("Other ways to copy"), side=12)
        made.setMenu(menu)
        made.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        bits.opens_popup(made, menu)
        return made

    def _ways(self) -> QToolButton:
        menu = TurnMenu(self)
        menu.new_chat_wanted.connect(self.new_chat_wanted)
        menu.delete_wanted.connect(self.delete_wanted)
        made = bits.tool("more", self.tr("More"), side=16)
        made.setMenu(menu)
        made.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        bits.opens_popup(made, menu)
        return made

    def _branch_switch(self) -> QWidget:
        self._branch_text = bits.label("", "small")
        self.earlier = bits.tool("chevron-left", self.tr("Earlier branch"), lambda: self.branch_wanted.emit(-1), 16)
        self.later = bits.tool("chevron-right", self.tr("Later branch"), lambda: self.branch_wanted.emit(1), 16)
        switch = QWidget()
        switch.setLayout(bits.row(self.earlier, self._branch_text, self.later, spacing=0))
        return switch

    def _show_answer(self, turn: TurnView, is_running: bool) -> None:
        is_extractive = is_of_quotes(turn)
        text = "" if is_extractive else turn.text
        self.markdown.set_num_passages(len(turn.passages))
        if text != self.markdown.text:
            if is_running and text.startswith(self.markdown.text):
                self.markdown.append(text[len(self.markdown.text) :])
            else:
                self.markdown.show_text(text)
        self.markdown.setVisible(bool(text))
        if not is_running:
            self.markdown.finish()
            if self._was_running or self._is_new or not self.markdown.text:
                self.quotes.set_open(not text)
        is_nothing = turn.state == "finished" and not turn.text and not is_extractive
        self.nothing.setText(self._nothing_sentence(turn) if is_nothing else "")
        self.nothing.setVisible(is_nothing)
        left_out = left_out_sentence(turn.timings.context if turn.timings is not None else None)
        told = (unfounded_sentence(turn, self._context.follows_sources()), alike_sentence(turn), left_out)
        note = self._note_sentence(turn) if is_extractive else joined(*told)
        self._note.setText(note)
        self._note.setVisible(bool(note))

    def _nothing_sentence(self, turn: TurnView) -> str:
        """Returns why there is no answer; the closest passages may still be useful."""
        if turn.thoughts:
            return self.tr("The model ended without an answer. Ask again, or allow longer thoughts in the settings.")
        if turn.model is not None or not turn.searches:
            return self.tr("The model wrote nothing.")
        words = self.tr("Not found in your files.")
        if turn.was_reading:
            words = self.tr("Not found in the files that had been indexed by then. Ask again when all are indexed.")
        nearest = self.tr("The sources are the closest passages.")
        return joined(words, nearest) if turn.passages else words

    def _note_sentence(self, turn: TurnView) -> str:
        if len(turn.quotes) == 1:
            return self.tr("No model is chosen, so the answer is this quote.")
        return self.tr("No model is chosen, so the answer is these quotes.")

    def _show_foot(self, turn: TurnView, is_running: bool) -> None:
        self._foot.setVisible(not is_running)
        for button in (self.copy, self.copy_ways):
            button.setEnabled(bool(turn.text))
        self.regenerate.setVisible(turn.state == "finished")  # else the outcome offers it in words
        self.more.setVisible(turn.state == "finished" and turn.model is not None)
        self.scope.setVisible(bool(turn.passages))
        self.scope.setText(scope_sentence(turn))
        self.scope.setAccessibleName(scope_sentence(turn))
        details = (writer_sentence(turn), timing_sentence(turn), searched_sentence(turn), refreshed_sentence(turn))
        tip = plain_tip("\n".join(part for part in details if part))
        self.scope.setToolTip(tip)
        words = confined_sentence(turn)
        self.confined.setText(words)
        self.confined.setToolTip(tip if not turn.searches else "")
        self.show_files()
        self._confined_line.setVisible(bool(words) and not is_running)
        self._branches.setVisible(turn.num_branches > 1)
        self._branch_text.setText(f"{turn.branch_index + 1}/{turn.num_branches}")
        self.earlier.setEnabled(turn.branch_index > 0)
        self.later.setEnabled(turn.branch_index + 1 < turn.num_branches)

    def _state_sentence(self, turn: TurnView) -> str:
        if turn.state == "queued" and turn.awaited:
            return awaited_sentence(turn)
        if turn.state == "queued" and turn.ahead:
            return self.tr("Waiting; %1 ahead of this one…").replace("%1", str(turn.ahead))
        if turn.state == "writing" and turn.thoughts and not turn.text:
            return self.tr("Thinking…")
        if turn.state == "writing" and turn.beam_width > 1:
            words = self.tr("Comparing %1 beams; the answer appears when it is complete…")
            return words.replace("%1", str(turn.beam_width))
        # The state is "writing" as soon as there is room; until the first token, the model reads.
        is_read = turn.state == "reading" or (turn.state == "writing" and not turn.text)
        if is_read:
            return self._reading_sentence(len(turn.passages))
        if turn.state == "writing" and turn.num_answers > 1:
            return self.tr("Writing %1 answers; this is the first…").replace("%1", str(turn.num_answers))
        return {
            "queued": self.tr("Waiting…"),
            "searching": self.tr("Searching…"),
            "writing": self.tr("Writing…"),
        }.get(turn.state, "")

    def _reading_sentence(self, num_passages: int) -> str:
        if num_passages == 1:
            return self.tr("Reading 1 passage…")
        words = self.tr("Reading %1 passages…") if num_passages else self.tr("Reading…")
        return words.replace("%1", str(num_passages))

    def _announce(self, turn: TurnView) -> None:
        words = {"finished": self.tr("The answer is complete."), "cancelled": self.tr("The answer was stopped.")}
        spoken = words.get(turn.state, turn.error_sentence)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, spoken))

    def _on_citation_hovered(self, number: int, where: QPoint) -> None:
        if not 0 < number <= len(self._turn.passages):
            QToolTip.hideText()
            return
        passage = self._turn.passages[number - 1]
        place = place_text(passage.document, passage.page, passage.place)
        if self._context.standing_of is not None:
            words = standing_words(self._context.standing_of(passage))
            place = " · ".join(part for part in (place, words) if part)
        look = theme.current()
        heading = f"<br><span style='color:{look.muted}'>{escape(passage.heading)}</span>" if passage.heading else ""
        tip = f"<p><b>{escape(place)}</b>{heading}</p><p>{escape(snippet(passage))}</p>"
        QToolTip.showText(where, tip, self, msecShowTime=_TOOLTIP_MS)

    def _on_more(self) -> None:
        self.more_wanted.emit(_NUM_MORE)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._turn.text)
        self._copied.show()
