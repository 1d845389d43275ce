"""Tests for app.models.local_server."""

from __future__ import annotations

from app.models.local_server import LocalServerModel
from engine import protocol
from engine.protocol import ServerState
from tests.helpers.fake_engine_client import FakeEngineClient

THERE = ServerState(address="http://127.0.0.1:4411/v1")


def test_the_engine_tells_where_it_is_asked(qtbot):
    client = FakeEngineClient()
    server = LocalServerModel(client)
    assert server.state == ServerState()
    with qtbot.wait_signal(server.state_changed):
        client.answer(protocol.SERVER, THERE)
    assert server.state == THERE
    with qtbot.wait_signal(server.state_changed):
        client.tell(protocol.ServerChanged(address="", problem="Port 4411 is taken."))
    assert server.state.problem == "Port 4411 is taken."


def test_an_engine_that_is_gone_answers_nowhere(qtbot):
    client = FakeEngineClient()
    server = LocalServerModel(client)
    client.answer(protocol.SERVER, THERE)
    with qtbot.wait_signal(server.state_changed):
        client.die()
    assert server.state == ServerState()
    client.become_ready()
    client.answer(protocol.SERVER, THERE)
    assert server.state == THERE
