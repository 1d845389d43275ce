"""Tests for engine.generation.pass_times: whether and how prompts and answers share a pass that reads layers."""

from __future__ import annotations

import pytest

from engine.generation.pass_times import PassTimes
from engine.generation.rows import Extent, cell_cost

# Of a 1B model.
CELL_COST = cell_cost(1_100_000_000, 16, 2048, in_own_order=True)
PROMPT = [Extent(113, 400)]
ANSWERS = [Extent(1, 420)] * 15
TOKEN_SECONDS = 0.004


def times(disk_seconds: float) -> PassTimes:
    """Of passes that read their layers for this long, after one over a prompt."""
    known = begun()
    computing = 128 * TOKEN_SECONDS
    waited = max(0.0, disk_seconds - computing)
    known.note([Extent(128, 128)], computing + waited, waited, disk_seconds, is_mixed=False)
    return known


def begun(waited: float = 0.0, reading: float = 0.0) -> PassTimes:
    known = PassTimes()
    known.begin(CELL_COST, waited, reading)
    return known


def are_apart(known: PassTimes, answers: list[Extent]) -> bool:
    return known.are_faster_apart(PROMPT, answers, [*answers, *PROMPT])


def test_before_anything_was_measured_they_are_apart_once_which_tells() -> None:
    known = begun()
    assert known.hidden_tokens(PROMPT, ANSWERS, 15) == 0
    assert are_apart(known, ANSWERS)
    known.note([Extent(128, 128)], 1.5, 1.0, 1.5, is_mixed=False)
    assert not are_apart(known, ANSWERS)


def test_a_prompt_beside_many_answers_takes_longer_than_both_by_themselves() -> None:
    assert are_apart(times(0.3), ANSWERS)


def test_while_layers_are_read_answers_beside_a_prompt_cost_nothing() -> None:
    assert not are_apart(times(1.5), ANSWERS)


def test_few_answers_are_not_worth_a_pass_of_their_own() -> None:
    assert not are_apart(times(0.3), ANSWERS[:2])


def test_where_mixed_passes_take_longer_than_was_reckoned_there_are_fewer_of_them() -> None:
    answers, known = ANSWERS[:5], times(0.3)
    assert not are_apart(known, answers)
    waited, reading = 0.0, 0.3
    for _ in range(5):
        reading += 0.3
        known.note([*answers, *PROMPT], 1.2, waited, reading, is_mixed=True)
    assert are_apart(known, answers)


def test_passes_of_few_tokens_say_nothing_of_how_long_many_take() -> None:
    known = times(0.3)
    for number in range(20):
        known.note([Extent(1, 400)], 0.5, 0.0, 0.3 * (number + 2), is_mixed=False)
    for count in (64, 90, 120):
        assert are_apart(known, ANSWERS[:1] * count) == are_apart(times(0.3), ANSWERS[:1] * count)
    # But they show how long few tokens take: so long that these had better share the prompt's.
    assert are_apart(times(0.3), ANSWERS)
    assert not are_apart(known, ANSWERS)


def test_what_was_read_for_another_context_is_no_time_of_a_pass() -> None:
    # The stream goes on under a new context, with all that it has read and that passes have waited.
    known = begun(40.0, 90.0)
    known.note([Extent(128, 128)], 128 * TOKEN_SECONDS, 40.0, 90.3, is_mixed=False)
    assert are_apart(known, ANSWERS)


def test_what_passes_waited_for_is_no_computing() -> None:
    slow, known = begun(), times(0.3)
    # The same model on a disk that took a second once.
    slow.note([Extent(128, 128)], 128 * TOKEN_SECONDS + 0.5, 0.5, 1.0, is_mixed=False)
    for number in range(30):
        slow.note([Extent(128, 128)], 128 * TOKEN_SECONDS, 0.5, 1.0 + 0.3 * (number + 1), is_mixed=False)
        slow.note([Extent(1, 400)], 0.05, 0.5, 1.0 + 0.3 * (number + 1), is_mixed=False)
    assert are_apart(slow, ANSWERS) == are_apart(known, ANSWERS)


