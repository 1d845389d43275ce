"""The open chat: its turns on the branch that is shown, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats import Conversation, Turn, markdown_of
from app.chats.records import NO_MODEL
from app.models.answering import Answering
from app.models.collection_names import those_there
from app.models.open_chat import OpenChat
from app.models.shown_branch import ShownBranch
from app.models.titles import title_from
from app.models.turn_records import stored_filters, stored_manner, view_of
from app.models.turns import TurnView, going_on
from engine import protocol
from engine.protocol import Filters, Manner, RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore


class ConversationModel(OpenChat):
    """The `turns` of the open chat; new ones are asked with its settings.

    Attributes:
        read_with: The chat's own instructions with which it was last read, as far as known; None: the settings'.
    """

    turn_added = Signal(str)  # turn id; at the end of `turns`
    turn_changed = Signal(str)  # turn id; its state, quotes, or anything but its text has changed
    text_appended = Signal(str, str)  # turn id, the piece; `turns` has it already
    thoughts_appended = Signal(str, str)  # the same for the thoughts before the text
    conversation_changed = Signal()  # another chat or another branch: all turns have to be shown again
    branch_switched = Signal(str)  # turn id; after `conversation_changed`, it took the place of another variant
    question_refused = Signal(str)  # the text of a question that could not be saved, and is not asked
    edit_refused = Signal(str, str)  # turn id, the text of such a question that was to take its place

    def __init__(
        self,
        answering: Answering,
        store: ChatStore,
        parent: QObject | None = None,
        answers_wanted: Callable[[], int] = lambda: 1,
        chosen_model: Callable[[], str | None] = lambda: "",
        has_files: Callable[[], bool] = lambda: True,
        new_manner: Callable[[], Manner] = Manner,
        is_gone: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """An empty chat.

        Args:
            answering: Asks the questions.
            store: Keeps chats.
            parent: As in Qt.
            answers_wanted: How many answers a question gets by default.
            chosen_model: The model that a new chat begins with and keeps; "" for none, None while that is not known.
            has_files: Whether there is anything to search; otherwise questions go to the model alone.
            new_manner: The manner of new chats.
            is_gone: Whether a collection no longer exists.
        """
        super().__init__(store, parent, chosen_model, new_manner)
        self._answers_wanted, self._has_files, self._is_gone = answers_wanted, has_files, is_gone
        self._answering = answering
        self._branch = ShownBranch((), answering.view)
        self.read_with = self.manner.instructions
        answering.turn_changed.connect(self._on_turn_changed)
        answering.text_appended.connect(self._on_text_appended)
        answering.thoughts_appended.connect(self._on_thoughts_appended)
        answering.others_added.connect(self._on_others_added)
        answering.store_failed.connect(self.store_failed)

    @property
    def turns(self) -> list[TurnView]:
        """The branch that is shown, oldest first."""
        return self._branch.views

    def turn(self, turn_id: str) -> TurnView | None:
        """A turn of the branch that is shown."""
        return self._branch.view(turn_id)

    @property
    def is_answering(self) -> bool:
        return any(not view.has_ended for view in self._branch.views)

    @property
    def asks_files(self) -> bool:
        """Whether the next question will be searched for."""
        return self.searches and (self._has_files() or bool(self.filters.paths))

    @property
    def asked_collections(self) -> tuple[str, ...]:
        """Where the next question will be searched for: of several collections, in those that still exist."""
        return those_there(self.collections, self._is_gone)

    @property
    def was_read(self) -> bool:
        """Whether a model has read something of the branch that is shown."""
        return any(view.model for view in self._branch.views)

    # --- which chat ---

    def new_chat(self) -> None:
        """Opens an empty chat; the choice of collections stays, everything else has its defaults."""
        self._take(None, ())

    def open(self, conversation_id: str) -> None:
        """Shows a stored chat on the branch that was shown last; a deleted one opens a new chat."""
        try:
            conversation = self._store.conversation(conversation_id)
            turns = self._store.turns(conversation_id) if conversation else ()
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return
        self._take(conversation, turns)

    def another(self) -> ConversationModel:
        """Returns a model for a chat that is not open, which shares what could not be written yet with this one."""
        made = ConversationModel(
            self._answering,
            self._store,
            self,
            self._answers_wanted,
            self._chosen_model,
            self._has_files,
            self._new_manner,
            self._is_gone,
        )
        made.late_writes, made.is_careful = self.late_writes, self.is_careful
        return made

    def export_markdown(self) -> str:
        """The branch that is shown, as Markdown."""
        return markdown_of(self.title, self._branch.ended(), stored_manner(self.manner))

    # --- questions ---

    def ask(self, text: str) -> None:
        """Asks at the end of the branch; white space alone is ignored."""
        if text.strip() and self.try_to_ask(text) is None:
            self.question_refused.emit(text)

    def try_to_ask(self, text: str) -> str | None:
        """Asks at the end of the branch; returns the id of the new turn, None if the question cannot be saved."""
        was_asked = self._ask(self._branch.last_id, text, self.filters, searches=self.asks_files)
        return self._branch.last_id if was_asked else None

    def stop(self, turn_id: str) -> None:
        """Stops an answer; its text so far stays."""
        self._answering.stop(turn_id)

    def go_on(self, turn_id: str) -> None:
        """Continues an answer that broke off, in its place."""
        turn, view = self._branch.tree.find(turn_id), self._branch.view(turn_id)
        if turn is None or view is None or not view.is_unfinished:
            return
        begun = going_on(view)
        self.read_with = self.manner.instructions
        self._branch.refresh(begun)
        self.turn_changed.emit(turn_id)
        self._answering.begin(
            begun,
            protocol.Ask(
                question_id=turn_id,
                text=turn.question,
                conversation_id=turn.conversation_id,
                transcript=self._branch.tree.transcript(turn.parent_id),
                manner=self.manner,
                num_answers=1,
                model=NO_MODEL if self.is_careful else self.model,
                unfinished=view.unfinished,
                searches=turn.searches,
            ),
        )

    def regenerate(self, turn_id: str, num_answers: int | None = None) -> None:
        """Asks the same again, as a new variant beside the old one, or as `num_answers` of them.

        A question that went to the model alone is put to files if some are attached now.
        """
        turn = self._branch.tree.find(turn_id)
        if turn is not None:
            searches = turn.searches or (self.searches and bool(self.filters.paths))
            self._ask(turn.parent_id, turn.question, self.filters, num_answers, searches=searches)

    def search_everything(self, turn_id: str) -> None:
        """Asks the same again without filters, chosen or found in its words, as a new variant beside it."""
        turn = self._branch.tree.find(turn_id)
        if turn is not None:
            self._ask(turn.parent_id, turn.question, Filters(reads_question=False), searches=True)

    def edit(self, turn_id: str, text: str) -> None:
        """Asks an edited question with the chat's present filters, as a new variant beside the old one."""
        turn = self._branch.tree.find(turn_id)
        if turn is not None and not self._ask(turn.parent_id, text, self.filters, searches=self.asks_files):
            self.edit_refused.emit(turn_id, text)

    def switch_branch(self, turn_id: str, step: int) -> None:
        """Shows the variant `step` places after a turn, with all that follows it; stays within bounds."""
        turn = self._branch.tree.find(turn_id)
        leaf_id = self._branch.tree.leaf_beside(turn, step) if turn is not None else None
        conversation_id = self.conversation_id
        if turn is not None and leaf_id is not None and conversation_id is not None:
            self._try(lambda: self._store.set_leaf(conversation_id, leaf_id))
            self._branch.show(leaf_id)
            self.conversation_changed.emit()
            if (shown := self._branch.in_place_of(turn)) is not None:
                self.branch_switched.emit(shown.turn_id)

    # --- single turns ---

    def remove_turn(self, turn_id: str) -> bool:
        """Deletes a turn of the shown branch; returns False if it is not there, or is being answered.

        Raises RagdollError.
        """
        turn, view = self._branch.tree.find(turn_id), self._branch.view(turn_id)
        if turn is None or view is None or not view.has_ended:
            return False
        leaf_id = self._branch.tree.leaf_after(turn_id, self._branch.last_id)
        self._store.delete_turn(turn, leaf_id)
        self._branch.remove(turn_id, leaf_id)
        self.conversation_changed.emit()
        return True

    def restore_turn(self, turn_id: str) -> None:
        """Brings a deleted turn of this chat back, and shows a branch with it. Raises RagdollError."""
        conversation_id = self.conversation_id
        if conversation_id is None:
            return
        is_answering = self.is_answering
        self._store.restore_turn(turn_id)
        self._branch.take(self._store.turns(conversation_id))
        # An answer that is being written stays in sight; the turn is a variant beside it then.
        last_id = self._branch.last_id
        leaf_id = last_id if is_answering else self._branch.tree.leaf_through(turn_id, last_id)
        self._try(lambda: self._store.set_leaf(conversation_id, leaf_id))
        self._branch.show(leaf_id)
        self.conversation_changed.emit()

    # --- inside ---

    def _take(self, conversation: Conversation | None, turns: tuple[Turn, ...]) -> None:
        tell = self._become(conversation)
        self._branch = ShownBranch(turns, self._answering.view)
        self._branch.show(conversation.leaf_id if conversation else None)
        self.read_with = self.manner.instructions
        self.conversation_changed.emit()
        tell()

    def _ask(
        self,
        parent_id: str | None,
        text: str,
        filters: Filters,
        num_answers: int | None = None,
        *,
        searches: bool,
    ) -> bool:
        """Asks, and stops answers that are then no longer shown; returns False if the question cannot be saved."""
        text, num_answers = text.strip(), num_answers or self._answers_wanted()
        if not text:
            return True
        # Filters apply only to a search; attached files may be of any collection.
        filters = filters if searches else Filters()
        was_new = self.conversation_id is None
        collection, confined = filters.asked_of(self.asked_collections if searches and not filters.paths else ())
        try:
            conversation_id = self._stored(title_from(text))
            turn = self._store.add_turn(conversation_id, parent_id, text, stored_filters(filters), searches=searches)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            if was_new and self.conversation_id is not None:
                # The chat is stored, only its question is not.
                self.conversation_saved.emit(self.conversation_id)
            return False
        is_at_end = parent_id == self._branch.last_id
        for left in self._branch.add(turn):
            self._answering.stop(left)
        if is_at_end:
            self.turn_added.emit(turn.turn_id)
        else:
            self.conversation_changed.emit()
        self.conversation_saved.emit(conversation_id)
        self.read_with = self.manner.instructions
        self._answering.begin(
            replace(view_of(turn), num_answers=num_answers),
            protocol.Ask(
                question_id=turn.turn_id,
                text=turn.question,
                collection=collection,
                conversation_id=conversation_id,
                transcript=self._branch.tree.transcript(parent_id),
                manner=self.manner,
                num_answers=num_answers,
                filters=confined,
                model=NO_MODEL if self.is_careful else self.model,
                searches=searches,
            ),
        )
        return True

    def _on_turn_changed(self, view: TurnView) -> None:
        if self._branch.change(view):
            self.turn_changed.emit(view.turn_id)

    def _on_text_appended(self, view: TurnView, piece: str) -> None:
        if self._branch.refresh(view):
            self.text_appended.emit(view.turn_id, piece)

    def _on_thoughts_appended(self, view: TurnView, piece: str) -> None:
        if self._branch.refresh(view):
            self.thoughts_appended.emit(view.turn_id, piece)

    def _on_others_added(self, turn_id: str, views: tuple[TurnView, ...]) -> None:
        turn = self._branch.tree.find(turn_id)
        numbered_anew = self._branch.add_beside(turn, views) if turn is not None else None
        if numbered_anew is not None:
            self.turn_changed.emit(numbered_anew)
