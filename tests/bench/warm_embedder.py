"""Our embedder as many documents have it, for benches that measure that: with torch after the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from engine.embedder import model


@contextmanager
def warm_at_once() -> Iterator[None]:
    """Within the block torch is loaded after the first batch of documents, which the application waits with."""
    with mock.patch.object(model, "WORTH_LOADING_SECONDS", 0.0):
        yield
