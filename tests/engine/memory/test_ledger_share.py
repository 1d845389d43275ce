"""Tests for engine.memory.ledger_share: what one of several models holds, under other names while it waits."""

from __future__ import annotations

from engine.core import Span
from engine.memory.demand import undecided
from engine.memory.ledger import Ledger
from engine.memory.ledger_share import LedgerShare


def names(ledger: Ledger) -> list[tuple[str, str]]:
    return [(span.owner, span.what) for span in ledger.spans()]


def test_what_a_model_holds_is_in_the_ledger_of_all():
    whole = Ledger()
    share = LedgerShare(whole)
    whole.take("runtime", "libraries", "ram", 7)
    lease = share.take("weights", "layer 0", "ram", 5)
    share.measure("workspace", "buffer", "ram", lambda: 3)
    assert share.spans() == whole.spans()
    assert share.held_bytes("ram") == share.counted_bytes("ram") == 15
    lease.release()
    assert whole.held_bytes("ram") == 10


def test_of_a_model_that_waits_all_is_fixed_but_weights_that_leave_when_their_room_is_wanted():
    whole = Ledger()
    share = LedgerShare(whole)
    share.take("weights", "layer 0", "ram", 5)
    share.take("kv", "64 cells", "ram", 3)
    assert undecided(whole.spans()) == ()
    share.wait("small", is_away=False)
    assert names(whole) == [("pool", "small: layer 0"), ("pool", "small: 64 cells")]
    assert whole.counted_bytes("ram") == 8
    share.wait("small", is_away=True)
    assert names(whole) == [("spare weights", "small: layer 0"), ("pool", "small: 64 cells")]
    assert whole.counted_bytes("ram") == 3
    assert undecided(whole.spans()) == (Span("pool", "small: 64 cells", "ram", 3),)
    share.go_on()
    assert names(whole) == [("weights", "layer 0"), ("kv", "64 cells")]
    assert whole.counted_bytes("ram") == 8


def test_a_copy_on_the_disk_stays_there_whoever_waits():
    whole = Ledger()
    share = LedgerShare(whole)
    share.take("weights", "a copy", "disk", 7)
    share.take("weights", "the file", "disk", 9, is_counted=False)
    share.wait("small", is_away=True)
    assert names(whole) == [("pool", "small: a copy"), ("pool", "small: the file")]
    assert whole.counted_bytes("disk") == 7
    assert [span.what for span in undecided(whole.spans("disk"))] == ["small: a copy", "small: the file"]


def test_what_comes_and_goes_while_it_waits_is_named_likewise():
    whole = Ledger()
    share = LedgerShare(whole)
    first = share.take("kv", "64 cells", "ram", 3)
    share.wait("small", is_away=True)
    second = share.take("kv", "answers set aside", "ram", 2)
    assert names(whole)[1] == ("pool", "small: answers set aside")
    first.release()
    second.resize(4)
    share.go_on()
    assert names(whole) == [("kv", "answers set aside")]
    assert whole.held_bytes("ram") == 4


def test_what_is_counted_in_no_budget_stays_so():
    whole = Ledger()
    share = LedgerShare(whole)
    share.take("weights", "token embeddings", "ram", 5, is_mapped=True, is_counted=False)
    share.wait("small", is_away=False)
    share.go_on()
    assert whole.counted_bytes("ram") == 0


def test_what_was_taken_for_a_moment_is_not_remembered():
    whole = Ledger()
    share = LedgerShare(whole)
    share.take("kv", "64 cells", "ram", 3)
    for _ in range(1000):
        share.take("kv", "for a moment", "ram", 1).release()
    assert len(share._entries) < 100
    share.wait("small", is_away=True)
    assert names(whole) == [("pool", "small: 64 cells")]
