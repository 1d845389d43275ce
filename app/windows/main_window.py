"""The window: rail, pages, message bar and status line, and their connections.

It is made without models, so that it is painted before anything is loaded; `attach` connects it to them. Pages other
than the chat are made on the first visit, and parts that the first paint does not show on first use.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QApplication, QMainWindow, QStackedWidget, QWidget

from app import theme
from app.settings import MOST_SOURCES_PX
from app.widgets import bits
from app.widgets.prompt_edit import MAX_CHARACTERS
from app.widgets.rail import Place, Rail
from app.widgets.status_line import StatusLine
from app.windows.chat_page import ChatPage

if TYPE_CHECKING:
    from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QResizeEvent

    from app.models import AppModels
    from app.settings import SettingsStore, WindowSettings
    from app.widgets.chat_list_panel import ChatListPanel
    from app.widgets.message_bar import MessageBar
    from app.windows.adding import Adding
    from app.windows.attaching import Attaching
    from app.windows.attention import Attention
    from app.windows.chat_actions import ChatActions
    from app.windows.drafts import Drafts
    from app.windows.dropping import Dropping
    from app.windows.notices import Notices
    from app.windows.page import Page
    from app.windows.shortcuts import Shortcut
    from app.windows.text_size import TextSize

_SIZE_PX = (1280, 800)
_SMALLEST_PX = (760, 520)
_NARROW_PX = 1040


class MainWindow(QMainWindow):
    """Arranges the parts; the models own what is shown, the widgets how it is shown."""

    def __init__(self) -> None:
        super().__init__()
        theme.appearance()
        self.setWindowTitle("Ragdoll")
        self.setWindowIcon(theme.icon("ragdoll", "black", side=128))
        self.setMinimumSize(*_SMALLEST_PX)
        self.resize(*_SIZE_PX)
        self.setAcceptDrops(True)
        self._models: AppModels | None = None
        self.attaching: Attaching | None = None
        self._drafts: Drafts | None = None
        self._place: Place = "chats"
        self._may_lose = False
        # The problem of the settings file that was shown last, so that each one is shown once.
        self._told_problem = ""
        self._pages: dict[str, Page] = {}
        self._sidebar_wanted = True
        self.shortcuts: list[Shortcut] = []
        self.rail, self.chat, self.status_line = Rail(), ChatPage(), StatusLine()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.chat)
        right = QWidget()
        self._column = bits.column(spacing=0)
        self._column.addWidget(self._stack, 1)
        self._column.addWidget(self.status_line)
        right.setLayout(self._column)
        self._body = centre = QWidget()
        line = bits.row(self.rail, spacing=0)
        line.addWidget(right, 1)
        centre.setLayout(line)
        self.setCentralWidget(centre)
        self._connect()
        self.rail.set_current("chats")
        self.chat.starting_point.setFocus()

    # --- parts that the first paint does not show ---

    @cached_property
    def message_bar(self) -> MessageBar:
        from app.widgets.message_bar import MessageBar

        bar = MessageBar()
        self._column.insertWidget(0, bar)
        return bar

    @cached_property
    def notices(self) -> Notices:
        from app.windows.notices import Notices

        return Notices(self.message_bar, self._show_problems, self)

    @cached_property
    def text_size(self) -> TextSize:
        from app.windows.text_size import TextSize

        return TextSize(self._store, self)

    @cached_property
    def attention(self) -> Attention:
        from app.windows.attention import Attention

        return Attention(self)

    @cached_property
    def chats(self) -> ChatListPanel:
        from app.widgets.chat_list_panel import ChatListPanel

        panel = ChatListPanel()
        panel.opened.connect(self.chat_actions.open_listed)
        panel.export_wanted.connect(self.chat_actions.export_chat)
        panel.exports_wanted.connect(self.chat_actions.export_chats)
        panel.duplicate_wanted.connect(self.chat_actions.duplicate)
        panel.left.connect(lambda: self.page(self._place).starting_point.setFocus())
        self.rail.put(panel)
        return panel

    @cached_property
    def chat_actions(self) -> ChatActions:
        from app.windows.chat_actions import ChatActions

        return ChatActions(self)

    @cached_property
    def adding(self) -> Adding:
        from app.windows.adding import Adding

        return Adding(self)

    @cached_property
    def dropping(self) -> Dropping:
        from app.windows.dropping import Dropping

        return Dropping(self, self._body)

    # --- bringing to life ---

    def apply_settings(self, settings: WindowSettings) -> None:
        """Restores theme, place, widths and the unsent question; best called before the window is shown."""
        theme.appearance().choose(settings.theme, settings.font_scale)
        if settings.geometry:
            self.restoreGeometry(QByteArray.fromBase64(settings.geometry.encode()))
        self._sidebar_wanted = settings.is_sidebar_visible
        self._fit_rail()
        self.chat.set_sources_width(settings.sources_width_px)
        self.chat.take_back(settings.unsent_question)

    def attach(self, models: AppModels) -> None:
        """Shows the models from now on; called once."""
        from app.outside import outside
        from app.windows.attaching import Attaching
        from app.windows.drafts import Drafts

        self._models = models
        self._install_shortcuts()
        if not self.isVisible():
            self.apply_settings(models.settings.settings)
        models.settings.settings_changed.connect(self._on_settings_changed)
        models.conversation.conversation_changed.connect(self._on_conversation_changed)
        models.conversation.conversation_saved.connect(lambda _id: self._on_conversation_changed())
        models.conversation.title_changed.connect(self._on_title_changed)
        self.notices.attach(models)
        outside().told.connect(self.notices.tell)
        self.attention.attach(models)
        self.chat_actions.attach(models)
        self.adding.attach(models)
        self.chats.attach(models.chat_list)
        self.chat.attach(models)
        self.attaching = Attaching(self, models)
        self._drafts = drafts = Drafts(self.chat.prompt, models.conversation, self)
        for changed in (drafts.changed, models.waiting.changed):
            changed.connect(self._mark_unsent)
        self._take_back_unsent(models)
        self._mark_unsent()
        self.status_line.attach(models.engine_status, models.memory, models.remark)
        self._on_settings_changed()
        self._on_conversation_changed()
        self.go_to(self._place)

    def _take_back_unsent(self, models: AppModels) -> None:
        """Brings back what was being written when the window was closed; forgets it once it is sent."""
        settings = models.settings.settings
        if settings.unsent_edits:
            from app.windows.closing import edits_in

            self.chat.conversation.take_drafts(edits_in(settings.unsent_edits))
        if settings.unsent_choices:
            from app.windows.closing import choices_in

            models.conversation.choose(choices_in(settings.unsent_choices))
        if settings.unsent_drafts and self._drafts is not None:
            from app.windows.closing import edits_in

            self._drafts.take(edits_in(settings.unsent_drafts))
        self.chat.prompt.submitted.connect(lambda _text: self._forget_sent_question(models))
        models.conversation.conversation_saved.connect(lambda _id: self._forget_sent_edits(models))

    def _mark_unsent(self) -> None:
        """Marks the chats that are not open and hold something that the user has written and must still send."""
        if self._models is not None and self._drafts is not None:
            unsent = self._drafts.waiting | self._models.waiting.held_chats
            self._models.chat_list.mark_drafts(unsent - {self._models.conversation.conversation_id or ""})

    def _forget_sent_question(self, models: AppModels) -> None:
        # A question that was sent is part of a chat, even if this window is never closed properly.
        settings = models.settings.settings
        if settings.unsent_question or settings.unsent_drafts or settings.unsent_choices:
            models.settings.change(**self._unsent_questions(models))

    def _unsent_questions(self, models: AppModels) -> dict[str, str]:
        """Returns the settings that keep what was written in the prompts of chats, and chosen for a new one."""
        from app.windows import closing

        texts = self._drafts.texts if self._drafts is not None else {}
        unsent_question = texts.pop("", "")
        return {
            "unsent_question": unsent_question[:MAX_CHARACTERS],
            "unsent_drafts": closing.as_text(models.drafts_of_kept_chats(texts)),
            "unsent_choices": closing.choices_as_text(models.conversation.unasked),
        }

    def _forget_sent_edits(self, models: AppModels) -> None:
        if models.settings.settings.unsent_edits:
            from app.windows import closing

            models.settings.change(unsent_edits=closing.as_text(self.chat.edits))

    # --- places ---

    @property
    def place(self) -> Place:
        return self._place

    def go_to(self, place: Place) -> ChatPage | Page:
        """Shows a page, made on the first visit; before models are attached, the place is only remembered."""
        self._place = place
        self.rail.set_current(place)
        page = self.page(place)
        self._stack.setCurrentWidget(page)
        page.starting_point.setFocus()
        return page

    def page(self, place: Place) -> ChatPage | Page:
        if place == "chats" or self._models is None:
            return self.chat
        if place not in self._pages:
            from app.windows.places import make_page

            page = make_page(place, self, self._models)
            self._pages[place] = page
            self._stack.addWidget(page)
        return self._pages[place]

    # --- what can be done with the window itself; what is done with chats is in `chat_actions` ---

    def get_model(self) -> None:
        """Goes to the models that can be downloaded."""
        if self._models is not None:
            from app.windows.models_page import ModelsPage

            cast(ModelsPage, self.go_to("models")).show_catalogue()

    def toggle_sidebar(self) -> None:
        self._sidebar_wanted = self.rail.is_compact
        self.rail.set_compact(not self._sidebar_wanted)
        if self._models is not None:
            self._models.settings.change(is_sidebar_visible=self._sidebar_wanted)

    def show_shortcuts(self) -> None:
        from app.windows.shortcuts_dialog import ShortcutsDialog

        extra = [
            (self.tr("Send the question; while an answer is written, it is asked next"), "Return"),
            (self.tr("New line in a question"), "Shift+Return"),
            (self.tr("Earlier questions of this chat, while the question is empty"), "Up, Down"),
            (self.tr("Scroll the chat, also from the question"), "PgUp, PgDown"),
            (self.tr("Go to the start or the end of the chat"), "Ctrl+Home, Ctrl+End"),
            (self.tr("Restore a deleted chat, in the list"), "Ctrl+Z"),
            (self.tr("Open a file, in the library"), "Return"),
            (self.tr("Show a file in its folder, in the library"), "Ctrl+Return"),
        ]
        dialog = ShortcutsDialog([*((item.does, item.keys) for item in self.shortcuts), *extra], self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def open_palette(self) -> None:
        from app.windows.command_palette import CommandPalette
        from app.windows.commands import commands_of

        palette = CommandPalette(commands_of(self, self._models), self)
        palette.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        corner = self.mapToGlobal(self.rect().topLeft())
        palette.move(corner.x() + (self.width() - palette.width()) // 2, corner.y() + 96)
        palette.show()
        palette.field.setFocus()

    def next_pane(self) -> None:
        """Moves the focus to the next part of the window: rail, conversation, question and sources, or the page."""
        from app.windows import panes

        around: list[QWidget] = [self.rail]
        around += self.chat.panes() if self._place == "chats" else (self.page(self._place),)
        panes.focus_next(around, QApplication.focusWidget())

    # --- Qt ---

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self.dropping.offer(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        self.dropping.offer(event)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.dropping.leave()

    def dropEvent(self, event: QDropEvent) -> None:
        self.dropping.take(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_rail()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._models is not None:
            from app.windows import closing

            self._settle_pages()
            geometry = bytes(self.saveGeometry().toBase64().data()).decode()
            edits = closing.as_text(self._models.edits_of_kept_chats(self.chat.edits))
            unsent = self._unsent_questions(self._models)
            self._models.settings.change(geometry=geometry, unsent_edits=edits, **unsent)
            self._keep_unsent_for_every_file(self._models)
            problem = self._models.save() or closing.unsent_problem(self._models.settings)
            if problem is not None and not self._may_lose:
                closing.ask_before_losing(self, problem, self.close_whatever_is_lost)
                event.ignore()
                return
        super().closeEvent(event)

    def close_whatever_is_lost(self) -> None:
        """Closes the window even if part of the chats cannot be written to the disk."""
        self._may_lose = True
        self.close()

    # --- inside ---

    def _keep_unsent_for_every_file(self, models: AppModels) -> None:
        from app.windows.every_file_page import EveryFilePage

        # If the page was never opened, the text that it would have shown is kept as it is.
        if isinstance(page := self._pages.get("every-file"), EveryFilePage):
            models.settings.change(unsent_for_every_file=page.unsent)

    def _settle_pages(self) -> None:
        """Applies edits in progress, as if each field had lost the focus."""
        if (focused := self.focusWidget()) is not None:
            focused.clearFocus()
        for page in self._pages.values():
            page.settle()

    def _install_shortcuts(self) -> None:
        from app.windows.shortcuts import Shortcut, install

        chats = self.chat_actions
        self.shortcuts = [
            Shortcut("Ctrl+N", self.tr("New chat"), chats.new_chat, "new-chat"),
            Shortcut("Ctrl+K", self.tr("Search chats and commands"), self.open_palette, "search"),
            Shortcut("Ctrl+,", self.tr("Settings"), lambda: self.go_to("settings"), "settings"),
            Shortcut("Ctrl+B", self.tr("Show or hide the sidebar"), self.toggle_sidebar, "sidebar"),
            Shortcut("Ctrl+/", self.tr("Keyboard shortcuts"), self.show_shortcuts, "keyboard"),
            Shortcut("Ctrl+L", self.tr("Go to the question"), chats.focus_prompt, "chats"),
            Shortcut("Ctrl+R", self.tr("Regenerate the last answer"), chats.regenerate, "regenerate"),
            Shortcut("Ctrl+F", self.tr("Find in this chat"), chats.find, "search"),
            Shortcut("F3", self.tr("Next match"), lambda: chats.find_next(1), "chevron-down"),
            Shortcut("Shift+F3", self.tr("Previous match"), lambda: chats.find_next(-1), "chevron-up"),
            Shortcut("Esc", self.tr("Stop the answer"), chats.stop_answer, "stop"),
            Shortcut("F6", self.tr("Next pane"), self.next_pane, "sources"),
            Shortcut("Ctrl++", self.tr("Larger text"), lambda: self.text_size.step(1), "zoom-in", ("Ctrl+=",)),
            Shortcut("Ctrl+-", self.tr("Smaller text"), lambda: self.text_size.step(-1), "zoom-out"),
            Shortcut("Ctrl+0", self.tr("Reset the text size"), lambda: self.text_size.reset(), "fit-width"),
        ]
        install(self, self.shortcuts)

    def _connect(self) -> None:
        self.rail.chosen.connect(lambda place: self.go_to(cast("Place", place)))
        self.rail.new_chat_wanted.connect(lambda: self.chat_actions.new_chat())
        self.chat.add_folder_wanted.connect(lambda collection: self.adding.add_folder(collection))
        self.chat.new_collection_wanted.connect(lambda: self.adding.new_collection(is_asked=True))
        self.chat.add_files_wanted.connect(lambda collection: self.adding.add_files(collection))
        self.chat.ask_wanted.connect(lambda path: self.chat_actions.ask_about([path], is_new=False))
        self.chat.open_model_wanted.connect(lambda: self.adding.open_model())
        self.chat.get_model_wanted.connect(self.get_model)
        self.chat.sources_width_changed.connect(self._on_sources_width)
        self.status_line.restart_wanted.connect(self._restart_engine)

    def _fit_rail(self) -> None:
        # A narrow window shows the icons only, whatever the user has chosen for a wider one.
        is_compact = not self._sidebar_wanted or self.width() < _NARROW_PX
        if is_compact != self.rail.is_compact:
            self.rail.set_compact(is_compact)

    def _on_settings_changed(self) -> None:
        store = self._store()
        if store is not None:
            theme.appearance().choose(store.settings.theme, store.settings.font_scale)
            if store.problem and store.problem != self._told_problem:
                self.notices.tell("warning", store.problem, "")
            self._told_problem = store.problem

    def _on_sources_width(self, width_px: int) -> None:
        store = self._store()
        if store is not None:
            store.change(sources_width_px=min(width_px, MOST_SOURCES_PX))

    def _store(self) -> SettingsStore | None:
        return self._models.settings if self._models is not None else None

    def _on_conversation_changed(self) -> None:
        if self._models is not None:
            self.chats.show_current(self._models.conversation.conversation_id or "")

    def _on_title_changed(self, title: str) -> None:
        self.setWindowTitle(f"{title} – Ragdoll" if title else "Ragdoll")

    def _show_problems(self) -> None:
        from app.windows.library_page import LibraryPage

        page = self.go_to("library")
        if isinstance(page, LibraryPage):
            page.show_filter("problems")

    def _restart_engine(self) -> None:
        if self._models is not None:
            self._models.start_as_usual()
