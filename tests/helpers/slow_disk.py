"""A disk that takes its time to write kept KV: it stops, with the clock running on, until it is let go on."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.generation import cache_io

# So long everybody who waits for the disk waits, as a test's own clock has it.
FOR_EVER = 3600.0


class SlowDisk:
    """Stands in for `cache_io.write_file`; `begun` and `written` are paths in the order of writing.

    `has_begun`: the first of them. After `stops_after` files, `now` is an hour later, and the next one is written once
    it `may_go_on`.
    """

    def __init__(self, stops_after: int = 0) -> None:
        self.begun: list[Path] = []
        self.written: list[Path] = []
        self.may_go_on, self.has_begun = threading.Event(), threading.Event()
        self.now, self.stops_after = 0.0, stops_after
        self._write = cache_io.write_file

    def write_file(self, path, header, data, is_wanted=lambda: True):
        self.begun.append(path)
        self.has_begun.set()
        if len(self.begun) > self.stops_after and not self.may_go_on.is_set():
            self.now += FOR_EVER
            # Whoever waits for this waits long enough to be found out; a slow machine has asked all by then.
            self.may_go_on.wait(20)
        outcome = self._write(path, header, data, is_wanted)
        if outcome == "written":
            self.written.append(path)
        return outcome
