"""A ring like FlexGen's: two slots of whole layers, one being computed while the next is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from engine.memory import search
from engine.models import gguf, layer_stages

# The layer being computed, and the one being read.
SLOTS = 2


@contextmanager
def next_layer_only() -> Iterator[None]:
    """Applies such a ring to models that are planned and loaded in the block, and reads their cached shapes again."""
    gguf._read_shape.cache_clear()
    try:
        with (
            mock.patch.object(layer_stages, "STAGES_OF_LAYER", 1),
            mock.patch.object(search, "RING_SLOTS", (SLOTS,)),
        ):
            yield
    finally:
        gguf._read_shape.cache_clear()
