"""Tests for engine.cores."""

from __future__ import annotations

import threading

import pytest

from engine.cores import MOST_WAIT_SECONDS, Cores
from engine.memory.sharing import Sharing
from engine.yielding import threads_allowed

IN_TURN = Sharing(2, 1, in_turn=True)
TOGETHER = Sharing(3, 1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_alone_each_has_all_cores():
    cores = Cores(lambda: TOGETHER)
    cores.begin_step()
    assert cores.threads_for(0.0) is None
    cores.rest()
    with cores.searching():
        assert threads_allowed() is None


def test_together_they_share_as_was_measured():
    cores = Cores(lambda: TOGETHER)
    cores.begin_step()
    with cores.searching():
        assert threads_allowed() == 1
        assert cores.may_step()
        cores.begin_step()
        assert cores.threads_for(0.0) == 3
    assert threads_allowed() is None
    cores.begin_step()
    assert cores.threads_for(0.0) is None


def test_a_pass_that_reads_for_longer_than_the_search_goes_on_keeps_its_threads():
    clock = Clock()
    cores = Cores(lambda: TOGETHER, clock)
    cores.begin_step()
    with cores.searching():
        # How long the first takes nobody knows.
        assert (cores.threads_for(0.0), cores.threads_for(0.1)) == (3, None)
        clock.now += 2.0
    with cores.searching():
        assert (cores.threads_for(1.9), cores.threads_for(2.1)) == (3, None)
        clock.now += 1.5
        assert (cores.threads_for(0.4), cores.threads_for(0.6)) == (3, None)
        clock.now += 1.5
        # It should have ended by now, and steps of answers share with it as long as it goes on.
        assert (cores.threads_for(0.0), cores.threads_for(0.1)) == (3, None)


def test_searches_are_expected_to_take_what_they_took_of_late():
    clock = Clock()
    cores = Cores(lambda: TOGETHER, clock)
    for seconds in (1.0, *[3.0] * 20):
        with cores.searching():
            clock.now += seconds
    with cores.searching():
        assert cores.threads_for(2.9) == 3


def test_in_turn_a_step_waits_for_the_search_and_goes_on_when_it_is_over():
    cores, is_over, stepped = Cores(lambda: IN_TURN), threading.Event(), threading.Event()
    begun = threading.Event()

    def search() -> None:
        with cores.searching():
            begun.set()
            is_over.wait(30)

    def step() -> None:
        while not cores.may_step():
            pass
        stepped.set()

    searching, stepping = threading.Thread(target=search), threading.Thread(target=step)
    searching.start()
    begun.wait(30)
    stepping.start()
    assert not cores.may_step()
    assert not stepped.is_set()
    is_over.set()
    assert stepped.wait(30)
    searching.join()
    stepping.join()


def test_no_search_holds_answers_up_for_long():
    clock = Clock()
    cores = Cores(lambda: IN_TURN, clock)
    with cores.searching():
        assert not cores.may_step()
        clock.now += MOST_WAIT_SECONDS
        assert cores.may_step()


def test_searches_that_follow_at_once_hold_answers_up_no_longer_than_one():
    clock = Clock()
    cores = Cores(lambda: IN_TURN, clock)
    cores.begin_step()
    num_steps = 0
    for _ in range(40):
        with cores.searching():
            # What is held up asks again and again, also right after a step.
            cores.may_step()
            clock.now += MOST_WAIT_SECONDS / 8
            if cores.may_step():
                cores.begin_step()
                num_steps += 1
    assert num_steps == 5


def test_a_step_that_takes_long_itself_was_not_held_up():
    clock = Clock()
    cores = Cores(lambda: IN_TURN, clock)
    cores.begin_step()
    with cores.searching():
        clock.now += MOST_WAIT_SECONDS / 2
    with cores.searching():
        clock.now += MOST_WAIT_SECONDS / 2
        assert not cores.may_step()


def test_who_was_not_writing_was_not_held_up():
    clock = Clock()
    cores = Cores(lambda: IN_TURN, clock)
    cores.begin_step()
    with cores.searching():
        clock.now += MOST_WAIT_SECONDS / 2
    cores.rest()
    with cores.searching():
        clock.now += MOST_WAIT_SECONDS / 2
        assert not cores.may_step()


def test_who_is_let_by_in_the_middle_begins_no_new_wait():
    clock = Clock()
    cores = Cores(lambda: IN_TURN, clock)
    with cores.searching():
        clock.now += MOST_WAIT_SECONDS
        with cores.searching():
            assert cores.may_step()
        assert cores.may_step()
        clock.now -= MOST_WAIT_SECONDS
        assert not cores.may_step()


def test_a_search_that_fails_ends_too():
    cores = Cores(lambda: IN_TURN)
    with pytest.raises(ZeroDivisionError), cores.searching():
        raise ZeroDivisionError
    assert cores.may_step()
