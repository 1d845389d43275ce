"""Questions asked while their chat is still answering: each is sent by itself once the answer before it is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from app.models.answering import Answering
    from app.models.conversation import ConversationModel
    from app.models.turns import TurnState, TurnView

# More could hardly be meant, and all of them are kept in the settings file.
MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """A question that is not asked yet.

    `awaited_id` is the turn that has to be answered first; None: the question waits until the user asks it.
    """

    question_id: str
    text: str
    awaited_id: str | None = None

    @property
    def is_held(self) -> bool:
        """Returns whether it is not asked by itself: the answer before it was stopped or failed, or is unknown."""
        return self.awaited_id is None


class WaitingQuestions(QObject):
    """The waiting questions of all chats, whichever is open; each chat has its own row."""

    changed = Signal()
    too_many = Signal(str, str)  # a sentence, a way out

    def __init__(self, answering: Answering, conversation: ConversationModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversation = conversation
        self._rows: dict[str, tuple[WaitingQuestion, ...]] = {}
        # Whether a question is being asked by itself, which must not take what the user looks at away.
        self.is_asking_by_itself = False
        # Awaited turns that have ended since the last look, and how.
        self._ended: dict[str, TurnState] = {}
        # Later, because further answers in the place of a finished one are still being added.
        self._due = QTimer(self, singleShot=True, interval=0)
        self._due.timeout.connect(self._settle)
        answering.turn_changed.connect(self._on_turn_changed)

    @property
    def shown(self) -> tuple[WaitingQuestion, ...]:
        """Returns those of the open chat, in the order in which they will be asked."""
        return self._rows.get(self._conversation.conversation_id or "", ())

    @property
    def held_chats(self) -> frozenset[str]:
        """Returns the chats with questions that wait for the user."""
        return frozenset(chat_id for chat_id, row in self._rows.items() if any(one.is_held for one in row))

    @property
    def texts(self) -> dict[str, tuple[str, ...]]:
        """Returns all texts, by their chats."""
        return {chat_id: tuple(one.text for one in row) for chat_id, row in self._rows.items()}

    def take(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Takes over the texts of an earlier window; its answers have ended, so the user asks these questions."""
        for chat_id, row in texts.items():
            known = self._rows.get(chat_id, ())
            self._put(chat_id, (*(WaitingQuestion(uuid4().hex, text) for text in row), *known)[:MOST_WAITING])

    # --- of the open chat ---

    def ask(self, text: str) -> bool:
        """Asks in the open chat, at once or after its running answer; returns False if too many wait already."""
        chat_id, awaited_id = self._conversation.conversation_id, _running(self._conversation)
        if chat_id is None or awaited_id is None:
            self._conversation.ask(text)
            return True
        if len(self.shown) >= MOST_WAITING:
            sentence = self.tr("%1 questions are waiting in this chat already.").replace("%1", str(MOST_WAITING))
            self.too_many.emit(sentence, self.tr("Remove one of them, or wait for the next answer."))
            return False
        if text.strip():
            self._put(chat_id, (*self.shown, WaitingQuestion(uuid4().hex, text.strip(), awaited_id)))
        return True

    def ask_held(self, question_id: str) -> None:
        """Asks a held question now, or after the running answer; the held ones behind it follow."""
        chat_id, row = self._conversation.conversation_id, self.shown
        place = next((place for place, one in enumerate(row) if one.question_id == question_id), None)
        if chat_id is None or place is None or not row[place].is_held:
            return
        if (awaited_id := _running(self._conversation)) is None:
            if (awaited_id := self._conversation.try_to_ask(row[place].text)) is None:
                return
            self._look_at(self._conversation, awaited_id)
            before, behind = row[:place], row[place + 1 :]
        else:
            before, behind = row[:place], row[place:]
        self._put(chat_id, (*before, *_awaiting(behind, None, awaited_id)))

    def remove(self, question_id: str) -> str:
        """Removes a question of the open chat; returns its text, "" if it is not there."""
        row = self.shown
        removed = next((one for one in row if one.question_id == question_id), None)
        if removed is None or self._conversation.conversation_id is None:
            return ""
        self._put(self._conversation.conversation_id, tuple(one for one in row if one is not removed))
        return removed.text

    # --- inside ---

    def _put(self, chat_id: str, row: tuple[WaitingQuestion, ...]) -> None:
        if row:
            self._rows[chat_id] = row
        else:
            self._rows.pop(chat_id, None)
        self.changed.emit()

    def _on_turn_changed(self, view: TurnView) -> None:
        if view.has_ended and any(one.awaited_id == view.turn_id for row in self._rows.values() for one in row):
            self._ended[view.turn_id] = view.state
            self._due.start()

    def _look_at(self, model: ConversationModel, turn_id: str) -> None:
        """Notes the end of a turn that has ended before anything awaited it, as without an engine."""
        turn = model.turn(turn_id)
        if turn is not None and turn.has_ended:
            self._ended[turn_id] = turn.state
            self._due.start()

    def _settle(self) -> None:
        ended, self._ended = self._ended, {}
        for turn_id, state in ended.items():
            for chat_id, row in list(self._rows.items()):
                if not any(one.awaited_id == turn_id for one in row):
                    continue
                if state == "finished":
                    self._go_on(chat_id, turn_id)
                else:
                    self._put(chat_id, _awaiting(row, turn_id, None))

    def _go_on(self, chat_id: str, answered_id: str) -> None:
        """Asks the first question that awaited this turn; the others of its row await the new one."""
        row = self._rows[chat_id]
        with self._model_of(chat_id) as model:
            if model.conversation_id != chat_id or model.turn(answered_id) is None:
                # The chat cannot be read, or another branch of it is shown, which must not change by itself.
                self._put(chat_id, _awaiting(row, answered_id, None))
                return
            if (running_id := _running(model)) is not None:
                self._put(chat_id, _awaiting(row, answered_id, running_id))
                return
            first = next(one for one in row if one.awaited_id == answered_id)
            self.is_asking_by_itself = True
            try:
                asked_id = model.try_to_ask(first.text)
            finally:
                self.is_asking_by_itself = False
            if asked_id is not None:
                row = tuple(one for one in row if one is not first)
                self._look_at(model, asked_id)
            self._put(chat_id, _awaiting(row, answered_id, asked_id))

    @contextmanager
    def _model_of(self, chat_id: str) -> Iterator[ConversationModel]:
        """Yields a model with this chat open: the shown one, or another one for as long as it is needed."""
        if self._conversation.conversation_id == chat_id:
            yield self._conversation
            return
        model = self._conversation.another()
        model.conversation_saved.connect(self._conversation.conversation_saved)
        model.store_failed.connect(self._conversation.store_failed)
        try:
            model.open(chat_id)
            yield model
        finally:
            model.deleteLater()


def _running(model: ConversationModel) -> str | None:
    """Returns the last turn of the branch that is still being answered."""
    return next((turn.turn_id for turn in reversed(model.turns) if not turn.has_ended), None)


def _awaiting(
    row: Sequence[WaitingQuestion], awaited_id: str | None, new_id: str | None
) -> tuple[WaitingQuestion, ...]:
    """Returns the row with another awaited turn in place of `awaited_id`."""
    return tuple(replace(one, awaited_id=new_id) if one.awaited_id == awaited_id else one for one in row)
