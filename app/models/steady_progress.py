"""How far an indexing job is, as a share that only grows, although files are found while others are indexed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.protocol import IndexProgress


@dataclass(frozen=True, slots=True)
class Share:
    """What has been shown of a job: `fraction` from 0 to 1, None while its files are still being counted."""

    fraction: float | None = None
    documents_done: int = 0


NOTHING_DONE = Share()


def advanced(shown: Share, progress: IndexProgress) -> Share:
    """Returns what to show once `progress` is known.

    The documents that were done since the last time advance the bar by their share of the remaining distance. The bar
    is exact while the total stays, slows down when more files are found instead of jumping back, and ends full.
    """
    done, total = max(shown.documents_done, progress.documents_done), progress.documents_total
    if not total:
        return Share(shown.fraction, done)
    before = shown.fraction or 0.0
    left = total - shown.documents_done
    if done >= total or left <= 0:
        return Share(1.0 if done >= total else before, done)
    return Share(before + (1.0 - before) * (done - shown.documents_done) / left, done)
