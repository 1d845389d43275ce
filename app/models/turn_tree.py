"""The turns of the open chat as a tree: which are variants of each other, and what a next question is based on."""

from __future__ import annotations

from dataclasses import dataclass

from app.chats import Turn
from app.chats.branches import branch, leaf_after, newest_leaf, variants, without
from app.chats.records import Json


@dataclass(frozen=True, slots=True)
class TurnTree:
    """All turns of a chat, oldest first; a change makes another tree."""

    turns: tuple[Turn, ...] = ()

    def find(self, turn_id: str) -> Turn | None:
        return next((turn for turn in self.turns if turn.turn_id == turn_id), None)

    def branch(self, leaf_id: str | None) -> tuple[Turn, ...]:
        """Returns the turns from the first to `leaf_id`; for an unknown leaf, the branch of the newest turn."""
        return branch(self.turns, leaf_id)

    def places(self) -> dict[str, tuple[int, int]]:
        """Returns the index of each turn among its variants, and their number."""
        beside: dict[str | None, list[str]] = {}
        for turn in self.turns:
            beside.setdefault(turn.parent_id, []).append(turn.turn_id)
        return {one: (index, len(ids)) for ids in beside.values() for index, one in enumerate(ids)}

    def leaf_beside(self, turn: Turn, step: int) -> str | None:
        """Returns the last turn of the branch through the variant `step` places further; None if there is none."""
        others = variants(self.turns, turn)
        wanted = others.index(turn) + step
        is_other = step != 0 and 0 <= wanted < len(others)
        return newest_leaf(self.turns, others[wanted].turn_id) if is_other else None

    def transcript(self, leaf_id: str | None) -> tuple[Json, ...]:
        """Returns the segments of the answers up to `leaf_id`, also of stopped ones, for the next prompt."""
        before = self.branch(leaf_id) if leaf_id is not None else ()
        return tuple(segment for turn in before for segment in turn.outcome.segments)

    def leaf_after(self, turn_id: str, leaf_id: str | None) -> str | None:
        """Returns the last turn of the shown branch once a turn is gone; `leaf_id` is the last one now."""
        return leaf_after(self.turns, turn_id, leaf_id)

    def leaf_through(self, turn_id: str, leaf_id: str | None) -> str:
        """Returns `leaf_id` if its branch holds a turn, else the last turn of the newest branch that does."""
        is_on_branch = leaf_id is not None and any(turn.turn_id == turn_id for turn in self.branch(leaf_id))
        return leaf_id if is_on_branch and leaf_id is not None else newest_leaf(self.turns, turn_id)

    def without(self, turn_id: str) -> TurnTree:
        """Returns a tree without a turn; what followed it follows the turn before it."""
        return TurnTree(without(self.turns, {turn_id}))

    def with_added(self, *turns: Turn) -> TurnTree:
        return TurnTree((*self.turns, *turns))

    def with_changed(self, turn: Turn) -> TurnTree:
        """Returns a tree with `turn` in place of the turn with its id."""
        return TurnTree(tuple(turn if turn.turn_id == old.turn_id else old for old in self.turns))
