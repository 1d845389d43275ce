"""Tests for engine.partitions.scanners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from engine.partitions.scanners import Scanners
from engine.yielding import at_most_threads, yield_to_others


def test_who_yields_has_no_help_of_threads_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    scanners, helpers = Scanners(), list[str]()
    scanners.num_threads = 4
    submit = scanners._pool.submit

    def counted(work: Callable[[], None]) -> Future[None]:
        helpers.append(threading.current_thread().name)
        return submit(work)

    monkeypatch.setattr(scanners._pool, "submit", counted)

    def scan() -> None:
        assert scanners.each(lambda item: -item, range(8)) == [-item for item in range(8)]

    def yielding() -> None:
        yield_to_others()
        scan()

    for name, work in (("yielding", yielding), ("ordinary", scan)):
        thread = threading.Thread(target=work, name=name)
        thread.start()
        thread.join()
    assert helpers == ["ordinary"] * 3
    scanners.close()


def test_beside_an_answer_no_more_threads_scan_than_were_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    scanners, helpers = Scanners(), list[object]()
    scanners.num_threads = 4
    submit = scanners._pool.submit
    monkeypatch.setattr(scanners._pool, "submit", lambda work: helpers.append(work) or submit(work))
    for most, expected in ((1, 0), (3, 2), (9, 3), (None, 3)):
        helpers.clear()
        with at_most_threads(most):
            assert scanners.each(lambda item: -item, range(8)) == [-item for item in range(8)]
        assert len(helpers) == expected
    scanners.close()
