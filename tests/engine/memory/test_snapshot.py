"""Tests for engine.memory.snapshot."""

from __future__ import annotations

import queue
from dataclasses import replace

import pytest

from engine.memory import snapshot
from engine.memory.hardware import Device, Hardware, ProcessMemory
from engine.memory.ledger import Ledger
from engine.memory.snapshot import SnapshotTicker, TierNews, take_snapshot
from engine.protocol import Decision, MemoryReply

GPU = Device("GPU0", "A consumer GPU", 1000, 400)
HARDWARE = Hardware(10_000, 6_000, 90_000, 50_000, 1_500, (GPU,), ProcessMemory(1_500, 1_300, 200))


def test_each_tier_adds_up_to_its_capacity():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "gpu", 500)
    ledger.take("kv", "cells", "ram", 1_000)
    ledger.take("partitions", "LanceDB", "disk", 3_000)
    for tier in take_snapshot(ledger, HARDWARE, {}, ()).tiers:
        held = sum(span.num_bytes for span in tier.spans)
        assert held + tier.other_bytes + tier.free_bytes == tier.capacity_bytes


def spans_of_ram(ledger: Ledger) -> dict[str, int]:
    ram = next(tier for tier in take_snapshot(ledger, HARDWARE, {}, ()).tiers if tier.tier == "ram")
    return {span.owner: span.num_bytes for span in ram.spans}


def test_what_no_owner_has_entered_is_not_accounted_for():
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 1_000)
    ledger.take("weights", "layer 0", "ram", 200, is_mapped=True)
    assert spans_of_ram(ledger) == {"kv": 1_000, "weights": 200, "unaccounted": 300}


def test_a_ledger_that_says_too_much_leaves_nothing_over():
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 1_400)
    assert spans_of_ram(ledger) == {"kv": 1_400}


def test_child_processes_are_no_part_of_ours():
    ledger = Ledger()
    ledger.take("parsers", "processes that read files", "ram", 300)
    assert spans_of_ram(ledger) == {"parsers": 300, "unaccounted": 1_300}


def test_what_is_held_against_no_budget_is_told_and_arrives():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "disk", 5_000, "streaming", is_counted=False)
    ledger.take("index", "chunks", "disk", 700)
    ledger.take("weights", "layer 1", "ram", 900, is_mapped=True, is_counted=False)
    ledger.take("kv", "cells", "ram", 1_000)
    memory = take_snapshot(ledger, HARDWARE, {}, ())
    told = MemoryReply.model_validate_json(memory.model_dump_json())
    counted = {tier.tier: tier.counted_bytes for tier in told.tiers}
    # What is not accounted for belongs to no owner that could give it up.
    assert counted == {tier: ledger.counted_bytes(tier) for tier in ("gpu", "ram", "disk")}
    assert counted == {"gpu": 0, "ram": 1_000, "disk": 700}


def test_pictures_measure_what_is_measured_once_a_second(monkeypatch: pytest.MonkeyPatch):
    ledger = Ledger()
    sizes = iter([0, 40, 0])
    ledger.measure("index", "caches", "ram", lambda: next(sizes))
    assert spans_of_ram(ledger)["index"] == 40
    assert spans_of_ram(ledger)["index"] == 40
    monkeypatch.setattr(snapshot, "MEASURED_INTERVAL_S", 0.0)
    # What holds nothing is not shown.
    assert "index" not in spans_of_ram(ledger)


def test_a_machine_without_a_gpu_has_no_gpu_lane():
    bare = Hardware(10_000, 6_000, 90_000, 50_000, 1_500)
    assert [tier.tier for tier in take_snapshot(Ledger(), bare, {}, ()).tiers] == ["ram", "disk"]


def test_several_cards_are_one_lane_for_layers_are_shared_out_to_all():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "gpu", 1_200)
    two = replace(HARDWARE, devices=(GPU, Device("GPU1", "", 900, 300)))
    (lane,) = [tier for tier in take_snapshot(ledger, two, {}, ()).tiers if tier.tier == "gpu"]
    assert (lane.name, lane.capacity_bytes, lane.other_bytes) == ("A consumer GPU + GPU1", 1_900, 0)


def test_a_change_is_published_and_the_ticker_ends():
    pictures: queue.Queue[object] = queue.Queue()
    ledger = Ledger()
    ticker = SnapshotTicker(lambda: take_snapshot(ledger, HARDWARE, {}, ()), pictures.put)
    ledger.on_change = ticker.note_change
    ticker.start()
    ledger.take("kv", "cells", "ram", 77)
    while not any(span.num_bytes == 77 for tier in pictures.get(timeout=30).tiers for span in tier.spans):
        pass
    ticker.stop()
    ticker.stop()


@pytest.mark.expects_warnings
def test_a_picture_that_cannot_be_taken_is_logged_once_and_the_next_one_published(caplog: pytest.LogCaptureFixture):
    pictures: queue.Queue[object] = queue.Queue()
    failures = [OSError("the disk went away")] * 3

    def look() -> MemoryReply:
        if failures:
            raise failures.pop()
        return take_snapshot(Ledger(), HARDWARE, {}, ())

    ticker = SnapshotTicker(look, pictures.put)
    ticker.start()
    try:
        for _ in range(3):
            ticker.note_change()
        assert isinstance(pictures.get(timeout=30), MemoryReply)
    finally:
        ticker.stop()
    assert caplog.text.count("the disk went away") == caplog.text.count("who holds what in memory") == 1


def test_news_of_a_tier_and_the_history_come_with_the_picture():
    news = {"ram": TierNews(5_000, 4_000, "some", ("The index keeps less in memory.",))}
    history = (Decision(at=12.0, sentence="Less.", kind="given_up", tier="ram"),)
    memory = take_snapshot(Ledger(), HARDWARE, {}, ("All in memory.",), news, history)
    tiers = {tier.tier: tier for tier in memory.tiers}
    ram = tiers["ram"]
    assert (ram.budget_bytes, ram.chosen_budget_bytes, ram.pressure) == (5_000, 4_000, "some")
    assert ram.given_up == ("The index keeps less in memory.",)
    assert tiers["disk"].budget_bytes is None
    assert (memory.decisions, memory.history) == (("All in memory.",), history)
