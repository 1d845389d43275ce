"""A conversation with all its turns as one value, and copies of it under new ids. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from app.chats.records import Conversation, Turn


@dataclass(frozen=True, slots=True)
class WholeChat:
    """A conversation and its turns on all branches, oldest first."""

    conversation: Conversation
    turns: tuple[Turn, ...]


def under_new_ids(conversation: Conversation, turns: Sequence[Turn]) -> WholeChat:
    """Returns a copy with ids of its own, in which nothing is being answered.

    Parents that are not among the turns are left out; so is the end of the shown branch.
    """
    ids = {turn.turn_id: uuid4().hex for turn in turns}
    made = replace(conversation, conversation_id=uuid4().hex, leaf_id=ids.get(conversation.leaf_id or ""))
    return WholeChat(
        made,
        tuple(
            replace(
                _ended(turn),
                turn_id=ids[turn.turn_id],
                conversation_id=made.conversation_id,
                parent_id=ids.get(turn.parent_id or ""),
            )
            for turn in turns
        ),
    )


def _ended(turn: Turn) -> Turn:
    # Nobody answers the copy of a question, so it is like one that was stopped.
    is_open = turn.outcome.state in ("asked", "writing")
    return replace(turn, outcome=replace(turn.outcome, state="cancelled")) if is_open else turn
