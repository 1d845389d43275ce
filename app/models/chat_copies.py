"""Copies of chats: a whole one, or the shown branch up to an answer, to continue in another direction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats.branches import branch
from app.chats.copies import under_new_ids
from app.models.titles import title_of_copy
from app.models.whole_chats import whole_chat
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.models.conversation import ConversationModel
    from app.models.turns import TurnView


class ChatCopies(QObject):
    """Copies chats with their scope, filters, model and manner.

    The engine finds what a copy has in common with its original by its tokens, so that nothing is read again.
    """

    copied = Signal(str)  # conversation id of the copy
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        store: ChatStore,
        open_chat: ConversationModel,
        latest: Callable[[str], TurnView | None],
        parent: QObject | None = None,
    ) -> None:
        """Copies chats of `store`; `latest` knows turns that are open or not saved yet."""
        super().__init__(parent)
        self._store, self._open_chat, self._latest = store, open_chat, latest

    def branch_off(self, turn_id: str) -> None:
        """Copies the shown branch of the open chat up to a turn that has ended."""
        view, conversation_id = self._open_chat.turn(turn_id), self._open_chat.conversation_id
        if view is not None and view.has_ended and conversation_id is not None:
            self._copy(conversation_id, turn_id)

    def duplicate(self, conversation_id: str) -> None:
        """Copies a chat with all its branches; an answer that is being written is cut off in the copy."""
        self._copy(conversation_id)

    def _copy(self, conversation_id: str, last_id: str | None = None) -> None:
        try:
            made = self._copied(conversation_id, last_id)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return
        if made is not None:
            self.copied.emit(made)

    def _copied(self, conversation_id: str, last_id: str | None) -> str | None:
        """Returns the id of the copy; None if there is no such chat. Raises RagdollError.

        If there is a `last_id`, only the branch up to that turn is copied.
        """
        others = self._store.conversations()
        found = next((chat for chat in others if chat.conversation_id == conversation_id), None)
        if found is None:
            return None
        whole = whole_chat(self._store, found, self._open_chat.late_writes, self._latest)
        turns = whole.turns if last_id is None else branch(whole.turns, last_id)
        # The newest even if the clock was set back since another chat was updated.
        now = max(time.time(), max(chat.updated for chat in others) + 0.001)
        begun = replace(
            whole.conversation,
            title=title_of_copy(found.title, {chat.title for chat in others}),
            created=now,
            updated=now,
            is_pinned=False,
            leaf_id=found.leaf_id if last_id is None else last_id,
        )
        made = under_new_ids(begun, turns)
        self._store.add(made.conversation, made.turns)
        return made.conversation.conversation_id
