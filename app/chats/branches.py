"""A conversation is a tree of turns; what is shown of it is one branch. Pure functions over a conversation's turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

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


def without(turns: Sequence[Turn], gone: Collection[str]) -> tuple[Turn, ...]:
    """Returns the turns that are not `gone`; what followed a turn that is gone follows the turn before it."""
    parents = {turn.turn_id: turn.parent_id for turn in turns if turn.turn_id in gone}
    return tuple(
        replace(turn, parent_id=_kept_parent(turn.parent_id, parents)) if turn.parent_id in parents else turn
        for turn in turns
        if turn.turn_id not in parents
    )


def leaf_after(turns: Sequence[Turn], turn_id: str, leaf_id: str | None) -> str | None:
    """Returns which turn ends the shown branch once a turn is gone; `leaf_id` ends it now.

    In the place of the last turn its newest variant is shown, else the branch ends with the turn before it.
    """
    turn = next((one for one in turns if one.turn_id == turn_id), None)
    if turn is None or leaf_id != turn_id:
        return leaf_id
    others = [other for other in variants(turns, turn) if other.turn_id != turn_id]
    return newest_leaf(turns, others[-1].turn_id) if others else turn.parent_id


def _kept_parent(parent_id: str | None, parents: dict[str, str | None]) -> str | None:
    """Returns the nearest turn above that is kept; `parents` are those of the turns that are gone."""
    seen = set[str]()
    # A damaged file may hold a circle.
    while parent_id is not None and parent_id in parents and parent_id not in seen:
        seen.add(parent_id)
        parent_id = parents[parent_id]
    return None if parent_id in seen else parent_id
