"""Tests for app.models.memory."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from app.models.memory import MemoryModel
from engine import protocol
from engine.protocol import MemoryReply, Span, TierSnapshot

GIB = 2**30


def ram(*spans: Span) -> MemoryReply:
    return MemoryReply(
        tiers=(TierSnapshot(tier="ram", name="Memory", capacity_bytes=8 * GIB, other_bytes=GIB, spans=spans),)
    )


LOADED = ram(Span("model", "layers 0–3", "ram", 2 * GIB), Span("kv", "cells", "ram", GIB, "loading"))


@pytest.fixture
def memory(client) -> MemoryModel:
    made = MemoryModel(client)
    made.tester = QAbstractItemModelTester(made.table, QAbstractItemModelTester.FailureReportingMode.Fatal)
    return made


def rows(memory: MemoryModel) -> list[list[str]]:
    table = memory.table
    return [[table.index(row, column).data() for column in range(5)] for row in range(table.rowCount())]


def test_the_newest_snapshot_is_shown_as_values_and_as_a_table(memory, client, qtbot):
    with qtbot.wait_signal(memory.snapshot_changed):
        client.tell(protocol.MemorySnapshot(memory=LOADED))
    assert memory.memory == LOADED
    assert rows(memory) == [
        ["Memory", "model", "layers 0–3", str(2 * GIB), "resident"],
        ["Memory", "kv", "cells", str(GIB), "loading"],
        ["Memory", "everything else", "", str(GIB), ""],
        ["Memory", "free", "", str(4 * GIB), ""],
    ]
    assert memory.table.headerData(0, Qt.Orientation.Horizontal) == "Location"


def test_a_span_goes_from_the_table_when_its_bytes_are_given_back(memory, client):
    client.tell(protocol.MemorySnapshot(memory=LOADED), protocol.MemorySnapshot(memory=ram()))
    assert [row[1] for row in rows(memory)] == ["everything else", "free"]


def test_equal_spans_are_two_rows(memory, client):
    twin = Span("kv", "cells", "ram", GIB)
    client.tell(protocol.MemorySnapshot(memory=ram(twin, twin)))
    assert [row[1] for row in rows(memory)] == ["kv", "kv", "everything else", "free"]


def test_the_same_snapshot_again_is_no_change(memory, client, qtbot):
    client.tell(protocol.MemorySnapshot(memory=LOADED))
    with qtbot.assert_not_emitted(memory.snapshot_changed):
        client.tell(protocol.MemorySnapshot(memory=LOADED))


def test_a_dead_engine_holds_nothing(memory, client):
    client.tell(protocol.MemorySnapshot(memory=LOADED))
    client.die()
    assert memory.memory is None
    assert rows(memory) == []


def test_a_ready_engine_is_asked_at_once(memory, client):
    client.become_ready()
    client.answer(protocol.MEMORY, LOADED)
    assert memory.tiers == LOADED.tiers
