"""The open chat: its title, and the settings of its questions, which are saved when they change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats import Conversation
from app.chats.records import NO_MODEL
from app.models.late_writes import LateWrites
from app.models.question_filters import with_attached, without_paths
from app.models.turn_records import filters_of, manner_of, stored_filters, stored_manner
from engine.protocol import Filters, Manner, RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore


# Which collections are searched, and whether any are.
_Scope = tuple[tuple[str, ...], bool]


@dataclass(slots=True)
class _Chat:
    """The identity of a chat, also before it has an id, which it gets when it is stored.

    `before_attached` are its collections, and whether it searched, before anything was attached; `replaceable` the same
    that the collection made for it replaces, and then what it was replaced by.
    """

    conversation_id: str | None = None
    before_attached: _Scope | None = None
    replaceable: _Scope | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for a new chat before its first question; a manner of None is that of any new chat."""

    filters: Filters = field(default_factory=Filters)
    model: str = ""
    manner: Manner | None = None
    searches: bool = True


@dataclass(frozen=True, slots=True)
class _Begun:
    """A new chat that was left for another one, what had been chosen for it, and the collections that it asked."""

    chat: _Chat
    chosen: Choices
    collections: tuple[str, ...]


class OpenChat(QObject):
    """The open chat. A chat without questions is not stored, and its `conversation_id` is None.

    Attributes:
        conversation_id: The open chat's, None for a new one.
        title: Its title, "" for a new one.
        collections: Where questions are searched; none searches all collections.
        searches: Whether they are searched at all; otherwise they go to the model alone.
        filters: What they are confined to as well; its paths are searched in any collection.
        model: The file of the model that answers them, "none" for quotes; "" for the one that is chosen at the time.
        is_careful: Quotes answer, whatever the model, until the user chooses one.
        manner: The chat's own settings for answers, which override the general ones.
    """

    title_changed = Signal(str)  # the new title
    collection_changed = Signal()  # collections or searches
    filters_changed = Signal()  # filters
    model_changed = Signal()  # model
    manner_changed = Signal()  # manner
    conversation_saved = Signal(str)  # conversation id; lists of chats should look again
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        store: ChatStore,
        parent: QObject | None,
        chosen_model: Callable[[], str | None],
        new_manner: Callable[[], Manner],
    ) -> None:
        """A new one; arguments as those of `ConversationModel`."""
        super().__init__(parent)
        self._chosen_model, self._new_manner = chosen_model, new_manner
        self._without_model: list[str] = []  # new chats, stored before their model was known
        self._store = store
        self.late_writes = LateWrites(self)
        self.late_writes.failed.connect(self.store_failed)
        self._chat = _Chat()
        self._begun: _Begun | None = None
        self.title = ""
        self.collections: tuple[str, ...] = ()
        self.searches = True
        self.filters = Filters()
        self.model = ""
        self.is_careful = False
        self.manner = self._began_with = new_manner()

    @property
    def conversation_id(self) -> str | None:
        return self._chat.conversation_id

    @property
    def unasked(self) -> Choices:
        """Returns what was chosen for a new chat without questions."""
        begun = self._as_begun() or self._begun
        return begun.chosen if begun is not None else Choices()

    def choose(self, chosen: Choices) -> None:
        """Chooses the same for this chat."""
        self.set_filters(chosen.filters)
        self.set_model(chosen.model)
        if chosen.manner is not None:
            self.set_manner(chosen.manner)
        if not chosen.searches:
            self.leave_files_out()

    # --- its title ---

    def rename(self, title: str) -> None:
        title = " ".join(title.split())
        conversation_id = self.conversation_id
        if title and conversation_id is not None and self._try(lambda: self._store.rename(conversation_id, title)):
            self.take_title(conversation_id, title)
            self.conversation_saved.emit(conversation_id)

    def take_title(self, conversation_id: str, title: str) -> None:
        """Shows a title that was given elsewhere."""
        if conversation_id == self.conversation_id and title != self.title:
            self.title = title
            self.title_changed.emit(title)

    # --- where its questions are searched ---

    def set_collection(self, collection: str | None) -> None:
        """Searches the next questions of this chat in this collection only; None searches all."""
        self.set_collections(() if collection is None else (collection,))

    def setting_collection(self) -> Callable[[str], None]:
        """Returns a function that does the same for this chat, even if another one is open by then.

        It has no effect once something else was chosen for the chat.
        """
        chat = self._chat
        chat.replaceable = (self.collections, self.searches)
        return lambda collection: self._search_made(chat, (collection,))

    def set_collections(self, names: Iterable[str]) -> None:
        """Sets where the next questions of this chat are searched; no name searches all."""
        self._search_in(tuple(names), searches=True)

    def follow_collections(self, name_now: Callable[[str], str]) -> None:
        """Updates the names of renamed collections; whether they are searched stays."""
        former = self.collections
        names = tuple(dict.fromkeys(map(name_now, former)))
        if names == former:
            return
        if (before := self._chat.before_attached) is not None and before[0] == former:
            self._chat.before_attached = (names, before[1])
        self._search_in(names, searches=self.searches)

    def leave_files_out(self) -> None:
        """Puts the next questions of this chat to the model alone."""
        self._search_in(self.collections, searches=False)

    def set_filters(self, filters: Filters) -> None:
        """Sets what the next questions of this chat are confined to."""
        if filters == self.filters:
            return
        self.filters = filters
        self._keep("filters", filters, lambda chat: self._store.set_filters(chat, stored_filters(filters)))
        self.filters_changed.emit()

    def attach(self, paths: Iterable[str]) -> None:
        """Confines the next questions of this chat to these folders and files, in addition to attached ones."""
        self._search_in(self.collections, searches=True)
        self.set_filters(with_attached(self.filters, paths))

    def detach(self, paths: Collection[str]) -> None:
        """Removes these paths from the filters; others stay."""
        self.set_filters(without_paths(self.filters, paths))

    def detaching(self) -> Callable[[Collection[str]], None]:
        """Returns a function that detaches paths from this chat, even if another one is open by then.

        If the chat leaves files out now, it does so again once nothing is attached.
        """
        chat = self._chat
        # If several are refused at once, the first one has changed the scope already.
        if chat.before_attached is None or not self.filters.paths:
            chat.before_attached = (self.collections, self.searches)
        scope = chat.before_attached
        return lambda paths: self._detach_from(chat, paths, scope)

    # --- who answers them, and how ---

    def set_model(self, model: str) -> None:
        """Sets which model answers the next questions of this chat; "none" for quotes."""
        was_careful = self.is_careful
        self.is_careful = was_careful and model == NO_MODEL
        if model != self.model:
            self._take_model(model)
        elif was_careful != self.is_careful:
            self.model_changed.emit()

    def be_careful(self, is_careful: bool) -> None:
        """Lets quotes answer in all chats, or ends that, as choosing a model does."""
        if is_careful != self.is_careful:
            self.is_careful = is_careful
            self.model_changed.emit()

    def settle_models(self) -> None:
        """Gives new chats that were stored before the chosen model was known that model."""
        if (chosen := self._chosen_model()) is None:
            return
        waiting, self._without_model = self._without_model, []
        for conversation_id in waiting if chosen else ():
            self._settle_model(conversation_id, chosen)

    def set_manner(self, manner: Manner) -> None:
        """Sets how the next questions of this chat are answered."""
        if manner == self.manner:
            return
        self.manner = manner
        self._keep("manner", manner, lambda chat: self._store.set_manner(chat, stored_manner(manner)))
        self.manner_changed.emit()

    # --- for subclasses ---

    def _become(self, conversation: Conversation | None) -> Callable[[], None]:
        """Becomes another chat, and returns a function that emits the changes; a new one keeps the collections.

        A new chat without questions that is left for another one is restored by the next new chat.
        """
        was_scope, was_filters = (self.collections, self.searches), self.filters
        was_model, was_manner = self.model, self.manner
        begun, self._begun = self._begun, self._as_begun() if conversation is not None else None
        self._chat = _Chat(conversation.conversation_id if conversation else None)
        self.title = conversation.title if conversation else ""
        if conversation is not None:
            self._begun = self._begun or begun
            self._take_choices(conversation)
        else:
            self._begin_anew(begun)

        def tell() -> None:
            self.title_changed.emit(self.title)
            if (self.collections, self.searches) != was_scope:
                self.collection_changed.emit()
            if self.filters != was_filters:
                self.filters_changed.emit()
            if self.model != was_model:
                self.model_changed.emit()
            if self.manner != was_manner:
                self.manner_changed.emit()

        return tell

    def _begin_anew(self, begun: _Begun | None) -> None:
        self.filters, self.model, self.manner, self.searches = Filters(), "", self._new_manner(), True
        self._began_with = self.manner
        if begun is not None:
            chosen = begun.chosen
            self._chat, self.filters, self.model = begun.chat, chosen.filters, chosen.model
            self.manner, self.searches = chosen.manner or self.manner, chosen.searches
            if begun.chat.replaceable is not None:
                self.collections = begun.collections

    def _as_begun(self) -> _Begun | None:
        """Returns this chat, if it is new and something was chosen or a collection made for it."""
        manner = self.manner if self.manner != self._began_with else None
        chosen = Choices(self.filters, self.model, manner, self.searches)
        if self.conversation_id is not None or (chosen == Choices() and self._chat.replaceable is None):
            return None
        return _Begun(self._chat, chosen, self.collections)

    def _take_choices(self, conversation: Conversation) -> None:
        """Takes over the choices of a stored chat, including those not on the disk yet."""
        chat, late = conversation.conversation_id, self.late_writes
        scope = late.newest(chat, "scope", (conversation.collections, conversation.searches))
        self.collections, self.searches = scope
        self.filters = late.newest(chat, "filters", filters_of(conversation.filters))
        self.model = late.newest(chat, "model", conversation.model)
        self.manner = late.newest(chat, "manner", manner_of(conversation.manner))

    def _stored(self, title: str) -> str:
        """Returns the id of this chat, storing it with that title if it is new. Raises RagdollError."""
        if self.conversation_id is not None:
            return self.conversation_id
        chosen = self._chosen_model()
        model = self.model or chosen or ""
        made = self._store.create_conversation(
            title,
            self.collections,
            stored_filters(self.filters),
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

    def _keep(self, kind: str, value: object, change: Callable[[str], None]) -> None:
        """Saves a change if this chat is stored; what cannot be written is written later."""
        conversation_id = self.conversation_id
        if conversation_id is not None:
            self.late_writes.put(conversation_id, kind, value, lambda: change(conversation_id))

    # --- inside ---

    def _search_in(self, names: tuple[str, ...], *, searches: bool) -> None:
        if (names, searches) == (self.collections, self.searches):
            return
        self.collections, self.searches = names, searches
        scope = (names, searches)
        self._keep("scope", scope, lambda chat: self._store.set_collections(chat, names, searches=searches))
        self.collection_changed.emit()

    def _take_model(self, model: str) -> None:
        self.model = model
        self._keep("model", model, lambda chat: self._store.set_model(chat, model))
        self.model_changed.emit()

    def _settle_model(self, conversation_id: str, model: str) -> None:
        def settle() -> None:
            conversation = self._store.conversation(conversation_id)
            # A model that was chosen in the meantime takes precedence.
            if conversation is not None and not conversation.model:
                self._store.set_model(conversation_id, model)

        if conversation_id == self.conversation_id:
            self._take_model(self.model or model)
        else:
            self._try(settle)

    def _is_open(self, chat: _Chat) -> bool:
        return chat is self._chat or (chat.conversation_id is not None and chat.conversation_id == self.conversation_id)

    def _search_made(self, chat: _Chat, names: tuple[str, ...]) -> None:
        """Searches a chat's next questions in a collection made for it, if its scope is still the one to replace."""
        conversation_id, begun = chat.conversation_id, self._begun
        replaceable, chat.replaceable = chat.replaceable, (names, True)
        if self._is_open(chat):
            if replaceable == (self.collections, self.searches):
                self.set_collections(names)
        elif conversation_id is not None:
            self._try(lambda: self._search_stored(conversation_id, names, replaceable))
        elif begun is not None and chat is begun.chat and replaceable == (begun.collections, begun.chosen.searches):
            self._begun = replace(begun, collections=names, chosen=replace(begun.chosen, searches=True))

    def _search_stored(self, conversation_id: str, names: tuple[str, ...], replaceable: _Scope | None) -> None:
        conversation, late = self._store.conversation(conversation_id), self.late_writes
        if conversation is None:
            return
        scope = late.newest(conversation_id, "scope", (conversation.collections, conversation.searches))
        if scope == replaceable:
            write = partial(self._store.set_collections, conversation_id, names, searches=True)
            late.put(conversation_id, "scope", (names, True), write)

    def _detach_from(self, chat: _Chat, paths: Collection[str], scope: _Scope) -> None:
        """Detaches paths from a chat; `scope` is that from before they were attached."""
        conversation_id = chat.conversation_id
        if self._is_open(chat):
            self.detach(paths)
            if not self.filters.paths and scope == (self.collections, False):
                self.leave_files_out()
        elif conversation_id is not None:
            self._try(lambda: self._detach_stored(conversation_id, paths, scope))
        elif self._begun is not None and chat is self._begun.chat:
            begun, chosen = self._begun, self._begun.chosen
            kept = without_paths(chosen.filters, paths)
            searches = chosen.searches and (bool(kept.paths) or scope != (begun.collections, False))
            self._begun = replace(begun, chosen=replace(chosen, filters=kept, searches=searches))

    def _detach_stored(self, conversation_id: str, paths: Collection[str], scope: _Scope) -> None:
        conversation = self._store.conversation(conversation_id)
        if conversation is None:
            return
        late, store = self.late_writes, self._store
        filters = without_paths(late.newest(conversation_id, "filters", filters_of(conversation.filters)), paths)
        write = partial(store.set_filters, conversation_id, stored_filters(filters))
        late.put(conversation_id, "filters", filters, write)
        names, _ = late.newest(conversation_id, "scope", (conversation.collections, conversation.searches))
        if not filters.paths and scope == (names, False):
            write = partial(store.set_collections, conversation_id, names, searches=False)
            late.put(conversation_id, "scope", scope, write)

    def _try(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return False
        return True
