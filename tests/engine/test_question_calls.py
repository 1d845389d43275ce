"""Tests for engine.question_calls."""

from __future__ import annotations

import threading

from engine.engine import Engine


def test_asking_nothing_waits_for_nothing(engine: Engine):
    answers: list[list[object]] = []
    asking = threading.Thread(target=lambda: answers.append(list(engine.ask_many([]))), daemon=True)
    asking.start()
    asking.join(30)
    assert answers == [[]]
