"""Memory that will be needed: what libraries and the embedding model take once they are used.

A model may be placed before they are loaded. If it got their room, they would find none when they come, and the system
would kill the engine. So what they took the last time is remembered, and counts until they are loaded again.
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

# The owners that come when the stores are opened, with about 1.5 times what they take with the default model, until
# they were measured. What many documents bring comes only if there is room (embedder/model.py).
USUAL_BYTES: Mapping[str, int] = {"runtime": 320 * MIB, "embedder": 128 * MIB}
# Smaller differences are ignored.
NEWS_BYTES = 32 * MIB


class Foreseen:
    """What each owner is expected to take. Safe from any thread.

    The file is written when more was taken than it says, and when a run begins with less.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._expected = {**USUAL_BYTES, **_read(file)}
        self._seen: dict[str, int] = {}

    def with_what_comes(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Returns the spans as they will be once all libraries are loaded: one of main memory for each owner.

        `spans` has at most one span for an owner and tier.
        """
        held = tuple(spans)
        grown = [self._grown(span) for span in held]
        missing = self._expected.keys() - {span.owner for span in held if span.tier == "ram"}
        return (*grown, *(Span(owner, "all of it", "ram", self._expected[owner]) for owner in sorted(missing)))

    def note(self, spans: Iterable[Span]) -> None:
        """Records what owners take that are loaded; the maximum of a run is what the next one expects."""
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
    """Returns what an earlier run recorded; nothing if there is no such file, or it is invalid."""
    try:
        noted = json.loads(file.read_bytes())
        return {owner: int(noted[owner]) for owner in USUAL_BYTES if int(noted[owner]) >= 0}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
