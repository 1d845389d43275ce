"""What can be done with chats: shortcuts, the palette, the list of chats and pages call these."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.printable import printable
from app.widgets.figures import count_text

if TYPE_CHECKING:
    from app.models import AppModels
    from app.models.chat_exports import Format
    from app.windows.main_window import MainWindow


class ChatActions(QObject):
    """Acts on the chats of a window; before models are attached, an action does no more than show the chat page."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._models: AppModels | None = None

    def attach(self, models: AppModels) -> None:
        """Acts on the chats of these models from now on; called once."""
        self._models = models
        models.chosen_exports.finished.connect(self._on_exported)
        models.chosen_exports.failed.connect(self._on_export_failed)
        models.imports.finished.connect(self._on_imported)

    # --- which chat is open ---

    def new_chat(self) -> None:
        if self._models is not None:
            self._models.conversation.new_chat()
        self._window.go_to("chats")

    def open_chat(self, conversation_id: str) -> None:
        if self._models is not None:
            if conversation_id != self._models.conversation.conversation_id:
                self._models.conversation.open(conversation_id)
            self._window.go_to("chats")

    def open_listed(self, conversation_id: str) -> None:
        """Opens a chat of the list; while the list is searched, at the first match in the chat."""
        self.open_chat(conversation_id)
        # If the chat could not be read, the one before it is still open.
        if self._models is not None and self._models.conversation.conversation_id == conversation_id:
            self._window.chat.seek(self._models.chat_list.filter)

    def bring_back_chat(self) -> None:
        """Restores the chats that were deleted last, and opens the first one of them."""
        self._window.chats.bring_back()
        self._window.go_to("chats")

    def export_chat(self, conversation_id: str = "") -> None:
        """Writes the shown branch of a chat ("" is the open one) to a Markdown file, or all of it to a JSON file."""
        if self._models is None:
            return
        wanted = conversation_id or self._models.conversation.conversation_id or ""
        if wanted:
            from app.chats.file_stems import file_stem
            from app.windows import file_choices

            name = f"{file_stem(self._models.chat_list.title_of(wanted))}.md"
            file_choices.choose_export(self._window, name, partial(self._export_to, conversation_id=wanted))

    def export_chats(self, conversation_ids: tuple[str, ...], form: str) -> None:
        """Writes chats into a new folder, a file for each; `form` is "md" or "json"."""
        if self._models is not None and not self._models.chosen_exports.is_writing:
            from app.windows import file_choices

            made: Format = "json" if form == "json" else "md"
            write = self._models.chosen_exports.write_all
            file_choices.choose_folder(self._window, lambda paths: write(Path(paths[0]), made, conversation_ids))

    def import_chats(self) -> None:
        """Adds the chats in JSON files that the user chooses."""
        if self._models is not None:
            from app.windows import file_choices

            file_choices.choose_chats(self._window, self._models.imports.begin)

    def import_folder(self) -> None:
        """Adds the chats in all JSON files of a folder."""
        if self._models is not None:
            from app.windows import file_choices

            file_choices.choose_folder(self._window, self._models.imports.begin)

    def duplicate(self, conversation_id: str = "") -> None:
        """Opens a copy of a chat; "" is the open one."""
        if self._models is not None:
            self._models.copies.duplicate(conversation_id or self._models.conversation.conversation_id or "")
            self._window.go_to("chats")

    def bring_back_turn(self) -> None:
        """Restores the question that was deleted last from the open chat."""
        if self._models is not None:
            self._models.turn_deleting.undo()
            self._window.go_to("chats")

    # --- what the open chat is about ---

    def focus_prompt(self) -> None:
        self._window.go_to("chats")

    def attach_files(self) -> None:
        """Lets the user choose files that the next questions of the open chat are about."""
        if self._window.attaching is not None:
            self._window.go_to("chats")
            self._window.attaching.choose()

    def ask_about(self, paths: list[str], *, is_new: bool) -> None:
        """Opens a new chat, or stays in the open one, with its next questions limited to these library files."""
        if self._models is not None:
            self._models.ask_about(paths, is_new=is_new)
            self._window.go_to("chats")

    def open_manner(self) -> None:
        """Opens instructions and settings of the open chat."""
        self._window.go_to("chats")
        self._window.chat.open_manner()

    # --- its answers; a chat that is not in view does not change ---

    def regenerate(self) -> None:
        if self._is_in_view():
            self._window.chat.regenerate()

    def stop_answer(self) -> None:
        if self._is_in_view():
            self._window.chat.stop()

    def find(self) -> None:
        if self._is_in_view():
            self._window.chat.open_finding()

    def find_next(self, step: int) -> None:
        if self._is_in_view():
            self._window.chat.find_next(step)

    # --- inside ---

    def _is_in_view(self) -> bool:
        return self._window.place == "chats"

    def _export_to(self, paths: tuple[str, ...], conversation_id: str) -> None:
        from app.exports import write_export

        file = Path(paths[0])
        form: Format = "json" if file.suffix.lower() == ".json" else "md"
        content = self._models.exports.content(conversation_id, form) if self._models is not None else None
        if content is None:
            return
        try:
            write_export(file, content)
        except OSError as error:
            sentence = self.tr("The chat could not be written: %1.").replace("%1", str(error.strerror or error))
            self._window.notices.tell("error", sentence, self.tr("Choose another folder."))

    def _on_exported(self, num_written: int, folder: str) -> None:
        words = self.tr("1 chat was written to %2.") if num_written == 1 else self.tr("%1 chats were written to %2.")
        sentence = words.replace("%1", count_text(num_written)).replace("%2", printable(folder))
        self._window.notices.tell("notice", sentence, "")

    def _on_export_failed(self, num_written: int, num_chats: int, reason: str) -> None:
        words = self.tr("%1 of %2 chats were written, the next one could not be: %3.")
        if not num_written:
            words = self.tr("The chats could not be written: %3.")
        figures = words.replace("%1", count_text(num_written)).replace("%2", count_text(num_chats))
        way_out = self.tr("Free some space, or choose another folder.")
        self._window.notices.tell("error", figures.replace("%3", reason), way_out)

    def _on_imported(self, conversation_ids: tuple[str, ...]) -> None:
        number = len(conversation_ids)
        words = self.tr("1 chat was imported.") if number == 1 else self.tr("%1 chats were imported.")
        self._window.notices.tell("notice", words.replace("%1", count_text(number)), "")
        if number == 1:
            self._window.go_to("chats")