# --- pieces that hide ---

# Of a 3B model that streams .8 GB: a token takes 37 ms where there are many, and few take a fifth of a second more.
LARGE_COST = cell_cost(3_200_000_000, 28, 3072, in_own_order=True)
LARGE_SECONDS, FEW_SECONDS = 0.037, 0.2
LONG_PROMPT = [Extent(128, 228)]


def large(disk_seconds: float, num_answers: int = 1) -> PassTimes:
    """After a prompt, and steps of these numbers of answers that waited for the disk."""
    known = PassTimes()
    known.begin(LARGE_COST, 0.0, 0.0)
    known.note([Extent(128, 128)], 128 * LARGE_SECONDS, 0.0, disk_seconds, is_mixed=False)
    computing = FEW_SECONDS + num_answers * LARGE_SECONDS
    waited, reading = 0.0, disk_seconds
    for _ in range(30):
        waited, reading = waited + max(0.0, disk_seconds - computing), reading + disk_seconds
        known.note([Extent(1, 1)] * num_answers, max(disk_seconds, computing), waited, reading, is_mixed=False)
    return known


def hidden_by(known: PassTimes, num_answers: int, prompts: list[Extent] = LONG_PROMPT) -> int:
    return known.hidden_tokens(prompts, answers_of(num_answers), num_answers)


def answers_of(count: int) -> list[Extent]:
    return [Extent(1, 300)] * count


def test_beside_answers_as_much_of_a_prompt_is_read_as_hides_behind_the_disk() -> None:
    hidden = hidden_by(large(1.0), 2)
    # .8 s are left for 21 tokens less those of attention, whole fours with both answers.
    assert 12 <= hidden <= 18
    assert (hidden + 2) % 4 == 0
    assert hidden_by(large(1.6), 2) > hidden


def test_the_more_answers_are_written_the_less_is_hidden_beside_them() -> None:
    counts = [hidden_by(large(1.0), number) for number in (1, 4, 8, 12)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0]


def test_no_more_is_hidden_than_there_is_to_read() -> None:
    assert hidden_by(large(9.0), 2, [Extent(5, 105)]) == 5


def test_where_answers_compute_as_long_as_layers_are_read_nothing_is_hidden() -> None:
    assert hidden_by(large(0.25), 2) == 0


def test_one_answer_waits_for_a_prompt_that_pieces_would_hold_up_for_longer() -> None:
    # Pieces of six or seven are through after 10 to 12 s, one pass after 5: it depends on how many go on meanwhile.
    known = large(0.53)
    assert hidden_by(known, 1) == 0
    assert hidden_by(known, 2) > 0


def test_a_disk_that_passes_wait_for_takes_as_long_as_they_do() -> None:
    # It was busy for .6 s of each, and they took a second: whatever it did, a pass takes that long.
    known = large(0.6)
    before = hidden_by(known, 2)
    waited, reading = 100.0, 200.0
    known.begin(LARGE_COST, waited, reading)
    for _ in range(30):
        waited, reading = waited + 0.76, reading + 0.6
        known.note([Extent(1, 1)], 1.0, waited, reading, is_mixed=False)
    assert hidden_by(known, 2) == hidden_by(large(1.0), 2)
    assert hidden_by(known, 2) > before


def test_a_disk_that_has_become_faster_is_noticed_also_where_pieces_are_long() -> None:
    known = large(9.0)
    hidden = hidden_by(known, 2)
    assert hidden >= 64
    waited, reading = 1000.0, 1000.0
    known.begin(LARGE_COST, waited, reading)
    known.note(answers_of(2), 9.0, waited + 8.7, reading + 9.0, is_mixed=False)
    for _ in range(30):
        reading += 1.0
        known.note([*answers_of(2), Extent(hidden, 228)], 5.0, waited + 8.7, reading + 9.0, is_mixed=True)
    assert 0 < hidden_by(known, 2) < 32


