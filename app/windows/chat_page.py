"""A chat: pickers at the top, the conversation, the prompt below it, and the sources at the right."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.collection_picker import CollectionPicker, words_of
from app.widgets.filter_bar import FilterBar
from app.widgets.hero import Hero
from app.widgets.model_picker import ModelPicker
from app.widgets.prompt_edit import PromptEdit
from app.windows.hero_sentences import alone_sentence, scope_sentence

if TYPE_CHECKING:
    from app.models import AppModels, TurnView
    from app.widgets.conversation_view import ConversationView
    from app.widgets.first_run import FirstRun
    from app.widgets.source_pane import SourcePane
    from app.windows.finding import Finding

_COLUMN_PX = 760
_VIEWER_PX = 520
_MIN_SOURCES_PX = 260
_MIN_CONVERSATION_PX = 360


class ChatPage(QWidget):
    """Made without models, so that it can be painted at once; `attach` brings it to life."""

    add_folder_wanted = Signal(str)
    new_collection_wanted = Signal()
    add_files_wanted = Signal(str)
    ask_wanted = Signal(object)  # the path of a file that is cited
    open_model_wanted = Signal()
    get_model_wanted = Signal()
    sources_width_changed = Signal(int)  # px, 0 when the user has hidden them

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._models: AppModels | None = None
        self._finding: Finding | None = None
        self._finding_in: str | None = None
        self._sources_px = 340
        self._sources_wanted = True
        self.model_picker, self.collection_picker = ModelPicker(), CollectionPicker(is_of_chat=True)
        self.hero, self.prompt = Hero(), PromptEdit()
        self.filters = FilterBar()
        self.prompt.put_below(self.filters)
        self.sources_button = bits.tool(
            "sources", self.tr("Show or hide the sources"), self.toggle_sources, is_checkable=True
        )
        self.manner_button = bits.tool("manner", self.tr("Instructions and settings of this chat"))
        bits.opens_popup(self.manner_button)
        self._centre = QStackedWidget()
        self._centre.addWidget(self.hero)
        self._split = QSplitter(Qt.Orientation.Horizontal)
        self._split.setHandleWidth(1)
        self._split.setChildrenCollapsible(False)
        # The header first: the Tab key follows the order in which parts are added.
        header = self._header()
        self._split.addWidget(self._left_side())
        self._split.setStretchFactor(0, 1)
        # Dragging the splitter emits many changes; only the last one is saved.
        self._width_timer = QTimer(self, singleShot=True, interval=400)
        self._width_timer.timeout.connect(lambda: self.sources_width_changed.emit(self._sources_px))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(header)
        layout.addWidget(self._split, 1)
        self._connect()

    # --- parts that the first paint does not show ---

    @cached_property
    def conversation(self) -> ConversationView:
        from app.widgets.conversation_view import ConversationView

        view = ConversationView()
        view.source_wanted.connect(self._on_source_wanted)
        view.selected.connect(self._on_turn_selected)
        view.keyboard_left.connect(self.prompt.setFocus)
        self._centre.addWidget(view)
        return view

    @cached_property
    def first_run(self) -> FirstRun:
        from app.widgets.first_run import FirstRun

        page = FirstRun()
        page.folder_wanted.connect(lambda: self.add_folder_wanted.emit(""))
        page.files_wanted.connect(lambda: self.add_files_wanted.emit(""))
        page.model_wanted.connect(self.get_model_wanted)
        self._centre.addWidget(page)
        return page

    @cached_property
    def sources(self) -> SourcePane:
        from app.widgets.source_pane import SourcePane

        pane = SourcePane()
        pane.setMinimumWidth(_MIN_SOURCES_PX)
        pane.closed.connect(self.toggle_sources)
        pane.ask_wanted.connect(self.ask_wanted)
        pane.viewing_changed.connect(self._on_viewing_changed)
        self._split.addWidget(pane)
        pane.hide()
        return pane

    @property
    def edits(self) -> dict[str, str]:
        """Returns the drafts of edited questions, by their turns."""
        return self.conversation.drafts() if "conversation" in self.__dict__ else {}

    # --- bringing to life ---

    def attach(self, models: AppModels) -> None:
        # Imported here, because it brings the protocol with it.
        from app.windows.asking_next import AskingNext
        from app.windows.filter_choices import FilterChoices
        from app.windows.manner_choice import MannerChoice
        from app.windows.turn_actions import TurnActions

        self._models = models
        self.filter_choices = FilterChoices(self.filters, models)
        self.manner_choice = MannerChoice(self.manner_button, models)
        self.asking_next = AskingNext(self.prompt, models)
        self.turn_actions = TurnActions(self.conversation, self.prompt, models)
        conversation, library = models.conversation, models.library
        self.model_picker.attach(models.chat_model)
        self.sources.attach(models.sources)
        conversation.conversation_changed.connect(lambda: self._show_conversation())
        conversation.turn_added.connect(self._on_turn_added)
        conversation.turn_changed.connect(self._on_turn_changed)
        conversation.text_appended.connect(self._on_text_appended)
        conversation.thoughts_appended.connect(self._on_thoughts_appended)
        conversation.collection_changed.connect(self._show_collections)
        conversation.filters_changed.connect(self._show_centre)
        library.collections_changed.connect(self._show_collections)
        library.progress_changed.connect(self._show_centre)
        for changed in (library.collections_changed, library.progress_changed, conversation.collection_changed):
            changed.connect(self._show_files)
        self.prompt.recall_from(lambda: [turn.question for turn in conversation.turns])
        conversation.question_refused.connect(self.take_back)
        conversation.edit_refused.connect(self.conversation.edit_again)
        self.collection_picker.chosen.connect(conversation.set_collections)
        self.collection_picker.none_chosen.connect(conversation.leave_files_out)
        models.chat_model.changed.connect(self._show_centre)
        self.conversation.has_files = lambda: not library.is_empty
        self.conversation.collection = lambda: words_of(conversation.asked_collections) or None
        self.conversation.retry_wanted.connect(conversation.regenerate)
        self.conversation.go_on_wanted.connect(conversation.go_on)
        self.conversation.more_wanted.connect(conversation.regenerate)
        self.conversation.edited.connect(conversation.edit)
        self.conversation.everything_wanted.connect(conversation.search_everything)
        self.conversation.branch_wanted.connect(conversation.switch_branch)
        models.standings.changed.connect(self._show_standings)
        models.chat_model.changed.connect(self._show_model)
        self._show_standings()
        self._show_model()
        self._show_conversation()
        self._show_collections()

    # --- what the window and its shortcuts do ---

    def stop(self) -> bool:
        """Stops running answers, or else closes the find bar or an open page; returns False if there was neither."""
        running = [turn for turn in self._turns() if not turn.has_ended]
        if self._models is not None and running:
            for turn in running:
                self._models.conversation.stop(turn.turn_id)
            return True
        if self._finding is not None and self._finding.is_open:
            self._close_finding()
            return True
        if self._models is not None and self.sources.is_viewing:
            self.sources.close_page()
            return True
        return False

    def regenerate(self) -> None:
        """Answers the last question again, as a branch."""
        turns = self._turns()
        if self._models is not None and turns and turns[-1].has_ended:
            self._models.conversation.regenerate(turns[-1].turn_id)

    def open_finding(self) -> None:
        """Opens the find bar of this chat."""
        if self._turns():
            self._made_finding().open()

    def find_next(self, step: int) -> None:
        if self._finding is not None and self._finding.is_open:
            self._finding.step(step)

    def seek(self, words: str) -> None:
        """Goes to the first match of the words that chats were searched for."""
        if words.strip() and self._turns():
            self._made_finding().seek(words)

    def open_manner(self) -> None:
        """Opens instructions and settings of this chat."""
        if self._models is not None:
            self.manner_choice.open()

    def toggle_sources(self) -> None:
        if self._models is None:
            return
        self._sources_wanted = self.sources.isHidden()
        self._show_sources()
        self.sources_width_changed.emit(self._sources_px if self._sources_wanted else 0)

    def set_sources_width(self, width_px: int) -> None:
        """Restores the saved width; 0 hides the sources."""
        self._sources_wanted = width_px > 0
        self._sources_px = max(_MIN_SOURCES_PX, width_px) if width_px else self._sources_px
        self._show_sources()

    @property
    def starting_point(self) -> QWidget:
        """Returns the widget that gets the focus when the page is shown."""
        return self.prompt

    @property
    def has_prompt(self) -> bool:
        """Returns whether a question can be written here; not before there is something to ask about."""
        return not self._foot.isHidden()

    def panes(self) -> tuple[QWidget, ...]:
        """Returns the parts that F6 steps through."""
        panes: list[QWidget] = [self.conversation] if self._turns() else []
        panes.append(self.prompt)
        if self._models is not None and self.sources.isVisible():
            panes.append(self.sources)
        return tuple(panes)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Lets keys that the focused widget ignored scroll the conversation, above all keys in the question.

        Not keys in the sources, which scroll by themselves.
        """
        is_elsewhere = not self._turns() or self.sources.isAncestorOf(self.focusWidget() or self)
        if is_elsewhere or not self.conversation.scroll_by(event):
            super().keyPressEvent(event)

    def take_back(self, text: str) -> None:
        """Puts back a question that could not be asked, or never was; text that was written since stays."""
        if not self.prompt.text.strip():
            self.prompt.set_text(text)

    # --- arrangement ---

    def _header(self) -> QWidget:
        header = QWidget()
        header.setObjectName("chatHeader")
        header.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        line = bits.row(
            self.model_picker, self.collection_picker, self.manner_button, None, self.sources_button, spacing=4
        )
        line.setContentsMargins(12, 8, 12, 8)
        header.setLayout(line)
        return header

    def _left_side(self) -> QWidget:
        self._foot = QWidget()
        # What is above shrinks first.
        self._foot.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        foot = QHBoxLayout(self._foot)
        foot.setContentsMargins(24, 4, 24, 16)
        self.prompt.setMaximumWidth(_COLUMN_PX)
        foot.addStretch(1)
        foot.addWidget(self.prompt, 1000)
        foot.addStretch(1)
        side = QWidget()
        side.setMinimumWidth(_MIN_CONVERSATION_PX)
        self._side = bits.column(spacing=0)
        self._side.addWidget(self._centre, 1)
        self._side.addWidget(self._foot)
        side.setLayout(self._side)
        return side

    def _connect(self) -> None:
        self.prompt.stop_requested.connect(self.stop)
        self.model_picker.open_file_wanted.connect(self.open_model_wanted)
        self.model_picker.get_model_wanted.connect(self.get_model_wanted)
        self.collection_picker.new_wanted.connect(self.new_collection_wanted)
        self._split.splitterMoved.connect(self._on_splitter_moved)

    # --- showing ---

    def _turns(self) -> list[TurnView]:
        return self._models.conversation.turns if self._models is not None else []

    def _on_turn_added(self, _turn_id: str) -> None:
        is_unasked = self._models is not None and self._models.waiting.is_asking_by_itself
        self._show_conversation(stays=is_unasked)

    def _show_conversation(self, *, stays: bool = False) -> None:
        if stays:
            self.conversation.add_turns(self._turns())
        else:
            self.conversation.show_turns(self._turns())
        self._show_centre()
        self._show_busy()
        self._show_sources()
        self._find_again()

    def _show_standings(self) -> None:
        if self._models is not None:
            self.conversation.show_standings(self._models.standings.of)

    def _show_files(self) -> None:
        for view in self.conversation.turn_views():
            view.show_files()

    def _show_model(self) -> None:
        if self._models is not None:
            self.conversation.show_model(bool(self._models.chat_model.path))

    def _on_turn_changed(self, turn_id: str) -> None:
        turn = self._models.conversation.turn(turn_id) if self._models is not None else None
        if turn is not None:
            self.conversation.update_turn(turn)
        self._show_busy()
        self._find_again()

    def _on_text_appended(self, turn_id: str, piece: str) -> None:
        turn = self._models.conversation.turn(turn_id) if self._models is not None else None
        if turn is not None:
            self.conversation.append_text(turn, piece)
            self._find_again()

    def _on_thoughts_appended(self, turn_id: str, piece: str) -> None:
        turn = self._models.conversation.turn(turn_id) if self._models is not None else None
        if turn is not None:
            self.conversation.append_thoughts(turn, piece)

    def _show_busy(self) -> None:
        self.prompt.set_busy(self._models is not None and self._models.conversation.is_answering)

    def _show_centre(self) -> None:
        if self._models is None:
            return
        is_first_run = self._models.library.is_empty and not self._turns()
        # Without files and without a model nothing can answer.
        can_ask = not is_first_run or bool(self._models.chat_model.path)
        asks_files = self._models.conversation.asks_files
        self.hero.show_sentence(scope_sentence(self._models) if asks_files else alone_sentence(self._models))
        self.prompt.show_asked(is_model=not asks_files)
        self.filters.setVisible(asks_files)
        shown = self.conversation if self._turns() else self.first_run if is_first_run else self.hero
        if is_first_run:
            name = self._models.chat_model.name or self.tr("The model")
            self.first_run.show_model(name if can_ask else "")
        # The widget with the focus, also while the window is not active yet.
        focused = self.window().focusWidget()
        had_focus = focused is not None and focused is self._centre.currentWidget()
        self._centre.setCurrentWidget(shown)
        if focused is self.prompt.field and not can_ask:
            shown.setFocus()
        self._foot.setVisible(can_ask)
        if had_focus and can_ask:
            self.prompt.setFocus()

    def _show_collections(self) -> None:
        if self._models is not None:
            library, current = self._models.library, self._models.conversation.collections
            names = [collection.name for collection in library.collections]
            asks_none = not self._models.conversation.searches
            gone = () if asks_none else tuple(filter(library.is_gone, current))
            self.collection_picker.show_collections(names, current, gone=gone, asks_none=asks_none)
            self._show_centre()

    def _show_sources(self) -> None:
        # Answers of the model alone have no sources.
        may_have_any = any(turn.searches for turn in self._turns())
        is_shown = self._sources_wanted and may_have_any
        self.sources_button.setChecked(is_shown)
        self.sources_button.setEnabled(may_have_any)
        if self._models is None:
            return
        if is_shown and self.sources.isHidden():
            self.sources.show()
            self._widen_sources(_VIEWER_PX if self.sources.is_viewing else self._sources_px)
        self.sources.setVisible(is_shown)

    def _on_source_wanted(self, turn_id: str, index: int) -> None:
        self._on_turn_selected(turn_id)
        self.sources.open_passage(index)

    def _on_turn_selected(self, turn_id: str) -> None:
        if self._models is None:
            return
        self._models.sources.show_turn(self._models.conversation.turn(turn_id))
        if self.sources.isHidden():
            self.toggle_sources()

    def _on_viewing_changed(self, is_viewing: bool) -> None:
        self._widen_sources(max(_VIEWER_PX, self._sources_px) if is_viewing else self._sources_px)

    def _widen_sources(self, width_px: int) -> None:
        total = self._split.width()
        width = min(width_px, max(_MIN_SOURCES_PX, total - _MIN_CONVERSATION_PX))
        self._split.setSizes([total - width, width])

    def _on_splitter_moved(self) -> None:
        if not self.sources.is_viewing:
            self._sources_px = self._split.sizes()[1]
            self._width_timer.start()

    # --- finding ---

    def _made_finding(self) -> Finding:
        if self._finding is None:
            from app.widgets.find_bar import FindBar
            from app.windows.finding import Finding

            bar = FindBar()
            self._side.insertWidget(0, bar)
            bar.closed.connect(self._close_finding)
            self._finding = Finding(bar, self.conversation, self._turns)
        self._finding_in = self._chat_id
        return self._finding

    @property
    def _chat_id(self) -> str | None:
        return self._models.conversation.conversation_id if self._models is not None else None

    def _close_finding(self) -> None:
        if self._finding is not None:
            self.prompt.setFocus()
            self._finding.close()

    def _find_again(self) -> None:
        """Updates the matches after a change; closes the find bar in another chat."""
        if self._finding is not None and self._finding_in == self._chat_id:
            self._finding.on_changed()
        elif self._finding is not None:
            self._finding.close()
