"""Our embedder as it is after many documents, for benches that measure it: with torch from the first batch on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from engine.embedder import model


@contextmanager
def warm_at_once() -> Iterator[None]:
    """Loads torch after the first batch of documents within the block; the application waits longer."""
    with mock.patch.object(model, "WORTH_LOADING_SECONDS", 0.0):
        yield
