"""The open chat: its turns on the branch that is shown, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats import Conversation, Turn, markdown_of
from app.chats.records import NO_MODEL
from app.models.answering import Answering
from app.models.question_filters import with_attached, without_paths
from app.models.titles import title_from
from app.models.turn_records import filters_of, manner_of, outcome_of, stored_filters, stored_manner, view_of
from app.models.turn_tree import TurnTree
from app.models.turns import TurnView, going_on
from engine import protocol
from engine.protocol import Filters, Manner, RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore


@dataclass(slots=True)
class _Chat:
    """Which chat it is, also for what was begun before it had an id: it gets one when it is stored.

    `before_attached` is its collection, and whether it searched, when nothing was attached to it yet.
    """

    conversation_id: str | None = None
    before_attached: tuple[str | None, bool] | None = None


class ConversationModel(QObject):
    """`turns` of the open chat; a chat that nobody has asked anything in is not stored, its `conversation_id` is None.

    Attributes:
        conversation_id: The open chat's, None for a new one.
        title: Its title, "" for a new one.
        collection: Where questions are searched; None searches all collections.
        searches: Whether they are searched at all; else they are put to the model alone.
        filters: What they are confined to besides.
        model: The file of the model that answers them, "none" for quotes; "" for the one that is chosen at the time.
        is_careful: Quotes answer, whatever the model, until somebody chooses one.
        manner: How they are answered where that is not as the settings say.
        read_with: The instructions of its own that it was read with last, as far as is known; None for the settings'.
    """

    turn_added = Signal(str)  # turn id; at the end of `turns`
    turn_changed = Signal(str)  # turn id; state, quotes, or whatever else than its text has changed
    text_appended = Signal(str, str)  # turn id, the piece; `turns` has it already
    thoughts_appended = Signal(str, str)  # the same of what is thought before the text
    conversation_changed = Signal()  # another chat or another branch: all turns are to be shown anew
    title_changed = Signal(str)  # the new title
    collection_changed = Signal()  # collection or searches
    filters_changed = Signal()  # filters
    model_changed = Signal()  # model
    manner_changed = Signal()  # manner
    conversation_saved = Signal(str)  # conversation id; lists of chats should look again
    store_failed = Signal(str, str)  # a sentence, a way out
    question_refused = Signal(str)  # the text of a question that could not be written down, and is not asked

    def __init__(
        self,
        answering: Answering,
        store: ChatStore,
        parent: QObject | None = None,
        answers_wanted: Callable[[], int] = lambda: 1,
        chosen_model: Callable[[], str | None] = lambda: "",
        has_files: Callable[[], bool] = lambda: True,
        new_manner: Callable[[], Manner] = Manner,
    ) -> None:
        """An empty chat.

        Args:
            answering: Asks.
            store: Keeps chats.
            parent: As Qt has it.
            answers_wanted: How many answers a question gets, if nobody says otherwise.
            chosen_model: The model that a new chat begins with and keeps; "" for none, None while that is not known.
            has_files: Whether there is anything to search; else a question is for the model alone.
            new_manner: How a new chat is answered.
        """
        super().__init__(parent)
        self._answers_wanted, self._chosen_model, self._has_files = answers_wanted, chosen_model, has_files
        self._new_manner = new_manner
        self._without_model: list[str] = []  # new chats, from before it was known what they begin with
        self._answering = answering
        self._store = store
        self._tree = TurnTree()
        self._views: dict[str, TurnView] = {}
        self._chat = _Chat()
        self.title = ""
        self.collection: str | None = None
        self.searches = True
        self.filters = Filters()
        self.model = ""
        self.is_careful = False
        self.manner = new_manner()
        self.read_with = self.manner.instructions
        answering.turn_changed.connect(self._on_turn_changed)
        answering.text_appended.connect(self._on_text_appended)
        answering.thoughts_appended.connect(self._on_thoughts_appended)
        answering.others_added.connect(self._on_others_added)
        answering.store_failed.connect(self.store_failed)

    @property
    def conversation_id(self) -> str | None:
        return self._chat.conversation_id

    @property
    def turns(self) -> list[TurnView]:
        """The branch that is shown, oldest first."""
        return list(self._views.values())

    def turn(self, turn_id: str) -> TurnView | None:
        """A turn of the branch that is shown."""
        return self._views.get(turn_id)

    @property
    def is_answering(self) -> bool:
        return any(not view.has_ended for view in self._views.values())

    @property
    def asks_files(self) -> bool:
        """Whether the next question will be searched for."""
        return self.searches and (self._has_files() or bool(self.filters.paths))

    @property
    def was_read(self) -> bool:
        """Whether a model has read something of the branch that is shown."""
        return any(view.model for view in self._views.values())

    # --- which chat ---

    def new_chat(self) -> None:
        """An empty chat; the collection stays chosen, or that there is none; all else is as in any new one."""
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

    def set_collection(self, collection: str | None) -> None:
        """Where the next questions of this chat are searched; None searches all."""
        self._search_in(collection, searches=True)

    def leave_files_out(self) -> None:
        """Has the model alone answer the next questions of this chat."""
        self._search_in(self.collection, searches=False)

    def _search_in(self, collection: str | None, *, searches: bool) -> None:
        if (collection, searches) == (self.collection, self.searches):
            return
        self.collection, self.searches = collection, searches
        if self.conversation_id is not None:
            conversation_id = self.conversation_id
            self._try(lambda: self._store.set_collection(conversation_id, collection, searches=searches))
        self.collection_changed.emit()

    def set_filters(self, filters: Filters) -> None:
        """What the next questions of this chat are confined to."""
        if filters == self.filters:
            return
        self.filters = filters
        if self.conversation_id is not None:
            conversation_id = self.conversation_id
            self._try(lambda: self._store.set_filters(conversation_id, stored_filters(filters)))
        self.filters_changed.emit()

    def set_manner(self, manner: Manner) -> None:
        """How the next questions of this chat are answered."""
        if manner == self.manner:
            return
        self.manner = manner
        if self.conversation_id is not None:
            conversation_id = self.conversation_id
            self._try(lambda: self._store.set_manner(conversation_id, stored_manner(manner)))
        self.manner_changed.emit()

    def attach(self, paths: Iterable[str]) -> None:
        """Confines the next questions of this chat to these folders and files, beside those that it is confined to."""
        self._search_in(self.collection, searches=True)
        self.set_filters(with_attached(self.filters, paths))

    def detach(self, paths: Collection[str]) -> None:
        """Takes them off again; what is not among them stays."""
        self.set_filters(without_paths(self.filters, paths))

    def detaching(self) -> Callable[[Collection[str]], None]:
        """What takes off this chat, whichever is open by then, what is about to be attached to it.

        If it leaves files out now, it does so again when nothing is attached any more.
        """
        chat = self._chat
        # Of several that are refused at once, the first one had the chat search already.
        if chat.before_attached is None or not self.filters.paths:
            chat.before_attached = (self.collection, self.searches)
        scope = chat.before_attached
        return lambda paths: self._detach_from(chat, paths, scope)

    def set_model(self, model: str) -> None:
        """Which model answers the next questions of this chat; "none" for quotes."""
        was_careful = self.is_careful
        self.is_careful = was_careful and model == NO_MODEL
        if model != self.model:
            self._take_model(model)
        elif was_careful != self.is_careful:
            self.model_changed.emit()

    def be_careful(self, is_careful: bool) -> None:
        """Has quotes answer in all chats, or ends that, as choosing a model does."""
        if is_careful != self.is_careful:
            self.is_careful = is_careful
            self.model_changed.emit()

    def _take_model(self, model: str) -> None:
        self.model = model
        if self.conversation_id is not None:
            conversation_id = self.conversation_id
            self._try(lambda: self._store.set_model(conversation_id, model))
        self.model_changed.emit()

    def settle_models(self) -> None:
        """Gives new chats that were asked in before it was known which model is chosen the one they began with."""
        if (chosen := self._chosen_model()) is None:
            return
        waiting, self._without_model = self._without_model, []
        for conversation_id in waiting if chosen else ():
            self._settle_model(conversation_id, chosen)

    def rename(self, title: str) -> None:
        title = " ".join(title.split())
        if title and self.conversation_id is not None:
            conversation_id = self.conversation_id
            if self._try(lambda: self._store.rename(conversation_id, title)):
                self.take_title(conversation_id, title)
                self.conversation_saved.emit(conversation_id)

    def take_title(self, conversation_id: str, title: str) -> None:
        """Shows a title that was given elsewhere."""
        if conversation_id == self.conversation_id and title != self.title:
            self.title = title
            self.title_changed.emit(title)

    def export_markdown(self) -> str:
        """The branch that is shown, as Markdown."""
        shown = [_ended(turn, view) for view in self._views.values() if (turn := self._tree.find(view.turn_id))]
        return markdown_of(self.title, shown, stored_manner(self.manner))

    # --- questions ---

    def ask(self, text: str) -> None:
        """Asks at the end of the branch; white space alone asks nothing."""
        parent_id = next(reversed(self._views), None)
        if not self._ask(parent_id, text, self.filters, searches=self.asks_files):
            self.question_refused.emit(text)

    def stop(self, turn_id: str) -> None:
        """Stops an answer; what has been written of it stays."""
        self._answering.stop(turn_id)

    def go_on(self, turn_id: str) -> None:
        """Has an answer that broke off go on, in its place."""
        turn, view = self._tree.find(turn_id), self._views.get(turn_id)
        if turn is None or view is None or not view.is_unfinished:
            return
        begun = going_on(view)
        self.read_with = self.manner.instructions
        self._refresh(begun)
        self.turn_changed.emit(turn_id)
        self._answering.begin(
            begun,
            protocol.Ask(
                question_id=turn_id,
                text=turn.question,
                conversation_id=turn.conversation_id,
                transcript=self._tree.transcript(turn.parent_id),
                manner=self.manner,
                num_answers=1,
                model=NO_MODEL if self.is_careful else self.model,
                unfinished=view.unfinished,
                searches=turn.searches,
            ),
        )

    def regenerate(self, turn_id: str, num_answers: int | None = None) -> None:
        """Asks the same again, as a new variant beside the old one, or as `num_answers` of them.

        What the model alone was asked is put to files as well, once some are attached.
        """
        turn = self._tree.find(turn_id)
        if turn is not None:
            searches = turn.searches or (self.searches and bool(self.filters.paths))
            self._ask(turn.parent_id, turn.question, self.filters, num_answers, searches=searches)

    def search_everything(self, turn_id: str) -> None:
        """Asks the same again without any filter, chosen or read out of its words, as a new variant beside it."""
        turn = self._tree.find(turn_id)
        if turn is not None:
            self._ask(turn.parent_id, turn.question, Filters(reads_question=False), searches=True)

    def edit(self, turn_id: str, text: str) -> None:
        """Asks something else in a turn's place, where the next question is asked, as a new variant beside the old."""
        turn = self._tree.find(turn_id)
        if turn is not None and not self._ask(turn.parent_id, text, self.filters, searches=self.asks_files):
            self.question_refused.emit(text)

    def switch_branch(self, turn_id: str, step: int) -> None:
        """Shows the variant that is `step` further than a turn, with all that follows on it; stays within bounds."""
        turn, conversation_id = self._tree.find(turn_id), self.conversation_id
        leaf_id = self._tree.leaf_beside(turn, step) if turn is not None else None
        if leaf_id is not None and conversation_id is not None:
            self._try(lambda: self._store.set_leaf(conversation_id, leaf_id))
            self._show(leaf_id)
            self.conversation_changed.emit()

    # --- inside ---

    def _take(self, conversation: Conversation | None, turns: tuple[Turn, ...]) -> None:
        was_scope, was_filters = (self.collection, self.searches), self.filters
        was_model, was_manner = self.model, self.manner
        self._tree, self._views = TurnTree(tuple(map(self._as_ended, turns))), {}
        self._chat = _Chat(conversation.conversation_id if conversation else None)
        self.title = conversation.title if conversation else ""
        if conversation is not None:
            self.collection, self.searches = conversation.collection, conversation.searches
        self.filters = filters_of(conversation.filters) if conversation else Filters()
        self.model = conversation.model if conversation else ""
        self.manner = manner_of(conversation.manner) if conversation else self._new_manner()
        self.read_with = self.manner.instructions
        self._show(conversation.leaf_id if conversation else None)
        self.conversation_changed.emit()
        self.title_changed.emit(self.title)
        if (self.collection, self.searches) != was_scope:
            self.collection_changed.emit()
        if self.filters != was_filters:
            self.filters_changed.emit()
        if self.model != was_model:
            self.model_changed.emit()
        if self.manner != was_manner:
            self.manner_changed.emit()

    def _as_ended(self, turn: Turn) -> Turn:
        """With the answer that has ended and could not be saved yet, as on a full disk."""
        live = self._answering.view(turn.turn_id)
        return turn if live is None or not live.has_ended else replace(turn, outcome=outcome_of(live))

    def _show(self, leaf_id: str | None) -> None:
        places, shown = self._tree.places(), self._views
        self._views = {
            turn.turn_id: self._view(turn, places[turn.turn_id], shown) for turn in self._tree.branch(leaf_id)
        }

    def _view(self, turn: Turn, place: tuple[int, int], shown: Mapping[str, TurnView]) -> TurnView:
        """As it stands by now; what is shown of an ended one says more than what is stored of it."""
        known = self._answering.view(turn.turn_id) or shown.get(turn.turn_id)
        return view_of(turn, *place) if known is None else _numbered(known, place)

    def _ask(
        self,
        parent_id: str | None,
        text: str,
        filters: Filters,
        num_answers: int | None = None,
        *,
        searches: bool,
    ) -> bool:
        """Asks, and stops answers that are not seen any more then; False where it cannot be written down."""
        text, num_answers = text.strip(), num_answers or self._answers_wanted()
        if not text:
            return True
        # What confines a search is for those that are searched for.
        collection, filters = (self.collection, filters) if searches else (None, Filters())
        try:
            conversation_id = self._stored_conversation(text)
            turn = self._store.add_turn(conversation_id, parent_id, text, stored_filters(filters), searches=searches)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return False
        is_at_end, before = parent_id == next(reversed(self._views), None), self._views
        self._tree = self._tree.with_added(turn)
        self._show(turn.turn_id)
        for left in before.keys() - self._views.keys():
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
                transcript=self._tree.transcript(parent_id),
                manner=self.manner,
                num_answers=num_answers,
                filters=filters,
                model=NO_MODEL if self.is_careful else self.model,
                searches=searches,
            ),
        )
        return True

    def _stored_conversation(self, question: str) -> str:
        if self.conversation_id is not None:
            return self.conversation_id
        filters = stored_filters(self.filters)
        chosen = self._chosen_model()
        model = self.model or chosen or ""
        made = self._store.create_conversation(
            title_from(question),
            self.collection,
            filters,
            model,
            searches=self.searches,
            manner=stored_manner(self.manner),
        )
        if not model and chosen is None:
            self._without_model.append(made.conversation_id)
        self._chat.conversation_id, self.title = made.conversation_id, made.title
        self.title_changed.emit(self.title)
        if model != self.model:
            self.model = model
            self.model_changed.emit()
        return made.conversation_id

    def _settle_model(self, conversation_id: str, model: str) -> None:
        def settle() -> None:
            conversation = self._store.conversation(conversation_id)
            # What was chosen for it meanwhile counts.
            if conversation is not None and not conversation.model:
                self._store.set_model(conversation_id, model)

        if conversation_id == self.conversation_id:
            self._take_model(self.model or model)
        else:
            self._try(settle)

    def _detach_from(self, chat: _Chat, paths: Collection[str], scope: tuple[str | None, bool]) -> None:
        """`scope` is the chat's collection, and whether it searched, before they were attached."""
        conversation_id = chat.conversation_id
        if chat is self._chat or (conversation_id is not None and conversation_id == self.conversation_id):
            self.detach(paths)
            if not self.filters.paths and scope == (self.collection, False):
                self.leave_files_out()
        elif conversation_id is not None:
            self._try(lambda: self._detach_stored(conversation_id, paths, scope))

    def _detach_stored(self, conversation_id: str, paths: Collection[str], scope: tuple[str | None, bool]) -> None:
        conversation = self._store.conversation(conversation_id)
        if conversation is None:
            return
        filters = without_paths(filters_of(conversation.filters), paths)
        self._store.set_filters(conversation_id, stored_filters(filters))
        if not filters.paths and scope == (conversation.collection, False):
            self._store.set_collection(conversation_id, conversation.collection, searches=False)

    def _try(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return False
        return True

    def _on_turn_changed(self, view: TurnView) -> None:
        turn = self._tree.find(view.turn_id)
        if turn is not None and view.has_ended:
            self._tree = self._tree.with_changed(_ended(turn, view))
        if self._refresh(view):
            self.turn_changed.emit(view.turn_id)

    def _on_text_appended(self, view: TurnView, piece: str) -> None:
        if self._refresh(view):
            self.text_appended.emit(view.turn_id, piece)

    def _on_thoughts_appended(self, view: TurnView, piece: str) -> None:
        if self._refresh(view):
            self.thoughts_appended.emit(view.turn_id, piece)

    def _on_others_added(self, turn_id: str, views: tuple[TurnView, ...]) -> None:
        turn = self._tree.find(turn_id)
        if turn is None:
            return
        self._tree = self._tree.with_added(*(_ended(replace(turn, turn_id=view.turn_id), view) for view in views))
        places = self._tree.places()
        for shown_id, shown in list(self._views.items()):
            beside = self._tree.find(shown_id)
            if beside is not None and beside.parent_id == turn.parent_id:
                self._views[shown_id] = _numbered(shown, places[shown_id])
                self.turn_changed.emit(shown_id)

    def _refresh(self, view: TurnView) -> bool:
        """Takes the newer value; returns whether the turn is shown."""
        shown = self._views.get(view.turn_id)
        if shown is not None:
            self._views[view.turn_id] = _numbered(view, (shown.branch_index, shown.num_branches))
        return shown is not None


def _numbered(view: TurnView, place: tuple[int, int]) -> TurnView:
    """With its index among those in its place, and how many they are."""
    return replace(view, branch_index=place[0], num_branches=place[1])


def _ended(turn: Turn, view: TurnView) -> Turn:
    return replace(turn, outcome=outcome_of(view))
