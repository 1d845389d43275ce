"""What can be done with chats: shortcuts, the palette, the list of chats and pages call these."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from app.models import AppModels
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
        """Opens the chat that was deleted last."""
        self._window.chats.bring_back()
        self._window.go_to("chats")

    def export_chat(self, conversation_id: str = "") -> None:
        """Writes the branch that is shown of a chat ("" is the open one) to a Markdown file."""
        if self._models is None:
            return
        wanted = conversation_id or self._models.conversation.conversation_id or ""
        if wanted:
            from app.chats.file_stems import file_stem
            from app.windows import file_choices

            name = f"{file_stem(self._models.chat_list.title_of(wanted))}.md"
            file_choices.choose_export(self._window, name, partial(self._export_to, conversation_id=wanted))

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

        text = self._models.exports.markdown(conversation_id) if self._models is not None else None
        if text is None:
            return
        try:
            write_export(Path(paths[0]), text.encode())
        except OSError as error:
            sentence = self.tr("The chat could not be written: %1.").replace("%1", str(error.strerror or error))
            self._window.notices.tell("error", sentence, self.tr("Choose another folder."))
