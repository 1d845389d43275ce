"""Tests for engine.generation.model_eviction: what leaves memory where others want its room."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.generation.model_eviction import ModelEviction

MIB = 2**20


@dataclass
class Member:
    """A model as seen by one that evicts it; `left` are the bytes that it was asked to let go of."""

    is_in_memory: bool = True
    is_away: bool = False
    removable_bytes: int = 30 * MIB
    room_bytes: int = 0
    left: list[int] = field(default_factory=list)

    @property
    def instance(self) -> Any:
        return self

    @property
    def loader(self) -> Any:
        return self

    @property
    def planner(self) -> Any:
        return self

    def headroom_bytes(self) -> int:
        return 0

    def leave(self, num_bytes: int) -> None:
        self.left.append(num_bytes)

    def enter(self, *, is_planned_for: bool) -> None: ...


@pytest.mark.parametrize(
    ("waiting", "room_bytes", "left"),
    [
        # Only its context has left: plans count its weights as room, so they are.
        (Member(is_in_memory=False), -20 * MIB, [20 * MIB]),
        (Member(is_in_memory=False, is_away=True), -20 * MIB, [20 * MIB]),
        (Member(is_in_memory=False), 20 * MIB, []),
        (Member(is_in_memory=False, is_away=True, removable_bytes=0), -20 * MIB, []),
        # One that can compute lives by its own plan.
        (Member(), -20 * MIB, []),
    ],
)
def test_weights_of_who_waits_leave_where_anything_else_wants_their_room(waiting, room_bytes, left):
    principal: Any = Member(room_bytes=room_bytes)
    ModelEviction([principal, waiting], lambda _: None).for_others(principal)
    assert waiting.left == left
    assert principal.left == []
