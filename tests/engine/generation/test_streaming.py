"""Tests for engine.generation.streaming."""

from __future__ import annotations

import random

import pytest

from engine.generation.streaming import TextStream


def test_an_unfinished_character_is_held_back_until_it_is_whole():
    stream = TextStream()
    shown = [stream.feed(bytes([byte])) for byte in "é猫".encode()]
    assert shown == ["", "é", "", "", "猫"]
    assert stream.finish() == ""


def test_bytes_that_are_no_character_become_the_replacement_mark():
    stream = TextStream()
    assert stream.feed(b"a\xff") + stream.feed(b"b") + stream.finish() == "a\ufffdb"


def test_an_unfinished_character_at_the_end_is_marked():
    stream = TextStream()
    assert stream.feed("猫".encode()[:2]) + stream.finish() == "\ufffd"


def test_a_character_that_broke_off_is_completed_by_what_goes_on():
    stream = TextStream()
    assert stream.go_on_behind([b"So ", "猫".encode()[:2]]) == "So "
    assert stream.feed("猫".encode()[2:]) + stream.finish() == "猫"


def test_nothing_of_a_stop_string_is_shown():
    stream = TextStream(["\nQuestion:"])
    shown = "".join(stream.feed(piece) for piece in (b"Yes.", b"\nQues", b"tion", b": and more"))
    assert (shown, stream.is_stopped, stream.finish()) == ("Yes.", True, "")


def test_a_stop_string_may_come_to_be_one_on_the_way():
    stream = TextStream()
    assert stream.feed(b"a END ") == "a END "
    stream.stop_at("END")
    stream.stop_at("")
    assert (stream.feed(b"b E"), stream.feed(b"ND c"), stream.is_stopped) == ("b ", "", True)


def test_the_beginning_of_a_stop_string_is_shown_when_it_turns_out_to_be_none():
    stream = TextStream(["STOP"])
    assert stream.feed(b"ST") == ""
    assert stream.feed(b"AY") == "STAY"


def test_the_earliest_of_several_stop_strings_counts():
    stream = TextStream(["yz", "xy"])
    assert stream.feed(b"axyz") == "a"


def test_whoever_stops_knows_how_many_bytes_came_from_there_on():
    stream = TextStream(("STOP",))
    assert stream.feed(b"one S") == "one "
    assert stream.num_bytes_of_stop == 0
    assert stream.feed("TOP two é\u2026".encode()[:-1]) == ""
    assert stream.num_bytes_of_stop == len("STOP two é\u2026".encode()) - 1
    stream.feed(b"more")
    assert stream.num_bytes_of_stop == len("STOP two é\u2026".encode()) + 3


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_pieces_the_text_comes_out_whole(seed: int):
    text = "Ein größeres Beispiel 三只猫, 🐈 STO STOP"
    data, pick = text.encode(), random.Random(seed)
    stream = TextStream(["STOPPED"])
    shown, at = "", 0
    while at < len(data):
        step = pick.randint(1, 5)
        shown += stream.feed(data[at : at + step])
        at += step
    assert shown + stream.finish() == text
