"""Deleting single questions of a chat, with undo as long as Ragdoll runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats.errors import ChatGone
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.models.conversation import ConversationModel


class TurnDeleting(QObject):
    """Deletes turns of the open chat, and restores the last one of those that were deleted from it."""

    changed = Signal()  # can_undo, or which turn an undo restores
    restored = Signal(str)  # turn id
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, conversation: ConversationModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversation = conversation
        # By chat, the latest at the end.
        self._deleted: dict[str, list[str]] = {}

    @property
    def can_undo(self) -> bool:
        """Returns whether a question was deleted from the open chat."""
        return bool(self._of_open_chat)

    def delete(self, turn_id: str) -> bool:
        """Deletes a question with its answer from the open chat; returns False for one that is being answered.

        What followed it stays, and follows the turn before it.
        """
        conversation_id = self._conversation.conversation_id
        try:
            is_deleted = conversation_id is not None and self._conversation.remove_turn(turn_id)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return False
        if is_deleted and conversation_id is not None:
            self._deleted.setdefault(conversation_id, []).append(turn_id)
            self.changed.emit()
        return is_deleted

    def undo(self) -> None:
        """Restores the question that was deleted last from the open chat."""
        if not self._of_open_chat:
            return
        turn_id = self._of_open_chat[-1]
        try:
            self._conversation.restore_turn(turn_id)
        except ChatGone as error:
            # Otherwise it would block the turns that were deleted before it.
            self._of_open_chat.pop()
            self.store_failed.emit(error.sentence, error.way_out)
        except RagdollError as error:
            # If the disk refuses the change, it can be tried again.
            self.store_failed.emit(error.sentence, error.way_out)
            return
        else:
            self._of_open_chat.pop()
            self.restored.emit(turn_id)
        self.changed.emit()

    @property
    def _of_open_chat(self) -> list[str]:
        return self._deleted.get(self._conversation.conversation_id or "", [])
