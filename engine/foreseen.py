"""Memory that will be needed: what libraries and the embedding model take once they are used.

A model may be placed before they are there. Were their room given to it, they would find none when they come, and the
system would end the engine. So what they took the last time is remembered, and counts until they are there again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from engine.config import MIB, write_atomically
from engine.core import Span
from engine.errors import RagdollError

log = logging.getLogger(__name__)

# Who comes when the stores are opened; before they ever were, about half as much again as they take with the default
# model. What many documents bring comes only where there is room (embedder/model.py).
USUAL_BYTES: Mapping[str, int] = {"runtime": 320 * MIB, "embedder": 128 * MIB}
# What differs by less is no news.
NEWS_BYTES = 32 * MIB


class Foreseen:
    """Safe from any thread. The file is written when more was taken than it says, and when a run begins with less."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._expected = {**USUAL_BYTES, **_read(file)}
        self._seen: dict[str, int] = {}

    def with_what_comes(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """The spans of a process whose libraries are not all there yet, as they will be: one of main memory for each.

        `spans` has at most one span for an owner and tier.
        """
        held = tuple(spans)
        grown = [self._grown(span) for span in held]
        missing = self._expected.keys() - {span.owner for span in held if span.tier == "ram"}
        return (*grown, *(Span(owner, "all of it", "ram", self._expected[owner]) for owner in sorted(missing)))

    def note(self, spans: Iterable[Span]) -> None:
        """They are there, and take this much; the most of a run is what the next one expects."""
        with self._lock:
            for span in spans:
                if span.tier == "ram" and span.owner in USUAL_BYTES:
                    self._seen[span.owner] = max(span.num_bytes, self._seen.get(span.owner, 0))
            news = [abs(taken - self._expected[owner]) for owner, taken in self._seen.items()]
            if any(num_bytes >= NEWS_BYTES for num_bytes in news):
                self._expected |= self._seen
                self._write()

    def _grown(self, span: Span) -> Span:
        if span.tier != "ram" or span.owner not in self._expected:
            return span
        return replace(span, num_bytes=max(span.num_bytes, self._expected[span.owner]))

    def _write(self) -> None:
        try:
            write_atomically(self._file, json.dumps(self._expected).encode())
        except (OSError, RagdollError) as error:
            # It is only a guess for the next start.
            log.info("what libraries take could not be noted down: %s", error)


def _read(file: Path) -> dict[str, int]:
    """What an earlier run noted down; nothing where that is not there or not ours."""
    try:
        noted = json.loads(file.read_bytes())
        return {owner: int(noted[owner]) for owner in USUAL_BYTES if int(noted[owner]) >= 0}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
