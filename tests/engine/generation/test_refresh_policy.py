"""Tests for engine.generation.refresh_policy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.core import SamplingParams
from engine.generation.refresh_policy import (
    INTERVALS,
    WINDOW_CHARACTERS,
    RefreshPolicy,
    affordable_tokens,
    chosen_interval,
    is_sentence_end,
    suits,
    window_of,
)


@pytest.mark.parametrize(
    ("retrieval_s", "interval"), [(0.0, 8), (0.8, 8), (0.81, 16), (3.0, 32), (6.4, 64), (12.0, 128), (99.0, 128)]
)
def test_the_shortest_interval_hides_the_search(retrieval_s: float, interval: int):
    assert chosen_interval(retrieval_s, lambda num_tokens: 0.1 * num_tokens) == interval


def test_reading_what_is_appended_makes_an_interval_longer():
    assert chosen_interval(2.0, lambda num_tokens: 1.5 + 0.1 * num_tokens) == INTERVALS[0]


@pytest.mark.parametrize(("seconds", "tokens"), [(0.0, 0), (0.009, 0), (0.01, 1), (0.5, 50), (0.509, 50), (9.0, 100)])
def test_as_many_tokens_are_read_as_can_be_afforded(seconds: float, tokens: int):
    assert affordable_tokens(seconds, lambda count: 0.01 * count, 100) == tokens


def test_where_there_is_no_room_nothing_is_afforded():
    assert affordable_tokens(9.0, lambda count: 0.01 * count, 0) == 0


@pytest.mark.parametrize(
    "text",
    [
        "It ends here.",
        "It ends here [1].",
        "It ends here. [1]",
        "It ends here [1, 2][3].",
        "It ends here. ",
        "Does it?",
        "It does!",
        "He said “it ends.”",
        "(See above.)",
        "**It ends.**",
        "It ends…",
        "租约期限为三个月。",
        "- an item of a list\n",
        "`let x = 1;` ends.",
        "```\nlet x = 1;\n```\n",
        "a single ` is none.\nIt ends.",
    ],
)
def test_a_sentence_ends_here(text: str):
    assert is_sentence_end(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "It goes",
        "It goes,",
        "It costs 3.",
        "1.",
        "as in e.g.",
        "as Dr.",
        "the U.S.",
        "It goes on [1]",
        "It ends. [1",
        "```\nfirst line.\n",
        "call `begin.",
        "so: ```rust\nfn main() {}\n",
    ],
)
def test_no_sentence_ends_here(text: str):
    assert not is_sentence_end(text)


def test_a_long_text_without_spaces_is_looked_at_in_no_time():
    look = (
        "from engine.generation.refresh_policy import is_sentence_end;"
        "assert not is_sentence_end('\u0e01' * 100_000 + ' and then');"
        "assert not is_sentence_end('x' + '\\n' * 100_000 + 'x');"
        "assert is_sentence_end('\u0e01' * 100_000 + '.')"
    )
    subprocess.run([sys.executable, "-c", look], check=True, timeout=60)


def test_the_window_is_the_end_of_the_text_from_a_whole_word():
    words = " ".join(f"word{number}" for number in range(200))
    window = window_of(words)
    assert words.endswith(window)
    assert WINDOW_CHARACTERS - 10 < len(window) < WINDOW_CHARACTERS
    assert window.split(" ", maxsplit=1)[0] in words.split(" ")


def test_a_short_text_is_its_own_window():
    assert window_of("  It begins.\n") == "It begins."


def test_a_text_without_spaces_has_a_window_too():
    assert window_of("字" * 1000) == "字" * WINDOW_CHARACTERS


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(num_answers=2),
        SamplingParams(beam_width=3),
        SamplingParams(grammar='root ::= "a"'),
        SamplingParams(json_schema="{}"),
        SamplingParams(max_tokens=8),
    ],
)
def test_answers_that_cannot_go_on_from_more_are_known(sampling: SamplingParams):
    assert suits(SamplingParams())
    assert not suits(sampling)


@pytest.mark.parametrize(("mode", "most"), [("none", 0), ("once", 1), ("synchronous", 4), ("periodic", 4)])
def test_the_mode_bounds_how_often(mode, most: int):
    assert RefreshPolicy(mode=mode).most_refreshes == most