@pytest.mark.parametrize("waiting", [0.06, 0.17])
def test_what_a_filled_pass_still_waits_for_is_filled_no_further(waiting: float) -> None:
    # As with two slots: a filled pass waits for a layer here and there, and takes longer than the disk does by that.
    known, waited, reading = large(1.0), 1000.0, 1000.0
    known.begin(LARGE_COST, waited, reading)
    known.note(answers_of(2), 1.0, waited + 0.7, reading + 1.0, is_mixed=False)
    counts = []
    for _ in range(60):
        counts.append(hidden_by(known, 2))
        waited, reading = waited + waiting, reading + 1.0
        seconds = FEW_SECONDS + (counts[-1] + 2) * LARGE_SECONDS + waiting
        batch = [*answers_of(2), Extent(counts[-1], 228)]
        known.note(batch, max(1.0, seconds), waited + 0.7, reading + 1.0, is_mixed=True)
    assert max(counts) <= counts[0] + 4


def test_a_first_pass_that_was_held_up_is_outweighed_by_those_that_follow() -> None:
    # It took three times as long, and read what is to stay in memory.
    known = PassTimes()
    known.begin(LARGE_COST, 0.0, 0.0)
    known.note([Extent(128, 128)], 3 * 128 * LARGE_SECONDS + 4.0, 4.0, 9.0, is_mixed=False)
    waited, reading = 4.0, 9.0
    for number in range(60):
        hidden = hidden_by(known, 4)
        computing = FEW_SECONDS + (hidden + 4) * LARGE_SECONDS
        waited, reading = waited + max(0.0, 1.0 - computing), reading + 1.0
        batch = [*answers_of(4), Extent(hidden, 228)] if hidden else answers_of(4)
        known.note(batch, max(1.0, computing), waited, reading, is_mixed=hidden > 0)
        assert hidden < 32 or number < 3
    assert abs(hidden_by(known, 4) - hidden_by(large(1.0, 4), 4)) <= 4


def test_a_pass_that_failed_says_nothing() -> None:
    known = large(1.0)
    before = hidden_by(known, 2)
    known.begin(LARGE_COST, 100.0, 100.0)
    known.note(answers_of(2), 1.0, 100.7, 101.0, is_mixed=False)
    known.pass_over(130.7, 131.0)
    known.note(answers_of(2), 1.0, 131.4, 132.0, is_mixed=False)
    assert hidden_by(known, 2) == before


def test_several_prompts_in_a_pass_each_count() -> None:
    # By pieces the first is through early; eight that are read in one pass make way for fewer that write.
    known = large(0.53)
    one, many = [Extent(128, 228)], [Extent(16, 116)] * 8
    assert known.hidden_tokens(one, answers_of(3), 3) > 0
    assert known.hidden_tokens(many, answers_of(3), 3) == 0


def test_what_computing_takes_outlives_a_context_and_what_the_disk_takes_does_not() -> None:
    known = large(1.0)
    known.begin(LARGE_COST, 500.0, 900.0)
    assert hidden_by(known, 2) == 0
    known.note(answers_of(2), 1.0, 500.7, 901.0, is_mixed=False)
    assert hidden_by(known, 2) == hidden_by(large(1.0), 2)
    # In the file's order, nothing is as fast as it was.
    known.begin(LARGE_COST / 2, 500.7, 901.0)
    known.note(answers_of(2), 1.0, 501.4, 902.0, is_mixed=False)
    assert hidden_by(known, 2) == 0


def test_answers_that_are_less_urgent_than_a_prompt_hold_it_up_for_nothing() -> None:
    assert large(1.0).hidden_tokens(LONG_PROMPT, answers_of(4), 0) == 0
    assert large(1.0).hidden_tokens(LONG_PROMPT, answers_of(4), 1) > 0


def test_where_nobody_reads_there_is_nothing_to_hide() -> None:
    assert hidden_by(large(1.0), 2, []) == 0
