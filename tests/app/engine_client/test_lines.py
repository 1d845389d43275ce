"""Tests for app.engine_client.lines."""

from __future__ import annotations

import pytest

from app.engine_client.lines import LineBuffer


def lines_of(pieces: list[bytes], max_bytes: int = 100) -> list[bytes]:
    buffer, lines = LineBuffer(max_bytes), []
    for piece in pieces:
        buffer.feed(piece)
        while (line := buffer.next()) is not None:
            lines.append(line)
    return lines


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b"half"], []),
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"o", b"n", b"e", b"\n", b"t"], [b"one"]),
        ([b"\n\n"], [b"", b""]),
        ([b"one\nha", b"lf\n"], [b"one", b"half"]),
    ],
)
def test_lines_are_given_whole_however_they_come(pieces, lines):
    assert lines_of(pieces) == lines


def test_bytes_one_by_one_are_the_same_as_all_at_once():
    text = b"first\nsecond line\n\nlast\n"
    assert lines_of([bytes([byte]) for byte in text]) == text.split(b"\n")[:-1]


def test_a_line_without_end_is_given_cut_once_and_its_rest_is_dropped():
    assert lines_of([b"x" * 150, b"x" * 150, b"x\nnext\n"]) == [b"x" * 150, b"next"]


def test_a_long_line_that_ends_is_whole():
    assert lines_of([b"x" * 99, b"x\n"]) == [b"x" * 100]
