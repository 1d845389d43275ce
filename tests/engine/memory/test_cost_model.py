"""Tests for engine.memory.cost_model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.memory.cost_model import (
    HIDING_SHARE,
    PAUSES_OF_LONGER,
    Course,
    Courses,
    Disk,
    Homes,
    as_computed,
    decode_work,
    prefill_work,
)
from engine.memory.demand import Backlog
from engine.memory.profile import PassObserved, Profile, overlapped, refined

PROFILE = Profile(
    ram_bytes_per_s=10e9,
    processor_rate=1e12,
    device_bytes_per_s=100e9,
    device_rate=1e14,
    host_to_device_bytes_per_s=10e9,
    hop_s=0.0,
    disk_bytes_per_s=(1e9, 2e9, 1.5e9),
    step_s=0.0,
    retrieval_s=0.0,
    retrieval_load_s=0.1,
    retrieval_query_s=0.01,
)
RESIDENT = Homes(processor_bytes=10e9)
STREAMING = RESIDENT._replace(streamed_bytes=8e9, ring_slots=3, is_repacked=False)
QUESTION = Backlog(prompt_tokens=1000, answer_tokens=100)


def course(homes: Homes, backlog: Backlog = QUESTION, num_slots: int = 1, n_ubatch: int = 500) -> Course:
    return Courses(PROFILE, backlog).of(homes, num_slots, n_ubatch)


def disk(homes: Homes) -> Disk:
    return Disk.of(PROFILE, homes)


def test_a_step_reads_every_byte_once_and_computes_it_for_each_answer():
    work = decode_work(RESIDENT, 4, 0)
    assert (work.processor_bytes, work.processor_token_bytes) == (10e9, 40e9)
    assert PROFILE.seconds(work) == pytest.approx(1.0 + 0.04)


def test_keys_and_values_are_read_where_they_lie():
    work = decode_work(RESIDENT._replace(ram_cell_bytes=1000, device_cell_bytes=500), 2, 3000)
    assert work.processor_bytes == 10e9 + 2 * 3000 * 1000
    assert work.device_bytes == 2 * 3000 * 500


def test_streaming_hides_behind_computing_and_computing_behind_streaming():
    assert overlapped(1.0, 4.0, 4) == pytest.approx(4.0 + 1 / 16)
    assert overlapped(4.0, 1.0, 4) == pytest.approx(4.0 + 1 / 16)
    assert overlapped(1.0, 4.0, 1) == 5.0


def test_those_that_are_longer_than_there_are_cells_for_cost_the_others_their_pauses():
    backlog = replace(QUESTION, lengths=(1100,) * 15 + (3000,))
    plain, enough, few = (
        Courses(PROFILE, backlog).of(RESIDENT, 1, 500, num_cells=cells).prediction(Disk(), 0.0)
        for cells in (None, 3072, 1280)
    )
    assert enough == plain
    pauses = 2 / 15 * PAUSES_OF_LONGER * PROFILE.context_change_s
    assert few.latency_s == pytest.approx(plain.latency_s + pauses)
    assert few.ttft_s == pytest.approx(plain.ttft_s + pauses)
    assert few.tokens_per_s == plain.tokens_per_s


def test_four_answers_cost_little_more_than_one_where_the_disk_dominates():
    one, four = (course(STREAMING, Backlog(waiting=count, answer_tokens=100), num_slots=4) for count in (1, 4))
    assert four.step_seconds(disk(STREAMING)) < 1.05 * one.step_seconds(disk(STREAMING))


def test_a_prompt_streams_all_layers_once_in_each_pass():
    few, many = (course(STREAMING, n_ubatch=size).reading_seconds(disk(STREAMING)) for size in (1000, 100))
    # Ten passes of four seconds, against one that computes for longer than it reads.
    assert many > 40 > 2 * few


def test_reading_and_writing_sum_to_an_answer():
    found = course(RESIDENT).prediction(disk(RESIDENT), 0.5)
    reading = 2 * (1.0 + 500 * 10e9 / 1e12)
    assert found.prefill_tokens_per_s == pytest.approx(1000 / reading)
    assert found.ttft_s == pytest.approx(0.5 + reading + 1.01)
    # And half of the pass that may be under way.
    assert found.latency_s == pytest.approx(0.5 + reading + 100 * 1.01 + 0.5 * (1.0 + 5.0))


def test_what_steps_wait_for_hides_all_prompts_but_the_first():
    # Of a step of 4 s, 1 s computes; a prompt takes two passes of 5 s, and four answers have 100 steps.
    backlog = replace(QUESTION, waiting=4)
    plain = replace(course(STREAMING, backlog, 4), hides=False)
    hiding, its_disk = course(STREAMING, backlog, 4), disk(STREAMING)
    hidden_s = HIDING_SHARE * (plain.step_seconds(its_disk) - plain.writing.computing)
    assert hiding.hidden_seconds(its_disk) == pytest.approx(hidden_s)
    saved = plain.latency(its_disk, 0.0) - hiding.latency(its_disk, 0.0)
    assert saved == pytest.approx(min(3 * plain.reading_seconds(its_disk), 100 * hidden_s))
    short = replace(hiding, answer_tokens=2)
    saved = replace(plain, answer_tokens=2).latency(its_disk, 0.0) - short.latency(its_disk, 0.0)
    assert saved == pytest.approx(2 * hidden_s)


def test_nothing_hides_where_no_layer_is_streamed_or_beside_a_device():
    busy = replace(QUESTION, waiting=4)
    for homes in (RESIDENT, STREAMING._replace(device_bytes=1e9)):
        assert course(homes, busy, 4).hidden_seconds(disk(homes)) == 0.0
    its = course(RESIDENT, busy, 4)
    assert its.latency(disk(RESIDENT), 0.0) == replace(its, hides=False).latency(disk(RESIDENT), 0.0)


def test_a_prompt_that_is_alone_or_waits_for_the_end_of_each_answer_hides_behind_none():
    for backlog, num_slots in ((QUESTION, 4), (replace(QUESTION, waiting=4), 1)):
        its = course(STREAMING, backlog, num_slots)
        assert its.hidden_seconds(disk(STREAMING)) > 0
        assert its.latency(disk(STREAMING), 0.0) == replace(its, hides=False).latency(disk(STREAMING), 0.0)


@pytest.mark.parametrize("num_waiting", [2, 4, 9])
def test_however_much_hides_a_question_takes_no_less_where_more_is_streamed(num_waiting: int):
    its = course(STREAMING, replace(QUESTION, waiting=num_waiting), 4)
    latencies = [its.latency(Disk(seconds, 3), 0.0) for seconds in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 9.0)]
    assert latencies == sorted(latencies)


def test_what_is_kept_is_not_read_again():
    kept = course(RESIDENT, replace(QUESTION, cached_share=0.9))
    assert kept.new_tokens == 100
    assert kept.reading_seconds(Disk()) < 0.3 * course(RESIDENT).reading_seconds(Disk())


def test_more_questions_than_slots_wait_for_each_other():
    backlog = replace(QUESTION, waiting=8)
    in_two, at_once = (course(STREAMING, backlog, slots).latency(disk(STREAMING), 0.0) for slots in (4, 8))
    assert in_two > at_once


def test_layers_in_memory_are_computed_on_the_device_where_copying_them_is_faster():
    split = Homes(processor_bytes=5e9, device_bytes=5e9)
    slow = course(split._replace(is_repacked=False)).reading_seconds(Disk())
    assert course(split).reading_seconds(Disk()) < 0.5 * slow


# As an H100 with 16 cores was measured.
BESIDE_A_CARD = replace(PROFILE, processor_rate=3.17e11, ram_bytes_per_s=92e9, host_to_device_bytes_per_s=53e9)


def test_from_how_many_tokens_on_layers_are_copied_follows_from_the_machine():
    assert BESIDE_A_CARD.worth_offloading_tokens == 2
    assert replace(BESIDE_A_CARD, host_to_device_bytes_per_s=25e9).worth_offloading_tokens == 6
    # As many as the processor reads and computes sooner than they are copied.
    layers, rates = Homes(processor_bytes=10e9, is_repacked=False), replace(BESIDE_A_CARD, step_s=0.0)
    slow = replace(rates, host_to_device_bytes_per_s=25e9)
    five, seven = (slow.computing_seconds(prefill_work(layers, tokens)) for tokens in (5, 7))
    assert five < 10 / 25 < seven
    assert replace(BESIDE_A_CARD, host_to_device_bytes_per_s=1e9).worth_offloading_tokens == 32
    assert replace(BESIDE_A_CARD, host_to_device_bytes_per_s=1e12).worth_offloading_tokens == 2


def test_a_step_of_as_many_answers_as_llama_was_told_is_computed_on_the_device():
    split = Homes(processor_bytes=10e9, device_bytes=5e9)
    rates = replace(BESIDE_A_CARD, offloads_from_tokens=4)
    three, four = (as_computed(split, rates, decode_work(split, answers, 0), answers) for answers in (3, 4))
    assert (three.copied_bytes, four.copied_bytes) == (0, 10e9)
    assert as_computed(split._replace(is_repacked=False), rates, decode_work(split, 4, 0), 4).copied_bytes == 0
    backlog = replace(QUESTION, waiting=4)
    seconds = Courses(rates, backlog).of(split, 4, 500).step_seconds(Disk())
    assert seconds == pytest.approx(rates.computing_seconds(four))


def test_streamed_layers_are_copied_from_memory_that_is_not_page_locked_and_only_where_that_is_wanted():
    split = Homes(processor_bytes=10e9, device_bytes=5e9, streamed_bytes=2e9, ring_slots=2, is_repacked=False)
    rates = replace(BESIDE_A_CARD, offloads_from_tokens=4, pageable_to_device_bytes_per_s=10e9)
    copying = split._replace(copies_streamed=True)
    few, many = (as_computed(copying, rates, prefill_work(copying, tokens), tokens) for tokens in (3, 500))
    assert (few.copied_bytes, many.copied_bytes, few) == (0, 10e9, prefill_work(copying, 3))
    assert many.processor_bytes == 0
    assert many.streamed_bytes == 2e9
    assert as_computed(split, rates, prefill_work(split, 500), 500) == prefill_work(split, 500)
    seconds = rates.computing_seconds(many)
    assert 1.0 < seconds < 1.3
    assert rates.computing_seconds(replace(many, is_repacked=True)) == pytest.approx(seconds - 1.0 + 10 / 53)
    # What it takes refines only that rate.
    learnt = refined(rates, PassObserved(many, 4 * seconds, reading_seconds=0.2, kind="read", size=500))
    assert learnt.pageable_to_device_bytes_per_s < 0.95 * rates.pageable_to_device_bytes_per_s
    assert learnt.host_to_device_bytes_per_s == rates.host_to_device_bytes_per_s


def test_a_course_is_never_slower_where_none_of_its_passes_is():
    split = Homes(processor_bytes=10e9, device_bytes=5e9, streamed_bytes=2e9, ring_slots=2, is_repacked=False)
    rates = replace(BESIDE_A_CARD, offloads_from_tokens=4, pageable_to_device_bytes_per_s=10e9)
    plain, copying = (
        Courses(rates, QUESTION).of(split._replace(copies_streamed=copies), 1, 500) for copies in (False, True)
    )
    assert copying.is_never_slower(plain)
    assert not plain.is_never_slower(copying)
    # Four tokens in a step are hardly worth a copy of all layers from such memory.
    four = replace(QUESTION, waiting=4)
    plain, copying = (Courses(rates, four).of(split._replace(copies_streamed=way), 4, 500) for way in (False, True))
    assert not copying.is_never_slower(plain)
    assert not plain.is_never_slower(copying)


def test_a_prompt_that_was_read_as_expected_teaches_nothing_of_processor_or_device():
    split = Homes(processor_bytes=5e9, device_bytes=5e9)
    work = as_computed(split, PROFILE, prefill_work(split, 500), 500)
    seen = PassObserved(work, PROFILE.seconds(work), kind="read", size=500)
    assert refined(PROFILE, seen) == PROFILE
    # Were its layers taken for computed where they lie, the processor would seem far faster than it is.
    wrong = refined(PROFILE, replace(seen, work=prefill_work(split, 500)))
    assert wrong.processor_rate > 1.05 * PROFILE.processor_rate


def test_pages_that_are_mapped_are_read_again_in_each_pass():
    mapped = RESIDENT._replace(mapped_bytes=10e9, is_repacked=False)
    assert disk(mapped).mapped > 5.0
    assert course(mapped).step_seconds(disk(mapped)) > course(STREAMING).step_seconds(disk(STREAMING))


def test_a_token_touches_the_experts_that_it_uses():
    mixture = RESIDENT._replace(expert_share=0.9, expert_use=0.1)
    one, many = decode_work(mixture, 1, 0), prefill_work(mixture, 400)
    assert one.processor_bytes == pytest.approx(10e9 * 0.19)
    assert many.processor_bytes == pytest.approx(10e9)
    assert many.processor_token_bytes == pytest.approx(400 * 10e9 * 0.19)


def test_a_search_costs_its_partitions_and_its_queries():
    assert PROFILE.retrieval_seconds(3, 5) == pytest.approx(0.3 + 0.05)
