"""Tests for engine.memory.snapshot and hardware."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from engine.core import Span
from engine.memory.hardware import Device, Hardware, probe, probe_devices
from engine.memory.ledger import Ledger
from engine.memory.snapshot import SnapshotTicker, take_snapshot
from engine.protocol import MemoryReply

GPU = Device("GPU0", "A consumer GPU", 1000, 400)
HARDWARE = Hardware(10_000, 6_000, 90_000, 50_000, 1_500, (GPU,))


def test_each_tier_adds_up_to_its_capacity():
    ledger = Ledger()
    ledger.take("weights", "layer 0", "gpu", 500)
    ledger.take("kv", "cells", "ram", 1_000)
    ledger.take("partitions", "LanceDB", "disk", 3_000)
    for tier in take_snapshot(ledger, HARDWARE, {}, ()).tiers:
        held = sum(span.num_bytes for span in tier.spans)
        assert held + tier.other_bytes + tier.free_bytes == tier.capacity_bytes


def test_what_no_owner_names_is_the_runtimes():
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 1_000)
    ram = next(tier for tier in take_snapshot(ledger, HARDWARE, {}, ()).tiers if tier.tier == "ram")
    assert {span.owner: span.num_bytes for span in ram.spans} == {"kv": 1_000, "runtime": 500}


def test_child_processes_are_named_and_not_taken_for_the_runtime():
    parsers = Span("parsers", "processes that read files", "ram", 300)
    ram = next(tier for tier in take_snapshot(Ledger(), HARDWARE, {}, (), (parsers,)).tiers if tier.tier == "ram")
    assert {span.owner: span.num_bytes for span in ram.spans} == {"runtime": 1_500, "parsers": 300}
    assert ram.other_bytes == 10_000 - 6_000 - 1_500 - 300


def test_a_machine_without_a_gpu_has_no_gpu_lane():
    bare = Hardware(10_000, 6_000, 90_000, 50_000, 1_500)
    assert [tier.tier for tier in take_snapshot(Ledger(), bare, {}, ()).tiers] == ["ram", "disk"]


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


def test_this_machine_can_be_probed(tmp_path: Path):
    hardware = probe(tmp_path, probe_devices())
    assert 0 < hardware.ram_free_bytes <= hardware.ram_capacity_bytes
    assert 0 < hardware.disk_free_bytes <= hardware.disk_capacity_bytes
    assert all(0 <= device.free_bytes <= device.capacity_bytes for device in hardware.devices)
