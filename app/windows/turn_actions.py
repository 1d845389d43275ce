"""What the menu of a turn does: a new chat that continues from it, and deleting it with undo above the prompt."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.conversation_view import ConversationView
    from app.widgets.prompt_edit import PromptEdit
    from app.widgets.undo_bar import UndoBar


class TurnActions(QObject):
    """Connects the turns of a conversation with the models that copy chats and delete turns."""

    def __init__(self, conversation: ConversationView, prompt: PromptEdit, models: AppModels) -> None:
        super().__init__(conversation)
        self._conversation, self._prompt, self._models = conversation, prompt, models
        self._offered_in: str | None = None
        conversation.new_chat_wanted.connect(models.copies.branch_off)
        conversation.delete_wanted.connect(self._on_delete_wanted)
        models.conversation.conversation_changed.connect(self._on_conversation_changed)
        models.turn_deleting.changed.connect(self._on_changed)
        models.turn_deleting.restored.connect(conversation.bring_into_sight)

    @cached_property
    def undo(self) -> UndoBar:
        """Returns the bar in the prompt; made when the first question is deleted."""
        from app.widgets.undo_bar import UndoBar

        made = UndoBar()
        made.undone.connect(self._on_undone)
        self._prompt.put_above(made)
        return made

    def _on_delete_wanted(self, turn_id: str) -> None:
        if self._models.turn_deleting.delete(turn_id):
            self._offer()
            self.undo.announce_turn()

    def _on_undone(self) -> None:
        self._models.turn_deleting.undo()
        # Offers what was deleted before it, or the same again if the disk refused it.
        if self._models.turn_deleting.can_undo:
            self._offer()
        # The button that had the focus is hidden.
        self._prompt.setFocus()

    def _offer(self) -> None:
        self._offered_in = self._models.conversation.conversation_id
        self.undo.offer_turn()

    def _on_conversation_changed(self) -> None:
        if self._models.conversation.conversation_id != self._offered_in:
            self._withdraw()

    def _on_changed(self) -> None:
        # It may have been restored elsewhere, as from the palette.
        if not self._models.turn_deleting.can_undo:
            self._withdraw()

    def _withdraw(self) -> None:
        self._offered_in = None
        if "undo" in self.__dict__:
            self.undo.withdraw()
