"""Unsent questions: the text in the prompt stays with its chat while another chat is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from app.models.conversation import ConversationModel
    from app.widgets.prompt_edit import PromptEdit


class Drafts(QObject):
    """Swaps the text of a prompt when another chat is opened; the chat "" is the new one."""

    changed = Signal()  # waiting

    def __init__(self, prompt: PromptEdit, conversation: ConversationModel, parent: QObject) -> None:
        super().__init__(parent)
        self._prompt, self._conversation = prompt, conversation
        # Of all chats but the open one, the latest at the end.
        self._texts: dict[str, str] = {}
        self._open_id = conversation.conversation_id or ""
        conversation.conversation_changed.connect(self._on_conversation_changed)
        conversation.conversation_saved.connect(lambda _id: self._on_saved())

    @property
    def texts(self) -> dict[str, str]:
        """Returns the unsent text of every chat that has some, by its id."""
        text = self._prompt.text
        return {**self._texts, self._open_id: text} if text.strip() else dict(self._texts)

    @property
    def waiting(self) -> frozenset[str]:
        """Returns the stored chats that have unsent text and are not open."""
        return frozenset(self._texts) - {""}

    def take(self, texts: Mapping[str, str]) -> None:
        """Takes over the texts of an earlier window."""
        self._texts.update({chat_id: text for chat_id, text in texts.items() if chat_id != self._open_id})
        self.changed.emit()

    def _on_conversation_changed(self) -> None:
        chat_id = self._conversation.conversation_id or ""
        if chat_id == self._open_id:
            # Another branch of the same chat.
            return
        self._texts = self.texts
        self._open_id = chat_id
        self._prompt.set_text(self._texts.pop(chat_id, ""))
        self.changed.emit()

    def _on_saved(self) -> None:
        # The new chat has got an id with its first question; the prompt stays as it is.
        self._open_id = self._conversation.conversation_id or ""
