"""Tests for engine.memory.ledger."""

from __future__ import annotations

import threading

import pytest

from engine.memory.ledger import Lease, Ledger, Reservation


def test_what_is_taken_is_held_until_it_is_given_back():
    ledger = Ledger()
    lease = ledger.take("kv", "cells", "ram", 100)
    lease.resize(150)
    assert ledger.held_bytes("ram") == ledger.held_bytes("ram", "kv") == 150
    lease.release()
    lease.release()
    assert ledger.spans() == ()


def test_tiers_and_owners_are_told_apart():
    ledger = Ledger()
    ledger.take("kv", "cells", "gpu", 1)
    ledger.take("weights", "layer 0", "ram", 2)
    assert [span.owner for span in ledger.spans("gpu")] == ["kv"]
    assert ledger.held_bytes("ram", "kv") == 0


def test_a_state_can_be_told():
    ledger = Ledger()
    lease = ledger.take("weights", "layer 0", "ram", 2, "loading")
    lease.mark("resident")
    assert [span.state for span in ledger.spans()] == ["resident"]


def test_nobody_holds_less_than_nothing_or_changes_what_is_gone():
    ledger = Ledger()
    with pytest.raises(ValueError, match="cannot hold"):
        ledger.take("kv", "cells", "ram", -1)
    lease = ledger.take("kv", "cells", "ram", 1)
    lease.release()
    with pytest.raises(ValueError, match="already given back"):
        lease.resize(2)


def test_each_change_is_told_and_telling_may_look():
    seen: list[int] = []
    ledger = Ledger()
    ledger.on_change = lambda: seen.append(ledger.held_bytes("ram"))
    lease = ledger.take("kv", "cells", "ram", 5)
    lease.resize(7)
    lease.release()
    assert seen == [5, 7, 0]


def test_many_threads_leave_nothing_behind():
    ledger = Ledger()

    def take_and_give() -> None:
        for _ in range(200):
            ledger.take("kv", "cells", "ram", 3).release()

    threads = [threading.Thread(target=take_and_give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spans() == ()


# --- reservations ---


def test_room_that_is_reserved_is_nobody_elses_until_it_is_given_up():
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 60)
    reservation = ledger.reserve("ram", 30, budget_bytes=100)
    assert reservation is not None
    assert ledger.reserve("ram", 11, budget_bytes=100) is None
    assert ledger.reserve("gpu", 11, budget_bytes=100) is not None
    reservation.release()
    reservation.release()
    assert ledger.reserve("ram", 40, budget_bytes=100) is not None


def test_a_reservation_becomes_leases_and_counts_once():
    ledger = Ledger()
    with ledger.reserve("ram", 30, budget_bytes=30) or pytest.fail("there is room") as reservation:
        lease = reservation.take("weights", "layer 0", 10, "loading")
        reservation.grow(lease, 5)
        assert (lease.num_bytes, reservation.num_bytes, ledger.reserved_bytes("ram")) == (15, 15, 15)
        assert ledger.reserve("ram", 1, budget_bytes=30) is None
    assert (ledger.held_bytes("ram"), ledger.reserved_bytes("ram")) == (15, 0)


def test_more_than_was_reserved_cannot_be_taken_of_it():
    ledger = Ledger()
    reservation = ledger.reserve("ram", 10, budget_bytes=None)
    assert reservation is not None
    lease = reservation.take("kv", "cells", 4)
    with pytest.raises(ValueError, match="more than the 6"):
        reservation.take("kv", "cells", 7)
    with pytest.raises(ValueError, match="more than the 6"):
        reservation.grow(lease, 7)
    elsewhere = ledger.take("kv", "cells", "gpu", 1)
    with pytest.raises(ValueError, match="cannot grow"):
        reservation.grow(elsewhere, 1)
    reservation.release()
    with pytest.raises(ValueError, match="more than the 0"):
        reservation.take("kv", "cells", 1)
    assert ledger.held_bytes("ram") == 4


def test_nothing_can_always_be_reserved_and_less_than_nothing_never():
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 60)
    assert ledger.reserve("ram", 0, budget_bytes=10) is not None
    with pytest.raises(ValueError, match="cannot be reserved"):
        ledger.reserve("ram", -1, budget_bytes=None)


