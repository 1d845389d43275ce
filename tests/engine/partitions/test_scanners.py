"""Tests for engine.partitions.scanners."""

from __future__ import annotations

import threading
import time

from engine.partitions.scanners import Scanners
from engine.yielding import yield_to_others


def test_who_yields_has_no_help_of_threads_that_do_not() -> None:
    scanners, who = Scanners(), set[str]()
    scanners.num_threads = 4

    def work(item: int) -> int:
        who.add(threading.current_thread().name)
        time.sleep(0.001)
        return item

    def yielding() -> None:
        yield_to_others()
        assert scanners.each(work, range(8)) == list(range(8))

    thread = threading.Thread(target=yielding, name="yielding")
    thread.start()
    thread.join()
    assert who == {"yielding"}

    assert scanners.each(work, range(8)) == list(range(8))
    assert any(name.startswith("scan") for name in who)
    scanners.close()
