"""What is shown, without how: QObjects that the engine's notices and the chats on disk keep true.

    models = AppModels(client, chat_store, settings)
    models.conversation.ask("What notice period applies to my flat?")

Models hold no widget and import none; widgets hold a model and connect to its signals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal

from app.chats.records import NO_MODEL
from app.models.answering import Answering
from app.models.chat_copies import ChatCopies
from app.models.chat_exports import ChatExports
from app.models.chat_imports import ChatImports
from app.models.chat_list import ChatListModel, Deleted
from app.models.chat_model import ChatModel
from app.models.collection_names import CollectionNames, as_text, names_in
from app.models.conversation import ConversationModel
from app.models.each_file import EachFileModel
from app.models.engine_status import EngineStatusModel
from app.models.library import LibraryModel
from app.models.memory import MemoryModel
from app.models.model_picker import ModelPickerModel
from app.models.presets import PresetsModel
from app.models.reading_first import ReadingFirst
from app.models.remark import RemarkModel
from app.models.run_writer import Writer, writer_of
from app.models.sources import SourcesModel
from app.models.standings import Standings
from app.models.turn_deleting import TurnDeleting
from app.models.turns import TurnView
from app.models.waiting_questions import WaitingQuestions
from app.settings import AppHome
from engine import protocol

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.engine_client import EngineClient
    from app.settings import SettingsStore

T = TypeVar("T")

__all__ = ["AppModels", "TurnView"]


class AppModels(QObject):
    """All models of one window, connected to each other.

    Attributes:
        client: For its signals.
        settings: The window's own settings.
        pasted_folder: Where pasted text and pictures are kept as files.
        answering: The questions under way in all chats.
        waiting: The questions that are asked next, in all chats.
        each_file: The question that is put to every file.
        exports: Writes chats to files.
        chosen_exports: Does the same for chats chosen in the list, at the same time.
        imports: Reads chats from such files.
        copies: Copies chats, and branches them off.
        turn_deleting: Deletes single questions.
        conversation, chat_list, chat_model, library, model_picker, memory, presets, remark, sources, standings,
            engine_status: What is shown.
    """

    message_told = Signal(str, str, str)  # severity (notice, warning, error), a sentence, a way out: for the bar
    problem_found = Signal(str)  # a sentence that needs no immediate action

    def __init__(
        self,
        client: EngineClient,
        chat_store: ChatStore,
        settings: SettingsStore,
        parent: QObject | None = None,
        pasted_folder: Path | None = None,
    ) -> None:
        """`pasted_folder` keeps what was pasted as files; None: in our data folder."""
        super().__init__(parent)
        self.client = client
        self.settings = settings
        self.pasted_folder = pasted_folder or AppHome.find().pasted_folder
        self._chat_store = chat_store
        self.answering = Answering(
            client,
            chat_store.record,
            chat_store.add_variant,
            self,
            is_reading=lambda: self.library.progress is not None,
            reading_first=ReadingFirst(
                client, lambda path: self.library.is_entering(path), lambda: self.library.is_paused, self
            ),
        )
        self.presets = PresetsModel(chat_store, self)
        self.conversation = ConversationModel(
            self.answering,
            chat_store,
            self,
            answers_wanted=lambda: settings.settings.answers_per_question,
            chosen_model=lambda: self.model_picker.chosen_or_unknown,
            has_files=lambda: not self.library.is_empty,
            new_manner=lambda: self.presets.manner_of_new_chats,
            is_gone=lambda name: self.library.is_gone(name),
        )
        self.waiting = WaitingQuestions(self.answering, self.conversation, self)
        self.each_file = EachFileModel(client, chat_store.runs, self, writer=self._writer)
        self.chat_list = ChatListModel(chat_store, self)
        latest = self.answering.view
        self.exports = ChatExports(chat_store, self.conversation, self, latest)
        self.chosen_exports = ChatExports(chat_store, self.conversation, self, latest)
        self.imports = ChatImports(chat_store, self, has_model=lambda path: self.model_picker.entry(path) is not None)
        self.copies = ChatCopies(chat_store, self.conversation, latest, self)
        self.turn_deleting = TurnDeleting(self.conversation, self)
        self.library = LibraryModel(client, self)
        self._names = CollectionNames(self.library, self.conversation, chat_store, self)
        self.model_picker = ModelPickerModel(client, self)
        self.chat_model = ChatModel(self.conversation, self.model_picker, self)
        self.memory = MemoryModel(client, self, name_of=self._chat_of)
        # Until the table is shown for the first time.
        self.memory.table.sleep()
        self.remark = RemarkModel(self.memory, self)
        self.standings = Standings(client, self.library, self)
        self.sources = SourcesModel(client, self.standings, self)
        self.engine_status = EngineStatusModel(client, self, self.each_file, self.library)
        self._connect_chats()
        self._connect_sources()
        self._connect_messages()
        self.conversation.set_collections(self._chosen_last())

    def start_carefully(self) -> None:
        """Starts an engine that loads nothing by itself and watches no folder; quotes answer until a model is chosen.

        For an engine that died repeatedly, perhaps because of its model.
        """
        self.conversation.be_careful(True)
        self.client.start_carefully()

    def start_as_usual(self) -> None:
        """Starts another engine in place of one that has given up, refuses everything, or was started carefully."""
        self.conversation.be_careful(False)
        self.client.start_again()

    def attach(self, paths: Sequence[str]) -> None:
        """Adds folders and files to the library, and confines the open chat to them."""
        self.conversation.attach(self.add_first(paths))

    def ask_about(self, paths: Sequence[str], *, is_new: bool) -> None:
        """Confines a new chat, or the open one, to these files of the library and to no others."""
        if is_new and self.conversation.conversation_id is not None:
            self.conversation.new_chat()
        self.conversation.set_filters(protocol.Filters())
        self.conversation.attach(paths)

    @property
    def collection_added_to(self) -> str:
        """Returns where files go by default: the first collection that the open chat asks, or the default one."""
        return next(iter(self.conversation.asked_collections), self.library.default_collection)

    def add_first(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Adds paths where the open chat asks, to be read before all others; returns the engine's form of them.

        If the engine refuses them, the chat is no longer limited to them.
        """
        collection = self.library.spelled(self.collection_added_to)
        return self.library.add(paths, collection, is_first=True, on_refused=self.conversation.detaching())

    def edits_of_kept_chats(self, edits: Mapping[str, str]) -> dict[str, str]:
        """Returns drafts of edited questions by turn, without those of deleted chats."""
        return self._of_kept(edits, self._chat_store.kept_turns)

    def drafts_of_kept_chats(self, drafts: Mapping[str, str]) -> dict[str, str]:
        """Returns drafts of new questions by chat, without those of deleted chats."""
        return self._of_kept(drafts, self._chat_store.kept_conversations)

    def waiting_in_kept_chats(self, texts: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """Returns waiting questions by chat, without those of deleted chats."""
        return self._of_kept(texts, self._chat_store.kept_conversations)

    def save(self) -> protocol.RagdollError | None:
        """Writes what the disk does not have yet of chats; returns why something could not be written, else None."""
        late = self.conversation.late_writes
        self.answering.save()
        late.write()
        return self.answering.store_problem or late.problem or self.each_file.save() or self._unkept_problem()

    def close(self) -> None:
        """Ends open questions as cancelled and saves them; the last call before the store is closed."""
        self.answering.close()
        self.conversation.late_writes.write()
        self.each_file.close()
        self.exports.stop()
        self.chosen_exports.stop()
        self.imports.stop()
        self.chat_list.stop()

    def _unkept_problem(self) -> protocol.RagdollError | None:
        """Returns why existing chats are lost with the window; None if they are kept, or if there are none."""
        if self._chat_store.is_kept or self._chat_store.is_empty:
            return None
        return protocol.RagdollError(self._chat_store.problem, self.tr("Export what you need."))

    def _of_kept(self, texts: Mapping[str, T], kept_of: Callable[[Collection[str]], Set[str]]) -> dict[str, T]:
        # Chats for this session only do not tell which chats the file has.
        if not self._chat_store.is_kept:
            return dict(texts)
        try:
            kept = kept_of(texts)
        except protocol.RagdollError:
            # Which chats exist cannot be read right now.
            return dict(texts)
        return {name: text for name, text in texts.items() if name in kept}

    def _chat_of(self, question_id: str) -> str:
        return self.chat_list.title_of(self.answering.conversation_of(question_id))

    def _writer(self, views: Sequence[TurnView], given_up: str) -> Writer | None:
        """Returns the model that answers the rest of a question to every file; None if that is not known yet."""
        if self.conversation.is_careful:
            return writer_of(views, NO_MODEL, ())
        picker = self.model_picker
        if not picker.is_known:
            return writer_of(views, "", None)
        return writer_of(views, picker.chosen or NO_MODEL, picker.models, given_up)

    def _connect_chats(self) -> None:
        self.conversation.conversation_saved.connect(self.chat_list.refresh)
        self.answering.open_changed.connect(lambda: self.chat_list.mark_answering(self.answering.conversations))
        self.conversation.collection_changed.connect(self._on_collection_changed)
        for changed in (self.library.collections_changed, self.conversation.conversation_changed):
            changed.connect(self._names.follow)
            changed.connect(self._leave_gone_collection)
        self.model_picker.models_changed.connect(self.conversation.settle_models)
        self.model_picker.models_changed.connect(self.each_file.choose_writer)
        self.model_picker.used.connect(lambda: self.conversation.be_careful(False))
        # The file of a chat's model may have been removed since the last check.
        self.conversation.model_changed.connect(self.model_picker.refresh)
        self.answering.refused.connect(self.model_picker.refresh)
        self.chat_list.chat_renamed.connect(self.conversation.take_title)
        self.chat_list.chats_deleted.connect(self._on_chats_deleted)
        self.chat_list.chat_restored.connect(self.conversation.open)
        self.copies.copied.connect(self._on_copied)
        self.imports.finished.connect(self._on_imported)

    def _connect_sources(self) -> None:
        # The sources follow the newest turn until the user selects another turn, or another branch of one.
        self.conversation.turn_added.connect(self._on_turn_added)
        self.conversation.turn_changed.connect(self._on_turn_changed)
        self.conversation.conversation_changed.connect(self._on_conversation_changed)
        self.conversation.branch_switched.connect(self._show_sources)

    def _connect_messages(self) -> None:
        for failed in (
            self.library.request_failed,
            self.model_picker.request_failed,
            self.conversation.store_failed,
            self.chat_list.store_failed,
            self._names.store_failed,
            self.exports.store_failed,
            self.copies.store_failed,
            self.turn_deleting.store_failed,
            self.imports.failed,
            self.presets.store_failed,
            self.each_file.request_failed,
        ):
            failed.connect(lambda sentence, way_out: self.message_told.emit("error", sentence, way_out))
        self.waiting.too_many.connect(lambda sentence, way_out: self.message_told.emit("notice", sentence, way_out))
        self.client.notice_received.connect(self._on_notice)
        self.client.engine_died.connect(lambda sentence: self.message_told.emit("warning", sentence, ""))

    def _on_notice(self, notice: protocol.Notice) -> None:
        if isinstance(notice, protocol.Problem):
            self.problem_found.emit(notice.sentence)

    def _leave_gone_collection(self) -> None:
        chosen, is_new = self.conversation.collections, self.conversation.conversation_id is None
        # A new chat asks the collections that exist; a chat with turns shows which of its collections are gone.
        there = tuple(name for name in chosen if not self.library.is_gone(name))
        if there != chosen and is_new and self.conversation.searches:
            self.conversation.set_collections(there)

    def _chosen_last(self) -> tuple[str, ...]:
        """Returns the collections that were asked when the window was last open."""
        last = self.settings.settings
        return (last.last_collection,) if last.last_collection else names_in(last.last_collections)

    def _on_collection_changed(self) -> None:
        names = self.conversation.collections
        self.settings.change(
            last_collection=names[0] if len(names) == 1 else "",
            last_collections=as_text(names) if len(names) > 1 else "",
        )

    def _on_chats_deleted(self, deleted: Deleted) -> None:
        for conversation_id in deleted.conversation_ids:
            self.answering.stop_conversation(conversation_id)
        if self.conversation.conversation_id in deleted.conversation_ids:
            self.conversation.new_chat()

    def _on_copied(self, conversation_id: str) -> None:
        self.chat_list.refresh()
        self.conversation.open(conversation_id)

    def _on_imported(self, conversation_ids: tuple[str, ...]) -> None:
        self.chat_list.refresh()
        if len(conversation_ids) == 1:
            self.conversation.open(conversation_ids[0])

    def _watch_documents(self) -> None:
        self.standings.watch(passage for turn in self.conversation.turns for passage in turn.passages)

    def _on_turn_changed(self, turn_id: str) -> None:
        self._watch_documents()
        if turn_id == self.sources.turn_id:
            self._show_sources(turn_id)

    def _on_conversation_changed(self) -> None:
        turns = self.conversation.turns
        self._watch_documents()
        self.sources.show_turn(turns[-1] if turns else None)

    def _on_turn_added(self, turn_id: str) -> None:
        # A page that is being read stays open when a waiting question is asked.
        if not (self.waiting.is_asking_by_itself and self.sources.selected is not None):
            self._show_sources(turn_id)

    def _show_sources(self, turn_id: str) -> None:
        self.sources.show_turn(self.conversation.turn(turn_id))
