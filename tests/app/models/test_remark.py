"""Tests for app.models.remark: what was decided is said for a while."""

from __future__ import annotations

import pytest

from app.models.memory import MemoryModel
from app.models.remark import RemarkModel
from engine import protocol
from engine.protocol import Decision, MemoryReply

OPENED_AT = 1000.0


@pytest.fixture
def memory(client) -> MemoryModel:
    return MemoryModel(client, wall_clock=lambda: OPENED_AT)


@pytest.fixture
def remark(memory) -> RemarkModel:
    return RemarkModel(memory)


def told(*sentences: str, at: float = OPENED_AT + 1) -> protocol.MemorySnapshot:
    """A snapshot with these decisions, the newest first."""
    history = tuple(Decision(at=at + len(sentences) - n, sentence=words) for n, words in enumerate(sentences))
    return protocol.MemorySnapshot(memory=MemoryReply(tiers=(), history=history))


def test_a_decision_is_said_and_then_no_more(remark, client, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.remark.SHOWN_MS", 1)
    client.tell(told("Slots 2 → 4."))
    assert remark.sentence == "Slots 2 → 4."
    qtbot.waitUntil(lambda: remark.sentence == "")


def test_decisions_that_come_together_are_said_one_after_the_other(remark, client, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.remark.SHOWN_MS", 1)
    monkeypatch.setattr("app.models.remark._LEAST_MS", 1)
    said = []
    remark.sentence_changed.connect(said.append)
    client.tell(told("Second.", "First."))
    qtbot.waitUntil(lambda: said == ["First.", "Second.", ""])


def test_of_a_long_decision_the_foremost_is_said(remark, client):
    long = Decision(at=OPENED_AT + 1, sentence="Slots 2 → 4, 8,192 cells.", short="Slots 2 → 4.")
    client.tell(protocol.MemorySnapshot(memory=MemoryReply(tiers=(), history=(long,))))
    assert remark.sentence == "Slots 2 → 4."


def test_what_was_said_is_not_said_again(remark, client, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.remark.SHOWN_MS", 1)
    client.tell(told("Slots 2 → 4."))
    qtbot.waitUntil(lambda: remark.sentence == "")
    with qtbot.assert_not_emitted(remark.sentence_changed):
        client.tell(told("Slots 2 → 4."))


def test_what_was_decided_before_the_window_was_open_is_no_news(remark, client):
    client.tell(told("Long ago.", at=OPENED_AT - 100))
    assert remark.sentence == ""


def test_an_engine_that_was_started_again_tells_why_it_does_with_less(remark, client):
    client.tell(told())
    client.die()
    client.tell(told("Loading ended the engine the last time: one rung lower."))
    assert remark.sentence == "Loading ended the engine the last time: one rung lower."
