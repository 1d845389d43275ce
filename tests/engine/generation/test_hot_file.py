"""Tests for engine.generation.hot_file."""

from __future__ import annotations

import random
import zlib

import pytest

from engine.generation.evidence import EvidencePassage
from engine.generation.hot_file import MAX_BYTES, Hot, decode, encode

USES = {
    EvidencePassage(1, "one.md", None, "Text one, with “quotes”."): 7,
    EvidencePassage(2**40, "\udce8.pdf", 3, "Text\ntwo."): 2,
}
HOT = Hot(USES, {"tiny": (1, 2, 3), "small": (9,)})


def test_what_was_hot_is_read_as_it_was_written():
    assert decode(encode(HOT)) == HOT


def test_where_nothing_is_hot_there_is_no_file():
    assert encode(Hot({}, {"tiny": (1,)})) == b""
    assert decode(b"") == Hot()


def test_a_file_from_before_openings_were_kept_is_read():
    body = b'{"version": 1, "passages": [[3, 1, "a.md", null, "Text."]]}'
    assert decode(b"%08x\n%b" % (zlib.crc32(body), body)) == Hot({EvidencePassage(1, "a.md", None, "Text."): 3})


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_none(seed):
    random_, content = random.Random(seed), encode(HOT)
    assert decode(content[: random_.randrange(len(content))]) == Hot()
    changed = bytearray(content)
    changed[random_.randrange(len(content))] ^= random_.randrange(1, 256)
    assert decode(bytes(changed)) == Hot()


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"version": 2, "passages": []}',
        b'{"version": 1, "passages": [[1]]}',
        b'{"version": 1, "openings": [], "passages": []}',
        b'{"version": 1, "openings": {"a": ["b"]}, "passages": []}',
    ],
)
def test_a_file_of_another_form_is_none(body):
    checksum = b"%08x\n" % zlib.crc32(body)
    assert decode(checksum + body) == Hot()


def test_the_file_is_bounded_and_the_hottest_are_in_it():
    uses = {EvidencePassage(number, "n", None, "x" * 10_000): number for number in range(1, 1001)}
    content = encode(Hot(uses))
    assert len(content) <= MAX_BYTES
    kept = decode(content).uses
    assert 0 < len(kept) < 1000
    assert min(kept.values()) == 1000 - len(kept) + 1
