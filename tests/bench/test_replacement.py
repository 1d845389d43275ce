"""Tests for tests.bench.replacement and tests.bench.request_traces."""

from __future__ import annotations

import itertools
import random

import pytest

from engine.generation.replacement import pgdsf
from tests.bench import replacement
from tests.bench.replacement import INSTRUCTIONS, replay, seconds_to_read
from tests.bench.replacement_policies import POLICIES, lru
from tests.bench.request_traces import Request, Trace, document, exponent, popular


def trace_of(*requests: tuple[int, ...], num_documents: int = 10) -> Trace:
    documents = tuple(document(number, 100) for number in range(num_documents))
    asked = tuple(Request(number, found, 16) for number, found in enumerate(requests))
    return Trace("made", documents, asked)


@pytest.mark.parametrize("count", [300, 1000])
def test_few_documents_take_most_requests(count):
    drawn = list(itertools.islice(popular(random.Random(1), count), 20_000))
    requests = sorted((drawn.count(number) for number in set(drawn)), reverse=True)
    assert sum(requests[: round(0.03 * count)]) / len(drawn) == pytest.approx(0.6, abs=0.02)
    assert 0.5 < exponent(count) < 2


def test_reading_more_behind_more_takes_longer():
    assert seconds_to_read(100, 0) == 0
    assert seconds_to_read(0, 200) < seconds_to_read(0, 400) < seconds_to_read(4000, 400)


def test_what_fits_is_read_once():
    outcome = replay(trace_of(*[(1, 2)] * 10), pgdsf, 10_000)
    prompt = len(INSTRUCTIONS.tokens) + 200
    assert outcome.hit_tokens == 8 * prompt
    assert outcome.wanted_tokens > outcome.hit_tokens
    assert outcome.saved_seconds > 0
    assert len(outcome.decisions) == 8


def test_a_conversation_goes_on_with_all_that_was_said():
    trace = trace_of()
    asked = tuple(Request(0, (number, number + 1), 16) for number in range(5))
    outcome = replay(Trace("made", trace.documents, asked), pgdsf, 10_000)
    prompt = len(INSTRUCTIONS.tokens) + 200 + 17
    assert outcome.hit_tokens == sum(prompt + 117 * number for number in range(4))


@pytest.mark.parametrize("name", list(POLICIES))
def test_what_does_not_fit_is_not_kept(name):
    assert replay(trace_of(*[(1,)] * 10), POLICIES[name], 10).hit_tokens == 0


def test_what_is_asked_for_often_survives_a_long_list_that_is_read_once():
    often = [(0,)] * 5
    requests = [*often, *((number,) for number in range(1, 8)), *often]
    room = len(INSTRUCTIONS.tokens) + 3 * 120
    by_use, by_time = (replay(trace_of(*requests), policy, room) for policy in (pgdsf, lru))
    assert by_use.hit_tokens > by_time.hit_tokens


def test_without_the_traces_it_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(replacement, "TRACE", tmp_path / "none.csv")
    assert replacement.main([]) == 2
    assert "none.csv" in capsys.readouterr().out
