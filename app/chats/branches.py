"""A conversation is a tree of turns; what is shown of it is one branch. Pure functions over a conversation's turns."""

from __future__ import annotations

from collections.abc import Sequence

from app.chats.records import Turn


def branch(turns: Sequence[Turn], leaf_id: str | None) -> tuple[Turn, ...]:
    """Returns the turns from the first to `leaf_id`; for an unknown leaf, the branch of the newest turn."""
    by_id = {turn.turn_id: turn for turn in turns}
    turn = by_id.get(leaf_id or "") or (turns[-1] if turns else None)
    path, seen = list[Turn](), set[str]()
    while turn is not None and turn.turn_id not in seen:
        path.append(turn)
        seen.add(turn.turn_id)
        turn = by_id.get(turn.parent_id or "")
    return tuple(reversed(path))


def variants(turns: Sequence[Turn], turn: Turn) -> tuple[Turn, ...]:
    """Returns a turn and its siblings, oldest first: the versions that editing and regenerating made."""
    return tuple(other for other in turns if other.parent_id == turn.parent_id)


def newest_leaf(turns: Sequence[Turn], turn_id: str) -> str:
    """Returns the last turn of the newest branch through `turn_id`; `turns` are oldest first."""
    leaf_id, on_branches = turn_id, {turn_id}
    for turn in turns:
        if turn.parent_id in on_branches:
            on_branches.add(turn.turn_id)
            leaf_id = turn.turn_id
    return leaf_id
