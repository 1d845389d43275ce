"""Tests for engine.generation.metering."""

from __future__ import annotations

import pytest

from engine.generation.batching import Work
from engine.generation.counters import PromptPasses
from engine.generation.groups import SequenceGroup
from engine.generation.metering import Metering
from engine.generation.scheduler import AGEING_SECONDS
from tests.helpers.loop_parts import Parts, prompt


def read(parts: Parts, group: SequenceGroup, num_tokens: int) -> Work:
    """The next tokens of a prompt, computed."""
    held = group.lead.held
    assert held is not None
    parts.compute(held, group.lead.tokens[: held.end + num_tokens])
    return Work(group, group.lead, num_tokens, wants_token=held.end == len(group.lead.tokens))


def test_every_prompt_has_its_share_of_the_time() -> None:
    parts = Parts()
    first, second = parts.reading(prompt(1, 40), ((),), 0), parts.reading(prompt(100, 40), ((),), 0)
    writing = parts.running(prompt(200, 5), ((7,),))
    batch = [read(parts, first, 20), read(parts, second, 10), Work(writing, writing.lead, 1, 1, wants_token=True)]
    Metering(parts.groups, parts.profile, parts.tally, None).note(batch, 3.2)
    assert [group.computed_tokens for group in (first, second, writing)] == [20, 10, 0]
    assert [group.prefill_seconds for group in (first, second)] == pytest.approx([2.0, 1.0])
    assert writing.prefill_seconds == 0
    assert parts.tally.steps == 1


def test_passes_over_prompts_are_counted_where_they_tell_how_fast_those_are_read() -> None:
    parts = Parts()
    group, writing = parts.reading(prompt(1, 90), ((),), 0), parts.running(prompt(200, 5), ((7,),))
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([read(parts, group, 40)], 2.0)
    metering.note([read(parts, group, 31), Work(writing, writing.lead, 1)], 1.5)
    metering.note([read(parts, group, 19)], 9.0)
    metering.note([Work(writing, writing.lead, 1)], 9.0)
    assert parts.tally.prompt_passes == PromptPasses(2, 72, 40, 3.5)


def test_a_piece_of_a_prompt_tells_nothing_of_what_reading_costs() -> None:
    parts = Parts()
    group, writing = parts.reading(prompt(1, 90), ((),), 0), parts.running(prompt(200, 5), ((7,),))
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([read(parts, group, 64)], 0.64)
    known = parts.profile.seconds(64, 16)
    metering.note([read(parts, group, 15), Work(writing, writing.lead, 1)], 2.0, has_piece=True)
    assert parts.profile.seconds(64, 16) == known
    assert group.prefill_seconds > 0.64


def test_what_a_preemption_threw_away_is_counted_once() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 60), ((),), 0)
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([read(parts, group, 40)], 4.0)
    parts.residence.leave(group)
    # Another request has left the beginning in cells meanwhile.
    group.lead.held = parts.cells.open()
    parts.compute(group.lead.held, group.lead.tokens[:15])
    group.cached_tokens = 15
    metering.note([read(parts, group, 25)], 5.0)
    assert (group.computed_tokens, group.prefill_seconds) == (25, pytest.approx(5.0))
    metering.note([read(parts, group, 20)], 1.0)
    assert (group.cached_tokens + group.computed_tokens, group.prefill_seconds) == (60, pytest.approx(6.0))


def test_what_was_found_once_and_is_gone_counts_as_found() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 60), ((),), 0)
    group.cached_tokens = 20
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([read(parts, group, 30)], 3.0)
    assert (group.computed_tokens, group.prefill_seconds) == (10, pytest.approx(1.0))
    metering.note([read(parts, group, 30)], 3.0)
    assert group.cached_tokens + group.computed_tokens == 60


def test_what_was_saved_at_a_preemption_keeps_its_time() -> None:
    parts = Parts()
    group = parts.reading(prompt(1, 60), ((),), 0)
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([read(parts, group, 40)], 4.0)
    assert parts.residence.save(group)
    parts.residence.leave(group)
    parts.residence.settle(group)
    metering.note([read(parts, group, 20)], 1.0)
    assert (group.computed_tokens, group.prefill_seconds) == (60, pytest.approx(5.0))


def test_a_batch_of_mostly_one_prompt_tells_what_reading_costs() -> None:
    parts = Parts()
    group, writing = parts.reading(prompt(1, 100), ((),), 50), parts.running(prompt(200, 5), ((7,),))
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    metering.note([Work(writing, writing.lead, 1)], 9.0)
    before = parts.profile.seconds(50, 31)
    metering.note([read(parts, group, 30), Work(writing, writing.lead, 1)], 6.2)
    assert parts.profile.seconds(50, 31) == pytest.approx(6.2)
    assert before != pytest.approx(6.2)


def test_who_has_cells_has_waited_where_its_kind_got_nothing_computed() -> None:
    parts = Parts()
    served, beside = parts.running(prompt(1, 5), ((7,),)), parts.running(prompt(20, 5), ((7,),))
    script = parts.running(prompt(40, 5), ((7,),), priority="batch")
    Metering(parts.groups, parts.profile, parts.tally, None).note([Work(served, served.lead, 1)], 2.0)
    assert [group.waited_seconds for group in (served, beside, script)] == [0.0, 0.0, 2.0]


def test_who_is_served_in_between_has_not_waited_for_all_the_passes_of_others_together() -> None:
    parts = Parts()
    person = parts.running(prompt(1, 5), ((7,),))
    script = parts.running(prompt(40, 5), ((7,),), priority="batch")
    metering = Metering(parts.groups, parts.profile, parts.tally, None)
    for _ in range(3):
        metering.note([Work(person, person.lead, 1)], 0.4 * AGEING_SECONDS)
        assert parts.admission.rank(script) == 1
        metering.note([Work(person, person.lead, 1), Work(script, script.lead, 1, wants_token=True)], 0.1)
    metering.note([Work(person, person.lead, 1)], AGEING_SECONDS)
    assert parts.admission.rank(script) == 0


def test_who_computes_again_what_a_preemption_threw_away_stays_as_urgent_as_waiting_has_made_it() -> None:
    parts = Parts()
    script = parts.running(prompt(40, 60), ((7, 8),), lacks=40, priority="batch")
    script.has_read_prompt, script.waited_seconds = True, AGEING_SECONDS
    Metering(parts.groups, parts.profile, parts.tally, None).note([Work(script, script.lead, 20)], 1.0)
    assert parts.admission.rank(script) == 0


def test_somebody_else_is_told_of_every_batch() -> None:
    parts = Parts()
    passes: list[tuple[int, int, float]] = []
    first, second = parts.running(prompt(1, 5), ((7,),)), parts.running(prompt(20, 5), ((7,),))
    batch = [Work(first, first.lead, 1, 3, wants_token=True), Work(second, second.lead, 1)]
    Metering(parts.groups, parts.profile, parts.tally, lambda *told: passes.append(told)).note(batch, 0.5)
    assert passes == [(5, 1, 0.5)]
