"""Tests for engine.partitions.scanners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from engine.partitions.scanners import Scanners
from engine.yielding import yield_to_others


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
