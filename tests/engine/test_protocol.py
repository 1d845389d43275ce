"""Tests for engine.protocol."""

from __future__ import annotations

from engine import protocol


def test_every_request_and_notification_has_a_name_of_its_own():
    assert all(name == method.name for name, method in protocol.REQUESTS.items())
    assert all(name == notice.method for name, notice in protocol.NOTICES.items())
    assert len(protocol.NOTICES) == len(protocol.Notice.__subclasses__())
