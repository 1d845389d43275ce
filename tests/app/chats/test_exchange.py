"""Tests for app.chats.exchange: what is exported comes back, and anything else is refused with a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.chats import Conversation, Turn, WholeChat
from app.chats.exchange import NotImported, chats_in, json_of
from app.chats.records import Outcome

OUTCOME = Outcome(
    state="finished",
    text="Drei Monate – 三个月 [1].",
    error_sentence="",
    passages=({"document": "/docs/na\udcefve.pdf", "page": 3, "score": 0.5},),
    quotes=({"text": "Three months", "passage": 0},),
    citations=({"marker": "[1]", "passage": 0},),
    segments=({"role": "user", "tokens": [1, 2]},),
    scope={"passages_used": 1},
    timings={"total_s": 1.5},
    model="tiny",
    finish_reason="stop",
    refreshes=({"at": 4},),
    thoughts="Let me see.",
)
TURNS = (
    Turn("a", "chat", None, "What notice?", 10.0, OUTCOME, {"paths": ["/docs/na\udcefve.pdf"]}, True),
    Turn("b", "chat", "a", "And then?", 11.0, Outcome(state="failed", error_sentence="No."), {}, False),
    Turn("b2", "chat", "a", "And then?", 12.0, Outcome(state="cancelled", text="Half")),
)
CHAT = WholeChat(
    Conversation(
        "chat", "Lease", 9.0, 13.5, True, ("Flat", "Law"), "b", {"paths": ["/x"]}, "m.gguf", False, {"min_p": 0.1}
    ),
    TURNS,
)


def changed(**values: Any) -> bytes:
    """The file with other values in its first chat."""
    root = json.loads(json_of([CHAT]))
    root["chats"][0].update(values)
    return json.dumps(root).encode()


def changed_turn(number: int, **values: Any) -> bytes:
    root = json.loads(json_of([CHAT]))
    root["chats"][0]["turns"][number].update(values)
    return json.dumps(root).encode()


def test_everything_of_a_chat_comes_back():
    other = WholeChat(Conversation("other", "Empty", 1.0, 1.0), ())
    assert chats_in(json_of([CHAT, other]), "chats.json") == (CHAT, other)


def test_the_file_is_utf_8_that_people_can_read():
    content = json_of([CHAT])
    assert "三个月" in content.decode()
    # Editors on Windows put a mark before it.
    assert chats_in(b"\xef\xbb\xbf" + content, "chats.json") == (CHAT,)


def test_what_a_later_minor_version_adds_is_ignored_and_what_is_optional_may_lack():
    root = json.loads(json_of([CHAT]))
    root["more"] = root["chats"][0]["more"] = root["chats"][0]["turns"][0]["more"] = {"a": 1}
    for name in ("model", "manner", "filters", "leaf_id", "collections", "is_pinned", "searches"):
        del root["chats"][0][name]
    for name in ("thoughts", "scope", "segments", "model"):
        del root["chats"][0]["turns"][0][name]
    (chat,) = chats_in(json.dumps(root).encode(), "chats.json")
    assert (chat.conversation.model, chat.conversation.searches, chat.conversation.leaf_id) == ("", True, None)
    assert (chat.turns[0].outcome.thoughts, chat.turns[0].outcome.model) == ("", None)
    assert chat.turns[1:] == TURNS[1:]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Dear diary",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"7",
        b'{"format": "something else", "version": 1, "chats": []}',
        b'[{"id": 1, "mapping": {}}]',
        b"[" * 100_000,
    ],
)
def test_a_file_of_something_else_is_refused(content):
    with pytest.raises(NotImported) as refused:
        chats_in(content, "x.json")
    assert refused.value.sentence == "“x.json” holds no chats of Ragdoll, so nothing was imported."
    assert refused.value.way_out


def test_a_file_of_a_newer_version_is_refused():
    root = json.loads(json_of([CHAT]))
    root["version"] = 2
    with pytest.raises(NotImported, match="newer Ragdoll"):
        chats_in(json.dumps(root).encode(), "x.json")


@pytest.mark.parametrize(
    "content",
    [
        json_of([CHAT])[:-200],
        b'{"format": "ragdoll-chats", "version": 1}',
        b'{"format": "ragdoll-chats", "version": 1, "chats": [7]}',
        changed(title=None),
        changed(title=["Lease"]),
        changed(created="yesterday"),
        changed(created=True),
        changed(updated=float("nan")),
        changed(updated=10**400),
        changed(collections=[1]),
        changed(collections="Flat"),
        changed(filters=[]),
        changed(model=3),
        changed(is_pinned="yes"),
        changed(turns=None),
        changed_turn(0, question=None),
        changed_turn(0, state="thinking"),
        changed_turn(0, passages=["text"]),
        changed_turn(0, segments={"a": 1}),
        changed_turn(0, scope=[1]),
        changed_turn(0, text=None),
        changed_turn(0, model=7),
        changed_turn(1, turn_id="a"),
        changed_turn(1, parent_id="b2"),
        changed_turn(1, parent_id="unknown"),
        changed_turn(0, parent_id="a"),
    ],
)
def test_a_damaged_file_is_refused_whole(content):
    with pytest.raises(NotImported) as refused:
        chats_in(content, "x.json")
    assert refused.value.sentence == "“x.json” is incomplete or damaged, so nothing was imported."
    assert refused.value.way_out


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1" + b"0" * 30])
def test_numbers_that_cannot_be_shown_are_damage(number: bytes):
    content = b'{"format": "ragdoll-chats", "version": 1, "chats": [], "more": ' + number + b"}"
    with pytest.raises(NotImported, match="damaged"):
        chats_in(content, "chats.json")
