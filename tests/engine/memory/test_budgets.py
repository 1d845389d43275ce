"""Tests for engine.memory.budgets."""

from __future__ import annotations

from engine.config import GIB, MIB, MemorySettings
from engine.memory.budgets import GROWTH_SECONDS, Followed, allowed, followed
from engine.memory.hardware import Device, Hardware
from engine.memory.room import Held

SETTINGS = MemorySettings(device_reserve_bytes=512 * MIB)


def machine(free: int = 10 * GIB, ours: int = 2 * GIB, gpu_free: int | None = 6 * GIB) -> Hardware:
    devices = () if gpu_free is None else (Device("GPU0", "A card", 8 * GIB, gpu_free),)
    return Hardware(16 * GIB, free, 500 * GIB, 200 * GIB, ours, devices)


def test_what_we_hold_and_what_is_free_is_ours_but_for_what_the_system_needs():
    budgets = allowed(machine(), Held(gpu_bytes=GIB, disk_bytes=3 * GIB), SETTINGS)
    assert budgets.ram_bytes == 12 * GIB - int(0.04 * 16 * GIB)
    assert budgets.gpu_bytes == 7 * GIB - 512 * MIB
    assert budgets.disk_bytes == 203 * GIB - 50 * GIB


def test_taking_memory_ourselves_changes_no_budget():
    before = allowed(machine(free=10 * GIB, ours=2 * GIB), Held(), SETTINGS)
    after = allowed(machine(free=7 * GIB, ours=5 * GIB), Held(), SETTINGS)
    assert before.ram_bytes == after.ram_bytes


def test_other_programs_on_the_card_take_from_its_budget():
    alone = allowed(machine(gpu_free=6 * GIB), Held(gpu_bytes=GIB), SETTINGS)
    beside = allowed(machine(gpu_free=2 * GIB), Held(gpu_bytes=GIB), SETTINGS)
    assert alone.gpu_bytes - beside.gpu_bytes == 4 * GIB


def test_the_users_budget_is_kept_where_it_is_the_smaller_one():
    chosen = MemorySettings(gpu_budget_bytes=0, ram_budget_bytes=3 * GIB, disk_budget_bytes=900 * GIB)
    budgets = allowed(machine(), Held(), chosen)
    assert (budgets.gpu_bytes, budgets.ram_bytes) == (0, 3 * GIB)
    assert budgets.disk_bytes == 150 * GIB


def test_no_card_has_no_room_and_a_full_machine_none_either():
    assert allowed(machine(gpu_free=None), Held(), SETTINGS).gpu_bytes == 0
    full = Hardware(16 * GIB, 0, 500 * GIB, 0, 100 * MIB)
    budgets = allowed(full, Held(), SETTINGS)
    assert (budgets.ram_bytes, budgets.disk_bytes) == (0, 0)


def test_less_is_followed_at_once_and_more_after_a_while():
    budget = followed(None, 10 * GIB, now=0.0)
    budget = followed(budget, 8 * GIB, now=1.0)
    assert budget.num_bytes == 8 * GIB
    budget = followed(budget, 10 * GIB, now=2.0)
    assert budget == Followed(8 * GIB, more_since=2.0)
    budget = followed(budget, 10 * GIB, now=2.0 + GROWTH_SECONDS - 1)
    assert budget.num_bytes == 8 * GIB
    assert followed(budget, 10 * GIB, now=2.0 + GROWTH_SECONDS) == Followed(10 * GIB)


def test_room_that_comes_and_goes_is_not_followed():
    budget = Followed(8 * GIB)
    for second in range(200):
        budget = followed(budget, (8 if second % 10 == 0 else 12) * GIB, now=float(second))
    assert budget.num_bytes == 8 * GIB


def test_noise_is_no_news():
    budget = Followed(8 * GIB)
    for second, num_bytes in enumerate([8 * GIB - 99 * MIB, 8 * GIB + 99 * MIB] * 60):
        budget = followed(budget, num_bytes, now=float(second))
    assert budget == Followed(8 * GIB)


def test_what_the_user_allows_is_followed_at_once_in_both_directions():
    assert followed(Followed(8 * GIB), 12 * GIB, now=0.0, at_once=True).num_bytes == 12 * GIB
    assert followed(Followed(8 * GIB), 8 * GIB - 1, now=0.0, at_once=True).num_bytes == 8 * GIB - 1
