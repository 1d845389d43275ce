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
