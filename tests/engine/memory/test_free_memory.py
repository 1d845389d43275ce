"""Tests for engine.memory.free_memory."""

from __future__ import annotations

from engine.config import GIB, MIB
from engine.core import Tier
from engine.memory.free_memory import FreeMemory
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger
from engine.memory.room import headroom_bytes


def memory(ledger: Ledger, free_bytes: int, budget_bytes: int | None = None, level: str = "none") -> FreeMemory:
    hardware = Hardware(16 * GIB, free_bytes, 200 * GIB, 60 * GIB, 2 * GIB)
    levels: dict[Tier, str] = {"gpu": "some", "ram": level, "disk": "full"}
    return FreeMemory(ledger, lambda: hardware, lambda: budget_bytes, lambda: levels)


def test_what_is_free_is_given_but_for_what_the_system_needs():
    ledger = Ledger()
    headroom = headroom_bytes(Hardware(16 * GIB, GIB, 0, 0, 0))
    free = memory(ledger, headroom + 100 * MIB)
    assert free.reserve(101 * MIB) is None
    room = free.reserve(100 * MIB)
    assert room is not None
    assert ledger.reserved_bytes("ram") == 100 * MIB
    room.release()
    assert ledger.reserved_bytes("ram") == 0


def test_no_more_is_given_than_the_budget_leaves():
    ledger = Ledger()
    ledger.take("weights", "layers", "ram", 900 * MIB)
    free = memory(ledger, 8 * GIB, GIB)
    assert free.reserve(125 * MIB) is None
    assert free.reserve(124 * MIB) is not None


def test_it_is_short_where_something_is_given_up_for_main_memory():
    assert not memory(Ledger(), GIB).is_short
    assert memory(Ledger(), GIB, level="some").is_short
