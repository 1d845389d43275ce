"""Runs a load on sides that take one question at a time, on a clock that starts with the load."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tests.bench.serving_figures import Run, Served
from tests.bench.serving_load import Asked
from tests.bench.side_process import Said


class Clock:
    """Seconds since it was created."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._began

    def of(self, counted: float) -> float:
        """Converts a time of `time.perf_counter` to this clock."""
        return counted - self._began

    def sleep_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))


Answering: TypeAlias = Callable[[Asked, Clock], Served]


def answering_in_turn(answer: Answering) -> Callable[[Said], Said]:
    """Returns a handler of a side's requests (side_process.py)."""

    def answer_all(asked: Said) -> Said:
        if not asked:
            return {}
        questions = [Asked.heard(one) for one in asked["asked"]]
        return in_turn(questions, answer, is_alone=asked["is_alone"]).told()

    return answer_all


def in_turn(asked: Sequence[Asked], answer: Answering, *, is_alone: bool) -> Run:
    """Answers questions in turn as they arrive; if `is_alone`, each when the previous one has been answered.

    The processor time of all threads is counted as well (`cpu_s`): it is the cost of an answer even on a busy machine.
    """
    clock, served, before = Clock(), list[Served](), time.process_time()
    for one in asked:
        if not is_alone:
            clock.sleep_until(one.arrival_s)
        served.append(answer(replace(one, arrival_s=clock.now()) if is_alone else one, clock))
    return Run(tuple(served), totals={"cpu_s": time.process_time() - before})
