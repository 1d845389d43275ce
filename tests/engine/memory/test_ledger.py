"""Tests for engine.memory.ledger."""

from __future__ import annotations

import threading

import pytest

from engine.memory.ledger import Ledger


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