def test_of_many_that_ask_at_once_for_the_last_bytes_one_gets_them():
    for _ in range(50):
        ledger = Ledger()
        ledger.take("kv", "cells", "ram", 90)
        together = threading.Barrier(8)
        won: list[Reservation | None] = []

        def ask(ledger: Ledger = ledger, together: threading.Barrier = together, won: list = won) -> None:
            together.wait(30)
            won.append(ledger.reserve("ram", 10, budget_bytes=100))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([one for one in won if one is not None]) == 1


def test_growers_and_shrinkers_on_many_threads_never_hold_more_than_the_budget():
    ledger, budget_bytes = Ledger(), 100
    seen: list[int] = []
    ledger.on_change = lambda: seen.append(ledger.held_bytes("ram"))

    def grow_and_shrink(num_bytes: int) -> None:
        for _ in range(300):
            reservation = ledger.reserve("ram", num_bytes, budget_bytes)
            if reservation is not None:
                with reservation:
                    lease = reservation.take("kv", "cells", num_bytes // 2)
                    reservation.grow(lease, num_bytes - num_bytes // 2)
                lease.release()

    threads = [threading.Thread(target=grow_and_shrink, args=(size,)) for size in (20, 35, 50, 70)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) <= budget_bytes
    assert (ledger.held_bytes("ram"), ledger.reserved_bytes("ram")) == (0, 0)


# --- pages of files ---


def test_pages_of_files_are_told_apart_from_what_the_system_cannot_take_back():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "ram", 7, is_mapped=True)
    ledger.take("kv", "cells", "ram", 2)
    assert ledger.held_bytes("ram") == 9
    assert ledger.held_bytes("ram", is_mapped=True) == ledger.held_bytes("ram", "weights") == 7
    assert ledger.held_bytes("ram", is_mapped=False) == 2


def test_what_stays_as_it_is_is_no_change():
    told: list[None] = []
    ledger = Ledger(lambda: told.append(None))
    lease = ledger.take("kv", "cells", "ram", 5)
    lease.resize(5)
    lease.mark("resident")
    assert len(told) == 1


# --- what is measured ---


def test_what_is_measured_is_measured_at_each_look_and_tells_nobody():
    told: list[None] = []
    caches = [10, 25, 40]
    ledger = Ledger(lambda: told.append(None))
    lease = ledger.measure("index", "caches", "ram", lambda: caches.pop(0))
    assert (lease.num_bytes, len(told)) == (10, 1)
    ledger.look()
    ledger.look()
    assert (ledger.held_bytes("ram"), len(told)) == (40, 1)


def test_what_has_ended_is_measured_no_more():
    ledger = Ledger()
    sizes = iter([5])
    lease = ledger.measure("index", "caches", "ram", lambda: next(sizes))
    lease.release()
    ledger.look()
    assert ledger.spans() == ()


def test_what_ends_while_it_is_measured_stays_ended():
    ledger = Ledger()
    leases: list[Lease] = []

    def measure() -> int:
        for lease in leases:
            lease.release()
        return 7

    leases.append(ledger.measure("index", "caches", "ram", measure))
    ledger.look()
    assert ledger.spans() == ()


def test_what_is_no_budgets_is_held_and_leaves_room_for_others():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "ram", 70, is_mapped=True, is_counted=False)
    ledger.take("kv", "cells", "ram", 20)
    assert (ledger.held_bytes("ram"), ledger.counted_bytes("ram")) == (90, 20)
    assert ledger.reserve("ram", 80, budget_bytes=100) is not None
    assert ledger.reserve("ram", 1, budget_bytes=100) is None


def test_what_is_bound_to_come_is_nobody_elses_until_it_is_there():
    ledger = Ledger()
    with ledger.promised("ram", lambda: 100 - ledger.held_bytes("ram", "runtime")):
        assert (ledger.reserved_bytes("ram"), ledger.reserved_bytes("gpu")) == (100, 0)
        assert ledger.reserve("ram", 60, 150) is None
        ledger.take("runtime", "torch", "ram", 70)
        assert ledger.reserved_bytes("ram") == 30
        ledger.take("runtime", "more than was thought", "ram", 70)
        assert ledger.reserved_bytes("ram") == 0
        assert ledger.held_bytes("ram") == 140
    assert ledger.reserved_bytes("ram") == 0
