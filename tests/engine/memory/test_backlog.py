"""Tests for engine.memory.backlog."""

from __future__ import annotations

from engine.core import Answer, Scope
from engine.events import AnswerCancelled, AnswerFinished, AnswerStateChanged, LibraryChanged, PromptMade
from engine.memory.backlog import LEAST_REFILL, QUIET_SECONDS, BacklogWatch
from engine.memory.demand import Backlog
from engine.metrics import Timings

ANSWER = Answer("", (), (), (), Scope(0, 0, 0), None, "stop")


def finished(question_id: str, prompt: int, generated: int, cached: int = 0) -> AnswerFinished:
    return AnswerFinished(question_id, ANSWER, Timings(0, 0, 0, 0, 1, prompt, generated, cached))


def test_questions_are_counted_by_what_they_are_at():
    told: list[int] = []
    watch = BacklogWatch(lambda: told.append(1))
    for question_id in "abc":
        watch.note(AnswerStateChanged(question_id, "queued"))
    watch.note(AnswerStateChanged("a", "searching"))
    watch.note(AnswerStateChanged("a", "reading"))
    watch.note(AnswerStateChanged("a", "writing"))
    now = watch.now()
    assert (now.waiting, now.running) == (2, 1)
    assert len(told) == 4
    watch.note(AnswerCancelled("b"))
    watch.note(finished("a", 100, 10))
    now = watch.now()
    assert (now.waiting, now.running) == (1, 0)
    assert len(told) == 6


def test_others_that_take_the_place_of_those_that_end_are_expected_to_go_on_coming():
    now = 1000.0
    watch = BacklogWatch(clock=lambda: now)
    for number in range(8):
        watch.note(AnswerStateChanged(f"{number}", "queued"))
    assert watch.now().refill == LEAST_REFILL
    for number in range(20):
        watch.note(finished(f"{number}", 100, 10))
        watch.note(AnswerStateChanged(f"{number + 8}", "queued"))
    assert watch.now().refill == 1.0
    for number in range(20, 22):
        watch.note(finished(f"{number}", 100, 10))
    assert LEAST_REFILL < watch.now().refill < 1.0
    for number in range(22, 28):
        watch.note(finished(f"{number}", 100, 10))
    assert watch.now().refill == LEAST_REFILL
    now += QUIET_SECONDS + 1.0
    watch.note(AnswerStateChanged("later", "queued"))
    assert watch.now().refill == LEAST_REFILL


def test_the_longest_of_late_is_known_and_forgotten_after_many_shorter_ones():
    watch = BacklogWatch()
    assert watch.now().lengths == ()
    for number, prompt in enumerate((100, 3000, 200)):
        watch.note(finished(f"{number}", prompt, 50))
    # Quotes alone took no cells.
    watch.note(finished("quotes", 0, 0))
    assert watch.now().lengths == (150, 250, 3050)
    for number in range(20):
        watch.note(finished(f"later {number}", 300, 20))
    assert max(watch.now().lengths) == 320


def test_the_odds_of_a_longer_one_are_those_of_late_and_of_few_nobody_knows():
    assert Backlog().odds_of_longer(1) == 0.0
    backlog = Backlog(lengths=(100,) * 13 + (200, 300, 300))
    assert [backlog.odds_of_longer(cells) for cells in (300, 200, 100)] == [0.0, 3 / 14, 4 / 13]
    assert backlog.odds_of_longer(99) == 17 / 0.5
    assert Backlog(lengths=(100, 300)).odds_of_longer(200) == 2.0


def test_questions_overlap_where_of_late_two_came_while_others_were_there():
    watch = BacklogWatch()
    for question_id in "abc":
        assert not watch.now().overlaps
        watch.note(AnswerStateChanged(question_id, "queued"))
        watch.note(AnswerStateChanged(question_id, "writing"))
    assert watch.now().overlaps
    for question_id in "abc":
        watch.note(finished(question_id, 100, 10))
    assert watch.now().overlaps
    for number in range(2):
        assert watch.now().overlaps
        watch.note(AnswerStateChanged(f"{number}", "queued"))
        watch.note(finished(f"{number}", 100, 10))
    assert not watch.now().overlaps


def test_what_is_no_question_is_passed_over():
    watch = BacklogWatch(lambda: 1 / 0)
    watch.note(LibraryChanged())
    watch.note(AnswerCancelled("nobody's"))
    assert watch.now() == Backlog(refill=LEAST_REFILL)


def test_lengths_follow_what_was_seen():
    watch = BacklogWatch()
    for _ in range(60):
        watch.note(finished("a", 3000, 90, 1500))
    now = watch.now()
    assert abs(now.prompt_tokens - 3000) < 20
    assert abs(now.answer_tokens - 90) < 5
    assert abs(now.cached_share - 0.5) < 0.01


def test_prompts_that_are_made_count_as_they_are_before_their_answers_end():
    told: list[int] = []
    watch = BacklogWatch(lambda: told.append(1))
    for question_id in "ab":
        watch.note(AnswerStateChanged(question_id, "queued"))
    assert (watch.now().prompt_tokens, watch.now().lengths) == (1024, ())
    for question_id, num_tokens in (("a", 2000), ("b", 2600)):
        watch.note(PromptMade(question_id, num_tokens))
    now = watch.now()
    assert (now.prompt_tokens, now.lengths) == (2300, (2256, 2856))
    assert len(told) == 4
    # What is not new is not reported.
    watch.note(PromptMade("b", 2600))
    assert (len(told), watch.now()) == (4, now)
    watch.note(finished("a", 2000, 100))
    assert (watch.now().prompt_tokens, watch.now().lengths[0]) == (2600, 2100)
    watch.note(AnswerCancelled("b"))
    assert watch.now().prompt_tokens == round(1024 + (2000 - 1024) * 2 / 3)


def test_a_question_that_is_not_searched_for_waits_from_when_its_prompt_is_made():
    watch = BacklogWatch()
    watch.note(PromptMade("a", 2000))
    now = watch.now()
    assert (now.waiting, now.running, now.prompt_tokens) == (1, 0, 2000)
    watch.note(AnswerStateChanged("a", "writing"))
    assert (watch.now().waiting, watch.now().running, watch.now().prompt_tokens) == (0, 1, 2000)
    watch.note(AnswerCancelled("a"))
    assert watch.now().num_answers == 1
    assert watch.now().lengths == ()


def test_questions_that_are_searched_for_are_as_long_as_others_are_now_and_have_been():
    watch = BacklogWatch()
    for question_id in "ab":
        watch.note(AnswerStateChanged(question_id, "searching"))
    watch.note(PromptMade("a", 2524))
    # One that is there says twice as much as what was assumed.
    assert watch.now().prompt_tokens == (2524 + 2024) // 2
    for number in range(60):
        watch.note(finished(f"{number}", 524, 16))
    # And a fifth of what came before.
    assert abs(watch.now().prompt_tokens - (2524 + 524 + 2000 / 6) / 2) < 3


def test_quotes_say_nothing_of_prompts():
    watch = BacklogWatch()
    watch.note(finished("a", 0, 0))
    assert watch.now() == Backlog(refill=LEAST_REFILL)


def test_the_first_answer_says_twice_as_much_as_what_was_assumed():
    watch = BacklogWatch()
    for number, expected in enumerate((541, 445, 404)):
        watch.note(finished(str(number), 300, 16))
        assert watch.now().prompt_tokens == expected
