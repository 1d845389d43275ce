"""Tests for engine.generation.needs."""

from __future__ import annotations

from dataclasses import replace

from engine.generation.needs import LEAST_AHEAD, cells_now, cells_soon, needs_of
from tests.helpers.loop_parts import PLAIN, Parts, prompt


def test_who_writes_needs_the_next_token_now_and_a_quarter_more_soon_but_never_more_than_its_end() -> None:
    parts = Parts(num_cells=2048)
    short = parts.running(prompt(1, 100), ((1, 2),))
    assert (cells_now(short), cells_soon(short)) == (103, 100 + PLAIN.max_tokens)
    long = parts.waiting(prompt(2000, 400))
    long.lead.max_tokens = 1000
    assert (cells_now(long), cells_soon(long)) == (401, 501)
    long.lead.max_tokens = 20
    assert cells_soon(long) == 420
    brief = parts.waiting(prompt(3000, 40))
    brief.lead.max_tokens = 1000
    assert cells_soon(brief) == 41 + LEAST_AHEAD


def test_those_who_run_need_cells_now_and_all_who_were_asked_to_their_end() -> None:
    parts = Parts(num_cells=2048)
    parts.running(prompt(1, 100), ((1, 2),))
    waiting = parts.waiting(prompt(2000, 400))
    waiting.lead.max_tokens = 1000
    needs = needs_of(parts.groups, 4096)
    assert (needs.cells_now, needs.num_cells, needs.num_sequences) == (103, 1400, 1)
    assert needs_of(parts.groups, 1200).num_cells == 1200


def test_an_answer_of_which_no_end_is_known_needs_what_it_has_and_a_while() -> None:
    parts = Parts(num_cells=2048)
    sampling = replace(PLAIN, max_tokens=3000, is_open_ended=True)
    waiting = parts.waiting(prompt(2000, 400), sampling=sampling)
    waiting.lead.max_tokens = 3000
    assert needs_of(parts.groups, 4096).num_cells == cells_soon(waiting) == 501


def test_several_answers_go_on_by_some_tokens_each() -> None:
    parts = Parts(num_cells=2048)
    several = parts.running(prompt(1, 40), ((1,), (2,), (3,)))
    for sequence in several.sequences:
        sequence.max_tokens = 500
    assert cells_soon(several) == cells_now(several) + 3 * LEAST_AHEAD
