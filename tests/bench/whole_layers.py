"""A ring as FlexGen's: whole layers, of which the next one is read while one is computed, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from engine.memory import search
from engine.models import gguf, layer_stages

# The layer that is computed, and the one that is read.
SLOTS = 2


@contextmanager
def next_layer_only() -> Iterator[None]:
    """Has models that are planned for and loaded in the block be streamed so; what was known of them is read again."""
    gguf._read_shape.cache_clear()
    try:
        with (
            mock.patch.object(layer_stages, "STAGES_OF_LAYER", 1),
            mock.patch.object(search, "RING_SLOTS", (SLOTS,)),
        ):
            yield
    finally:
        gguf._read_shape.cache_clear()
