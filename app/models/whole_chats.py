"""A stored chat as it is in force: with choices and answers that are not on the disk yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from app.chats import Conversation, Turn, WholeChat
from app.models.turn_records import filters_of, manner_of, outcome_of, stored_filters, stored_manner

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.models.late_writes import LateWrites
    from app.models.turns import TurnView


def whole_chat(
    store: ChatStore, conversation: Conversation, late: LateWrites, latest: Callable[[str], TurnView | None]
) -> WholeChat:
    """Returns a conversation with all its turns; `latest` knows turns that are open or not saved yet.

    Raises RagdollError.
    """
    turns = store.turns(conversation.conversation_id)
    return WholeChat(_in_force(conversation, late), tuple(_newest(turn, latest(turn.turn_id)) for turn in turns))


def _in_force(conversation: Conversation, late: LateWrites) -> Conversation:
    chat = conversation.conversation_id
    collections, searches = late.newest(chat, "scope", (conversation.collections, conversation.searches))
    return replace(
        conversation,
        collections=collections,
        searches=searches,
        filters=stored_filters(late.newest(chat, "filters", filters_of(conversation.filters))),
        model=late.newest(chat, "model", conversation.model),
        manner=stored_manner(late.newest(chat, "manner", manner_of(conversation.manner))),
    )


def _newest(turn: Turn, view: TurnView | None) -> Turn:
    return turn if view is None else replace(turn, outcome=outcome_of(view))
