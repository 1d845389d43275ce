"""Tests for engine.wire."""

from __future__ import annotations

import json

import pytest

from engine import protocol, wire
from engine.core import Passage, SamplingParams, Scope, Unfinished
from engine.errors import BadRequest, ProtocolError

NAME = "/home/\udcff.txt"


def test_a_request_survives_the_wire():
    ask = protocol.Ask(question_id="q", text="Why?\nReally", sampling=SamplingParams(seed=3, stop=("x",)))
    line = wire.encode_request(7, protocol.ASK, ask)
    assert line.count(b"\n") == 1
    request = wire.decode_request(line)
    assert (request.id, request.method, request.params) == (7, protocol.ASK, ask)


def test_a_name_that_is_not_utf8_survives_the_wire():
    passage = Passage("r", 1, NAME, 0, None, 0, 3, "h", "abc", 0.5)
    notice = protocol.AnswerFound(question_id="q", passages=(passage,), quotes=(), scope=Scope(1, 2, 3))
    assert wire.decode_message(wire.encode_notice(notice)) == notice


def test_what_a_question_has_of_its_own_survives_the_wire():
    manner = protocol.Manner(instructions="", temperature=0.0, thinks=False)
    ask = protocol.Ask(question_id="q", text="Why?", manner=manner)
    assert wire.decode_request(wire.encode_request(7, protocol.ASK, ask)).params == ask


def test_an_answer_that_is_to_go_on_survives_the_wire():
    passage = Passage("r", 1, NAME, 0, None, 0, 3, "h", "abc", 0.5)
    begun = Unfinished("Beca", passages=(passage,), scope=Scope(1, 2, 3), segments=({"role": "user"},))
    ask = protocol.Ask(question_id="q", text="Why?", unfinished=begun)
    assert wire.decode_request(wire.encode_request(7, protocol.ASK, ask)).params == ask


def test_a_result_comes_back_as_the_type_the_method_promises():
    reply = wire.decode_message(wire.encode_result(5, protocol.Pong(phase="loading model")))
    assert isinstance(reply, wire.Reply)
    assert wire.decode_result(protocol.PING, reply.result or {}) == protocol.Pong(phase="loading model")


def test_an_error_keeps_its_kind_sentence_and_way_out():
    reply = wire.decode_message(wire.encode_error(5, BadRequest("That cannot be.", "Try this.")))
    assert reply == wire.Reply(5, error=wire.WireError("BadRequest", "That cannot be.", "Try this."))


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"hello\n", b"[1]\n", b'{"id": "x"}\n', b'{"method": "ping"}\n', b"\xff\xfe\n", b"null\n"]
)
def test_garbage_is_no_request(line: bytes):
    with pytest.raises(ProtocolError):
        wire.decode_request(line)


@pytest.mark.parametrize(
    "line", [b"", b"ggml_init: found 1 device\n", b'{"id": 1}\n', b'{"method": "no.such"}\n', b'{"method": "phase"}\n']
)
def test_garbage_is_no_message(line: bytes):
    with pytest.raises(ProtocolError):
        wire.decode_message(line)


@pytest.mark.parametrize(
    "body",
    [{"id": 4, "method": "no.such"}, {"id": 4, "method": "ask", "params": {"text": 5}}, {"id": 4, "method": "ask"}],
)
def test_a_request_that_can_be_answered_is_refused_by_its_id(body: dict):
    with pytest.raises(wire.RequestRefused) as refused:
        wire.decode_request(json.dumps(body).encode())
    assert refused.value.request_id == 4


def test_fields_of_a_newer_version_are_ignored():
    line = json.dumps({"method": "phase", "params": {"phase": "x", "colour": "red"}}).encode()
    assert wire.decode_message(line) == protocol.Phase(phase="x")
