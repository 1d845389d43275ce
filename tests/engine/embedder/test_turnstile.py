"""Tests for engine.embedder.turnstile."""

from __future__ import annotations

import threading

import pytest

from engine.embedder.turnstile import Turnstile


def test_the_urgent_pass_before_those_who_waited_longer():
    turnstile, order, threads = Turnstile(), [], []
    arrived = threading.Semaphore(0)

    def pass_through(name: str, is_urgent: bool) -> None:
        arrived.release()
        with turnstile.pass_through(is_urgent=is_urgent):
            order.append(name)

    with turnstile.pass_through(is_urgent=False):
        for name, is_urgent in (("documents", False), ("question", True)):
            threads.append(threading.Thread(target=pass_through, args=(name, is_urgent)))
            threads[-1].start()
            assert arrived.acquire(timeout=30)
        while not turnstile._urgent_waiting:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(30)
    assert order == ["question", "documents"]


def test_a_failure_inside_lets_the_next_one_in():
    turnstile = Turnstile()
    with pytest.raises(ValueError, match="inside"), turnstile.pass_through(is_urgent=False):
        raise ValueError("inside")
    with turnstile.pass_through(is_urgent=False):
        pass


def test_as_many_are_inside_as_there_are_places_each_at_its_own() -> None:
    turnstile = Turnstile(2)
    with turnstile.pass_through(is_urgent=False) as first, turnstile.pass_through(is_urgent=False) as second:
        assert (first, second) == (0, 1)
        thread = threading.Thread(target=lambda: places.append(_place_of(turnstile)))
        places: list[int] = []
        thread.start()
        assert places == []
    thread.join(30)
    assert places == [0]


def test_who_keeps_others_out_waits_for_all_of_them() -> None:
    turnstile, order = Turnstile(3), []
    go_on, inside = threading.Event(), threading.Event()

    def work() -> None:
        with turnstile.pass_through(is_urgent=False):
            inside.set()
            assert go_on.wait(30)
            order.append("work")

    def keep_out() -> None:
        with turnstile.keep_out():
            order.append("kept out")

    threads = [threading.Thread(target=work), threading.Thread(target=keep_out)]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    while len(turnstile._taken) < 3:
        threading.Event().wait(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert order == ["work", "kept out"]
    assert _place_of(turnstile) == 0


def _place_of(turnstile: Turnstile) -> int:
    with turnstile.pass_through(is_urgent=False) as place:
        return place
